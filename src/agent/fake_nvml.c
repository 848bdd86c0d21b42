/* A made-up NVML for layout_test.c, loaded as the real one is. What it says is in $FAKE_NVML:
 *   "hang"       nvmlInit_v2() does not come back
 *   "pairs"      devices 0000:00 1 and 2, 3 and 4 are joined by a link, 5 has none
 *   "switch"     all have a link to one switch
 *   "silent"     links cannot be asked for */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pci_info {
    char legacy[16];
    uint32_t numbers[5];
    char bus_id[32];
};

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, uintptr_t *device);
int nvmlDeviceGetNvLinkState(uintptr_t device, unsigned link, unsigned *active);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(uintptr_t device, unsigned link, struct pci_info *remote);

static int says(const char *word)
{
    const char *said = getenv("FAKE_NVML");
    return said != NULL && strcmp(said, word) == 0;
}

int nvmlInit_v2(void)
{
    while (says("hang")) (void)sleep(1);
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, uintptr_t *device)
{
    unsigned bus = 0;
    if (sscanf(bus_id, "0000:%x:", &bus) != 1 || bus == 0) return 6;
    *device = bus;
    return 0;
}

int nvmlDeviceGetNvLinkState(uintptr_t device, unsigned link, unsigned *active)
{
    if (says("silent") || link >= 2) return 3;
    *active = link == 1 && !(says("pairs") && device >= 5);
    return 0;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(uintptr_t device, unsigned link, struct pci_info *remote)
{
    if (link != 1) return 2;
    unsigned peer = says("switch") ? 0xf0 : (unsigned)(device % 2 == 1 ? device + 1 : device - 1);
    (void)snprintf(remote->bus_id, sizeof remote->bus_id, "00000000:%02X:00.0", peer);
    return 0;
}
