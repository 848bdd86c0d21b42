/* Where the devices of this machine are: read once, at the start of the agent.
 *
 * Source     Of each accelerator below ROOT/bus/pci/devices (ROOT is /sys): its NUMA node, and the bridge
 *            below the root complex that it hangs from; all behind one such bridge share a PCIe switch. NVLink
 *            comes from NVML (nvml.h). Nothing is guessed: what cannot be read is 0, not known.
 * Which      Device i of the agent is the i-th in order of PCI addresses, as CUDA counts them with
 *            CUDA_DEVICE_ORDER=PCI_BUS_ID; if the agent itself was given some of a machine's
 *            (CUDA_VISIBLE_DEVICES), the i-th of these. When the counts do not agree nothing is known.
 * Processors Of a NUMA node, from ROOT/devices/system/node/nodeN/cpulist: where workers of its devices
 *            run (layout_processors()).
 */
#ifndef SHOAL_AGENT_LAYOUT_H
#define SHOAL_AGENT_LAYOUT_H

#include "core/event.h"
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

enum { LAYOUT_DEVICES_MAX = DEVICE_GROUPS_DEVICES, PCI_ADDRESS_BYTES = 16 };

struct layout {
    struct device_groups groups; /* form 0: nothing is known */
    uint32_t device_count;
    int16_t numa_nodes[LAYOUT_DEVICES_MAX]; /* the kernel's numbers; -1: not known */
    char addresses[LAYOUT_DEVICES_MAX][PCI_ADDRESS_BYTES];
};

/* nvml_library: NULL for the system's. visible: of CUDA_VISIBLE_DEVICES, NULL: all. */
void layout_read(const char *root, const char *nvml_library, const char *visible,
                 uint32_t device_count, struct layout *ret_layout);
/* The processors at the NUMA nodes of all these devices; false: one is not known, or the devices are at
 * different ones on a machine that says nothing of them. */
bool layout_processors(const char *root, const struct layout *layout, uint32_t device_mask,
                       cpu_set_t *ret_processors);

#endif
