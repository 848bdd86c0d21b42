/* "did you mean": the nearest known word. */
#include "codec/yaml.h"
#include <string.h>

enum { WORD_BYTES_MAX = 63 }; /* longer words get no suggestion */

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Edits (insert, delete, replace, swap neighbours) that turn a into b; both <= WORD_BYTES_MAX. */
static uint32_t edit_distance(const char *a, const char *b)
{
    uint32_t rows[3][WORD_BYTES_MAX + 1]; /* rows i-2, i-1, i of the table, in turn */
    uint32_t a_length = (uint32_t)strlen(a), b_length = (uint32_t)strlen(b);
    for (uint32_t j = 0; j <= b_length; j++) rows[0][j] = j;
    for (uint32_t i = 1; i <= a_length; i++) {
        uint32_t *row = rows[i % 3];
        const uint32_t *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
        row[0] = i;
        for (uint32_t j = 1; j <= b_length; j++) {
            row[j] = smaller(up[j - 1] + (a[i - 1] != b[j - 1]), smaller(up[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = smaller(row[j], up2[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

/* One is the beginning of the other, as "vram" of "vram_gb". */
static bool is_beginning(const char *a, const char *b)
{
    size_t shorter = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
    return shorter >= 3 && strncmp(a, b, shorter) == 0;
}

const char *yaml_nearest(const char *text, const char *const *candidates, uint32_t count)
{
    uint32_t length = (uint32_t)strlen(text);
    if (length == 0 || length > WORD_BYTES_MAX) return NULL;
    const char *best = NULL;
    uint32_t best_distance = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = (uint32_t)strlen(candidates[i]);
        if (other > WORD_BYTES_MAX) continue;
        uint32_t distance = edit_distance(text, candidates[i]);
        uint32_t limit = (length > other ? length : other) / 3;
        if (distance > limit && !is_beginning(text, candidates[i])) continue;
        if (distance >= best_distance) continue;
        best = candidates[i];
        best_distance = distance;
    }
    return best;
}
