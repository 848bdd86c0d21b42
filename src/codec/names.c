#include "codec/names.h"
#include "core/limits.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct words {
    uint32_t end;
    const char *const *list; /* [end]; NULL where the enum has no member */
};

/* ORDER: each list follows its enum. static_assert ties the lengths, names_test.c looks for holes.
 */
#define WORDS(name, enum_end, ...)                                                                 \
    static const char *const name##_list[] = {__VA_ARGS__};                                        \
    static_assert(sizeof name##_list / sizeof name##_list[0] == (enum_end),                        \
                  "a member of the enum has no name");                                             \
    static const struct words name = {(enum_end), name##_list}

WORDS(event_kinds, POOL_EVENT_KIND_END, NULL, "tick", "restarted", "model_defined", "pool_defined",
      "offer_changed", "job_submitted", "job_cancelled", "node_observed", "agent_reported",
      "worker_reported", "ckpt_durable", "node_drain_asked", "worker_stalled", "terms_defined",
      "account_defined", "quota_model_defined", "class_defined", "offers_priced", "rate_told",
      "matching_defined", "gate_defined", "buying_defined", "offers_ranked", "links_told");
WORDS(capacities, CAPACITY_KIND_END, NULL, "owned", "reserved", "on_demand", "spot");
WORDS(node_phases, NODE_PHASE_END, NULL, "absent", "pending", "up", "gone", "refused");
WORDS(node_reasons, NODE_REASON_END, "none", "stockout", "quota", "preempted", "crashed",
      "released", "error");
WORDS(agent_phases, AGENT_PHASE_END, NULL, "joined", "leaving");
WORDS(worker_phases, WORKER_PHASE_END, NULL, "starting", "running", "finished", "failed",
      "stopped");
WORDS(job_kinds, JOB_KIND_END, NULL, "elastic", "batch");
WORDS(job_classes, JOB_CLASS_END, "P0", "P1", "P2", "P3");
WORDS(command_kinds, POOL_COMMAND_KIND_END, NULL, "ensure_node", "release_node", "observe_node",
      "ensure_worker", "stop_worker");
WORDS(decision_kinds, DECISION_KIND_END, NULL, "admit", "refuse", "wait", "buy", "place", "drain",
      "release", "lost", "stop", "finish", "stall", "preempt", "distrust");
WORDS(entry_kinds, ENTRY_KIND_END, NULL, "job", "overhead", "idle", "adjustment");
WORDS(job_states, JOB_STATE_END, NULL, "queued", "starting", "running", "done", "failed",
      "cancelled", "refused");
WORDS(node_states, NODE_STATE_END, NULL, "ordered", "booting", "ready", "draining", "releasing");
WORDS(quote_strategies, QUOTE_STRATEGY_END, NULL, "cheapest_mix", "spot_only", "guaranteed_only",
      "single_model");
WORDS(topologies, TOPOLOGY_END, "region", "zone", "rack", "node", "nvlink", "pcie", "numa");

#define X(name, sentence) #name,
static const char *const reason_words[] = {DECISION_REASONS(X)};
#undef X
static const struct words reasons = {DECISION_REASON_END, reason_words};

#define X(name, sentence) sentence,
static const char *const reason_sentences[] = {DECISION_REASONS(X)};
#undef X

static const char *word_of(struct words words, uint32_t value)
{
    if (value < words.end && words.list[value] != NULL) return words.list[value];
    return value == 0 ? "none" : "unknown";
}

static bool value_of(struct words words, const char *name, uint32_t *ret_value)
{
    for (uint32_t value = 0; value < words.end; value++) {
        if (words.list[value] == NULL || strcmp(words.list[value], name) != 0) continue;
        *ret_value = value;
        return true;
    }
    return false;
}

/* clang-format off */
const char *name_event_kind(uint32_t value) { return word_of(event_kinds, value); }
const char *name_capacity(uint32_t value) { return word_of(capacities, value); }
const char *name_node_phase(uint32_t value) { return word_of(node_phases, value); }
const char *name_node_reason(uint32_t value) { return word_of(node_reasons, value); }
const char *name_agent_phase(uint32_t value) { return word_of(agent_phases, value); }
const char *name_worker_phase(uint32_t value) { return word_of(worker_phases, value); }
const char *name_job_kind(uint32_t value) { return word_of(job_kinds, value); }
const char *name_job_class(uint32_t value) { return word_of(job_classes, value); }
const char *name_command_kind(uint32_t value) { return word_of(command_kinds, value); }
const char *name_decision_kind(uint32_t value) { return word_of(decision_kinds, value); }
const char *name_reason(uint32_t value) { return word_of(reasons, value); }
const char *name_entry_kind(uint32_t value) { return word_of(entry_kinds, value); }
const char *name_job_state(uint32_t value) { return word_of(job_states, value); }
const char *name_node_state(uint32_t value) { return word_of(node_states, value); }
const char *name_quote_strategy(uint32_t value) { return word_of(quote_strategies, value); }
const char *name_topology(uint32_t value) { return word_of(topologies, value); }

bool find_capacity(const char *name, uint32_t *ret_value) { return value_of(capacities, name, ret_value); }
bool find_node_phase(const char *name, uint32_t *ret_value) { return value_of(node_phases, name, ret_value); }
bool find_node_reason(const char *name, uint32_t *ret_value) { return value_of(node_reasons, name, ret_value); }
bool find_agent_phase(const char *name, uint32_t *ret_value) { return value_of(agent_phases, name, ret_value); }
bool find_worker_phase(const char *name, uint32_t *ret_value) { return value_of(worker_phases, name, ret_value); }
bool find_job_kind(const char *name, uint32_t *ret_value) { return value_of(job_kinds, name, ret_value); }
bool find_job_class(const char *name, uint32_t *ret_value) { return value_of(job_classes, name, ret_value); }
bool find_reason(const char *name, uint32_t *ret_value) { return value_of(reasons, name, ret_value); }
bool find_job_state(const char *name, uint32_t *ret_value) { return value_of(job_states, name, ret_value); }
bool find_node_state(const char *name, uint32_t *ret_value) { return value_of(node_states, name, ret_value); }
/* clang-format on */

static uint64_t magnitude(int64_t value)
{
    return value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;
}

const char *milli_format(int64_t milli, char ret_text[NAMES_NUMBER_BYTES])
{
    uint64_t size = magnitude(milli);
    int length = snprintf(ret_text, NAMES_NUMBER_BYTES, "%s%" PRIu64 ".%03" PRIu64,
                          milli < 0 ? "-" : "", size / 1000, size % 1000);
    while (ret_text[length - 1] == '0') length--;
    if (ret_text[length - 1] == '.') length--;
    ret_text[length] = '\0';
    return ret_text;
}

/* value / divisor, halves away from zero */
static int64_t div_round(int64_t value, int64_t divisor)
{
    int64_t rest = value % divisor;
    return value / divisor + (rest * 2 >= divisor) - (rest * 2 <= -divisor);
}

const char *seconds_format(int64_t us, char ret_text[NAMES_NUMBER_BYTES])
{
    return milli_format(div_round(us, 1000), ret_text);
}

const char *span_format(int64_t us, char ret_text[NAMES_NUMBER_BYTES])
{
    static const struct {
        const char *unit;
        int64_t from_us, unit_us, round; /* used from there on; rounded to so many thousandths */
    } units[] = {{" d", INT64_C(172800000000), INT64_C(86400000000), 100},
                 {" h", INT64_C(7200000000), INT64_C(3600000000), 100},
                 {" min", 120000000, 60000000, 1000},
                 {" s", 9950000, 1000000, 1000},
                 {" s", 1000000, 1000000, 100},
                 {" s", 0, 1000000, 1}};
    uint32_t at = 0;
    while (units[at].from_us > (int64_t)(magnitude(us) & INT64_MAX)) at++;
    int64_t unit_us = units[at].unit_us, round = units[at].round;
    int64_t whole = us / unit_us * 1000, rest = us % unit_us * 1000; /* below 10^14: it fits */
    (void)milli_format(whole + div_round(div_round(rest, unit_us), round) * round, ret_text);
    (void)strcat(ret_text, units[at].unit); /* at most 20 digits and a sign: it fits */
    return ret_text;
}

const char *percent_format(int64_t ppm, char ret_text[NAMES_NUMBER_BYTES])
{
    return milli_format(div_round(ppm, 10), ret_text); /* 1 % = 10,000 ppm = 1,000 milli-percent */
}

/* Below a cent: two significant digits of the micro-dollars, without trailing zeros. */
static const char *money_format_small(uint64_t size, const char *sign,
                                      char ret_text[NAMES_NUMBER_BYTES])
{
    uint64_t unit = size >= 1000 ? 100 : size >= 100 ? 10 : 1;
    size = (size + unit / 2) / unit * unit;
    int length = snprintf(ret_text, NAMES_NUMBER_BYTES, "%s$0.%06" PRIu64, sign, size);
    while (ret_text[length - 1] == '0') length--;
    ret_text[length] = '\0';
    return ret_text;
}

const char *money_format(int64_t usd_micros, char ret_text[NAMES_NUMBER_BYTES])
{
    uint64_t size = magnitude(usd_micros);
    const char *sign = usd_micros < 0 ? "-" : "";
    /* From 9,950 micro-dollars on, two significant digits already round to a cent. */
    if (size > 0 && size < 9950) return money_format_small(size, sign, ret_text);
    uint64_t cents = (size + 5000) / 10000;
    (void)snprintf(ret_text, NAMES_NUMBER_BYTES, "%s$%" PRIu64 ".%02" PRIu64, sign, cents / 100,
                   cents % 100); /* at most 22 characters */
    return ret_text;
}

const char *money_format_up(int64_t usd_micros, char ret_text[NAMES_NUMBER_BYTES])
{
    int64_t rest = usd_micros % 10000;
    if (rest > 0 && usd_micros <= INT64_MAX - 10000) usd_micros += 10000 - rest;
    return money_format(usd_micros, ret_text);
}

static const char *level_name(int64_t level, char ret_text[NAMES_NUMBER_BYTES])
{
    static const char *const names[] = {"pool", "tenant", "project",        "team",
                                        "user", "class",  "pool of devices"};
    bool known = level >= 0 && level < (int64_t)(sizeof names / sizeof names[0]);
    (void)snprintf(ret_text, NAMES_NUMBER_BYTES, "%s", known ? names[level] : "account");
    return ret_text;
}

static const char *topology_name(int64_t level, char ret_text[NAMES_NUMBER_BYTES])
{
    bool known = level >= TOPOLOGY_ANY && level < TOPOLOGY_END;
    (void)snprintf(ret_text, NAMES_NUMBER_BYTES, "%s",
                   known ? name_topology((uint32_t)level) : "place");
    return ret_text;
}

static const char *number_format(char kind, int64_t value, char ret_text[NAMES_NUMBER_BYTES])
{
    switch (kind) {
    case '$': return money_format(value, ret_text);
    case '>': return money_format_up(value, ret_text);
    case '@': return span_format(value, ret_text);
    case '~': return milli_format(value, ret_text);
    case '^': return level_name(value, ret_text);
    case '=': return topology_name(value, ret_text);
    case '&': return number_format('#', value & ((INT64_C(1) << KEY_SHIFT) - 1), ret_text);
    case '%':
        (void)percent_format(value, ret_text);
        (void)strcat(ret_text, "%"); /* at most 20 digits, sign and point: it fits */
        return ret_text;
    default: (void)snprintf(ret_text, NAMES_NUMBER_BYTES, "%" PRId64, value); return ret_text;
    }
}

/* Of a batch job, which has no steps. */
static const char done_without_steps[] = "its command has ended well";

/* A number of a sentence starts here: a sign that says what it is, and which of the three. */
static bool is_number(const char *at)
{
    return at[0] != '\0' && strchr("$>#@%~&^=", at[0]) != NULL && at[1] >= 'a' && at[1] <= 'c' &&
           !isalnum((unsigned char)at[2]);
}

/* Behind the bracket that opens here, or behind its end when its first number is 0. */
static const char *enter_bracket(const char *at, const int64_t numbers[3])
{
    const char *number = at;
    while (*number != ']' && !is_number(number)) number++;
    if (*number == ']' || numbers[number[1] - 'a'] != 0) return at + 1;
    return strchr(number, ']') + 1;
}

/* What is told of one: "1 device is", where the sentence is about several. */
static const char *const plurals[] = {"devices", "workers", "jobs", "nodes", "leases", "slices"};

/* The word that starts here, as it is of one; NULL: it is none of these. ret_bytes: of the plural. */
static const char *plural_at(const char *at, size_t *ret_bytes)
{
    for (size_t i = 0; i < sizeof plurals / sizeof plurals[0]; i++) {
        *ret_bytes = strlen(plurals[i]);
        if (strncmp(at, plurals[i], *ret_bytes) == 0 && !isalpha((unsigned char)at[*ret_bytes]))
            return plurals[i];
    }
    return NULL;
}

struct sentence {
    char *text;
    size_t used, bytes;
    bool one, of_one; /* a count of 1 was said, its word not yet; its word was the last one */
};

static void say(struct sentence *s, const char *text, size_t length)
{
    size_t room = s->bytes - 1 - s->used;
    if (length > room) length = room;
    memcpy(s->text + s->used, text, length);
    s->used += length;
}

/* "in 0 s" is at once. The unit of a span stands in the sentence, too. */
static const char *say_number(struct sentence *s, const char *at, int64_t value)
{
    static const char in[] = "in ";
    char number[NAMES_NUMBER_BYTES];
    const char *text = number_format(at[0], value, number), *behind = at + 2;
    if (at[0] == '@' && strncmp(behind, " s", 2) == 0) behind += 2;
    size_t before = sizeof in - 1;
    if (at[0] == '@' && strcmp(text, "0 s") == 0 && s->used >= before &&
        memcmp(s->text + s->used - before, in, before) == 0) {
        s->used -= before;
        text = "at once";
    }
    say(s, text, strlen(text));
    s->one = at[0] == '#' && value == 1;
    s->of_one = false;
    return behind;
}

/* At the start of a word. */
static const char *say_word(struct sentence *s, const char *at)
{
    size_t length;
    if (s->one && plural_at(at, &length) != NULL) {
        say(s, at, length - 1);
        s->one = false;
        s->of_one = true;
        return at + length;
    }
    if (s->of_one && strncmp(at, "are ", 4) == 0) {
        say(s, "is", 2);
        s->of_one = false;
        return at + 3;
    }
    for (length = 1; isalpha((unsigned char)at[length]);) length++;
    say(s, at, length);
    s->of_one = false;
    return at + length;
}

const char *reason_format(uint32_t reason, int64_t a, int64_t b, int64_t c, char *ret_text,
                          size_t bytes)
{
    const int64_t numbers[] = {a, b, c};
    const char *at = reason < DECISION_REASON_END ? reason_sentences[reason] : "unknown reason";
    if (reason == REASON_DONE && a == 0) at = done_without_steps;
    struct sentence s = {.text = ret_text, .bytes = bytes};
    while (*at != '\0' && s.used + 1 < bytes) {
        if (*at == '[' || *at == ']')
            at = *at == '[' ? enter_bracket(at, numbers) : at + 1;
        else if (is_number(at))
            at = say_number(&s, at, numbers[at[1] - 'a']);
        else if (isalpha((unsigned char)*at))
            at = say_word(&s, at);
        else {
            if (strchr(",;:", *at) != NULL) s.one = s.of_one = false;
            say(&s, at++, 1);
        }
    }
    if (bytes > 0) ret_text[s.used] = '\0';
    return ret_text;
}
