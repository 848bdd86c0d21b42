/* Ours, and the published policies beside it. FGD and BestFit look at every node; FGD remembers the
 * score of a form on a node until the node changes. What they know in advance (FGD: all pods of the
 * list) is theirs by the published protocol; ours learns from arrivals.
 */
#include "base/mem.h"
#include "base/splitmix.h"
#include "fgd_world.h"
#include "published.h"
#include <math.h>
#include <string.h>

enum { FORMS_MAX = 1024, NODES_EXTRA = 64 };

/* ---- shoal ---- */

struct ours {
    struct pack *pack;
    uint32_t *node_of, *index_of; /* pack's number of a node, and back */
};

static void *ours_open(const struct fgd_world *world)
{
    struct ours *self = published_alloc(1, sizeof *self);
    struct pack_limits limits = {
        .nodes_max = world->node_count, .forms_max = FORMS_MAX, .models_max = world->model_count};
    void *memory = mem_alloc(pack_bytes(&limits));
    if (memory == NULL) published_fail("no memory for %zu bytes", pack_bytes(&limits));
    self->pack = pack_init(memory, &limits);
    self->node_of = published_alloc(world->node_count, sizeof(uint32_t));
    self->index_of = published_alloc(2 * world->node_count + 64 * NODES_EXTRA, sizeof(uint32_t));
    for (uint32_t i = 0; i < world->node_count; i++) {
        const struct fgd_node *n = &world->nodes[i];
        uint32_t number =
            pack_node_add(self->pack, n->model, n->devices, n->cpu_milli, n->memory_mib, n->rank);
        if (number == UINT32_MAX) published_fail("no room for node %u", i);
        self->node_of[i] = number;
        self->index_of[number] = i;
    }
    return self;
}

static bool ours_choose(void *context, const struct fgd_world *world, struct fgd_run *run)
{
    (void)world;
    struct ours *self = context;
    run->ticket = pack_arrived(self->pack, &run->form);
    if (!pack_best(self->pack, &run->form, &run->place)) return false;
    run->place.node = self->index_of[run->place.node];
    return true;
}

static struct pack_place ours_place(const struct ours *self, const struct fgd_run *run)
{
    return (struct pack_place){self->node_of[run->place.node], run->place.devices, 0};
}

static void ours_placed(void *context, const struct fgd_world *world, const struct fgd_run *run)
{
    (void)world;
    struct ours *self = context;
    struct pack_place mine = ours_place(self, run);
    pack_take(self->pack, &run->form, &mine);
}

static void ours_left(void *context, const struct fgd_world *world, const struct fgd_run *run)
{
    (void)world;
    struct ours *self = context;
    struct pack_place mine = ours_place(self, run);
    pack_give(self->pack, &run->form, &mine);
    int64_t lived_s = run->to_s - run->from_s;
    int64_t ppm = lived_s >= FGD_WINDOW_S ? 1000000 : lived_s * 1000000 / FGD_WINDOW_S;
    pack_left(self->pack, run->ticket, &run->form, (uint32_t)ppm);
}

static void ours_refused(void *context, const struct fgd_run *run)
{
    struct ours *self = context;
    pack_left(self->pack, run->ticket, &run->form, 0);
}

static void ours_half_window(void *context)
{
    struct ours *self = context;
    pack_half_window(self->pack);
}

static void ours_close(void *context)
{
    struct ours *self = context;
    mem_free(self->pack);
    mem_free(self->node_of);
    mem_free(self->index_of);
    mem_free(self);
}

const struct fgd_policy fgd_shoal = {.name = "shoal",
                                     .open = ours_open,
                                     .choose = ours_choose,
                                     .placed = ours_placed,
                                     .left = ours_left,
                                     .refused = ours_refused,
                                     .half_window = ours_half_window,
                                     .close = ours_close};

/* ---- FGD ---- */

struct rival {
    struct pack_mix mix;
    struct pack_forms forms;
    struct pack_levels *levels; /* of each node */
    uint8_t *scores;            /* [forms][nodes]: SCORE_STALE, SCORE_NO_FIT or 0 .. 100 */
    void *mix_memory;
    uint64_t random;
};
enum { SCORE_STALE = 255, SCORE_NO_FIT = 254 };

static void fgd_look(struct rival *self, const struct fgd_world *world, uint32_t node)
{
    const struct fgd_node *n = &world->nodes[node];
    pack_mix_levels(&self->mix, n->free_milli, n->devices, &self->levels[node]);
    for (uint32_t f = 0; f < FORMS_MAX; f++)
        self->scores[(size_t)f * world->node_count + node] = SCORE_STALE;
}

static void *fgd_open(const struct fgd_world *world)
{
    struct rival *self = published_alloc(1, sizeof *self);
    self->mix_memory = mem_alloc(pack_mix_bytes(FORMS_MAX, world->model_count));
    self->levels = published_alloc(world->node_count, sizeof *self->levels);
    self->scores = published_alloc((size_t)FORMS_MAX * world->node_count, 1);
    self->forms.max = FORMS_MAX;
    self->forms.forms = published_alloc(FORMS_MAX, sizeof *self->forms.forms);
    self->forms.cells = published_alloc(pack_cells(FORMS_MAX), sizeof(uint32_t));
    if (self->mix_memory == NULL) published_fail("no memory for the mix");
    pack_forms_clear(&self->forms);
    pack_mix_init(&self->mix, self->mix_memory, FORMS_MAX, world->model_count);
    for (uint32_t i = 0; i < world->pod_count; i++)
        (void)pack_mix_arrived(&self->mix, &world->pods[i].form);
    (void)pack_mix_learn(&self->mix);
    for (uint32_t i = 0; i < world->node_count; i++) fgd_look(self, world, i);
    return self;
}

static uint32_t fgd_change(const struct rival *self, const struct fgd_node *node, uint32_t at,
                           const struct pack_form *form, struct pack_change change)
{
    const struct pack_levels *levels = &self->levels[at];
    double before = pack_mix_fragment(&self->mix, node->model, node->cpu_milli, levels,
                                      (struct pack_change){0});
    double after = pack_mix_fragment(&self->mix, node->model, node->cpu_milli - form->cpu_milli,
                                     levels, change);
    double gain = (before - after) / 65536 / PACK_MILLI;
    return (uint32_t)(100 / (1 + exp(-gain)));
}

/* The score of FGD, and the devices it would take. */
static uint32_t fgd_score(const struct rival *self, const struct fgd_world *world, uint32_t at,
                          const struct pack_form *form, uint32_t *ret_devices)
{
    const struct fgd_node *node = &world->nodes[at];
    *ret_devices = 0;
    if (!fgd_fits(node, form)) return SCORE_NO_FIT;
    if (form->count == 0) return fgd_change(self, node, at, form, (struct pack_change){0});
    if (form->count > 1) {
        uint32_t left = form->count;
        for (uint32_t i = 0; left > 0; i++) {
            if (node->free_milli[i] != PACK_MILLI) continue;
            *ret_devices |= UINT32_C(1) << i;
            left--;
        }
        return fgd_change(self, node, at, form, (struct pack_change){PACK_MILLI, 0, form->count});
    }
    uint32_t best = 0;
    for (uint32_t i = 0; i < node->devices; i++) {
        uint32_t milli = node->free_milli[i];
        if (milli < form->milli) continue;
        uint32_t score =
            fgd_change(self, node, at, form, (struct pack_change){milli, milli - form->milli, 1});
        if (*ret_devices != 0 && score <= best) continue;
        best = score;
        *ret_devices = UINT32_C(1) << i;
    }
    return best;
}

static bool fgd_choose(void *context, const struct fgd_world *world, struct fgd_run *run)
{
    const struct pack_form *form = &run->form;
    struct pack_place *ret_place = &run->place;
    struct rival *self = context;
    uint32_t slot = pack_forms_find(&self->forms, form), devices, best = SCORE_NO_FIT;
    if (slot == UINT32_MAX) {
        if (self->forms.count == FORMS_MAX) published_fail("more than %d forms", FORMS_MAX);
        slot = pack_forms_add(&self->forms, form);
    }
    uint8_t *scores = self->scores + (size_t)slot * world->node_count;
    for (uint32_t i = 0; i < world->node_count; i++) {
        if (scores[i] == SCORE_STALE)
            scores[i] = (uint8_t)fgd_score(self, world, i, form, &devices);
        if (scores[i] == SCORE_NO_FIT || (best != SCORE_NO_FIT && scores[i] <= best)) continue;
        best = scores[i];
        ret_place->node = i;
    }
    if (best == SCORE_NO_FIT) return false;
    (void)fgd_score(self, world, ret_place->node, form, &ret_place->devices);
    return true;
}

static void fgd_changed(void *context, const struct fgd_world *world, const struct fgd_run *run)
{
    fgd_look(context, world, run->place.node);
}

static void rival_close(void *context)
{
    struct rival *self = context;
    mem_free(self->mix_memory);
    mem_free(self->levels);
    mem_free(self->scores);
    mem_free(self->forms.forms);
    mem_free(self->forms.cells);
    mem_free(self);
}

const struct fgd_policy fgd_fgd = {.name = "fgd",
                                   .open = fgd_open,
                                   .choose = fgd_choose,
                                   .placed = fgd_changed,
                                   .left = fgd_changed,
                                   .close = rival_close};

/* ---- BestFit and Random ---- */

static void *plain_open(const struct fgd_world *world)
{
    struct rival *self = published_alloc(1, sizeof *self);
    self->random = world->seed;
    return self;
}

static void plain_changed(void *context, const struct fgd_world *world, const struct fgd_run *run)
{
    (void)context;
    (void)world;
    (void)run;
}

/* The devices with the least free milli that fit. */
static uint32_t tight_devices(const struct fgd_node *node, const struct pack_form *form)
{
    uint32_t bits = 0;
    for (uint32_t taken = 0; taken < form->count; taken++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t i = 0; i < node->devices; i++) {
            if ((bits >> i & 1) != 0 || node->free_milli[i] < form->milli) continue;
            if (best == UINT32_MAX || node->free_milli[i] < node->free_milli[best]) best = i;
        }
        bits |= UINT32_C(1) << best;
    }
    return bits;
}

/* Least left over: half of CPU / 128 cores, half of devices / 8. */
static bool bestfit_choose(void *context, const struct fgd_world *world, struct fgd_run *run)
{
    const struct pack_form *form = &run->form;
    struct pack_place *ret_place = &run->place;
    (void)context;
    double best = INFINITY;
    for (uint32_t i = 0; i < world->node_count; i++) {
        const struct fgd_node *node = &world->nodes[i];
        if (!fgd_fits(node, form)) continue;
        double free = 0;
        for (uint32_t d = 0; d < node->devices; d++) free += node->free_milli[d];
        double left = (node->cpu_milli - form->cpu_milli) / 128e3 * 0.5 +
                      (free - (double)pack_form_milli(form)) / 8e3 * 0.5;
        if (left >= best) continue;
        best = left;
        ret_place->node = i;
    }
    if (best == INFINITY) return false;
    ret_place->devices = tight_devices(&world->nodes[ret_place->node], form);
    return true;
}

static uint32_t draw(struct rival *self, uint32_t end)
{
    return (uint32_t)(((splitmix_next(&self->random) >> 32) * end) >> 32);
}

static bool random_choose(void *context, const struct fgd_world *world, struct fgd_run *run)
{
    const struct pack_form *form = &run->form;
    struct pack_place *ret_place = &run->place;
    struct rival *self = context;
    uint32_t seen = 0, able = 0;
    for (uint32_t i = 0; i < world->node_count; i++)
        if (fgd_fits(&world->nodes[i], form) && draw(self, ++seen) == 0) ret_place->node = i;
    if (seen == 0) return false;
    const struct fgd_node *node = &world->nodes[ret_place->node];
    ret_place->devices = 0;
    if (form->count != 1) {
        ret_place->devices = tight_devices(node, form);
        return true;
    }
    for (uint32_t i = 0; i < node->devices; i++)
        if (node->free_milli[i] >= form->milli && draw(self, ++able) == 0)
            ret_place->devices = UINT32_C(1) << i;
    return true;
}

const struct fgd_policy fgd_bestfit = {.name = "bestfit",
                                       .open = plain_open,
                                       .choose = bestfit_choose,
                                       .placed = plain_changed,
                                       .left = plain_changed,
                                       .close = rival_close};
const struct fgd_policy fgd_random = {.name = "random",
                                      .open = plain_open,
                                      .choose = random_choose,
                                      .placed = plain_changed,
                                      .left = plain_changed,
                                      .close = rival_close};
