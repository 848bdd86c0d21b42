/* Names outside, numbers inside: the table behind codec/ids.h, durable in the journal.
 *
 * Role       Gives each name of a kind its number once: 1, 2, 3 ... (pools, models and
 *            capabilities from 0, because there the number is a bit). Numbers are in journaled
 *            events, so they are never given to another name, also after a restart.
 * Durable    A new name is "unstored" until a commit that holds it succeeds; names_collect() puts
 *            all unstored ones into the next batch. So the number is on disk with the first event
 *            that uses it, and a failed commit needs no undo: the name goes with the next one.
 * Ownership  The table owns the texts until names_close(); none is freed before, so pointers stay.
 * Limits     NAMES_MAX names in all: a tenant that sends a new experiment name with every job is
 *            refused there, not served until memory is out.
 */
#ifndef SHOAL_SERVER_NAMES_H
#define SHOAL_SERVER_NAMES_H

#include "base/error.h"
#include "codec/ids.h"
#include "server/batch.h"
#include "server/journal.h"

enum { NAMES_MAX = 1000000, NAMES_BITS_MAX = 64 };

/* Kinds of this table beyond enum id_kind. Values are in the journal: frozen. */
enum name_kind { NAME_MODEL = 32, NAME_CAPABILITY, NAME_OFFER, NAME_KIND_END };

typedef struct names names;

names *names_open(void); /* NULL: out of memory */
void names_close(names *n);
bool names_load(names *n, journal *j, struct error *ret_error) WARN_UNUSED;

/* false: the table is full or memory ran out. */
bool names_id(names *n, uint32_t kind, const char *name, uint32_t *ret_id);
bool names_find(const names *n, uint32_t kind, const char *name, uint32_t *ret_id); /* no new one */
const char *names_text(const names *n, uint32_t kind, uint32_t id);                 /* "" unknown */
uint32_t names_end(const names *n, uint32_t kind); /* numbers of this kind are below it */

/* All unstored names into the batch; names_stored() after its commit. false: out of memory. */
bool names_collect(names *n, struct batch *b);
void names_stored(names *n, const struct batch *b);

/* The callback of codec/ids.h; self is the table. */
bool names_id_of(void *self, enum id_kind kind, const char *name, uint32_t *ret_id);

#endif
