#include "agent/progress_queue.h"
#include "base/mem.h"
#include <string.h>

enum { WORKERS_PER_REPORT_MAX = 65536 }; /* bytes of one report: about 40 each */

bool progress_queue_open(struct progress_queue *queue)
{
    *queue = (struct progress_queue){.rows = mem_zalloc(PROGRESS_QUEUE_MAX, sizeof *queue->rows)};
    return queue->rows != NULL;
}

static void drop_first(struct progress_queue *queue)
{
    worker_line_close(&queue->rows[queue->first % PROGRESS_QUEUE_MAX]);
    queue->first++;
}

void progress_queue_close(struct progress_queue *queue)
{
    while (queue->first < queue->end) drop_first(queue);
    mem_free(queue->rows);
    *queue = (struct progress_queue){0};
}

void progress_queue_add(struct progress_queue *queue, struct worker_line *row)
{
    if (queue->end - queue->first == PROGRESS_QUEUE_MAX) {
        drop_first(queue);
        queue->dropped_count++;
    }
    queue->rows[queue->end++ % PROGRESS_QUEUE_MAX] = *row;
    *row = (struct worker_line){0};
}

void progress_queue_ckpt(struct progress_queue *queue, uint64_t job, uint64_t step)
{
    uint32_t i = 0;
    while (i < queue->ckpt_count && queue->ckpts[i].job != job) i++;
    if (i < queue->ckpt_count) {
        if (step > queue->ckpts[i].step) queue->ckpts[i].step = step;
        return;
    }
    if (i == REPORT_CKPTS_MAX) { /* the job heard of first ended long ago */
        memmove(queue->ckpts, queue->ckpts + 1, (REPORT_CKPTS_MAX - 1) * sizeof queue->ckpts[0]);
        i = --queue->ckpt_count;
    }
    queue->ckpts[i] = (struct report_ckpt){job, step};
    queue->ckpt_count++;
}

uint32_t progress_queue_send(struct progress_queue *queue, struct report_progress *ret_rows,
                             uint32_t rows_max)
{
    uint32_t count = 0, workers = 0;
    while (count < rows_max && queue->first + count < queue->end) {
        const struct worker_line *row = &queue->rows[(queue->first + count) % PROGRESS_QUEUE_MAX];
        workers += row->progress.worker_count;
        if (count > 0 && workers > WORKERS_PER_REPORT_MAX) break;
        ret_rows[count++] = row->progress;
    }
    queue->sent_end = queue->first + count;
    return count;
}

void progress_queue_acknowledge(struct progress_queue *queue, uint64_t after)
{
    while (queue->first < queue->sent_end && queue->first < queue->end &&
           queue->rows[queue->first % PROGRESS_QUEUE_MAX].progress.step <= after)
        drop_first(queue);
    if (queue->first == queue->end) queue->first = queue->end = queue->sent_end = 0;
}
