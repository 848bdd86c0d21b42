#include "whatif/record.h"
#include "base/mem.h"
#include <stddef.h>

void record_add(struct recorder *recorder, struct record_row row)
{
    if (recorder == NULL || recorder->failed) return;
    if (recorder->count == recorder->room) {
        uint32_t room = recorder->room == 0 ? 4096 : recorder->room * 2;
        struct record_row *rows = mem_realloc(recorder->rows, room * sizeof *rows);
        if (rows == NULL) {
            recorder->failed = true;
            return;
        }
        recorder->rows = rows;
        recorder->room = room;
    }
    recorder->rows[recorder->count++] = row;
}

void record_free(struct recorder *recorder)
{
    mem_free(recorder->rows);
    *recorder = (struct recorder){0};
}
