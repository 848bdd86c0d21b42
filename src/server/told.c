#include "server/told.h"
#include <stdbool.h>

static uint64_t *word_of(struct told *told, uint64_t step)
{
    return &told->words[step % TOLD_WINDOW / 64];
}

static void pass_first(struct told *told)
{
    *word_of(told, told->first) &= ~(UINT64_C(1) << told->first % 64);
    told->first++;
}

static bool has_first(struct told *told)
{
    return (*word_of(told, told->first) >> told->first % 64 & 1) != 0;
}

void told_note(struct told *told, uint64_t step)
{
    if (step < told->first) return;
    if (step - told->first >= 2 * TOLD_WINDOW) { /* far ahead: nothing in the window is near it */
        *told = (struct told){.first = step - TOLD_WINDOW + 1};
    }
    while (step - told->first >= TOLD_WINDOW) pass_first(told);
    *word_of(told, step) |= UINT64_C(1) << step % 64;
    while (has_first(told)) pass_first(told);
}
