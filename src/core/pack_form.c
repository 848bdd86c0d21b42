#include "core/pack_form.h"
#include "core/assert.h"
#include "core/list.h"
#include "core/table.h"
#include <string.h>

bool pack_form_check(const struct pack_form *form)
{
    if (form->models == 0) return false;
    if (form->cpu_milli > PACK_CPU_MILLI_MAX || form->memory_mib > PACK_MEMORY_MIB_MAX)
        return false;
    if (form->count == 0) return form->milli == 0;
    if (form->count > PACK_DEVICES_MAX || form->milli == 0) return false;
    return form->count == 1 ? form->milli <= PACK_MILLI : form->milli == PACK_MILLI;
}

uint32_t pack_cells(uint32_t max)
{
    return table_capacity(max);
}

void pack_forms_clear(struct pack_forms *set)
{
    for (uint32_t i = 0; i < pack_cells(set->max); i++) set->cells[i] = SLOT_NONE;
    set->count = 0;
}

/* The cell that holds the form, or the empty one where it would go. */
static uint32_t probe(const struct pack_forms *set, const struct pack_form *form)
{
    uint64_t hash = table_hash(form->models);
    hash = table_hash(hash ^ ((uint64_t)form->cpu_milli << 32 | form->memory_mib));
    hash = table_hash(hash ^ ((uint64_t)form->milli << 32 | form->count));
    uint32_t mask = pack_cells(set->max) - 1, at = (uint32_t)hash & mask;
    while (set->cells[at] != SLOT_NONE &&
           memcmp(&set->forms[set->cells[at]], form, sizeof *form) != 0)
        at = (at + 1) & mask;
    return at;
}

uint32_t pack_forms_find(const struct pack_forms *set, const struct pack_form *form)
{
    return set->cells[probe(set, form)];
}

uint32_t pack_forms_add(struct pack_forms *set, const struct pack_form *form)
{
    ASSERT(set->count < set->max);
    uint32_t at = probe(set, form), slot = set->count;
    ASSERT(set->cells[at] == SLOT_NONE);
    set->forms[slot] = *form;
    set->cells[at] = slot;
    set->count++;
    return slot;
}

/* Rare (the set is full), so the cells are simply made anew. */
void pack_forms_replace(struct pack_forms *set, uint32_t slot, const struct pack_form *form)
{
    uint32_t count = set->count;
    ASSERT(slot < count);
    ASSERT(pack_forms_find(set, form) == SLOT_NONE);
    set->forms[slot] = *form;
    pack_forms_clear(set);
    for (uint32_t i = 0; i < count; i++) set->cells[probe(set, &set->forms[i])] = i;
    set->count = count;
}
