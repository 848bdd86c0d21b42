/* What a worker asks of one node, and a set of such forms with small numbers for names.
 *
 * Role       Forms come in any number of copies; what is learnt or cached is kept once per form.
 * Shape      A form with count 1 is a share of one device (milli 1000 = all of it); more devices are
 *            whole ones; count 0 needs no device. models is never 0.
 * Memory     The caller's: forms of max entries, cells of pack_cells(max). A slot keeps its form until
 *            it is replaced.
 */
#ifndef SHOAL_CORE_PACK_FORM_H
#define SHOAL_CORE_PACK_FORM_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    PACK_DEVICES_MAX = 16, /* of a node: sums of a node's weighted milli fit 32 bits */
    PACK_MODELS_MAX = 64,
    PACK_MILLI = 1000, /* of a device */
};
#define PACK_CPU_MILLI_MAX  UINT32_C(1000000000)
#define PACK_MEMORY_MIB_MAX UINT32_C(1000000000)

struct pack_form {
    uint64_t models; /* allowed, a bit each */
    uint32_t cpu_milli, memory_mib;
    uint32_t milli, count; /* of each device; devices */
};
static_assert(sizeof(struct pack_form) == 24, "forms are compared and hashed as bytes");

struct pack_forms {
    struct pack_form *forms;
    uint32_t *cells; /* slots, SLOT_NONE = empty */
    uint32_t max, count;
};

bool pack_form_check(const struct pack_form *form);
/* Devices of the form times milli. */
static inline uint64_t pack_form_milli(const struct pack_form *form)
{
    return (uint64_t)form->milli * form->count;
}

uint32_t pack_cells(uint32_t max);
void pack_forms_clear(struct pack_forms *set);
uint32_t pack_forms_find(const struct pack_forms *set,
                         const struct pack_form *form);                        /* SLOT_NONE */
uint32_t pack_forms_add(struct pack_forms *set, const struct pack_form *form); /* new, and room */
void pack_forms_replace(struct pack_forms *set, uint32_t slot, const struct pack_form *form);

#endif
