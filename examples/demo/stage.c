#include "demo/stage.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/text.h"
#include "demo/children.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const stage_trainer_words[STAGE_TRAINER_WORDS] = {"--untied", "--lr", "0.003"};

static const char scenario_path[] = "examples/scenarios/demo.yaml";
static const char text_script[] = "examples/lm/text.sh";
enum { SCENARIO_BYTES_MAX = 1024 * 1024, TEXT_BYTES_MIN = 1024 };

static bool join(char ret_path[STAGE_PATH_BYTES], const char *folder, const char *name,
                 struct error *ret_error)
{
    int length = snprintf(ret_path, STAGE_PATH_BYTES, "%s/%s", folder, name);
    if (length > 0 && length < STAGE_PATH_BYTES) return true;
    return error_set(ret_error, "the path %s/%s is too long", folder, name);
}

/* BUILD of BUILD/examples/demo/demo, so that another build folder works as well. */
static bool find_build(struct stage *stage, struct error *ret_error)
{
    ssize_t count = readlink("/proc/self/exe", stage->build, sizeof stage->build - 1);
    if (count <= 0) return error_set(ret_error, "cannot tell where this program lies");
    stage->build[count] = '\0';
    for (int i = 0; i < 3; i++) {
        char *slash = strrchr(stage->build, '/');
        if (slash != NULL) *slash = '\0';
    }
    return join(stage->shoal, stage->build, "shoal", ret_error) &&
           join(stage->trainer, stage->build, "examples/lm/lm", ret_error);
}

static bool find_programs(struct stage *stage, struct error *ret_error)
{
    if (!find_build(stage, ret_error)) return false;
    if (access(scenario_path, R_OK) != 0)
        return error_set(ret_error,
                         "%s is not here; run the demo from the top of the source tree: "
                         "./do demo",
                         scenario_path);
    const char *programs[] = {stage->shoal, stage->trainer};
    for (size_t i = 0; i < 2; i++)
        if (access(programs[i], X_OK) != 0)
            return error_set(ret_error, "%s: %s; build it first: ./do demo does", programs[i],
                             error_errno(errno));
    return true;
}

static bool name_files(struct stage *stage, struct error *ret_error)
{
    const char *folder = stage->folder;
    return join(stage->config, folder, "shoal.yaml", ret_error) &&
           join(stage->job, folder, "job.yaml", ret_error) &&
           join(stage->data, folder, "data", ret_error) &&
           join(stage->text, folder, "text.txt", ret_error) &&
           join(stage->control, folder, "control", ret_error) &&
           join(stage->report, folder, "report.html", ret_error) &&
           join(stage->summary, folder, "summary.json", ret_error);
}

static bool lock_folder(struct stage *stage, struct error *ret_error)
{
    char path[STAGE_PATH_BYTES];
    if (!join(path, stage->folder, "lock", ret_error)) return false;
    stage->lock_fd = io_open_write(path, O_RDWR | O_CREAT, 0644);
    if (stage->lock_fd < 0) return error_set(ret_error, "%s: %s", path, error_errno(errno));
    if (flock(stage->lock_fd, LOCK_EX | LOCK_NB) == 0) return true;
    return error_set(ret_error, "another demo is running in out/demo; wait for it or stop it");
}

bool stage_open(struct stage *stage, struct error *ret_error)
{
    *stage = (struct stage){.lock_fd = -1};
    if (!find_programs(stage, ret_error)) return false;
    if (!io_make_dirs("out/demo", ret_error)) return false;
    char *folder = realpath("out/demo", NULL);
    bool ok = folder != NULL && strlen(folder) < sizeof stage->folder;
    if (ok) (void)snprintf(stage->folder, sizeof stage->folder, "%s", folder); /* fits */
    free(folder);                                                              /* of realpath */
    if (!ok) return error_set(ret_error, "the path of out/demo is too long");
    return name_files(stage, ret_error) && lock_folder(stage, ret_error);
}

void stage_close(struct stage *stage)
{
    if (stage->lock_fd >= 0) (void)close(stage->lock_fd); /* lets the lock go */
    stage->lock_fd = -1;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *position)
{
    (void)status;
    (void)kind;
    bool is_kept = position->level == 0 ||
                   (position->level == 1 && strcmp(path + position->base, "lock") == 0);
    return is_kept ? 0 : remove(path);
}

static bool clear_folder(const char *folder, struct error *ret_error)
{
    if (nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0) return true;
    return error_set(ret_error, "cannot clear %s of an earlier run: %s", folder,
                     error_errno(errno));
}

static bool run_text_script(const char *text, struct error *ret_error)
{
    const char *argv[] = {"sh", text_script, text, NULL};
    pid_t pid;
    int status = 0;
    if (!children_start(argv, NULL, &pid, ret_error)) return false;
    while (!children_has_ended(pid, &status)) {
        if (children_must_stop()) return error_set(ret_error, "stopped");
        children_pause_ms(20);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    return error_set(ret_error, "%s failed; give a text of your own with --data FILE", text_script);
}

/* A text of the user's own, found before the folder is cleared. */
static bool take_text(struct stage *stage, const char *given, struct error *ret_error)
{
    struct stat status;
    if (access(given, R_OK) != 0 || stat(given, &status) != 0)
        return error_set(ret_error, "%s: %s; --data takes a readable text", given,
                         error_errno(errno));
    if (!S_ISREG(status.st_mode) || status.st_size < TEXT_BYTES_MIN)
        return error_set(ret_error, "%s: no file of at least %d bytes; --data takes a longer text",
                         given, TEXT_BYTES_MIN);
    char *path = realpath(given, NULL);
    bool ok = path != NULL && strlen(path) < sizeof stage->text;
    size_t folder = strlen(stage->folder);
    bool is_inside = ok && strncmp(path, stage->folder, folder) == 0 && path[folder] == '/';
    if (ok) (void)snprintf(stage->text, sizeof stage->text, "%s", path); /* fits */
    free(path);                                                          /* of realpath */
    if (is_inside)
        return error_set(ret_error, "%s lies in out/demo, which the demo clears; copy it elsewhere",
                         given);
    return ok ? true : error_set(ret_error, "%s: its path is too long", given);
}

/* A port nobody holds now. The server must find its agents again after a restart, so it is fixed.
 */
static bool pick_port(uint16_t *ret_port, struct error *ret_error)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
              getsockname(fd, (struct sockaddr *)&address, &bytes) == 0;
    if (!ok) (void)error_set(ret_error, "no free port on 127.0.0.1: %s", error_errno(errno));
    if (fd >= 0) (void)close(fd); /* only bound */
    if (ok) *ret_port = ntohs(address.sin_port);
    return ok;
}

static bool read_slot_time(struct stage *stage, struct error *ret_error)
{
    static const char key[] = "slot_ms_at_1_ncu:";
    char *yaml;
    size_t bytes;
    if (!io_read_file(scenario_path, SCENARIO_BYTES_MAX, &yaml, &bytes, ret_error)) return false;
    const char *found = strstr(yaml, key);
    stage->slot_us = found == NULL ? 0 : strtoll(found + sizeof key - 1, NULL, 10) * 1000;
    mem_free(yaml);
    return stage->slot_us > 0 ? true : error_set(ret_error, "%s: no %s", scenario_path, key);
}

/* A single-quoted YAML scalar. */
static void add_quoted(struct text *yaml, const char *word)
{
    text_add(yaml, "'");
    for (; *word != '\0'; word++) text_add(yaml, *word == '\'' ? "''" : "%c", *word);
    text_add(yaml, "'");
}

static bool write_text(const char *path, struct text *text, struct error *ret_error)
{
    bool ok = text->failed ? error_set(ret_error, "no memory for %s", path)
                           : io_write_file(path, text->bytes, text->count, 0644, ret_error);
    text_free(text);
    return ok;
}

static bool write_config(const struct stage *stage, struct error *ret_error)
{
    struct text yaml = {0};
    char *scenario = realpath(scenario_path, NULL);
    text_add(&yaml,
             "# Written by the demo.\nlisten: 127.0.0.1:%u\ndata: data\n"
             "pools:\n  training:\n    capabilities: [fp16, tensor-cores, 24gb-vram]\n"
             "    hardware: [H100, A100-40GB, A10]\n    use_cases: [pretraining]\n"
             "    price_threshold: %.1f\n"
             "providers:\n  - name: local\n    driver: local\n    scenario: ",
             stage->port, STAGE_PRICE_THRESHOLD);
    add_quoted(&yaml, scenario == NULL ? scenario_path : scenario);
    text_add(&yaml, "\ntiming: {agent_lease: 15s, lease: 60s, boot_timeout: 30s, drain: 3s, "
                    "idle_release: 2s}\n");
    free(scenario); /* of realpath */
    return write_text(stage->config, &yaml, ret_error);
}

static bool write_job(const struct stage *stage, const struct stage_options *options,
                      struct error *ret_error)
{
    struct text yaml = {0};
    text_add(&yaml,
             "# Written by the demo.\nname: swarm-lm\nclass: P2\nkind: elastic\n"
             "owner: {tenant: lab, project: demo, team: nlp, experiment: first-run}\n"
             "needs:\n  capabilities: [fp16, tensor-cores, 24gb-vram]\n  pools: [training]\n"
             "  devices: {min: %u, max: %u}\nbudget: {usd_per_hour: 40, usd: 20}\nmarket: {region: "
             "east}\n"
             "elastic: {slots: %" PRIu64 ", steps: %" PRIu64
             ", checkpoint_every: %u, work_per_slot: %.3fs}\nrun:\n  command: [",
             options->devices_min, options->devices_max, options->slots, options->steps,
             options->checkpoint_every, (double)stage->slot_us / 1e6);
    add_quoted(&yaml, stage->trainer);
    text_add(&yaml, ", --data, ");
    add_quoted(&yaml, stage->text);
    for (uint32_t i = 0; i < STAGE_TRAINER_WORDS; i++)
        text_add(&yaml, ", \"%s\"", stage_trainer_words[i]);
    text_add(&yaml, "]\n  env: {OPENBLAS_NUM_THREADS: \"1\"}\n  dir: ");
    add_quoted(&yaml, stage->folder);
    text_add(&yaml, "\n");
    return write_text(stage->job, &yaml, ret_error);
}

bool stage_set(struct stage *stage, const struct stage_options *options, struct error *ret_error)
{
    bool is_own = options->text != NULL;
    return (!is_own || take_text(stage, options->text, ret_error)) &&
           clear_folder(stage->folder, ret_error) &&
           (is_own || run_text_script(stage->text, ret_error)) &&
           pick_port(&stage->port, ret_error) && read_slot_time(stage, ret_error) &&
           write_config(stage, ret_error) && write_job(stage, options, ret_error);
}
