#include "server/leases.h"
#include <stdlib.h>

void leases_init(struct leases *leases)
{
    *leases = (struct leases){0};
    array_init(&leases->by_node, sizeof(struct lease_view));
    array_init(&leases->by_job, sizeof(struct lease_view));
}

void leases_free(struct leases *leases)
{
    array_free(&leases->by_node);
    array_free(&leases->by_job);
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_by_node(const void *left, const void *right)
{
    const struct lease_view *a = left, *b = right;
    int order = compare(a->node_key, b->node_key);
    return order != 0 ? order : compare(a->worker_id, b->worker_id);
}

static int compare_by_job(const void *left, const void *right)
{
    const struct lease_view *a = left, *b = right;
    int order = compare(a->job_id, b->job_id);
    return order != 0 ? order : compare(a->worker_id, b->worker_id);
}

static bool add(struct leases *leases, const struct lease_view *view)
{
    struct lease_view *node = array_push(&leases->by_node);
    struct lease_view *job = array_push(&leases->by_job);
    if (node == NULL || job == NULL) return false;
    *node = *job = *view;
    return true;
}

bool leases_refresh(struct leases *leases, const pool *p)
{
    if (leases->is_fresh && leases->seq == pool_last_seq(p)) return true;
    array_clear(&leases->by_node);
    array_clear(&leases->by_job);
    leases->is_fresh = false;
    for (uint32_t i = 0; i < pool_leases_end(p); i++) {
        struct lease_view view;
        if (!pool_lease_at(p, i, &view) || add(leases, &view)) continue;
        array_clear(&leases->by_node);
        array_clear(&leases->by_job);
        return false;
    }
    if (leases->by_node.count > 1) {
        qsort(leases->by_node.items, leases->by_node.count, sizeof(struct lease_view),
              compare_by_node);
        qsort(leases->by_job.items, leases->by_job.count, sizeof(struct lease_view),
              compare_by_job);
    }
    leases->seq = pool_last_seq(p);
    leases->is_fresh = true;
    return true;
}

static struct lease_range range_of(const struct array *list, uint64_t key, bool by_node)
{
    const struct lease_view *items = list->items;
    uint32_t low = 0, high = list->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint64_t found = by_node ? items[middle].node_key : items[middle].job_id;
        if (found < key)
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t end = low;
    while (end < list->count && (by_node ? items[end].node_key : items[end].job_id) == key) end++;
    return (struct lease_range){.items = end == low ? NULL : items + low, .count = end - low};
}

struct lease_range leases_of_node(const struct leases *leases, uint64_t node_key)
{
    return range_of(&leases->by_node, node_key, true);
}

struct lease_range leases_of_job(const struct leases *leases, uint64_t job_id)
{
    return range_of(&leases->by_job, job_id, false);
}
