#include "agent/layout.h"
#include "agent/nvml.h"
#include "codec/device_groups.h"
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FOUND_MAX = 64, BRIDGE_BYTES = 64, CPULIST_BYTES = 4096 };

struct found { /* an accelerator of the machine */
    char address[PCI_ADDRESS_BYTES], bridge[BRIDGE_BYTES];
    int16_t numa_node;
};

/* The first line of ROOT/a/b/c; "" if it cannot be read. */
static void read_line(char *ret_line, size_t bytes, const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(ret_line, (int)bytes, file) == NULL) ret_line[0] = '\0';
    if (file != NULL) (void)fclose(file); /* read only */
    ret_line[strcspn(ret_line, "\n")] = '\0';
}

static long read_number(const char *root, const char *address, const char *name, int base,
                        long otherwise)
{
    char path[PATH_MAX], line[64], *end;
    (void)snprintf(path, sizeof path, "%s/bus/pci/devices/%s/%s", root, address, name);
    read_line(line, sizeof line, path);
    long value = strtol(line, &end, base);
    return end == line || *end != '\0' ? otherwise : value;
}

/* Display controllers for computing of NVIDIA and AMD, and processing accelerators of anybody. */
static bool is_accelerator(const char *root, const char *address)
{
    long class = read_number(root, address, "class", 16, 0) >> 8;
    long vendor = read_number(root, address, "vendor", 16, 0);
    bool display = class == 0x300 || class == 0x302 || class == 0x380;
    return class == 0x1200 || (display && (vendor == 0x10de || vendor == 0x1002));
}

/* "pci0000:00/0000:00:01.0" of ../../../devices/pci0000:00/0000:00:01.0/.../0000:03:00.0; a device at
 * the root complex itself is its own. */
static bool read_bridge(const char *root, const char *address, char ret_bridge[BRIDGE_BYTES])
{
    char path[PATH_MAX], target[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/bus/pci/devices/%s", root, address);
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0) return false;
    target[length] = '\0';
    const char *at = strstr(target, "/pci");
    if (at == NULL) return false;
    size_t complex = strcspn(++at, "/");
    if (at[complex] == '\0') return false;
    size_t both = complex + 1 + strcspn(at + complex + 1, "/");
    if (both >= BRIDGE_BYTES) return false;
    (void)snprintf(ret_bridge, BRIDGE_BYTES, "%.*s", (int)both, at);
    return true;
}

static int by_address(const void *a, const void *b)
{
    return strcmp(((const struct found *)a)->address, ((const struct found *)b)->address);
}

static uint32_t find_all(const char *root, struct found found[FOUND_MAX])
{
    char path[PATH_MAX];
    uint32_t count = 0;
    (void)snprintf(path, sizeof path, "%s/bus/pci/devices", root);
    DIR *devices = opendir(path);
    for (struct dirent *entry; devices != NULL && (entry = readdir(devices)) != NULL;) {
        if (!isxdigit((unsigned char)entry->d_name[0])) continue;
        if (strlen(entry->d_name) >= PCI_ADDRESS_BYTES) continue;
        if (!is_accelerator(root, entry->d_name)) continue;
        if (count == FOUND_MAX) { /* more than can be told: none */
            count = 0;
            break;
        }
        struct found *one = &found[count++];
        (void)snprintf(one->address, sizeof one->address, "%s", entry->d_name);
        long node = read_number(root, one->address, "numa_node", 10, -1);
        one->numa_node = node < 0 || node > INT16_MAX ? -1 : (int16_t)node;
        if (!read_bridge(root, one->address, one->bridge)) one->bridge[0] = '\0';
    }
    if (devices != NULL) (void)closedir(devices); /* read only */
    qsort(found, count, sizeof *found, by_address);
    return count;
}

/* The next of "4,5,6"; false: at the end, or it is no number (a UUID: which device that is we do not know). */
static bool next_visible(const char **at, uint32_t count, uint32_t *ret_index)
{
    char *end;
    if (!isdigit((unsigned char)**at)) return false;
    unsigned long index = strtoul(*at, &end, 10);
    if (index >= count || (*end != ',' && *end != '\0')) return false;
    *at = *end == ',' ? end + 1 : end;
    *ret_index = (uint32_t)index;
    return true;
}

/* Leaves those that the agent was given, in its order; how many. */
static uint32_t choose(struct found found[FOUND_MAX], uint32_t count, const char *visible)
{
    struct found all[FOUND_MAX];
    uint32_t chosen = 0, index;
    if (visible == NULL) return count;
    memcpy(all, found, sizeof all);
    while (*visible != '\0' && chosen < FOUND_MAX && next_visible(&visible, count, &index))
        found[chosen++] = all[index];
    return *visible == '\0' ? chosen : 0;
}

/* Numbers groups in the order in which they are met; those beyond the last number stay unknown. */
static void number_group(uint8_t *row, uint32_t device, uint32_t like, uint32_t *count)
{
    uint32_t group = like < device ? device_groups_get(row, like) : 0;
    if (like == device && *count < DEVICE_GROUPS_MAX) group = ++*count;
    device_groups_set(row, device, group);
}

static void group_all(const struct found found[FOUND_MAX], struct layout *layout)
{
    uint32_t bridges = 0, nodes = 0;
    for (uint32_t i = 0; i < layout->device_count; i++) {
        uint32_t bridge = 0, node = 0;
        while (bridge < i && strcmp(found[bridge].bridge, found[i].bridge) != 0) bridge++;
        while (node < i && found[node].numa_node != found[i].numa_node) node++;
        if (found[i].bridge[0] != '\0') number_group(layout->groups.pcie, i, bridge, &bridges);
        if (found[i].numa_node >= 0) number_group(layout->groups.numa, i, node, &nodes);
        layout->numa_nodes[i] = found[i].numa_node;
        memcpy(layout->addresses[i], found[i].address, PCI_ADDRESS_BYTES);
    }
    if (bridges + nodes > 0) layout->groups.form = DEVICE_GROUPS_FORM;
}

static void group_links(const char *library, struct layout *layout)
{
    uint32_t islands[LAYOUT_DEVICES_MAX];
    if (!nvml_islands(library, layout->addresses, layout->device_count, islands)) return;
    for (uint32_t i = 0; i < layout->device_count; i++)
        device_groups_set(layout->groups.nvlink, i,
                          islands[i] <= DEVICE_GROUPS_MAX ? islands[i] : 0);
    layout->groups.form = DEVICE_GROUPS_FORM;
}

void layout_read(const char *root, const char *nvml_library, const char *visible,
                 uint32_t device_count, struct layout *ret_layout)
{
    struct found found[FOUND_MAX] = {{{0}}};
    struct layout layout = {0};
    for (uint32_t i = 0; i < LAYOUT_DEVICES_MAX; i++) layout.numa_nodes[i] = -1;
    uint32_t count = choose(found, find_all(root, found), visible);
    if (count == device_count && count > 0 && count <= LAYOUT_DEVICES_MAX) {
        layout.device_count = count;
        group_all(found, &layout);
        group_links(nvml_library, &layout);
    }
    *ret_layout = layout;
}

/* "0-3,8,10-11" added to the set; false: something else. */
static bool add_list(const char *text, cpu_set_t *processors)
{
    while (isdigit((unsigned char)*text)) {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-') last = strtoul(end + 1, &end, 10);
        if (last < first || last >= CPU_SETSIZE) return false;
        for (unsigned long i = first; i <= last; i++) CPU_SET(i, processors);
        text = *end == ',' ? end + 1 : end;
    }
    return *text == '\0';
}

bool layout_processors(const char *root, const struct layout *layout, uint32_t device_mask,
                       cpu_set_t *ret_processors)
{
    CPU_ZERO(ret_processors);
    for (uint32_t i = 0; device_mask != 0; i++, device_mask >>= 1) {
        char path[PATH_MAX], line[CPULIST_BYTES];
        if ((device_mask & 1) == 0) continue;
        if (i >= layout->device_count || layout->numa_nodes[i] < 0) return false;
        (void)snprintf(path, sizeof path, "%s/devices/system/node/node%d/cpulist", root,
                       layout->numa_nodes[i]);
        read_line(line, sizeof line, path);
        if (line[0] == '\0' || !add_list(line, ret_processors)) return false;
    }
    return CPU_COUNT(ret_processors) > 0;
}
