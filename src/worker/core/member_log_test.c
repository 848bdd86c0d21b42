/* The log of steps: what a new speaker can tell of, and what was forgotten. */
#include "worker/core/member.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { ME = 7, STEPS = 6, TURNS = 2 };

struct bench {
    struct member member;
    struct member_step step[STEPS];
    struct wire_turn turn[TURNS];
};

static void set_up(struct bench *b)
{
    *b = (struct bench){.member.config.id = ME};
    b->member.config.log =
        (struct member_log){.step = b->step, .turn = b->turn, .step_max = STEPS, .turn_max = TURNS};
}

/* A step of two slots, the second of them computed by member `second`. */
static void end_step(struct bench *b, uint64_t step, uint8_t second)
{
    struct wire_turn turn = {.tag = {step + 1, ME},
                             .generation = 3,
                             .attempt = (uint32_t)step % 3,
                             .redone_slots = (uint32_t)step % 2,
                             .member_count = 2,
                             .slot_count = 2,
                             .member = {ME, 9},
                             .owner = {0, second}};
    b->member.commit = (struct member_commit){.step = step, .loss = (float)step, .turn = turn};
    member_log_append(&b->member);
}

static void expect_step(struct bench *b, uint64_t step, uint8_t second)
{
    struct member_commit commit;
    assert_true(member_take_commit(&b->member, &commit));
    assert_true(commit.step == step && commit.loss == (float)step);
    assert_int_equal(commit.turn.generation, 3);
    assert_int_equal(commit.turn.attempt, step % 3);
    assert_int_equal(commit.turn.redone_slots, step % 2);
    assert_int_equal(commit.turn.owner[1], second);
}

static void expect_end(struct bench *b)
{
    struct member_commit commit;
    assert_false(member_take_commit(&b->member, &commit));
}

static void a_new_speaker_tells_what_is_not_stored(void **state)
{
    (void)state;
    static struct bench b;
    set_up(&b);
    for (uint64_t step = 0; step < 5; step++) end_step(&b, step, step < 3);
    expect_end(&b); /* another one speaks */
    member_told(&b.member, 1);
    member_repeat_log(&b.member, UINT64_MAX);
    for (uint64_t step = 1; step < 5; step++) expect_step(&b, step, step < 3);
    expect_end(&b);
}

static void the_oldest_steps_are_forgotten_first(void **state)
{
    (void)state;
    static struct bench b;
    set_up(&b);
    for (uint64_t step = 0; step < 4 * STEPS + 1; step++) end_step(&b, step, 1);
    member_repeat_log(&b.member, UINT64_MAX);
    for (uint64_t step = 3 * STEPS + 1; step < 4 * STEPS + 1; step++) expect_step(&b, step, 1);
    expect_end(&b);
}

/* Slots moved too often: the steps whose owners are forgotten go, those after them stay. */
static void a_step_goes_with_who_computed_it(void **state)
{
    (void)state;
    static struct bench b;
    set_up(&b);
    end_step(&b, 0, 0);
    end_step(&b, 1, 0);
    end_step(&b, 2, 1);
    end_step(&b, 3, 0);
    member_repeat_log(&b.member, UINT64_MAX);
    expect_step(&b, 2, 1);
    expect_step(&b, 3, 0);
    expect_end(&b);
}

/* One that speaks, and is slower than the steps, skips what it has lost. */
static void a_late_speaker_goes_on_with_what_is_left(void **state)
{
    (void)state;
    static struct bench b;
    set_up(&b);
    b.member.speaker = ME;
    for (uint64_t step = 0; step < STEPS + 2; step++) end_step(&b, step, 1);
    for (uint64_t step = 2; step < STEPS + 2; step++) expect_step(&b, step, 1);
    expect_end(&b);
    end_step(&b, STEPS + 2, 0);
    expect_step(&b, STEPS + 2, 0);
    expect_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_speaker_tells_what_is_not_stored),
        cmocka_unit_test(the_oldest_steps_are_forgotten_first),
        cmocka_unit_test(a_step_goes_with_who_computed_it),
        cmocka_unit_test(a_late_speaker_goes_on_with_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
