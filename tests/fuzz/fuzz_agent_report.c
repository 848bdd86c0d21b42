/* Any bytes as an agent's report, a server's reply and a worker's line. Holds that
 *   nothing crashes or leaks, and every refusal is one line;
 *   what is accepted can be written, and reading that gives the same text again;
 *   the same holds when one of the allocations fails.
 */
#include "base/mem.h"
#include "codec/agent_report.h"
#include "codec/codec.h"
#include "codec/worker_line.h"
#include "core/assert.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check_sentence(const struct error *error)
{
    ASSERT(error->text[0] != '\0');
    ASSERT(strchr(error->text, '\n') == NULL);
}

static void check_report(const char *text, size_t count)
{
    struct agent_report report;
    struct error error = {{0}};
    if (!agent_report_parse(text, count, &report, &error)) {
        check_sentence(&error);
        return;
    }
    char *written = agent_report_write(&report);
    agent_report_close(&report);
    ASSERT(written != NULL);
    ASSERT(agent_report_parse(written, strlen(written), &report, &error));
    char *again = agent_report_write(&report);
    agent_report_close(&report);
    ASSERT(strcmp(written, again) == 0);
    mem_free(written);
    mem_free(again);
}

static void check_reply(const char *text, size_t count)
{
    struct agent_reply reply;
    struct error error = {{0}};
    if (!agent_reply_parse(text, count, &reply, &error)) {
        check_sentence(&error);
        return;
    }
    char *written = agent_reply_write(&reply);
    agent_reply_close(&reply);
    ASSERT(written != NULL);
    ASSERT(agent_reply_parse(written, strlen(written), &reply, &error));
    char *again = agent_reply_write(&reply);
    agent_reply_close(&reply);
    ASSERT(strcmp(written, again) == 0);
    mem_free(written);
    mem_free(again);
}

static void check_line(const char *text, size_t count)
{
    struct worker_line line;
    struct error error = {{0}};
    if (worker_line_parse(text, count, &line, &error))
        worker_line_close(&line);
    else
        check_sentence(&error);
}

/* Which allocation follows from the input, so that a crash can be replayed. */
static void check_fault(const char *text, size_t count)
{
    struct agent_report report;
    struct agent_reply reply;
    struct error error = {{0}};
    mem_fail_at(1 + count % 61);
    if (agent_report_parse(text, count, &report, &error)) {
        mem_free(agent_report_write(&report));
        agent_report_close(&report);
    }
    mem_fail_at(1 + count % 61);
    if (agent_reply_parse(text, count, &reply, &error)) {
        mem_free(agent_reply_write(&reply));
        agent_reply_close(&reply);
    }
    mem_fail_at(0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static int ready;
    if (ready == 0) codec_init();
    ready = 1;
    const char *text = (const char *)bytes;
    check_report(text, count);
    check_reply(text, count);
    check_line(text, count);
    check_fault(text, count);
    return 0;
}
