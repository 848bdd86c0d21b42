/* One node of an emulated cloud: plain data, and its file on disk.
 *
 * Role       The record is the cloud's own truth: written before anything is answered, read back
 *            by the next server. The meter is not written at each moment: it is recomputed from
 *            up_us, since prices are a function of time.
 * Order      asked_us <= boot_at_us <= up_us <= gone_us; a field of the future is 0, except
 *            preempt_us (INT64_MAX: the market leaves it alone).
 * Errors     Reading: a sentence with the file's name. A record that cannot be read is a fault of
 *            the disk, and the driver does not start over it: a forgotten node would cost money.
 */
#ifndef SHOAL_DRIVER_LOCAL_NODE_H
#define SHOAL_DRIVER_LOCAL_NODE_H

#include "driver/driver.h"
#include "driver/local_machine.h"

struct local_node {
    uint64_t key;
    uint32_t offer_index, phase; /* enum node_phase; offer_index: UINT32_MAX for a key used up */
    uint32_t reason;             /* enum node_reason */
    uint32_t serial;             /* how many nodes of this offer came before */
    struct local_machine machine;
    int64_t asked_us, boot_at_us, up_us, gone_us;
    int64_t preempt_us;     /* when the cloud takes it */
    int64_t notice_us;      /* length of the notice before preempt_us; 0: without */
    int64_t bid_usd_micros; /* taken when its price is above; 0: at no price */
    int64_t place_back_us;  /* the place of a node that was taken is sold again from here on */
    int64_t billed_usd_micros, billed_rest; /* rest: usd_micros * us below one hour's worth */
    int64_t billed_to_us;
    /* Not on disk: asked again after a restart. */
    int64_t kill_us;           /* released: killed at this time; 0: not released */
    uint32_t dying_reason;     /* != NODE_REASON_NONE: being killed, this is why */
    bool scripted, noticed;    /* taken by the script; the notice has been told */
    bool killed_during_reduce; /* the page of the dead is to be read */
    bool died_in_reduce;       /* and says so */
    bool answer_due;           /* the host has asked, or something changed */
};

bool local_node_write(const struct local_node *node, const char *nodes_dir,
                      struct error *ret_error) WARN_UNUSED;
bool local_node_read(const char *file, struct local_node *ret_node,
                     struct error *ret_error) WARN_UNUSED;

static inline bool local_node_is_over(const struct local_node *node)
{
    return node->phase == NODE_PHASE_GONE || node->phase == NODE_PHASE_ABSENT ||
           node->phase == NODE_PHASE_REFUSED;
}

#endif
