/* Cases to compare and what is claimed of them. */
#include "whatif/measure.h"
#include "whatif/scene_get.h"
#include <stdio.h>
#include <string.h>

const char *const scene_policy_names[POLICY_COUNT] = {"shoal", "on_demand", "one_zone", "failover",
                                                         "learned", "foresight"};

/* Ways to buy for jobs with a deadline: the pool as it is, but for this. */
static const struct {
    const char *name;
    uint32_t buying;
} ways[] = {{"greedy", BUYING_GREEDY},
            {"uniform_progress", BUYING_UNIFORM_PROGRESS},
            {"table", BUYING_TABLE}};

enum { WAYS_COMPARED = 2 }; /* the table is how the pool buys anyway */

static void set_bit(uint64_t *bits, uint32_t index)
{
    bits[index / 64] |= UINT64_C(1) << (index % 64);
}

bool scene_case_has_offer(const struct scene_case *c, uint32_t offer)
{
    return c->offer_bits[offer / 64] >> (offer % 64) & 1;
}

bool scene_case_has_job(const struct scene_case *c, uint32_t job)
{
    return c->job_bits[job / 64] >> (job % 64) & 1;
}

static bool find_policy(const char *name, uint32_t *ret_policy)
{
    for (uint32_t i = 0; i < POLICY_COUNT; i++)
        if (strcmp(scene_policy_names[i], name) == 0) {
            *ret_policy = i;
            return true;
        }
    return false;
}

static void fill_all(const struct scene *scene, struct scene_case *c)
{
    for (uint32_t i = 0; i < scene->offer_count; i++) set_bit(c->offer_bits, i);
    for (uint32_t i = 0; i < scene->job_count; i++) set_bit(c->job_bits, i);
}

bool scene_case_of_policy(const struct scene *scene, const char *policy,
                          struct scene_case *ret_case)
{
    *ret_case = (struct scene_case){.built_in = true};
    (void)snprintf(ret_case->name, sizeof ret_case->name, "%s", policy);
    fill_all(scene, ret_case);
    for (uint32_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(ways[i].name, policy) != 0) continue;
        ret_case->policy = POLICY_SHOAL;
        ret_case->buying = scene->buying;
        ret_case->buying.u.buying_defined.policy = ways[i].buying;
        return true;
    }
    return find_policy(policy, &ret_case->policy);
}

const char *scene_policy_at(const struct scene *scene, uint32_t index)
{
    bool hurries = false;
    for (uint32_t i = 0; i < scene->job_count; i++) hurries |= scene->jobs[i].deadline_us > 0;
    if (index < POLICY_USUAL) return scene_policy_names[index];
    if (!hurries || index - POLICY_USUAL >= WAYS_COMPARED) return NULL;
    return ways[index - POLICY_USUAL].name;
}

/* "aws-*" stands for every name that begins so. */
static bool matches(const char *pattern, const char *name)
{
    size_t bytes = strlen(pattern);
    if (bytes > 0 && pattern[bytes - 1] == '*') return strncmp(pattern, name, bytes - 1) == 0;
    return strcmp(pattern, name) == 0;
}

static void read_offers(const struct scene *s, yaml_item *list, struct scene_case *c)
{
    for (uint32_t i = 0; i < yaml_count(list); i++) {
        const char *pattern = yaml_item_string(yaml_at(list, i));
        bool found = false;
        for (uint32_t k = 0; k < s->offer_count; k++)
            if (matches(pattern, s->offers[k].name)) {
                set_bit(c->offer_bits, k);
                found = true;
            }
        if (!found) yaml_mistake(yaml_at(list, i), "no offer is called \"%s\"", pattern);
    }
}

static void read_jobs(const struct scene *s, yaml_item *list, struct scene_case *c)
{
    for (uint32_t i = 0; i < yaml_count(list); i++) {
        const char *pattern = yaml_item_string(yaml_at(list, i));
        bool found = false;
        for (uint32_t k = 0; k < s->job_count; k++)
            if (matches(pattern, s->jobs[k].name)) {
                set_bit(c->job_bits, k);
                found = true;
            }
        if (!found) yaml_mistake(yaml_at(list, i), "no job is called \"%s\"", pattern);
    }
}

static void read_case(struct scene_reader *r, yaml_item *map, struct scene_case *c)
{
    const struct scene *s = r->scene;
    struct scene_case all = {0};
    (void)yaml_require(map, "name");
    yaml_name(map, "name", c->name, sizeof c->name);
    const char *policy = yaml_string(map, "policy", "shoal");
    if (!find_policy(policy, &c->policy))
        yaml_mistake(yaml_any(map, "policy"),
                     "policy is shoal, on_demand, one_zone, failover, learned or foresight, not "
                     "\"%s\"",
                     policy);
    fill_all(s, &all);
    config_read_buying(map, BUYING_OF_CLASS, 0, &c->buying);
    if (yaml_has(map, "offers"))
        read_offers(s, yaml_list(map, "offers"), c);
    else
        memcpy(c->offer_bits, all.offer_bits, sizeof c->offer_bits);
    if (yaml_has(map, "jobs"))
        read_jobs(s, yaml_list(map, "jobs"), c);
    else
        memcpy(c->job_bits, all.job_bits, sizeof c->job_bits);
    c->no_affinity = !yaml_flag(map, "affinity", true);
    const char *zone = yaml_string(map, "zone", "");
    for (uint32_t i = 1; i < s->zones.count; i++)
        if (strcmp(s->zones.names[i], zone) == 0) c->zone = i;
    if (zone[0] != '\0' && c->zone == 0)
        yaml_mistake(yaml_any(map, "zone"), "nothing is offered in a zone \"%s\"", zone);
}

void scene_read_cases(struct scene_reader *r, yaml_item *list)
{
    struct scene *s = r->scene;
    for (uint32_t i = 0; i < yaml_count(list); i++) {
        yaml_item *map = yaml_item_map(yaml_at(list, i));
        if (s->case_count == SCENE_CASES_MAX) {
            yaml_mistake(map, "more than %d cases", SCENE_CASES_MAX);
            return;
        }
        struct scene_case *c = &s->cases[s->case_count++];
        read_case(r, map, c);
        for (uint32_t k = 0; k + 1 < s->case_count; k++)
            if (strcmp(s->cases[k].name, c->name) == 0)
                yaml_mistake(map, "another case is called \"%s\" already", c->name);
    }
}

static uint32_t read_case_name(const struct scene *s, yaml_item *map, const char *key)
{
    const char *text = yaml_string(map, key, "");
    for (uint32_t i = 0; i < s->case_count; i++)
        if (strcmp(s->cases[i].name, text) == 0) return i;
    if (text[0] != '\0') yaml_mistake(yaml_any(map, key), "no case is called \"%s\"", text);
    return SCENE_CASES_MAX;
}

static uint32_t read_group_name(const struct scene *s, yaml_item *map)
{
    const char *text = yaml_string(map, "group", "");
    for (uint32_t i = 0; i < s->group_count; i++)
        if (strcmp(s->groups[i], text) == 0) return i + 1;
    if (text[0] != '\0') yaml_mistake(yaml_any(map, "group"), "no job is of a group \"%s\"", text);
    return 0;
}

void scene_read_claims(struct scene_reader *r, yaml_item *list)
{
    struct scene *s = r->scene;
    for (uint32_t i = 0; i < yaml_count(list); i++) {
        yaml_item *map = yaml_item_map(yaml_at(list, i));
        if (s->claim_count == SCENE_CLAIMS_MAX) {
            yaml_mistake(map, "more than %d claims", SCENE_CLAIMS_MAX);
            return;
        }
        struct scene_claim *c = &s->claims[s->claim_count++];
        (void)yaml_require(map, "metric");
        (void)yaml_require(map, "of");
        yaml_copy(map, "text", c->text, sizeof c->text, "");
        yaml_copy(map, "metric", c->metric, sizeof c->metric, "");
        if (c->metric[0] != '\0' && measure_find(c->metric) == MEASURE_COUNT)
            yaml_mistake(yaml_any(map, "metric"),
                         "there is no metric \"%s\"; docs/simulator.md lists them", c->metric);
        c->group = read_group_name(s, map);
        c->a = read_case_name(s, map, "of");
        c->b = read_case_name(s, map, "over");
        c->at_least_ppm = yaml_micros(map, "at_least", 0, 1000000 * PPM, INT64_MIN);
        c->at_most_ppm = yaml_micros(map, "at_most", 0, 1000000 * PPM, INT64_MIN);
        if ((c->at_least_ppm == INT64_MIN) == (c->at_most_ppm == INT64_MIN))
            yaml_mistake(map, "a claim has either at_least or at_most");
    }
}
