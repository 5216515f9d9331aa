/* Half-open intervals of time, in minutes of a day: [from, to). */
#ifndef INTERVALS_H
#define INTERVALS_H

#include <stddef.h>

struct interval {
    int from;
    int to;
};

/* Sorts the intervals and merges those that overlap or touch; returns how many are left. */
size_t intervals_merge(struct interval *list, size_t count);

/* Minutes that the intervals cover together, each minute once. Changes the list's order. */
int intervals_covered(struct interval *list, size_t count);

#endif
