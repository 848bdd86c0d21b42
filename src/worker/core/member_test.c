/* Directed cases that random schedules meet too seldom: orders that take slots away in mid-step,
 * and sums that do not fit together. One member (id 5) with a made-up leader (id 3). */
#include "worker/core/member.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ELEMENTS = 300, BLOCKS = 2, SLOTS = 4, ME = 5, LEADER = 3 };

struct bench {
    struct member member;
    struct member_step log_step[4];
    struct wire_turn log_turn[4];
    struct layout layout;
    uint64_t start[BLOCKS + 1];
    uint32_t tensor_block[2];
    int16_t scale[BLOCKS];
    float mean[ELEMENTS], weights[ELEMENTS];
    struct transfer_segment segment;
    uint8_t shadow[sizeof(float) * ELEMENTS];
};

static _Alignas(16) uint8_t payload[WIRE_PAYLOAD_MAX];
static _Alignas(64) uint8_t exchange_memory[1 << 20];

static void say(struct bench *b, uint64_t id, const struct wire_status *status)
{
    assert_true(
        member_frame(&b->member, id, WIRE_STATUS, payload, wire_put_status(payload, status), 4));
}

/* The member founds alone, then meets the leader, which is at the same position with a lower id. */
static void set_up(struct bench *b)
{
    const uint64_t counts[1] = {ELEMENTS};
    memset(b, 0, sizeof *b);
    layout_init(&b->layout, counts, 1, b->start, b->tensor_block);
    assert_true(exchange_size(&b->layout) <= sizeof exchange_memory);
    b->segment = (struct transfer_segment){(uint8_t *)b->weights, sizeof b->weights};
    struct member_config config = {
        .id = ME,
        .steps = 10,
        .slot_count = SLOTS,
        .gang = 1,
        .layout = &b->layout,
        .scale = b->scale,
        .exchange_memory = exchange_memory,
        .mean = b->mean,
        .state = {&b->segment, 1, sizeof b->weights},
        .shadow = b->shadow,
        .log = {.step = b->log_step, .turn = b->log_turn, .step_max = 4, .turn_max = 4},
    };
    member_init(&b->member, &config);
    member_start(&b->member, 0);
    member_peers_settled(&b->member, true);
    assert_int_equal(member_park(&b->member), MEMBER_WANT_FOUND);
    member_unpark(&b->member);
    member_founded(&b->member, 0);
    assert_true(member_peer_up(&b->member, LEADER, 1));
    struct wire_status status = {.has_state = 1};
    say(b, LEADER, &status);
}

static void order(struct bench *b, uint64_t number, const char *owners)
{
    struct wire_turn turn = {.tag = {number, LEADER},
                             .generation = 1,
                             .attempt = 1,
                             .kind = TURN_COMPUTE,
                             .member_count = 2,
                             .member = {LEADER, ME},
                             .source = {GROUP_NOBODY, GROUP_NOBODY},
                             .slot_count = SLOTS};
    for (uint32_t slot = 0; slot < SLOTS; slot++) turn.owner[slot] = owners[slot] == 'm';
    assert_true(member_frame(&b->member, LEADER, WIRE_TURN, payload,
                             wire_put_turn(payload, &turn, NULL), 3));
    struct wire_status status = {.has_state = 1, .turn = turn.tag};
    say(b, LEADER, &status);
}

static void take_slot(struct bench *b, uint32_t expected)
{
    assert_int_equal(member_park(&b->member), MEMBER_WANT_COMPUTE);
    member_unpark(&b->member);
    assert_int_equal(b->member.slot, expected);
}

/* Adds the slot; returns whether it was the first of its sums. */
static bool finish_slot(struct bench *b)
{
    bool first = false;
    uint32_t epoch = 0;
    assert_true(member_slot_begin(&b->member, &first, &epoch));
    if (first) quant_clear(&b->member.exchange.own);
    quant_add(&b->member.exchange.own, b->scale, b->weights, 0, BLOCKS);
    member_slot_done(&b->member, true, epoch, 10);
    return first;
}

static void sums_are_void_when_a_done_slot_is_taken_away(void **state)
{
    (void)state;
    static struct bench b;
    set_up(&b);
    order(&b, 10, "lmml");
    take_slot(&b, 1);
    assert_true(finish_slot(&b));
    order(&b, 11, "llml"); /* slot 1 is the leader's now: it must leave our sums */
    take_slot(&b, 2);
    assert_true(finish_slot(&b));
}

static void sums_are_kept_when_slots_are_added(void **state)
{
    (void)state;
    static struct bench b;
    set_up(&b);
    order(&b, 10, "lmll");
    take_slot(&b, 1);
    assert_true(finish_slot(&b));
    order(&b, 11, "mmmm");
    take_slot(&b, 0);
    assert_false(finish_slot(&b));
    take_slot(&b, 2);
    assert_false(finish_slot(&b));
}

static void a_slot_added_to_sums_that_became_void_does_not_count(void **state)
{
    (void)state;
    static struct bench b;
    bool first;
    uint32_t epoch;
    set_up(&b);
    order(&b, 10, "lmml");
    take_slot(&b, 1);
    assert_true(finish_slot(&b));
    take_slot(&b, 2);
    assert_true(member_slot_begin(&b.member, &first, &epoch));
    order(&b, 11, "llml"); /* while slot 2 is being added to sums that hold slot 1 */
    member_slot_done(&b.member, true, epoch, 10);
    take_slot(&b, 2); /* again, from the start */
    assert_true(finish_slot(&b));
}

static void a_slot_no_longer_ours_is_void(void **state)
{
    (void)state;
    static struct bench b;
    bool first;
    uint32_t epoch;
    set_up(&b);
    order(&b, 10, "lmml");
    take_slot(&b, 1);
    order(&b, 11, "llml");
    assert_true(member_slot_is_void(&b.member));
    assert_false(member_slot_begin(&b.member, &first, &epoch));
    member_slot_done(&b.member, false, 0, 10);
    take_slot(&b, 2);
}

/* Blocks of the slot that is out are in own sums, and then the slot is another's: they cannot come
 * out again, so the sums are void, and what was done before is computed anew. */
static void a_slot_handed_in_by_half_stains_the_sums(void **state)
{
    (void)state;
    static struct bench b;
    bool first;
    uint32_t epoch;
    set_up(&b);
    order(&b, 10, "lmml");
    take_slot(&b, 1);
    assert_true(finish_slot(&b));
    take_slot(&b, 2);
    assert_true(member_slot_begin(&b.member, &first, &epoch));
    assert_false(first);
    quant_add(&b.member.exchange.own, b.scale, b.weights, 1, BLOCKS);
    assert_true(member_blocks_done(&b.member, epoch, 1, BLOCKS));
    assert_true(b.member.exchange.ready); /* the last slot: its blocks leave at once */
    order(&b, 11, "lmll");
    assert_false(member_blocks_done(&b.member, epoch, 0, 1));
    member_slot_done(&b.member, false, epoch, 10);
    take_slot(&b, 1); /* again, from the start */
    assert_true(finish_slot(&b));
}

/* The same slot under a new turn: what was handed in stays in. */
static void a_slot_handed_in_by_half_goes_on_after_a_loss(void **state)
{
    (void)state;
    static struct bench b;
    bool first;
    uint32_t epoch, again;
    set_up(&b);
    order(&b, 10, "lmml");
    take_slot(&b, 1);
    assert_true(finish_slot(&b));
    take_slot(&b, 2);
    assert_true(member_slot_begin(&b.member, &first, &epoch));
    quant_add(&b.member.exchange.own, b.scale, b.weights, 1, BLOCKS);
    assert_true(member_blocks_done(&b.member, epoch, 1, BLOCKS));
    order(&b, 11, "mmml"); /* one more slot: this one is the last no longer */
    assert_true(member_slot_begin(&b.member, &first, &again));
    assert_int_equal(again, epoch);
    assert_false(first);
    quant_add(&b.member.exchange.own, b.scale, b.weights, 0, 1);
    assert_true(member_blocks_done(&b.member, epoch, 0, 1));
    assert_false(b.member.exchange.ready);
    member_slot_done(&b.member, true, epoch, 10);
    take_slot(&b, 0);
    assert_false(finish_slot(&b)); /* added to what is there */
}

/* A part that says it holds `slots`, for the own chunk (block 1). */
static void send_part(struct bench *b, uint64_t number, uint64_t slots)
{
    struct slot_set set = {.word = {slots}};
    struct wire_cursor cursor = {.at = payload, .end = payload + WIRE_PAYLOAD_MAX};
    struct wire_tag tag = {number, LEADER};
    int32_t words[ELEMENTS] = {0};
    uint64_t count = b->start[2] - b->start[1];
    memset(payload, 0, EXCHANGE_HEADER_BYTES);
    wire_write_tag(&cursor, &tag);
    wire_write_u32(&cursor, 1); /* a part */
    wire_write_u32(&cursor, 1); /* of the second member's chunk */
    wire_write_u32(&cursor, 1); /* its first block */
    wire_write_u32(&cursor, 1);
    wire_write_u32(&cursor, 0); /* no flags; sums of the words and of one zero byte behind them */
    wire_write_u32(&cursor, 0);
    wire_write_u32(&cursor, 0);
    wire_write(&cursor, &set, sizeof set);
    exchange_seal(payload);
    cursor.at = payload + EXCHANGE_HEADER_BYTES;
    wire_write(&cursor, words, count * sizeof words[0]);
    wire_write(&cursor, "", 1);
    assert_true(
        member_frame(&b->member, LEADER, WIRE_DATA, payload, (size_t)(cursor.at - payload), 4));
}

static void sums_that_overlap_or_miss_a_slot_are_never_used(void **state)
{
    (void)state;
    static const struct {
        uint64_t slots;
        bool fits;
    } cases[] = {{0x9, true}, {0xb, false} /* slot 1 twice */, {0x1, false} /* slot 3 missing */};
    for (size_t i = 0; i < 3; i++) {
        static struct bench b;
        set_up(&b);
        order(&b, 10, "lmml");
        take_slot(&b, 1);
        (void)finish_slot(&b);
        take_slot(&b, 2);
        (void)finish_slot(&b);
        (void)member_park(&b.member);
        send_part(&b, 10, cases[i].slots);
        assert_int_equal(b.member.exchange.broken, !cases[i].fits);
        assert_int_equal(b.member.exchange.pieces_left, cases[i].fits ? 1 : 2);
        assert_int_equal(b.member.self.broken.turn, cases[i].fits ? 0 : 10);
    }
}

static void an_older_turn_is_not_taken(void **state)
{
    (void)state;
    static struct bench b;
    set_up(&b);
    order(&b, 10, "lmml");
    order(&b, 9, "mmmm");
    assert_int_equal(b.member.turn.tag.turn, 10);
}

/* Whoever watches has no slots, and gets the state from one that has it. */
static void a_step_that_could_not_be_is_refused(void **state)
{
    (void)state;
    static const struct {
        uint8_t kind, source[2], owner;
        bool sound;
    } cases[] = {
        {TURN_COMPUTE, {GROUP_NOBODY, 0}, 0, true},
        {TURN_COMPUTE, {GROUP_NOBODY, 0}, 1, false},
        {TURN_COMPUTE, {1, 0}, 0, false},
        {TURN_COMPUTE, {GROUP_NOBODY, 1}, 0, false},
        {TURN_SYNC, {GROUP_NOBODY, 0}, 0, true},
        {TURN_SYNC, {1, 0}, 0, false},
        {TURN_COMPUTE, {GROUP_NOBODY, 2}, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wire_turn read, turn = {.tag = {10, LEADER},
                                       .kind = cases[i].kind,
                                       .member_count = 2,
                                       .member = {LEADER, ME},
                                       .slot_count = SLOTS};
        struct wire_cut cut;
        memcpy(turn.source, cases[i].source, 2);
        memset(turn.owner, cases[i].owner, SLOTS);
        size_t count = wire_put_turn(payload, &turn, NULL);
        assert_int_equal(wire_get_turn(payload, count, &read, &cut), cases[i].sound);
    }
}

/* Parts of the sum may come at once, but the state is waited for before anything is applied. */
static void a_watcher_takes_the_state_before_it_goes_on(void **state)
{
    (void)state;
    static struct bench b;
    set_up(&b);
    struct wire_turn turn = {.tag = {10, LEADER},
                             .attempt = 1,
                             .position = 3,
                             .kind = TURN_COMPUTE,
                             .member_count = 2,
                             .member = {LEADER, ME},
                             .source = {GROUP_NOBODY, 0},
                             .slot_count = SLOTS};
    struct wire_status status = {.has_state = 1, .position = 3, .turn = turn.tag};
    say(&b, LEADER, &status);
    assert_true(member_frame(&b.member, LEADER, WIRE_TURN, payload,
                             wire_put_turn(payload, &turn, NULL), 3));
    assert_int_not_equal(b.member.turn.tag.turn,
                         10); /* it is at work: means would meet its gradient */
    (void)member_park(&b.member);
    assert_int_equal(b.member.turn.tag.turn, 10);
    assert_true(b.member.watching && b.member.exchange.ready && b.member.in.active);
    assert_int_equal(member_want(&b.member), MEMBER_WANT_WAIT);
    struct transfer_out out;
    static struct exchange_message message;
    transfer_send(&out, &b.member.config.state, 0, 1);
    while (transfer_next(&out, &b.member.config.state, &turn.tag, &message))
        assert_true(member_frame(&b.member, LEADER, WIRE_DATA, payload,
                                 exchange_copy(&message, payload), 4));
    assert_false(b.member.watching);
    assert_int_equal(member_step(&b.member), 3);
}

/* Else it would be waited for for ever: what is of another turn is dropped in silence. */
static void a_damaged_header_of_state_is_refused(void **state)
{
    (void)state;
    static struct bench b;
    set_up(&b);
    struct wire_turn turn = {.tag = {10, LEADER},
                             .position = 3,
                             .kind = TURN_SYNC,
                             .member_count = 2,
                             .member = {LEADER, ME},
                             .source = {GROUP_NOBODY, 0}};
    struct wire_status status = {.has_state = 1, .position = 3, .turn = turn.tag};
    (void)member_park(&b.member);
    say(&b, LEADER, &status);
    assert_true(member_frame(&b.member, LEADER, WIRE_TURN, payload,
                             wire_put_turn(payload, &turn, NULL), 3));
    assert_true(b.member.in.active);
    struct transfer_out out;
    static struct exchange_message message;
    transfer_send(&out, &b.member.config.state, 0, 1);
    assert_true(transfer_next(&out, &b.member.config.state, &turn.tag, &message));
    size_t count = exchange_copy(&message, payload);
    for (uint32_t bit = 0; bit < 8 * EXCHANGE_HEADER_BYTES; bit++) {
        payload[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(member_frame(&b.member, LEADER, WIRE_DATA, payload, count, 4));
        payload[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_true(member_frame(&b.member, LEADER, WIRE_DATA, payload, count, 4));
    assert_int_equal(member_step(&b.member), 3);
}

enum { VOTER = 7, OTHER_VOTER = 9 };

/* The member ends a step of its own, at whose end two have come: it leads, and gives a VOTE. */
static struct wire_tag begin_vote(struct bench *b)
{
    const struct wire_status came = {.has_state = 1, .unsure = 1, .position = 1};
    set_up(b);
    member_peer_down(&b->member, LEADER);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        take_slot(b, slot);
        (void)finish_slot(b);
    }
    assert_int_equal(member_park(&b->member), MEMBER_WANT_APPLY);
    member_unpark(&b->member);
    assert_true(member_peer_up(&b->member, VOTER, 3));
    assert_true(member_peer_up(&b->member, OTHER_VOTER, 3));
    say(b, VOTER, &came);
    say(b, OTHER_VOTER, &came);
    member_applied(&b->member);
    assert_int_equal(b->member.turn.kind, TURN_VOTE);
    assert_int_equal(b->member.turn.member_count, 3);
    return b->member.turn.tag;
}

/* The next would be taken for unsound. The turn is broken: its leader gives another. */
static void nothing_follows_what_was_lost_with_a_connection(void **state)
{
    (void)state;
    static struct bench b;
    static struct exchange_message message;
    set_up(&b);
    b.layout.part_blocks_min = 1;
    struct wire_turn turn = {.generation = 1,
                             .attempt = 1,
                             .kind = TURN_COMPUTE,
                             .member_count = 2,
                             .member = {ME, VOTER},
                             .source = {GROUP_NOBODY, GROUP_NOBODY},
                             .slot_count = SLOTS};
    for (uint64_t number = 10; number < 12; number++) {
        assert_true(member_peer_up(&b.member, VOTER, 3));
        turn.tag = (struct wire_tag){number, LEADER};
        assert_true(member_frame(&b.member, LEADER, WIRE_TURN, payload,
                                 wire_put_turn(payload, &turn, NULL), 3));
        struct wire_status status = {.has_state = 1, .turn = turn.tag};
        say(&b, LEADER, &status);
        say(&b, VOTER, &status);
        for (uint32_t slot = 0; slot < SLOTS && number == 10; slot++) {
            take_slot(&b, slot);
            (void)finish_slot(&b);
        }
        (void)member_park(&b.member);
        if (number == 10) {
            member_peer_down(&b.member, VOTER);
            assert_true(member_peer_up(&b.member, VOTER, 3));
            say(&b, VOTER, &status);
            assert_int_equal(b.member.self.broken.turn, number);
        }
        assert_true(member_next(&b.member, VOTER, &message) == (number == 11));
        member_peer_down(&b.member, VOTER);
    }
}

/* Those who are left vote anew: nobody's state counts by a vote that not all have ended. */
static void a_vote_that_loses_a_voter_is_given_again(void **state)
{
    (void)state;
    static struct bench b;
    struct wire_tag tag = begin_vote(&b);
    struct wire_status voted = {
        .has_state = 1, .unsure = 1, .position = 1, .turn = tag, .voted = tag};
    voted.digest = ~b.member.self.digest | 1; /* another state */
    say(&b, VOTER, &voted);
    member_peer_down(&b.member, OTHER_VOTER);
    uint64_t outvoted;
    assert_false(member_take_outvoted(&b.member, &outvoted));
    assert_int_equal(b.member.turn.kind, TURN_VOTE);
    assert_true(wire_tag_compare(&b.member.turn.tag, &tag) > 0);
    assert_int_equal(b.member.turn.member_count, 2);
    voted.turn = voted.voted = b.member.turn.tag;
    say(&b, VOTER, &voted);
    assert_true(member_take_outvoted(&b.member, &outvoted));
    assert_int_equal(outvoted, VOTER);
    assert_true(b.member.self.has_state);
}

/* The result is known here, and not there: who is still unsure is voted on again. */
static void a_voter_lost_after_the_end_leaves_nobody_unsure(void **state)
{
    (void)state;
    static struct bench b;
    struct wire_tag tag = begin_vote(&b);
    struct wire_status voted = {
        .has_state = 1, .unsure = 1, .position = 1, .turn = tag, .voted = tag};
    voted.digest = b.member.self.digest | 1;
    say(&b, VOTER, &voted);
    say(&b, OTHER_VOTER, &voted);
    assert_int_equal(wire_tag_compare(&b.member.vote_ended, &tag), 0);
    assert_int_equal(wire_tag_compare(&b.member.turn.tag, &tag), 0); /* they have not said so */
    member_peer_down(&b.member, OTHER_VOTER);
    assert_int_equal(b.member.turn.kind, TURN_VOTE);
    assert_int_equal(b.member.turn.member_count, 2);
    voted.turn = voted.voted = b.member.turn.tag;
    say(&b, VOTER, &voted);
    voted.unsure = 0;
    say(&b, VOTER, &voted);
    assert_int_equal(b.member.turn.kind, TURN_COMPUTE);
    assert_int_equal(b.member.turn.member_count, 2);
}

static void a_damaged_board_is_refused(void **state)
{
    (void)state;
    static struct bench b, c;
    static uint8_t board[WIRE_BOARD_BYTES];
    set_up(&b);
    set_up(&c);
    member_peer_board(&b.member, LEADER);
    member_tick(&b.member, LIVENESS_BEAT_US + 2);
    size_t count = member_fill_board(&b.member, board);
    assert_true(count > 0);
    for (size_t bit = 0; bit < 8 * count; bit++) {
        board[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(member_take_board(&c.member, LEADER, board, count, 3));
        board[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_true(member_take_board(&c.member, LEADER, board, count, 3));
}

static void slots_follow_speed_and_stay_for_noise(void **state)
{
    (void)state;
    uint8_t owner[32], fresh[32];
    const uint32_t us[3] = {1000, 2000, 8000}, noise[3] = {1050, 1950, 8100},
                   slow[3] = {9000, 1000, 1000};
    uint32_t count[3] = {0};
    slots_assign(owner, 32, us, 3);
    for (int i = 0; i < 32; i++) count[owner[i]]++;
    assert_true(count[0] > count[1]);
    assert_true(count[1] > count[2]);
    assert_int_equal(count[0] + count[1] + count[2], 32);
    slots_assign(fresh, 32, noise, 3);
    assert_true(slots_gain_ppm(fresh, owner, 32, noise, 3) < SLOTS_GAIN_PPM);
    slots_assign(fresh, 32, slow, 3);
    assert_true(slots_gain_ppm(fresh, owner, 32, slow, 3) > SLOTS_GAIN_PPM);
    owner[0] = owner[9] = GROUP_NOBODY;
    assert_int_equal(slots_reassign(owner, 32, us, 3), 2);
    for (int i = 0; i < 32; i++) assert_in_range(owner[i], 0, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_void_when_a_done_slot_is_taken_away),
        cmocka_unit_test(sums_are_kept_when_slots_are_added),
        cmocka_unit_test(a_slot_added_to_sums_that_became_void_does_not_count),
        cmocka_unit_test(a_slot_no_longer_ours_is_void),
        cmocka_unit_test(a_slot_handed_in_by_half_stains_the_sums),
        cmocka_unit_test(a_slot_handed_in_by_half_goes_on_after_a_loss),
        cmocka_unit_test(sums_that_overlap_or_miss_a_slot_are_never_used),
        cmocka_unit_test(an_older_turn_is_not_taken),
        cmocka_unit_test(a_step_that_could_not_be_is_refused),
        cmocka_unit_test(a_watcher_takes_the_state_before_it_goes_on),
        cmocka_unit_test(a_damaged_header_of_state_is_refused),
        cmocka_unit_test(nothing_follows_what_was_lost_with_a_connection),
        cmocka_unit_test(a_vote_that_loses_a_voter_is_given_again),
        cmocka_unit_test(a_voter_lost_after_the_end_leaves_nobody_unsure),
        cmocka_unit_test(a_damaged_board_is_refused),
        cmocka_unit_test(slots_follow_speed_and_stay_for_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
