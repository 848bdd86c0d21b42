/* Lists, heap, table and money against slow and obvious versions of themselves. */
#include "core/heap.h"
#include "core/limits.h"
#include "core/list.h"
#include "core/money.h"
#include "core/share.h"
#include "core/table.h"
#include "core/testing.h"
#include "core/tree.h"

enum { SLOTS = 64, ROUNDS = 20000 };

static uint64_t state_of_random;

static uint32_t draw(uint32_t end)
{
    state_of_random =
        state_of_random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state_of_random >> 33) % end);
}

static void heap_gives_the_least_key_then_the_least_id(void **state)
{
    uint32_t ids[SLOTS], positions[SLOTS];
    int64_t keys[SLOTS], model[SLOTS];
    struct heap heap = {.ids = ids, .positions = positions, .keys = keys, .id_end = SLOTS};
    (void)state;
    heap_clear(&heap);
    for (uint32_t i = 0; i < SLOTS; i++) model[i] = HEAP_KEY_NEVER;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t id = draw(SLOTS);
        model[id] = draw(3) == 0 ? HEAP_KEY_NEVER : draw(20);
        heap_set(&heap, id, model[id]);
        uint32_t least = 0;
        for (uint32_t i = 1; i < SLOTS; i++)
            if (model[i] < model[least]) least = i;
        assert_int_equal(heap_first_key(&heap), model[least]);
        if (model[least] != HEAP_KEY_NEVER) assert_int_equal(heap_first(&heap), least);
        assert_int_equal(heap_key(&heap, id), model[id]);
        heap_check(&heap);
    }
}

/* Two trees share the slots. */
static void tree_gives_the_least_key_then_the_least_slot(void **state)
{
    struct tree_link links[SLOTS];
    uint32_t root[2] = {SLOT_NONE, SLOT_NONE}, in[SLOTS] = {0}; /* in: 0 none, else tree + 1 */
    const struct tree_chain chain = {.first = links, .stride = sizeof links[0]};
    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t slot = draw(SLOTS);
        if (in[slot] != 0) {
            tree_remove(&root[in[slot] - 1], chain, slot);
            in[slot] = 0;
        } else {
            in[slot] = 1 + draw(2);
            links[slot].key = draw(20);
            tree_insert(&root[in[slot] - 1], chain, slot);
        }
        for (uint32_t tree = 0; tree < 2; tree++) {
            uint32_t least = SLOT_NONE;
            for (uint32_t i = 0; i < SLOTS; i++)
                if (in[i] == tree + 1 && (least == SLOT_NONE || links[i].key < links[least].key))
                    least = i;
            assert_int_equal(root[tree], least);
        }
    }
}

/* ask.c looks at both ends of a span only. */
static void averages_move_one_way(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 200; round++) {
        int64_t level = draw(1 << (1 + draw(28))), average = draw(1 << (1 + draw(30)));
        int64_t before = average, goal = level * SHARE_FRACTION, us = 0;
        for (uint32_t i = 0; i < 200; i++) {
            us += 1 + draw(1U << (1 + draw(30)));
            int64_t now = share_average(average, level, us, SHARE_HALF_LIFE_US);
            if (average > goal)
                assert_true(now <= before && now >= goal);
            else
                assert_true(now >= before && now <= goal);
            before = now;
        }
    }
}

static void table_finds_what_is_in_and_nothing_else(void **state)
{
    struct cell cells[128];
    struct table table = {.cells = cells, .capacity = table_capacity(SLOTS)};
    uint64_t ids[SLOTS] = {0};
    (void)state;
    assert_int_equal(table.capacity, 128);
    table_clear(&table);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t slot = draw(SLOTS);
        if (ids[slot] != 0) {
            table_remove(&table, ids[slot]);
            assert_int_equal(table_find(&table, ids[slot]), SLOT_NONE);
            ids[slot] = 0;
        } else {
            uint64_t id = 1 + slot + (uint64_t)SLOTS * draw(1000); /* close and far ids */
            table_insert(&table, id, slot);
            ids[slot] = id;
        }
        for (uint32_t i = 0; i < SLOTS; i++)
            if (ids[i] != 0) assert_int_equal(table_find(&table, ids[i]), i);
    }
}

static void list_keeps_the_order_of_coming(void **state)
{
    struct {
        uint64_t something;
        struct link link;
    } slots[SLOTS] = {0};
    struct list list;
    struct chain chain = {.first = &slots[0].link, .stride = sizeof slots[0]};
    uint32_t model[SLOTS], count = 0;
    (void)state;
    list_clear(&list);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t slot = draw(SLOTS), at = 0;
        while (at < count && model[at] != slot) at++;
        if (at < count) {
            list_remove(&list, chain, slot);
            memmove(&model[at], &model[at + 1], (count - at - 1) * sizeof model[0]);
            count--;
        } else {
            at = draw(count + 1);
            list_insert(&list, chain, slot, at == count ? SLOT_NONE : model[at]);
            memmove(&model[at + 1], &model[at], (count - at) * sizeof model[0]);
            model[at] = slot;
            count++;
        }
        assert_int_equal(list.count, count);
        uint32_t walk = list.head;
        for (uint32_t i = 0; i < count; i++, walk = slots[walk].link.next)
            assert_int_equal(walk, model[i]);
        assert_int_equal(walk, SLOT_NONE);
        assert_int_equal(list.tail, count == 0 ? SLOT_NONE : model[count - 1]);
    }
}

__extension__ typedef unsigned __int128 wide; /* only the test has 128 bits to compare with */

static void meter_is_exact_however_it_is_cut(void **state)
{
    static const int64_t prices[] = {0,           1,       999999,      3600,
                                     HOUR_US - 1, HOUR_US, HOUR_US + 1, PRICE_MAX};
    (void)state;
    for (uint32_t i = 0; i < sizeof prices / sizeof prices[0]; i++) {
        struct meter meter = {0};
        wide exact = 0;
        for (uint32_t round = 0; round < 2000; round++) {
            int64_t duration_us = draw(4) == 0 ? (int64_t)draw(UINT32_MAX) * 1000 : draw(1000);
            money_meter_add(&meter, prices[i], duration_us);
            exact += (wide)prices[i] * (wide)duration_us;
            assert_int_equal(meter.usd_micros, (int64_t)(exact / (wide)HOUR_US));
            assert_int_equal(meter.remainder, (uint64_t)(exact % (wide)HOUR_US));
        }
        struct meter zero = money_meter_minus(meter, meter);
        assert_int_equal(zero.usd_micros, 0);
        assert_int_equal(zero.remainder, 0);
    }
}

static void meters_subtract_with_borrow(void **state)
{
    struct meter a = {.usd_micros = 5, .remainder = 1}, b = {.usd_micros = 2, .remainder = 2};
    (void)state;
    struct meter c = money_meter_minus(a, b);
    assert_int_equal(c.usd_micros, 2);
    assert_int_equal(c.remainder, HOUR_US - 1);
    c = money_meter_minus(b, a);
    assert_int_equal(c.usd_micros, -3);
    assert_int_equal(c.remainder, 1);
}

static void shares_add_up(void **state)
{
    (void)state;
    assert_int_equal(money_share_floor(10, 1, 3), 3);
    assert_int_equal(money_share_ceil(10, 1, 3), 4);
    assert_int_equal(money_share_floor(MONEY_MAX, 4095, 4096), MONEY_MAX / 4096 * 4095);
    for (uint32_t round = 0; round < 1000; round++) {
        int64_t amount = (int64_t)draw(UINT32_MAX) * draw(100000);
        uint32_t whole = 1 + draw(NODE_DEVICES_MAX), part = draw(whole + 1);
        assert_int_equal(money_share_floor(amount, part, whole) +
                             money_share_ceil(amount, whole - part, whole),
                         amount);
        assert_int_equal(money_share_floor(amount, part, whole),
                         (int64_t)((wide)amount * part / whole));
    }
}

static void money_lasts_until_it_is_spent_and_no_longer(void **state)
{
    (void)state;
    assert_int_equal(money_lasts_us(0, 5), 0);
    assert_int_equal(money_lasts_us(-7, 5), 0);
    assert_int_equal(money_lasts_us(1, 0), INT64_MAX);
    assert_int_equal(money_lasts_us(MONEY_MAX, 1), INT64_MAX);
    assert_int_equal(money_lasts_us(USD, USD), HOUR_US);
    for (uint32_t round = 0; round < 2000; round++) {
        int64_t usd = 1 + draw(UINT32_MAX), rate = 1 + (int64_t)draw(UINT32_MAX) * draw(1000);
        int64_t us = money_lasts_us(usd, rate);
        if (us == INT64_MAX) continue;
        assert_true((wide)us * (wide)rate >= (wide)usd * (wide)HOUR_US);
        assert_true((wide)(us - 1) * (wide)rate < (wide)usd * (wide)HOUR_US);
    }
    assert_int_equal(money_add(INT64_MAX, 1), INT64_MAX);
    assert_int_equal(money_add(INT64_MIN, -1), INT64_MIN);
    assert_int_equal(money_add(-5, 3), -2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap_gives_the_least_key_then_the_least_id),
        cmocka_unit_test(tree_gives_the_least_key_then_the_least_slot),
        cmocka_unit_test(averages_move_one_way),
        cmocka_unit_test(table_finds_what_is_in_and_nothing_else),
        cmocka_unit_test(list_keeps_the_order_of_coming),
        cmocka_unit_test(meter_is_exact_however_it_is_cut),
        cmocka_unit_test(meters_subtract_with_borrow),
        cmocka_unit_test(shares_add_up),
        cmocka_unit_test(money_lasts_until_it_is_spent_and_no_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
