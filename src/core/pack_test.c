/* Packing against slow and obvious versions of itself: the measure form by form, the price over every
 * set of models, the remembered best against a look at all nodes.
 */
#include "core/list.h"
#include "core/pack.h"
#include "core/testing.h"
#include <stdlib.h>
#include <string.h>

enum { MODELS = 5, NODES = 150, FORMS = 40, ROUNDS = 20000 };

static uint64_t state_of_random;

static uint32_t draw(uint32_t end)
{
    state_of_random =
        state_of_random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state_of_random >> 33) % end);
}

static void *block_of(size_t bytes)
{
    void *block = malloc(bytes);
    assert_non_null(block);
    memset(block, 0xA5, bytes); /* what is not set shows */
    return block;
}

static struct pack_form draw_form(uint32_t cpu_end)
{
    static const uint32_t shares[] = {100, 250, 333, 500, 750, 1000};
    struct pack_form form = {.models = draw(3) == 0 ? 1 + draw((1 << MODELS) - 1) : UINT64_MAX,
                             .cpu_milli = 1000 * draw(cpu_end),
                             .memory_mib = 1024 * draw(8)};
    uint32_t kind = draw(8);
    form.count = kind == 0 ? 0 : kind < 6 ? 1 : 2 * draw(4) + 2;
    form.milli = form.count == 0 ? 0 : form.count > 1 ? PACK_MILLI : shares[draw(6)];
    return form;
}

/* ---- the measure ---- */

struct naive_node {
    uint32_t model, devices, cpu_milli;
    uint16_t free_milli[PACK_DEVICES_MAX];
};

/* The definition in pack_mix.h for one node and one typical form. */
static uint64_t naive_fragment(const struct naive_node *node, const struct pack_form *form)
{
    uint64_t all = 0, slivers = 0;
    uint32_t able = 0;
    for (uint32_t i = 0; i < node->devices; i++) {
        all += node->free_milli[i];
        if (node->free_milli[i] >= form->milli)
            able++;
        else
            slivers += node->free_milli[i];
    }
    if (form->count == 0 || (form->models >> node->model & 1) == 0) return all;
    return node->cpu_milli < form->cpu_milli || able < form->count ? all : slivers;
}

/* Sixteenths of a milli that stay empty, rounded down at each step. */
static uint64_t naive_waste(const struct pack_mix *mix, uint32_t milli)
{
    uint64_t waste[PACK_MILLI + 1];
    for (uint32_t r = 0; r <= milli; r++) {
        uint64_t seen = 0, sum = 0;
        for (uint32_t i = 0; i < mix->typical; i++) {
            const struct pack_form *form = &mix->forms.forms[mix->order[i]];
            if (form->count == 0 || form->milli > r) continue;
            seen += mix->counts[mix->order[i]];
            sum += mix->counts[mix->order[i]] * waste[r - form->milli];
        }
        waste[r] = seen > 0 ? sum / seen : 16 * r;
    }
    return waste[milli];
}

static int64_t naive_measure(const struct pack_mix *mix, const struct naive_node *node)
{
    uint64_t sum = 0, all = 0, kept = 0;
    for (uint32_t i = 0; i < mix->typical; i++) kept += mix->counts[mix->order[i]];
    for (uint32_t i = 0; i < mix->typical; i++) {
        uint64_t weight = ((mix->counts[mix->order[i]] << 16) + kept / 2) / kept;
        sum += weight * naive_fragment(node, &mix->forms.forms[mix->order[i]]);
    }
    uint64_t waste = 0;
    for (uint32_t i = 0; i < node->devices; i++) {
        all += node->free_milli[i];
        waste += kept > 0 ? naive_waste(mix, node->free_milli[i]) : 0;
    }
    uint64_t fed = node->cpu_milli * mix->feed >> 16;
    return (int64_t)(sum + (fed < all ? 2 * (all - fed) << 16 : 0) + (waste * 13 << 8));
}

static void check_measure(const struct pack_mix *mix)
{
    struct naive_node node = {
        .model = draw(MODELS), .devices = 1 + draw(PACK_DEVICES_MAX), .cpu_milli = draw(100000)};
    for (uint32_t i = 0; i < node.devices; i++)
        node.free_milli[i] = (uint16_t)(draw(2) == 0 ? PACK_MILLI : draw(PACK_MILLI + 1));
    struct pack_levels levels;
    pack_mix_levels(mix, node.free_milli, node.devices, &levels);
    struct pack_change none = {0}, change = {node.free_milli[0], 0, 1};
    assert_int_equal(pack_mix_measure(mix, node.model, node.cpu_milli, &levels, none),
                     naive_measure(mix, &node));
    change.to_milli = draw(change.from_milli + 1);
    int64_t after = pack_mix_measure(mix, node.model, node.cpu_milli, &levels, change);
    node.free_milli[0] = (uint16_t)change.to_milli;
    assert_int_equal(after, naive_measure(mix, &node));
}

static void measure_is_the_sum_over_typical_forms(void **state)
{
    (void)state;
    enum { MIX_FORMS = 300 };
    struct pack_mix mix;
    void *memory = block_of(pack_mix_bytes(MIX_FORMS, MODELS));
    pack_mix_init(&mix, memory, MIX_FORMS, MODELS);
    uint32_t learnt = 0;
    for (uint32_t i = 0; i < 8192; i++) {
        struct pack_form form = draw_form(draw(50) == 0 ? 90 : 30);
        if (i == 0) check_measure(&mix); /* before anything is known */
        if (!pack_mix_arrived(&mix, &form)) continue;
        learnt++;
        for (uint32_t n = 0; n < 50; n++) check_measure(&mix);
    }
    assert_int_equal(learnt, 8 + 3); /* 16 .. 2048, 4096 .. 8192 */
    assert_true(mix.typical > 16 && mix.demands > 4 && mix.cpus > 8);
    free(memory);
}

/* More different CPU steps and demands than there is room for: fewer forms are typical, no more. */
static void a_crowded_mix_stays_within_its_bounds(void **state)
{
    (void)state;
    struct pack_mix mix;
    void *memory = block_of(pack_mix_bytes(200, 1));
    pack_mix_init(&mix, memory, 200, 1);
    for (uint32_t i = 0; i < 3 * PACK_COUNTS_MAX; i++) {
        struct pack_form form = {.models = 1, .cpu_milli = draw(500), .count = 1};
        form.milli = 1 + draw(PACK_MILLI);
        (void)pack_mix_arrived(&mix, &form);
        assert_true(mix.forms.count <= 200 && mix.counted <= PACK_COUNTS_MAX);
    }
    assert_true(mix.demands <= PACK_DEMANDS_MAX && mix.cpus <= PACK_CPUS_MAX && mix.typical > 0);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < mix.forms.count; i++) sum += mix.counts[i];
    assert_int_equal(sum, mix.counted);
    free(memory);
}

/* ---- the price ---- */

static uint64_t naive_sum(const uint64_t *milli, uint64_t models)
{
    uint64_t sum = 0;
    for (uint32_t m = 0; m < MODELS; m++) sum += models >> m & 1 ? milli[m] : 0;
    return sum;
}

/* Is it a union of sets that occur? Then it is the union of those within it. */
static bool naive_union(const struct pack_price *price, uint64_t all, uint64_t models)
{
    uint64_t within = 0;
    for (uint32_t q = 0; q < price->set_count; q++)
        if ((price->sets[q] & all & ~models) == 0) within |= price->sets[q] & all;
    return within == models;
}

static uint32_t naive_price(const struct pack_price *price, uint64_t all, uint64_t models,
                            const uint64_t *future)
{
    uint64_t claim = 0;
    for (uint32_t q = 0; q < price->set_count; q++) {
        uint64_t set = price->sets[q] & all;
        if (set != 0 && (set & ~models) == 0) claim += future[q];
    }
    double slack = (double)naive_sum(price->free_milli, models) - (double)claim;
    double z = slack / (0.3 * (double)naive_sum(price->capacity_milli, models));
    if (claim == 0 || z >= 1) return 0;
    return z <= 0 ? 20 : (uint32_t)(20 * (1 - z) + 1e-9);
}

static void check_price(struct pack_price *price)
{
    uint64_t future[PACK_SETS_MAX], all = 0;
    for (uint32_t m = 0; m < MODELS; m++) all |= (uint64_t)(price->capacity_milli[m] > 0) << m;
    pack_price_refresh(price);
    pack_price_forecast(price, future);
    for (uint32_t q = 0; q < price->set_count; q++) {
        for (uint32_t m = 0; m < MODELS; m++) {
            uint32_t most = 0;
            for (uint64_t set = 1; set < 1 << MODELS; set++) {
                if ((set & ~all) != 0 || set == all || (set >> m & 1) == 0) continue;
                if ((price->sets[q] & all & ~set) == 0 || !naive_union(price, all, set)) continue;
                uint32_t asked = naive_price(price, all, set, future);
                if (asked > most) most = asked;
            }
            assert_int_equal(price->price[q][m], most);
        }
    }
}

static void price_is_the_dearest_set_of_models(void **state)
{
    (void)state;
    uint32_t paid = 0;
    for (uint32_t round = 0; round < 500; round++) {
        struct pack_price price;
        pack_price_init(&price);
        for (uint32_t m = 0; m < MODELS; m++) {
            price.capacity_milli[m] = (uint64_t)PACK_MILLI * draw(6) * draw(200);
            price.free_milli[m] = price.capacity_milli[m] * draw(101) / 100;
        }
        uint32_t sets = 1 + draw(8);
        for (uint32_t i = 0; i < sets; i++) {
            uint32_t q = pack_price_set(&price, draw(4) == 0 ? UINT64_MAX
                                                             : 1 + draw((1 << (MODELS + 1)) - 1));
            price.present_milli[q] += (uint64_t)PACK_MILLI * draw(300);
            price.lived_milli[q] += (uint64_t)PACK_MILLI * draw(30);
        }
        check_price(&price);
        for (uint32_t q = 0; q < price.set_count; q++) paid += price.price[q][0] > 0;
    }
    assert_true(paid > 100);
}

static void who_is_confined_to_a_full_set_does_not_pay_for_it(void **state)
{
    (void)state;
    struct pack_price price;
    pack_price_init(&price);
    price.capacity_milli[0] = price.free_milli[0] = 10 * PACK_MILLI;
    price.capacity_milli[1] = price.free_milli[1] = 90 * PACK_MILLI;
    uint32_t confined = pack_price_set(&price, 1), any = pack_price_set(&price, UINT64_MAX);
    price.present_milli[confined] = 2 * PACK_MILLI; /* 2 of 20: 10 of 100 once all is asked for */
    price.present_milli[any] = 18 * PACK_MILLI;
    price.free_milli[0] -= 2 * PACK_MILLI;
    pack_price_refresh(&price);
    assert_int_equal(price.price[any][0], PACK_PRICE_MAX);
    assert_int_equal(price.price[any][1], 0);
    assert_int_equal(price.price[confined][0], 0);
    price.present_milli[any] = 98 * PACK_MILLI; /* everything is asked for: nothing more to come */
    pack_price_refresh(&price);
    assert_int_equal(price.price[any][0], 0);
}

/* ---- the index ---- */

struct worker {
    struct pack_form form;
    uint32_t set;
    struct pack_place place;
};

struct world {
    struct pack *pack;
    uint32_t nodes[NODES], devices[NODES], node_count, rank, worker_count;
    struct worker workers[NODES * 8];
};

static void check_best(struct world *w, const struct pack_form *form, struct pack_place *ret_best,
                       bool *ret_fits)
{
    struct pack_place best = {0}, place;
    bool fits = false;
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (!pack_score(w->pack, w->nodes[i], form, &place)) continue;
        uint32_t rank = pack_node(w->pack, place.node)->rank;
        if (fits && (place.score < best.score ||
                     (place.score == best.score && rank > pack_node(w->pack, best.node)->rank)))
            continue;
        best = place;
        fits = true;
    }
    *ret_fits = pack_best(w->pack, form, ret_best);
    assert_int_equal(*ret_fits, fits);
    if (!fits) return;
    assert_int_equal(ret_best->node, best.node);
    assert_int_equal(ret_best->devices, best.devices);
    assert_int_equal(ret_best->score, best.score);
}

static void add_node(struct world *w)
{
    uint32_t devices = 1 + draw(8);
    uint32_t node = pack_node_add(w->pack, draw(MODELS), devices, 8000 * devices + 1000 * draw(8),
                                  65536, draw(2) == 0 ? ++w->rank : 1000000 - ++w->rank);
    if (node == SLOT_NONE) return;
    w->devices[w->node_count] = devices;
    w->nodes[w->node_count++] = node;
}

static void drop_workers_of(struct world *w, uint32_t node, bool give)
{
    for (uint32_t i = 0; i < w->worker_count;) {
        struct worker *worker = &w->workers[i];
        if (worker->place.node != node) {
            i++;
            continue;
        }
        if (give) pack_give(w->pack, &worker->form, &worker->place);
        pack_left(w->pack, worker->set, &worker->form, draw(2000000));
        *worker = w->workers[--w->worker_count];
    }
}

static void remove_node(struct world *w)
{
    uint32_t at = draw(w->node_count);
    drop_workers_of(w, w->nodes[at], false);
    pack_node_remove(w->pack, w->nodes[at]);
    w->nodes[at] = w->nodes[--w->node_count];
    w->devices[at] = w->devices[w->node_count];
}

/* The agent sees the node empty: the same as giving back one by one. */
static void empty_node(struct world *w)
{
    uint32_t at = draw(w->node_count);
    uint16_t whole[PACK_DEVICES_MAX];
    for (uint32_t i = 0; i < PACK_DEVICES_MAX; i++) whole[i] = PACK_MILLI;
    drop_workers_of(w, w->nodes[at], true);
    const struct pack_node *node = pack_node(w->pack, w->nodes[at]);
    for (uint32_t i = 0; i < w->devices[at]; i++) assert_int_equal(node->free_milli[i], PACK_MILLI);
    pack_node_set(w->pack, w->nodes[at], node->cpu_milli, node->memory_mib, whole);
}

static void step(struct world *w, const struct pack_form *forms)
{
    uint32_t what = draw(100);
    if (what == 0)
        add_node(w);
    else if (what == 1 && w->node_count > 1)
        remove_node(w);
    else if (what == 2 && w->node_count > 0)
        empty_node(w);
    else if (what < 20 && w->worker_count > 0) {
        struct worker *worker = &w->workers[draw(w->worker_count)];
        pack_give(w->pack, &worker->form, &worker->place);
        pack_left(w->pack, worker->set, &worker->form, draw(2000000));
        *worker = w->workers[--w->worker_count];
    } else {
        struct worker worker = {.form = forms[draw(2) == 0 ? draw(4) : draw(FORMS)]};
        bool fits;
        worker.set = pack_arrived(w->pack, &worker.form);
        check_best(w, &worker.form, &worker.place, &fits);
        if (!fits || w->worker_count == NODES * 8) {
            pack_left(w->pack, worker.set, &worker.form, 0);
            return;
        }
        pack_take(w->pack, &worker.form, &worker.place);
        w->workers[w->worker_count++] = worker;
    }
}

static void best_is_what_a_look_at_every_node_finds(void **state)
{
    (void)state;
    struct pack_form forms[FORMS];
    for (uint32_t run = 0; run < 3; run++) {
        struct world w = {0};
        /* Fewer forms are remembered than occur in the second run. */
        struct pack_limits limits = {
            .nodes_max = NODES, .forms_max = run == 1 ? 6 : 2 * FORMS, .models_max = MODELS};
        void *memory = block_of(pack_bytes(&limits));
        w.pack = pack_init(memory, &limits);
        for (uint32_t i = 0; i < FORMS; i++) forms[i] = draw_form(12);
        for (uint32_t i = 0; i < NODES * 3 / 4; i++) add_node(&w);
        for (uint32_t i = 0; i < ROUNDS / 3; i++) step(&w, forms);
        assert_true(w.worker_count > 20);
        uint64_t used = 0;
        for (uint32_t i = 0; i < w.worker_count; i++) used += pack_form_milli(&w.workers[i].form);
        assert_int_equal(pack_free_milli(w.pack) + used, pack_capacity_milli(w.pack));
        free(memory);
    }
}

static void a_full_pack_refuses_nodes_and_bad_forms_are_told(void **state)
{
    (void)state;
    struct pack_limits limits = {.nodes_max = 4, .forms_max = 2, .models_max = 1};
    void *memory = block_of(pack_bytes(&limits));
    struct pack *pack = pack_init(memory, &limits);
    uint32_t taken = 0;
    while (pack_node_add(pack, 0, 1, 1000, 1, taken) != SLOT_NONE) assert_true(++taken < 1000);
    assert_true(taken >= limits.nodes_max);
    assert_int_equal(pack_node_add(pack, 0, PACK_DEVICES_MAX + 1, 1, 1, 1), SLOT_NONE);
    free(memory);
    struct pack_form form = {.models = 1, .milli = 500, .count = 1};
    assert_true(pack_form_check(&form));
    form.count = 2;
    assert_false(pack_form_check(&form)); /* shares are of one device */
    form = (struct pack_form){.models = 0, .milli = 500, .count = 1};
    assert_false(pack_form_check(&form));
    form = (struct pack_form){.models = 1, .milli = 1, .count = 0};
    assert_false(pack_form_check(&form));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measure_is_the_sum_over_typical_forms),
        cmocka_unit_test(a_crowded_mix_stays_within_its_bounds),
        cmocka_unit_test(price_is_the_dearest_set_of_models),
        cmocka_unit_test(who_is_confined_to_a_full_set_does_not_pay_for_it),
        cmocka_unit_test(best_is_what_a_look_at_every_node_finds),
        cmocka_unit_test(a_full_pack_refuses_nodes_and_bad_forms_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
