#include "core/act.h"
#include "core/assert.h"

void act_clear(struct pool_output *out)
{
    out->command_count = out->decision_count = out->entry_count = out->reserved = 0;
    out->marks = 0;
}

bool act_has_room(const struct pool_output *out)
{
    return out->command_count + ROOM_COMMANDS <= POOL_COMMANDS_MAX &&
           out->decision_count + ROOM_DECISIONS <= POOL_DECISIONS_MAX &&
           out->entry_count + ROOM_ENTRIES <= POOL_ENTRIES_MAX;
}

void act_command(const pool *p, struct pool_output *out, struct pool_command command)
{
    ASSERT(out->command_count < POOL_COMMANDS_MAX);
    ASSERT(command.kind > 0);
    ASSERT(command.kind < POOL_COMMAND_KIND_END);
    command.id = p->last_seq << 16 | out->command_count;
    out->commands[out->command_count++] = command;
}

void act_decision(pool *p, struct pool_output *out, struct pool_decision decision)
{
    ASSERT(out->decision_count < POOL_DECISIONS_MAX);
    ASSERT(decision.kind > 0);
    ASSERT(decision.kind < DECISION_KIND_END);
    decision.id = p->last_seq << 16 | out->decision_count;
    out->decisions[out->decision_count++] = decision;
    if (decision.job_id == 0) return;
    uint32_t slot = table_find(&p->job_table, decision.job_id);
    if (slot == SLOT_NONE) return;
    struct job *j = &p->jobs[slot];
    j->last_kind = decision.kind;
    j->last_reason = decision.reason;
    j->last_a = decision.a;
    j->last_b = decision.b;
    j->last_c = decision.c;
}

void act_entry(const pool *p, struct pool_output *out, struct ledger_entry entry)
{
    ASSERT(out->entry_count < POOL_ENTRIES_MAX);
    ASSERT(entry.from_us <= entry.to_us);
    entry.id = p->last_seq << 16 | out->entry_count;
    out->entries[out->entry_count++] = entry;
}
