/* Submits batch jobs to a running Slurm through its C API, one call each, and says how long it took.
 *
 *     peer_slurm COUNT CLIENTS SCRIPT     SLURM_CONF names the configuration
 *
 * Prints "ACKNOWLEDGED MICROSECONDS". Clients are processes: each call of the API opens its own
 * connection and asks munge for a credential, as every client of Slurm does. */
#include <slurm/slurm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static int submit(const char *script, int number)
{
    static char *no_environment[] = {(char *)"PATH=/usr/bin:/bin", NULL};
    char name[32];
    job_desc_msg_t job;
    submit_response_msg_t *answer = NULL;
    (void)snprintf(name, sizeof name, "job-%d", number);
    slurm_init_job_desc_msg(&job);
    job.name = name;
    job.script = (char *)script;
    job.environment = no_environment;
    job.env_size = 1;
    job.min_nodes = job.max_nodes = 1;
    job.num_tasks = 1;
    job.min_cpus = 1;
    job.pn_min_memory = 1;
    job.tres_per_node = (char *)"gres:gpu:a100:1";
    job.user_id = getuid();
    job.group_id = getgid();
    job.work_dir = (char *)"/tmp";
    job.std_out = job.std_err = (char *)"/dev/null";
    if (slurm_submit_batch_job(&job, &answer) != 0) {
        slurm_perror("peer_slurm: slurm_submit_batch_job");
        return -1;
    }
    slurm_free_submit_response_response_msg(answer);
    return 0;
}

static int client(int count, const char *script)
{
    int acknowledged = 0;
    for (int i = 0; i < count; i++) acknowledged += submit(script, i) == 0;
    return acknowledged == count ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc != 4 || atoi(argv[1]) < 1 || atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: peer_slurm COUNT CLIENTS SCRIPT\n");
        return 2;
    }
    int count = atoi(argv[1]), clients = atoi(argv[2]), failed = 0;
    slurm_init(NULL);
    long long began = now_us();
    for (int i = 0; i < clients; i++)
        if (fork() == 0) _exit(client(count / clients, argv[3]));
    for (int status; wait(&status) > 0;) failed += status != 0;
    if (failed > 0) {
        fprintf(stderr, "peer_slurm: %d of %d clients failed\n", failed, clients);
        return 1;
    }
    printf("%d %lld\n", count / clients * clients, now_us() - began);
    return 0;
}
