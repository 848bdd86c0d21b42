/* NVLink islands as NVIDIA's management library (NVML) tells them; it is loaded, never linked.
 *
 * Two devices are in one island if an active link of one ends at the other, or links of both end at the same
 * NVSwitch. Read in a child process that gets NVML_READ_MS: a broken GPU can hold the library up for
 * ever. No library, no driver, no answer, a device it does not know: false or 0, not known.
 */
#ifndef SHOAL_AGENT_NVML_H
#define SHOAL_AGENT_NVML_H

#include <stdbool.h>
#include <stdint.h>

enum { NVML_READ_MS = 10000, NVML_ADDRESS_BYTES = 16, NVML_DEVICES_MAX = 32 };

/* Of each device (by PCI address, "0000:3b:00.0") the number of its island, from 1 in the order of devices;
 * one without links is alone in its island; 0: not known. library: NULL for the system's. */
bool nvml_islands(const char *library, char (*addresses)[NVML_ADDRESS_BYTES], uint32_t count,
                  uint32_t *ret_islands);

#endif
