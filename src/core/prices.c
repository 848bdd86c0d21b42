#include "core/prices.h"
#include "core/assert.h"

static bool goes_before(const pool *p, const struct price *a, const struct price *b)
{
    if (a->unit_usd_micros != b->unit_usd_micros) return a->unit_usd_micros < b->unit_usd_micros;
    return p->offers[a->offer].offer_id < p->offers[b->offer].offer_id;
}

static void put(pool *p, const struct market *market, uint32_t at, struct price price)
{
    p->prices[market->first + at] = price;
    p->offers[price.offer].place = at;
}

static void set_sorted(pool *p, struct market *market, bool sorted)
{
    if (market->count > PRICES_SCAN_MAX && sorted != (market->sorted != 0)) {
        if (sorted)
            p->unsorted_count--;
        else
            p->unsorted_count++;
    }
    market->sorted = sorted;
}

static void grow(pool *p, struct market *market)
{
    uint32_t room = market->room == 0 ? PRICES_ROOM_MIN : market->room * 2;
    uint32_t first = p->prices_end;
    ASSERT(first + room <= p->config.limits.offers_max * PRICES_PER_OFFER);
    for (uint32_t i = 0; i < market->count; i++)
        p->prices[first + i] = p->prices[market->first + i];
    market->first = first;
    market->room = room;
    p->prices_end += room;
}

void prices_add(pool *p, struct market *market, uint32_t offer)
{
    if (market->count == market->room) grow(p, market);
    /* Counted as large from here on: an unsorted one has to be known as such. */
    if (market->count == PRICES_SCAN_MAX && !market->sorted) p->unsorted_count++;
    uint32_t devices = p->offers[offer].device_count;
    if (market->count == 0) {
        market->sorted = 1;
        market->devices_least = market->devices_most = devices;
    }
    if (devices < market->devices_least) market->devices_least = devices;
    if (devices > market->devices_most) market->devices_most = devices;
    put(p, market, market->count++,
        (struct price){.unit_usd_micros = p->offers[offer].unit_usd_micros,
                       .offer = offer,
                       .capacity = p->offers[offer].capacity});
    prices_move(p, market, offer);
}

/* Neighbours step aside; false: it has farther to go. */
static bool step_into_place(pool *p, const struct market *market, uint32_t at)
{
    const struct price *prices = p->prices + market->first;
    struct price moved = prices[at];
    uint32_t end = at > PRICES_STEPS_MAX ? at - PRICES_STEPS_MAX : 0;
    while (at > end && goes_before(p, &moved, &prices[at - 1])) {
        put(p, market, at, prices[at - 1]);
        at--;
    }
    bool done = at == 0 || goes_before(p, &prices[at - 1], &moved);
    end = market->count - at > PRICES_STEPS_MAX ? at + PRICES_STEPS_MAX : market->count - 1;
    while (at < end && goes_before(p, &prices[at + 1], &moved)) {
        put(p, market, at, prices[at + 1]);
        at++;
    }
    put(p, market, at, moved);
    return done && (at + 1 == market->count || goes_before(p, &moved, &prices[at + 1]));
}

void prices_move(pool *p, struct market *market, uint32_t offer)
{
    uint32_t at = p->offers[offer].place;
    p->prices[market->first + at].unit_usd_micros = p->offers[offer].unit_usd_micros;
    if (market->sorted && !step_into_place(p, market, at)) set_sorted(p, market, false);
}

static void sift_down(const pool *p, struct price *prices, uint32_t at, uint32_t end)
{
    struct price moved = prices[at];
    for (uint32_t child = 2 * at + 1; child < end; child = 2 * at + 1) {
        if (child + 1 < end && goes_before(p, &prices[child], &prices[child + 1])) child++;
        if (!goes_before(p, &moved, &prices[child])) break;
        prices[at] = prices[child];
        at = child;
    }
    prices[at] = moved;
}

/* Heapsort: in place, and no order of prices makes it slow. */
void prices_sort(pool *p, struct market *market)
{
    if (market->sorted || market->count == 0) return;
    struct price *prices = p->prices + market->first;
    for (uint32_t at = market->count / 2; at > 0; at--) sift_down(p, prices, at - 1, market->count);
    for (uint32_t end = market->count - 1; end > 0; end--) {
        struct price last = prices[end];
        prices[end] = prices[0];
        prices[0] = last;
        sift_down(p, prices, 0, end);
    }
    for (uint32_t at = 0; at < market->count; at++) p->offers[prices[at].offer].place = at;
    set_sorted(p, market, true);
}

void prices_sort_large(pool *p)
{
    uint32_t end = p->regions_end * p->config.limits.models_max;
    for (uint32_t i = 0; i < end && p->unsorted_count > 0; i++)
        if (p->markets[i].count > PRICES_SCAN_MAX) prices_sort(p, &p->markets[i]);
}

static bool is_of(const struct price *price, uint32_t kinds)
{
    return (kinds >> price->capacity & 1) != 0;
}

/* The least entry of these kinds beyond `bound` (NULL: of all). */
static uint32_t least_beyond(const pool *p, const struct market *market, const struct price *bound,
                             uint32_t kinds)
{
    const struct price *prices = p->prices + market->first, *least = NULL;
    for (uint32_t i = 0; i < market->count; i++) {
        if (!is_of(&prices[i], kinds)) continue;
        if (least != NULL && prices[i].unit_usd_micros > least->unit_usd_micros) continue;
        if (bound != NULL && !goes_before(p, bound, &prices[i])) continue;
        if (least == NULL || goes_before(p, &prices[i], least)) least = &prices[i];
    }
    return least == NULL ? SLOT_NONE : least->offer;
}

/* Of a sorted market: at this place or behind it. */
static uint32_t from(const pool *p, const struct market *market, uint32_t at, uint32_t kinds)
{
    const struct price *prices = p->prices + market->first;
    while (at < market->count && !is_of(&prices[at], kinds)) at++;
    return at < market->count ? prices[at].offer : SLOT_NONE;
}

uint32_t prices_first(const pool *p, const struct market *market, uint32_t kinds)
{
    return market->sorted ? from(p, market, 0, kinds) : least_beyond(p, market, NULL, kinds);
}

uint32_t prices_next(const pool *p, const struct market *market, uint32_t offer, uint32_t kinds)
{
    uint32_t at = p->offers[offer].place;
    ASSERT(p->prices[market->first + at].offer == offer);
    if (!market->sorted) return least_beyond(p, market, &p->prices[market->first + at], kinds);
    return from(p, market, at + 1, kinds);
}
