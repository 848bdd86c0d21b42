#include "cli/suggest.h"
#include <string.h>

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment: rows of the classic edit table, all kept since words are short. */
uint32_t suggest_distance(const char *a, const char *b)
{
    size_t a_count = strlen(a), b_count = strlen(b);
    if (a_count > SUGGEST_WORD_MAX || b_count > SUGGEST_WORD_MAX) return SUGGEST_WORD_MAX;
    uint32_t table[SUGGEST_WORD_MAX + 1][SUGGEST_WORD_MAX + 1];
    for (size_t i = 0; i <= a_count; i++) table[i][0] = (uint32_t)i;
    for (size_t j = 0; j <= b_count; j++) table[0][j] = (uint32_t)j;
    for (size_t i = 1; i <= a_count; i++) {
        for (size_t j = 1; j <= b_count; j++) {
            uint32_t replace = table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            uint32_t best = min_u32(replace, min_u32(table[i - 1][j], table[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = min_u32(best, table[i - 2][j - 2] + 1);
            table[i][j] = best;
        }
    }
    return table[a_count][b_count];
}

const char *suggest_nearest(const char *word, const char *const *candidates, uint32_t count)
{
    uint32_t limit = (uint32_t)strlen(word) / 3;
    if (limit < 2) limit = 2;
    const char *best = NULL;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t distance = suggest_distance(word, candidates[i]);
        if (distance > limit || distance >= strlen(word)) continue;
        if (distance == limit && best != NULL) continue;
        best = candidates[i];
        limit = distance;
    }
    return best;
}
