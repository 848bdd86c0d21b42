#include "spot_world.h"
#include "base/mem.h"
#include "published.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { STEPS_MAX = 1 << 22, STEP_S_MAX = 86400 };

struct series {
    const char *id, *zone;
    uint32_t group, zone_at, ticks, next;
};

struct reader {
    struct spot_world *world;
    struct csv series_csv, segments_csv;
    struct series *series;
    uint32_t series_count;
};

/* A whole number in [least, most], or the end. */
static uint32_t whole(const struct csv *csv, uint32_t row, const char *head, int64_t least,
                      int64_t most)
{
    int64_t value = csv_integer(csv, row, csv_column(csv, head));
    if (value < least || value > most) {
        published_fail("%s:%" PRIu32 ": %s is %" PRId64 ", not in %" PRId64 "..%" PRId64, csv->name,
                       row + 2, head, value, least, most);
    }
    return (uint32_t)value;
}

static const char *text_of(const struct csv *csv, uint32_t row, const char *head)
{
    const char *text = csv_text(csv, row, csv_column(csv, head));
    if (text[0] == 0 || strlen(text) >= SPOT_NAME_MAX) {
        published_fail("%s:%" PRIu32 ": %s is empty or longer than %d bytes", csv->name, row + 2,
                       head, SPOT_NAME_MAX - 1);
    }
    return text;
}

static void check_day(const struct csv *csv, uint32_t row)
{
    static const char form[] = "dddd-dd-dd";
    const char *day = text_of(csv, row, "t_start");
    bool fits = strlen(day) == sizeof form - 1;
    for (uint32_t i = 0; fits && form[i] != 0; i++)
        fits = form[i] == 'd' ? isdigit((unsigned char)day[i]) != 0 : day[i] == form[i];
    if (!fits)
        published_fail("%s:%" PRIu32 ": t_start is a day YYYY-MM-DD, not \"%s\"", csv->name,
                       row + 2, day);
}

static uint32_t group_of(struct reader *r, uint32_t row)
{
    const struct csv *csv = &r->series_csv;
    const char *kind = text_of(csv, row, "kind");
    if (strcmp(kind, "availability") != 0 && strcmp(kind, "preemption") != 0)
        published_fail("%s:%" PRIu32 ": kind is availability or preemption, not \"%s\"", csv->name,
                       row + 2, kind);
    check_day(csv, row);
    uint32_t step_s = whole(csv, row, "step_seconds", 1, STEP_S_MAX);
    char name[sizeof r->world->groups->name];
    snprintf(name, sizeof name, "%s %s %s x%" PRIu32 " %" PRIu32 "s", text_of(csv, row, "t_start"),
             kind, text_of(csv, row, "instance_type"),
             whole(csv, row, "nodes_requested", 1, 1 << 20), step_s);
    struct spot_world *world = r->world;
    for (uint32_t g = 0; g < world->group_count; g++)
        if (strcmp(world->groups[g].name, name) == 0) return g;
    struct spot_group *group = &world->groups[world->group_count];
    group->step_s = step_s;
    group->ticks = UINT32_MAX;
    memcpy(group->name, name, sizeof name);
    snprintf(group->type, sizeof group->type, "%s", text_of(csv, row, "instance_type"));
    return world->group_count++;
}

static void read_series(struct reader *r)
{
    const struct csv *csv = &r->series_csv;
    for (uint32_t row = 0; row < csv->rows; row++) {
        struct series *s = &r->series[row];
        *s = (struct series){.id = csv_text(csv, row, csv_column(csv, "series_id")),
                             .zone = text_of(csv, row, "zone"),
                             .group = group_of(r, row),
                             .ticks = whole(csv, row, "n_steps", 1, STEPS_MAX)};
        for (uint32_t other = 0; other < row; other++)
            if (strcmp(r->series[other].id, s->id) == 0)
                published_fail("%s:%" PRIu32 ": series %s is there twice", csv->name, row + 2,
                               s->id);
        struct spot_group *group = &r->world->groups[s->group];
        for (uint32_t z = 0; z < group->zone_count; z++)
            if (strcmp(group->zones[z], s->zone) == 0)
                published_fail("%s:%" PRIu32 ": zone %s is twice in \"%s\"", csv->name, row + 2,
                               s->zone, group->name);
        if (group->zone_count == SPOT_ZONES_MAX)
            published_fail("%s:%" PRIu32 ": more than %d zones share the clock of \"%s\"",
                           csv->name, row + 2, SPOT_ZONES_MAX, group->name);
        s->zone_at = group->zone_count++;
        snprintf(group->zones[s->zone_at], SPOT_NAME_MAX, "%s", s->zone);
        if (s->ticks < group->ticks) group->ticks = s->ticks;
    }
    r->series_count = csv->rows;
    if (csv->rows == 0) published_fail("%s: no series", csv->name);
}

static struct series *find_series(struct reader *r, uint32_t row, struct series *last)
{
    const struct csv *csv = &r->segments_csv;
    const char *id = csv_text(csv, row, csv_column(csv, "series_id"));
    if (last != NULL && strcmp(last->id, id) == 0) return last;
    for (uint32_t i = 0; i < r->series_count; i++)
        if (strcmp(r->series[i].id, id) == 0) return &r->series[i];
    published_fail("%s:%" PRIu32 ": series \"%s\" is not in %s", csv->name, row + 2, id,
                   r->series_csv.name);
}

static void read_segment(struct reader *r, uint32_t row, struct series *s)
{
    const struct csv *csv = &r->segments_csv;
    uint32_t first = whole(csv, row, "start_step", 0, STEPS_MAX);
    uint32_t count = whole(csv, row, "n_steps", 1, STEPS_MAX);
    uint32_t value = whole(csv, row, "value", 0, 1 << 20);
    if (first != s->next)
        published_fail("%s:%" PRIu32 ": %s: step %" PRIu32 " follows step %" PRIu32 ": %s",
                       csv->name, row + 2, s->id, first, s->next,
                       first > s->next ? "a gap" : "not in order of time");
    if (first + count > s->ticks)
        published_fail("%s:%" PRIu32 ": %s goes beyond its %" PRIu32 " steps", csv->name, row + 2,
                       s->id, s->ticks);
    s->next = first + count;
    struct spot_group *group = &r->world->groups[s->group];
    for (uint32_t t = first; t < s->next && t < group->ticks; t++)
        if (value > 0) group->up[t] |= UINT32_C(1) << s->zone_at;
}

static void read_segments(struct reader *r)
{
    for (uint32_t g = 0; g < r->world->group_count; g++)
        r->world->groups[g].up = published_alloc(r->world->groups[g].ticks, sizeof(uint32_t));
    struct series *s = NULL;
    for (uint32_t row = 0; row < r->segments_csv.rows; row++) {
        s = find_series(r, row, s);
        read_segment(r, row, s);
    }
    for (uint32_t i = 0; i < r->series_count; i++) {
        if (r->series[i].next != r->series[i].ticks)
            published_fail("%s: %s ends at step %" PRIu32 " of %" PRIu32, r->segments_csv.name,
                           r->series[i].id, r->series[i].next, r->series[i].ticks);
    }
}

void spot_world_open(struct spot_world *world, const char *folder)
{
    struct reader r = {.world = world};
    csv_open(&r.series_csv, folder, "skypilot_series.csv", ',');
    csv_open(&r.segments_csv, folder, "skypilot_segments.csv", ',');
    *world = (struct spot_world){.groups =
                                     published_alloc(r.series_csv.rows, sizeof(struct spot_group))};
    r.series = published_alloc(r.series_csv.rows, sizeof *r.series);
    read_series(&r);
    read_segments(&r);
    mem_free(r.series);
    csv_close(&r.series_csv);
    csv_close(&r.segments_csv);
}

void spot_world_close(struct spot_world *world)
{
    for (uint32_t g = 0; g < world->group_count; g++) mem_free(world->groups[g].up);
    mem_free(world->groups);
}

/* ---- sets ---- */

static void name_set(const struct spot_group *group, uint32_t mask, struct spot_set *ret)
{
    uint32_t length = 0;
    ret->mask = mask;
    ret->name[0] = 0;
    for (uint32_t z = 0; z < group->zone_count; z++) {
        if ((mask >> z & 1) == 0) continue;
        int wrote = snprintf(ret->name + length, sizeof ret->name - length, "%s%s",
                             length > 0 ? "+" : "", group->zones[z]);
        if (wrote < 0 || (size_t)wrote >= sizeof ret->name - length)
            published_fail("the names of the zones of \"%s\" are too long for a row", group->name);
        length += (uint32_t)wrote;
    }
}

/* us-east-1a -> us-east-1, us-central1-a -> us-central1. */
static size_t region_length(const char *zone)
{
    size_t length = strlen(zone);
    if (length > 0 && isalpha((unsigned char)zone[length - 1])) length--;
    if (length > 0 && zone[length - 1] == '-') length--;
    return length;
}

uint32_t spot_region(const struct spot_group *group, uint32_t zone)
{
    uint32_t mask = 0;
    size_t length = region_length(group->zones[zone]);
    for (uint32_t z = 0; z < group->zone_count; z++)
        if (region_length(group->zones[z]) == length &&
            memcmp(group->zones[z], group->zones[zone], length) == 0)
            mask |= UINT32_C(1) << z;
    return mask;
}

static uint32_t mask_of_all(const struct spot_group *group)
{
    return group->zone_count == 32 ? UINT32_MAX : (UINT32_C(1) << group->zone_count) - 1;
}

uint32_t spot_sets(const struct spot_group *group, struct spot_set *ret_sets)
{
    uint32_t count = 0;
    if (group->zone_count > 1) name_set(group, mask_of_all(group), &ret_sets[count++]);
    for (uint32_t z = 0; z < group->zone_count; z++) {
        uint32_t mask = spot_region(group, z);
        bool is_first = (mask & ((UINT32_C(1) << z) - 1)) == 0;
        if (is_first && (mask & (mask - 1)) != 0 && mask != mask_of_all(group))
            name_set(group, mask, &ret_sets[count++]);
    }
    for (uint32_t z = 0; z < group->zone_count; z++)
        name_set(group, UINT32_C(1) << z, &ret_sets[count++]);
    return count;
}

bool spot_set_named(const struct spot_group *group, const char *name, struct spot_set *ret_set)
{
    uint32_t mask = strcmp(name, "all") == 0 ? mask_of_all(group) : 0;
    while (mask == 0 || *name != 0) {
        size_t length = strcspn(name, "+");
        if (mask == mask_of_all(group)) break;
        uint32_t found = 0;
        for (uint32_t z = 0; z < group->zone_count; z++)
            if (length > 0 && strncmp(group->zones[z], name, length) == 0)
                found |= UINT32_C(1) << z;
        if (found == 0) return false;
        mask |= found;
        name += length + (name[length] == '+');
    }
    name_set(group, mask, ret_set);
    return true;
}

uint32_t *spot_set_up(const struct spot_group *group, uint32_t mask)
{
    uint32_t *up = published_alloc(group->ticks, sizeof *up), at = 0;
    for (uint32_t z = 0; z < group->zone_count; z++) {
        if ((mask >> z & 1) == 0) continue;
        for (uint32_t t = 0; t < group->ticks; t++) up[t] |= (group->up[t] >> z & 1) << at;
        at++;
    }
    return up;
}
