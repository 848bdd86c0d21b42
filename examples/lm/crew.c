#include "crew.h"
#include "base/mem.h"
#include <pthread.h>

struct crew {
    /* members 1 .. count-1 wait for a new round, under the lock */
    pthread_mutex_t lock;
    pthread_cond_t started, finished;
    uint64_t round;
    uint32_t count, running;
    bool closing;
    /* the work at hand, set before `round` is raised */
    crew_task *task;
    void *context;
    struct member {
        struct crew *crew;
        uint32_t index;
        pthread_t thread;
        bool started;
    } members[CREW_MAX];
};

static void *member_run(void *argument)
{
    struct member *member = argument;
    struct crew *crew = member->crew;
    uint64_t seen = 0;
    for (;;) {
        (void)pthread_mutex_lock(&crew->lock); /* a plain mutex: cannot fail */
        while (crew->round == seen && !crew->closing)
            (void)pthread_cond_wait(&crew->started, &crew->lock);
        bool closing = crew->closing;
        seen = crew->round;
        (void)pthread_mutex_unlock(&crew->lock);
        if (closing) return NULL;
        crew->task(crew->context, member->index);
        (void)pthread_mutex_lock(&crew->lock);
        crew->running--;
        (void)pthread_cond_signal(&crew->finished);
        (void)pthread_mutex_unlock(&crew->lock);
    }
}

struct crew *crew_make(uint32_t count, struct error *ret_error)
{
    struct crew *crew = mem_zalloc(1, sizeof *crew);
    if (crew == NULL) {
        (void)error_set(ret_error, "out of memory");
        return NULL;
    }
    crew->count = count;
    (void)pthread_mutex_init(&crew->lock, NULL); /* cannot fail with default attributes on Linux */
    (void)pthread_cond_init(&crew->started, NULL);
    (void)pthread_cond_init(&crew->finished, NULL);
    for (uint32_t i = 1; i < count; i++) {
        struct member *member = &crew->members[i];
        *member = (struct member){.crew = crew, .index = i};
        int failed = pthread_create(&member->thread, NULL, member_run, member);
        if (failed != 0) {
            (void)error_set(ret_error, "cannot start a thread: %s; use fewer --threads",
                            error_errno(failed));
            crew_free(crew);
            return NULL;
        }
        member->started = true;
    }
    return crew;
}

void crew_free(struct crew *crew)
{
    if (crew == NULL) return;
    (void)pthread_mutex_lock(&crew->lock);
    crew->closing = true;
    (void)pthread_cond_broadcast(&crew->started);
    (void)pthread_mutex_unlock(&crew->lock);
    for (uint32_t i = 1; i < crew->count; i++)
        if (crew->members[i].started) (void)pthread_join(crew->members[i].thread, NULL);
    (void)pthread_cond_destroy(&crew->finished);
    (void)pthread_cond_destroy(&crew->started);
    (void)pthread_mutex_destroy(&crew->lock);
    mem_free(crew);
}

uint32_t crew_count(const struct crew *crew)
{
    return crew->count;
}

void crew_run(struct crew *crew, crew_task *task, void *context)
{
    crew->task = task;
    crew->context = context;
    (void)pthread_mutex_lock(&crew->lock);
    crew->round++;
    crew->running = crew->count - 1;
    if (crew->count > 1) (void)pthread_cond_broadcast(&crew->started);
    (void)pthread_mutex_unlock(&crew->lock);
    task(context, 0);
    (void)pthread_mutex_lock(&crew->lock);
    while (crew->running > 0) (void)pthread_cond_wait(&crew->finished, &crew->lock);
    (void)pthread_mutex_unlock(&crew->lock);
}
