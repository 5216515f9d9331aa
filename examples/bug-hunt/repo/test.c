#include "intervals.h"

#include <stdio.h>

static int failures;

static void covers(const char *name, struct interval *list, size_t count, int minutes)
{
    int got = intervals_covered(list, count);

    if (got == minutes) {
        printf("ok    %s\n", name);
    } else {
        printf("FAIL  %s: %d minutes, expected %d\n", name, got, minutes);
        failures++;
    }
}

#define COVERS(name, minutes, ...)                                                       \
    do {                                                                                 \
        struct interval list[] = {__VA_ARGS__};                                          \
        covers(name, list, sizeof list / sizeof *list, minutes);                         \
    } while (0)

int main(void)
{
    COVERS("one interval", 60, {0, 60});
    COVERS("two apart", 30, {0, 10}, {20, 40});
    COVERS("two that touch", 40, {0, 20}, {20, 40});
    COVERS("two that overlap", 50, {10, 40}, {30, 60});
    COVERS("out of order", 50, {30, 60}, {10, 40});
    COVERS("one inside another", 480, {540, 1020}, {720, 780});
    COVERS("the same twice", 15, {5, 20}, {5, 20});
    return failures != 0;
}
