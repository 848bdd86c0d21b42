/* Which devices lie together, read from made-up trees of /sys and a made-up NVML. */
#include "agent/layout.h"
#include "agent/nvml.h"
#include "codec/device_groups.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the three above first. */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];
static const char *library; /* the made-up NVML */

static void make_dirs(const char *path)
{
    char part[512];
    for (size_t i = 1; path[i] != '\0'; i++) {
        if (path[i + 1] != '/' && path[i + 1] != '\0') continue;
        (void)snprintf(part, sizeof part, "%.*s", (int)i + 1, path);
        (void)mkdir(part, 0700); /* it may be there */
    }
}

static void put(const char *dir, const char *name, const char *text)
{
    char path[640];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file, "%s\n", text);
    assert_int_equal(fclose(file), 0);
}

/* A device of the class and vendor at a path below the root complex. */
static void device(const char *path, const char *class, const char *vendor, const char *numa)
{
    char dir[400], link[256], target[400];
    const char *address = strrchr(path, '/') + 1;
    (void)snprintf(dir, sizeof dir, "%s/devices/%s", root, path);
    make_dirs(dir);
    put(dir, "class", class);
    put(dir, "vendor", vendor);
    if (numa != NULL) put(dir, "numa_node", numa);
    (void)snprintf(link, sizeof link, "%s/bus/pci/devices/%s", root, address);
    (void)snprintf(target, sizeof target, "../../../devices/%s", path);
    assert_int_equal(symlink(target, link), 0);
}

static void gpu(const char *path, const char *numa)
{
    device(path, "0x030200", "0x10de", numa);
}

static int open_tree(void **state)
{
    char dir[128];
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/layout-test-XXXXXX");
    assert_non_null(mkdtemp(root));
    (void)snprintf(dir, sizeof dir, "%s/bus/pci/devices", root);
    make_dirs(dir);
    return 0;
}

static int remove_tree(void **state)
{
    char command[128];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

/* Two sockets, each with a switch of two devices, and one device at a root port of its own. */
static void make_server(void)
{
    device("pci0000:00/0000:00:02.0", "0x030000", "0x1a03", "0"); /* the console: no accelerator */
    gpu("pci0000:00/0000:00:01.0/0000:0a:00.0/0000:0b:04.0/0000:01:00.0", "0");
    gpu("pci0000:00/0000:00:01.0/0000:0a:00.0/0000:0b:05.0/0000:02:00.0", "0");
    gpu("pci0000:80/0000:80:01.0/0000:8a:00.0/0000:8b:04.0/0000:03:00.0", "1");
    gpu("pci0000:80/0000:80:01.0/0000:8a:00.0/0000:8b:05.0/0000:04:00.0", "1");
    gpu("pci0000:80/0000:80:03.0/0000:05:00.0", "1");
}

static void check_row(const uint8_t *row, const char *wanted)
{
    char text[LAYOUT_DEVICES_MAX + 1] = "";
    for (uint32_t i = 0; i < strlen(wanted); i++) text[i] = (char)('0' + device_groups_get(row, i));
    assert_string_equal(text, wanted);
}

static void switches_and_numa_nodes_are_read(void **state)
{
    struct layout layout;
    (void)state;
    make_server();
    layout_read(root, "/nowhere/libnvidia-ml.so", NULL, 5, &layout);
    assert_int_equal(layout.groups.form, DEVICE_GROUPS_FORM);
    assert_string_equal(layout.addresses[0], "0000:01:00.0");
    check_row(layout.groups.pcie, "11223");
    check_row(layout.groups.numa, "11222");
    check_row(layout.groups.nvlink, "00000");
}

static void what_cannot_be_read_is_not_known(void **state)
{
    struct layout layout;
    (void)state;
    layout_read(root, "/nowhere", NULL, 1, &layout); /* no accelerators */
    assert_int_equal(layout.groups.form, 0);
    layout_read("/nowhere", "/nowhere", NULL, 1, &layout);
    assert_int_equal(layout.groups.form, 0);
    gpu("pci0000:00/0000:00:01.0/0000:01:00.0", "-1"); /* a machine with one NUMA node says so */
    gpu("pci0000:00/0000:00:01.1/0000:02:00.0", NULL);
    layout_read(root, "/nowhere", NULL, 3, &layout); /* it has two: which three are meant? */
    assert_int_equal(layout.groups.form, 0);
    layout_read(root, "/nowhere", NULL, 2, &layout);
    check_row(layout.groups.pcie, "12");
    check_row(layout.groups.numa, "00");
    cpu_set_t processors;
    assert_false(layout_processors(root, &layout, 1, &processors));
}

static void an_agent_that_was_given_some_counts_those(void **state)
{
    struct layout layout;
    (void)state;
    make_server();
    layout_read(root, "/nowhere", "4,0,1", 3, &layout);
    check_row(layout.groups.pcie, "122");
    check_row(layout.groups.numa, "122");
    assert_string_equal(layout.addresses[0], "0000:05:00.0");
    layout_read(root, "/nowhere", "GPU-1234,0,1", 3, &layout);
    assert_int_equal(layout.groups.form, 0);
    layout_read(root, "/nowhere", "0,9", 2, &layout);
    assert_int_equal(layout.groups.form, 0);
}

static void links_make_islands(void **state)
{
    struct layout layout;
    (void)state;
    make_server();
    assert_int_equal(setenv("FAKE_NVML", "pairs", 1), 0);
    layout_read(root, library, NULL, 5, &layout);
    check_row(layout.groups.nvlink, "11223");
    assert_int_equal(setenv("FAKE_NVML", "switch", 1), 0);
    layout_read(root, library, NULL, 5, &layout);
    check_row(layout.groups.nvlink, "11111");
    assert_int_equal(setenv("FAKE_NVML", "silent", 1), 0);
    layout_read(root, library, NULL, 5, &layout);
    check_row(layout.groups.nvlink, "00000");
    check_row(layout.groups.pcie, "11223");
}

static void workers_run_at_their_devices(void **state)
{
    struct layout layout;
    cpu_set_t processors;
    char dir[128];
    (void)state;
    make_server();
    layout_read(root, "/nowhere", NULL, 5, &layout);
    assert_false(layout_processors(root, &layout, 1, &processors)); /* no such file */
    (void)snprintf(dir, sizeof dir, "%s/devices/system/node/node0", root);
    make_dirs(dir);
    put(dir, "cpulist", "0-3,16");
    (void)snprintf(dir, sizeof dir, "%s/devices/system/node/node1", root);
    make_dirs(dir);
    put(dir, "cpulist", "4-7");
    assert_true(layout_processors(root, &layout, 0x3, &processors));
    assert_int_equal(CPU_COUNT(&processors), 5);
    assert_true(CPU_ISSET(16, &processors));
    assert_true(layout_processors(root, &layout, 0x6, &processors));
    assert_int_equal(CPU_COUNT(&processors), 9);
    assert_false(layout_processors(root, &layout, 0x20, &processors)); /* no such device */
    put(dir, "cpulist", "4-7;rm");
    assert_false(layout_processors(root, &layout, 0x4, &processors));
    assert_false(layout_processors(root, &layout, 0, &processors));
}

int main(int argc, char **argv)
{
    library = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(switches_and_numa_nodes_are_read, open_tree, remove_tree),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_not_known, open_tree, remove_tree),
        cmocka_unit_test_setup_teardown(an_agent_that_was_given_some_counts_those, open_tree,
                                        remove_tree),
        cmocka_unit_test_setup_teardown(links_make_islands, open_tree, remove_tree),
        cmocka_unit_test_setup_teardown(workers_run_at_their_devices, open_tree, remove_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
