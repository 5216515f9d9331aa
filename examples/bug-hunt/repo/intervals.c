#include "intervals.h"

#include <stdlib.h>

static int by_start(const void *left, const void *right)
{
    const struct interval *a = left;
    const struct interval *b = right;

    return (a->from > b->from) - (a->from < b->from);
}

size_t intervals_merge(struct interval *list, size_t count)
{
    size_t last = 0;

    if (count == 0)
        return 0;
    qsort(list, count, sizeof *list, by_start);
    for (size_t i = 1; i < count; i++) {
        if (list[i].from <= list[last].to)
            list[last].to = list[i].to;
        else
            list[++last] = list[i];
    }
    return last + 1;
}

int intervals_covered(struct interval *list, size_t count)
{
    int minutes = 0;
    size_t left = intervals_merge(list, count);

    for (size_t i = 0; i < left; i++)
        minutes += list[i].to - list[i].from;
    return minutes;
}
