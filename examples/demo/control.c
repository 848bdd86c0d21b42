#include "demo/control.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "cli/follow.h"
#include "cli/format.h"
#include "demo/children.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define PLAIN_GAP_US INT64_C(5000000)
enum { LOOK_MS = 200, LINE_BYTES = 512, HASH_BYTES_MAX = 4096 };

/* "step 12/200  loss 3.1400 …" -> 12, 3.14; false: another line. */
static bool read_step(const char *line, uint64_t *ret_step, double *ret_loss)
{
    uint64_t step;
    double loss;
    if (sscanf(line, "step %" SCNu64 "/%*u loss %lf", &step, &loss) != 2) return false;
    *ret_step = step;
    *ret_loss = loss;
    return true;
}

bool control_read_hash(const char *line, char ret_sha256[RECORD_SHA_BYTES])
{
    static const char head[] = "weights sha256 ";
    const char *hash = line + sizeof head - 1;
    if (strncmp(line, head, sizeof head - 1) != 0) return false;
    size_t count = strspn(hash, "0123456789abcdef");
    if (count != RECORD_SHA_BYTES - 1 || (hash[count] != '\0' && hash[count] != '\n')) return false;
    memcpy(ret_sha256, hash, count);
    ret_sha256[count] = '\0';
    return true;
}

struct look {
    uint64_t step;
    struct record_state state;
    char last_line[LINE_BYTES];
};

/* Reads the whole output again: it is a few kilobytes. */
static void look(const char *path, struct look *ret_look)
{
    FILE *file = fopen(path, "re");
    char line[LINE_BYTES];
    if (file == NULL) return;
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (!read_step(line, &ret_look->step, &ret_look->state.loss_last))
            (void)control_read_hash(line, ret_look->state.weights_sha256); /* or another line */
        if (line[0] != '\0') memcpy(ret_look->last_line, line, sizeof line);
    }
    (void)fclose(file); /* only read */
}

static void show(struct live *live, struct follow *follow, const struct look *seen, uint64_t steps,
                 int64_t now_us)
{
    char text[FORMAT_BYTES];
    struct text line = {0};
    int64_t left_us = follow_estimate_us(follow, now_us, (int64_t)seen->step, (int64_t)steps);
    text_add(&line, "one worker: step %" PRIu64 "/%" PRIu64, seen->step, steps);
    if (seen->step > 0) text_add(&line, " · loss %.3f", seen->state.loss_last);
    if (left_us >= 0 && seen->step < steps)
        text_add(&line, " · %s left", format_duration(text, left_us));
    live_show(live, text_get(&line));
    text_free(&line);
}

static bool wait_for(pid_t pid, const char *log, uint64_t steps, const struct term *term,
                     struct look *ret_look, struct error *ret_error)
{
    struct live live = {.term = term};
    struct follow follow = {0};
    int64_t shown_us = 0;
    int status = 0;
    bool has_ended = false;
    while (!has_ended && !children_must_stop()) {
        has_ended = children_has_ended(pid, &status);
        look(log, ret_look);
        int64_t now_us = clock_monotonic_us();
        bool is_due = term->is_terminal || has_ended || now_us - shown_us >= PLAIN_GAP_US;
        if (is_due) show(&live, &follow, ret_look, steps, now_us);
        if (is_due) shown_us = now_us;
        if (!has_ended) children_pause_ms(LOOK_MS);
    }
    live_end(&live);
    if (!has_ended) return error_set(ret_error, "stopped");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && ret_look->step == steps) return true;
    return error_set(ret_error, "the single worker failed: %s (%s)", ret_look->last_line, log);
}

bool control_run(const struct stage *stage, const struct stage_options *options,
                 const struct term *term, struct record_state *ret_state, struct error *ret_error)
{
    char steps[24], slots[24], every[24], log[STAGE_PATH_BYTES + 8];
    (void)snprintf(steps, sizeof steps, "%" PRIu64, options->steps);      /* fits */
    (void)snprintf(slots, sizeof slots, "%" PRIu64, options->slots);      /* fits */
    (void)snprintf(every, sizeof every, "%u", options->checkpoint_every); /* fits */
    (void)snprintf(log, sizeof log, "%s.log", stage->control);            /* fits */
    const char *argv[16 + STAGE_TRAINER_WORDS] = {stage->trainer,
                                                  "--data",
                                                  stage->text,
                                                  "--steps",
                                                  steps,
                                                  "--slots",
                                                  slots,
                                                  "--threads",
                                                  "2",
                                                  "--report",
                                                  "1",
                                                  "--checkpoint",
                                                  stage->control,
                                                  "--checkpoint-every",
                                                  every};
    for (uint32_t i = 0; i < STAGE_TRAINER_WORDS; i++) argv[15 + i] = stage_trainer_words[i];
    int64_t began_us = clock_monotonic_us();
    struct look seen = {0};
    pid_t pid;
    if (!children_start(argv, log, &pid, ret_error)) return false;
    if (!wait_for(pid, log, options->steps, term, &seen, ret_error)) return false;
    *ret_state = seen.state;
    ret_state->wall_us = clock_monotonic_us() - began_us;
    return true;
}

bool control_hash_checkpoint(const struct stage *stage, const char *folder,
                             struct record_state *ret_state, struct error *ret_error)
{
    char out[STAGE_PATH_BYTES + 8], *text = NULL;
    (void)snprintf(out, sizeof out, "%s/hash.txt", stage->folder); /* fits */
    const char *argv[] = {stage->shoal, "ckpt", "digest", folder, NULL};
    pid_t pid;
    int status = 0;
    size_t count = 0;
    if (!children_start(argv, out, &pid, ret_error)) return false;
    while (!children_has_ended(pid, &status)) {
        if (children_must_stop()) return error_set(ret_error, "stopped");
        children_pause_ms(10);
    }
    if (!io_read_file(out, HASH_BYTES_MAX, &text, &count, ret_error)) return false;
    char *second = strchr(text, '\n'); /* the line with the moments */
    bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 0 && second != NULL &&
              strlen(second + 1) >= RECORD_SHA_BYTES;
    text[strcspn(text, "\n")] = '\0';
    if (ok) { /* each cut after its hash */
        (void)snprintf(ret_state->checkpoint_sha256, RECORD_SHA_BYTES, "%s", text);
        (void)snprintf(ret_state->moments_sha256, RECORD_SHA_BYTES, "%s", second + 1);
    } else {
        (void)error_set(ret_error, "%s: %s", folder, text);
    }
    mem_free(text);
    return ok;
}
