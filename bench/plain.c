#include "plain.h"
#include <string.h>

enum { PIECE = PLAIN_PIECE_BYTES / sizeof(float), PLAIN_PART = 1, PLAIN_SUM };

struct head {
    uint64_t iteration, first;
    uint32_t kind, zero;
};

static uint64_t chunk_first(const struct plain *p, uint32_t rank)
{
    uint64_t lines = (p->count + 15) / 16, first = lines * rank / p->ranks * 16;
    return first < p->count ? first : p->count;
}

void plain_begin(struct plain *p)
{
    p->iteration++;
    p->is_small = p->count * sizeof(float) <= PLAIN_SMALL_BYTES;
    p->final = chunk_first(p, p->me);
    for (uint32_t i = 0; i < p->ranks; i++) {
        p->part_sent[i] = p->sum_got[i] = chunk_first(p, i);
        p->sum_sent[i] = p->part_got[i] = chunk_first(p, p->me);
        if (p->is_small) p->part_sent[i] = p->part_got[i] = 0;
    }
}

static void fill(const struct plain *p, struct exchange_message *message, uint32_t kind,
                 const float *from, uint64_t first, uint64_t count)
{
    struct head head = {p->iteration, first, kind, 0};
    memcpy(message->header, &head, sizeof head);
    message->span_count = 1;
    message->span[0] = (struct span){from + first, count * sizeof(float)};
    message->payload_bytes = count * sizeof(float);
}

static uint64_t piece(uint64_t first, uint64_t end)
{
    return end - first < PIECE ? end - first : PIECE;
}

bool plain_next(struct plain *p, uint32_t to, struct exchange_message *message)
{
    uint64_t first = p->part_sent[to], end = p->is_small ? p->count : chunk_first(p, to + 1);
    if (first < end) {
        fill(p, message, PLAIN_PART, p->own, first, piece(first, end));
        p->part_sent[to] += piece(first, end);
        return true;
    }
    first = p->sum_sent[to];
    if (p->is_small || first == p->final) return false;
    fill(p, message, PLAIN_SUM, p->sum, first, piece(first, p->final));
    p->sum_sent[to] += piece(first, p->final);
    return true;
}

static void add(float *restrict into, const float *restrict a, const float *restrict b,
                uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) into[i] = a[i] + b[i];
}

static void add_to(float *restrict into, const float *restrict a, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) into[i] += a[i];
}

static void add_small(struct plain *p)
{
    for (uint32_t i = 0; i < p->ranks; i++)
        if (i != p->me && p->part_got[i] < p->count) return;
    for (uint32_t i = 0; i < p->ranks; i++) {
        const float *from = i == p->me ? p->own : p->heard + i * (PLAIN_SMALL_BYTES / 4);
        if (i == 0)
            memcpy(p->sum, from, p->count * sizeof(float));
        else
            add_to(p->sum, from, p->count);
    }
    p->final = p->count;
}

/* Pieces of all ranks have the same bounds: the first to come meets the own values. */
static void add_large(struct plain *p, uint32_t from, const float *floats, uint64_t count)
{
    uint64_t first = p->part_got[from], final = UINT64_MAX;
    bool is_first = true;
    for (uint32_t i = 0; i < p->ranks; i++)
        if (i != p->me && i != from && p->part_got[i] > first) is_first = false;
    if (is_first)
        add(p->sum + first, p->own + first, floats, count);
    else
        add_to(p->sum + first, floats, count);
    p->part_got[from] += count;
    for (uint32_t i = 0; i < p->ranks; i++)
        if (i != p->me && p->part_got[i] < final) final = p->part_got[i];
    p->final = final;
}

bool plain_take(struct plain *p, uint32_t from, const struct link_message *message)
{
    struct head head;
    const float *floats = (const float *)(const void *)message->payload;
    uint64_t count = message->payload_bytes / sizeof(float);
    memcpy(&head, message->header, sizeof head);
    if (head.iteration != p->iteration) return false;
    if (head.kind == PLAIN_SUM) {
        memcpy(p->sum + head.first, floats, message->payload_bytes);
        p->sum_got[from] += count;
    } else if (p->is_small) {
        memcpy(p->heard + from * (PLAIN_SMALL_BYTES / 4) + head.first, floats,
               message->payload_bytes);
        p->part_got[from] += count;
        add_small(p);
    } else {
        add_large(p, from, floats, count);
    }
    return true;
}

static bool all_taken(const struct plain *p)
{
    for (uint32_t i = 0; i < p->ranks; i++) {
        uint64_t end = p->is_small ? p->count : chunk_first(p, i + 1);
        if (i == p->me) continue;
        if (p->part_sent[i] < end || (!p->is_small && p->sum_sent[i] < p->final)) return false;
    }
    return true;
}

bool plain_is_done(const struct plain *p)
{
    if (!all_taken(p)) return false;
    if (p->is_small) return p->final == p->count;
    if (p->final < chunk_first(p, p->me + 1)) return false;
    for (uint32_t i = 0; i < p->ranks; i++)
        if (i != p->me && p->sum_got[i] < chunk_first(p, i + 1)) return false;
    return true;
}
