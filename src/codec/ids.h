/* Names outside, numbers inside: how the codec asks its caller to translate.
 *
 * Role       The core sees numbers (tenant 3, zone 7). Whoever runs it keeps the table of names and
 *            hands these callbacks to the codec. Numbers of one kind are given out once and never
 *            reused; 0 means "none".
 *            Models and capabilities are not here: their numbers are indices of struct catalog.
 */
#ifndef SHOAL_CODEC_IDS_H
#define SHOAL_CODEC_IDS_H

#include <stdbool.h>
#include <stdint.h>

enum id_kind {
    ID_TENANT = 1,
    ID_PROJECT,
    ID_TEAM,
    ID_EXPERIMENT,
    ID_PROVIDER,
    ID_REGION,
    ID_ZONE,
    ID_POOL, /* bit of pool masks: 0 .. 63, the only kind where 0 is a number */
    ID_RACK, /* of a zone: two zones may have racks of one name */
    ID_USER,
    ID_KIND_END,
};

/* Name -> number, given out if new. false: the table is full or memory ran out. */
typedef bool id_of_name_fn(void *self, enum id_kind kind, const char *name, uint32_t *ret_id);
/* Number -> name. Never NULL: "" for 0 and for unknown numbers. Valid until the next call. */
typedef const char *name_of_id_fn(void *self, enum id_kind kind, uint32_t id);

#endif
