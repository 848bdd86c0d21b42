#include "agent/nvml.h"
#include "base/clock.h"
#include <assert.h>
#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINKS_MAX = 36, BUS_ID_BYTES = 32, LINK_ACTIVE = 1, NVML_SUCCESS = 0 };

typedef struct nvml_device *nvml_handle;

struct pci_info { /* nvmlPciInfo_t */
    char bus_id_legacy[16];
    uint32_t domain, bus, device, device_id, subsystem_id;
    char bus_id[BUS_ID_BYTES];
};
static_assert(sizeof(struct pci_info) == 68, "nvmlPciInfo_t has 68 bytes");

struct nvml {
    int (*init)(void);
    int (*by_bus_id)(const char *bus_id, nvml_handle *ret_device);
    int (*link_state)(nvml_handle device, unsigned link, unsigned *ret_active);
    int (*link_remote)(nvml_handle device, unsigned link, struct pci_info *ret_remote);
};

static bool load(const char *library, struct nvml *nvml)
{
    void *handle = dlopen(library != NULL ? library : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL && library == NULL)
        handle = dlopen("libnvidia-ml.so", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) return false;
    /* POSIX has a function in what dlsym() returns; ISO C wants it said through an object. */
    *(void **)&nvml->init = dlsym(handle, "nvmlInit_v2");
    *(void **)&nvml->by_bus_id = dlsym(handle, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&nvml->link_state = dlsym(handle, "nvmlDeviceGetNvLinkState");
    *(void **)&nvml->link_remote = dlsym(handle, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    return nvml->init != NULL && nvml->by_bus_id != NULL && nvml->link_state != NULL &&
           nvml->link_remote != NULL && nvml->init() == NVML_SUCCESS;
}

/* "00000000:3B:00.0" and "0000:3b:00.0" are the same. */
static void normalise(const char *bus_id, char ret_address[NVML_ADDRESS_BYTES])
{
    const char *colon = strchr(bus_id, ':');
    size_t domain = colon == NULL ? 0 : (size_t)(colon - bus_id);
    if (domain > 4) bus_id += domain - 4;
    (void)snprintf(ret_address, NVML_ADDRESS_BYTES, "%.12s", bus_id);
    for (char *at = ret_address; *at != '\0'; at++) *at = (char)tolower((unsigned char)*at);
}

/* Ends of links that have been met: devices and switches. */
struct ends {
    uint32_t count, islands[NVML_DEVICES_MAX * LINKS_MAX];
    char addresses[NVML_DEVICES_MAX * LINKS_MAX][NVML_ADDRESS_BYTES];
};

static uint32_t end_of(struct ends *ends, const char *address)
{
    uint32_t i = 0;
    while (i < ends->count && strcmp(ends->addresses[i], address) != 0) i++;
    if (i < ends->count) return i;
    (void)snprintf(ends->addresses[i], NVML_ADDRESS_BYTES, "%s", address);
    ends->islands[i] = i;
    return ends->count++;
}

static void join(struct ends *ends, uint32_t a, uint32_t b)
{
    uint32_t from = ends->islands[a], to = ends->islands[b];
    for (uint32_t i = 0; i < ends->count; i++)
        if (ends->islands[i] == from) ends->islands[i] = to;
}

/* false: its links cannot be read. */
static bool follow_links(const struct nvml *nvml, struct ends *ends, uint32_t device)
{
    nvml_handle handle;
    bool read = false;
    if (nvml->by_bus_id(ends->addresses[device], &handle) != NVML_SUCCESS) return false;
    for (unsigned link = 0; link < LINKS_MAX; link++) {
        struct pci_info remote = {{0}};
        unsigned active = 0;
        char address[NVML_ADDRESS_BYTES];
        if (nvml->link_state(handle, link, &active) != NVML_SUCCESS) continue;
        read = true;
        if (active != LINK_ACTIVE) continue;
        if (nvml->link_remote(handle, link, &remote) != NVML_SUCCESS) return false;
        remote.bus_id[BUS_ID_BYTES - 1] = '\0';
        normalise(remote.bus_id, address);
        if (ends->count < NVML_DEVICES_MAX * LINKS_MAX) join(ends, device, end_of(ends, address));
    }
    return read;
}

static bool read_islands(const char *library, char (*addresses)[NVML_ADDRESS_BYTES], uint32_t count,
                         uint32_t *ret_islands)
{
    static struct ends ends;
    struct nvml nvml;
    bool known[NVML_DEVICES_MAX], any = false;
    uint32_t numbers = 0;
    if (!load(library, &nvml)) return false;
    ends.count = 0;
    for (uint32_t i = 0; i < count; i++) (void)end_of(&ends, addresses[i]);
    for (uint32_t i = 0; i < count; i++) known[i] = follow_links(&nvml, &ends, i);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t like = 0;
        while (like < i && (!known[like] || ends.islands[like] != ends.islands[i])) like++;
        ret_islands[i] = !known[i] ? 0 : like < i ? ret_islands[like] : ++numbers;
        any |= known[i];
    }
    return any;
}

static _Noreturn void run_child(const char *library, char (*addresses)[NVML_ADDRESS_BYTES],
                                uint32_t count, int out_fd)
{
    uint32_t islands[NVML_DEVICES_MAX] = {0};
    size_t bytes = count * sizeof islands[0];
    bool read = read_islands(library, addresses, count, islands);
    _exit(read && write(out_fd, islands, bytes) == (ssize_t)bytes ? 0 : 1);
}

/* All that the child says until it ends or its time is over. */
static bool read_answer(int fd, void *answer, size_t bytes)
{
    size_t got = 0;
    int64_t end_us = clock_monotonic_us() + NVML_READ_MS * INT64_C(1000);
    while (got < bytes) {
        int64_t left_us = end_us - clock_monotonic_us();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (left_us <= 0 || poll(&wait, 1, (int)(left_us / 1000) + 1) <= 0) return false;
        ssize_t count = read(fd, (char *)answer + got, bytes - got);
        if (count <= 0) return false;
        got += (size_t)count;
    }
    return true;
}

bool nvml_islands(const char *library, char (*addresses)[NVML_ADDRESS_BYTES], uint32_t count,
                  uint32_t *ret_islands)
{
    int ends[2];
    if (count == 0 || count > NVML_DEVICES_MAX || pipe2(ends, O_CLOEXEC) != 0) return false;
    pid_t pid = fork();
    if (pid == 0) run_child(library, addresses, count, ends[1]);
    (void)close(ends[1]); /* nothing was written by us */
    bool read = pid > 0 && read_answer(ends[0], ret_islands, count * sizeof ret_islands[0]);
    (void)close(ends[0]); /* read only */
    if (pid > 0) {
        (void)kill(pid, SIGKILL); /* it has ended, or hangs */
        (void)waitpid(pid, NULL, 0);
    }
    return read;
}
