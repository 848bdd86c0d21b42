#include "agent/options.h"
#include "codec/agent_report.h"
#include "codec/yaml.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES_MAX = 64, VRAM_MIB_MAX = 4 << 20, LEASE_MS_DEFAULT = 15000 };

static void print_usage(void)
{
    fputs(
        "usage: shoal agent --server URL --token-file FILE --node KEY [OPTION...]\n"
        "Runs the jobs' workers on this machine. Drivers start it; you need it by hand only on\n"
        "machines that no driver makes.\n"
        "  --server URL       where the server listens\n"
        "  --token-file FILE  the agent token (agent-token in the server's data folder)\n"
        "  --node KEY         number of the node the server knows this machine by\n"
        "  --server-file FILE  server.json of a server on this machine: when it does not answer,\n"
        "                     its new address is looked up there\n"
        "  --device MODEL     device model of the catalog; without it: the processor's name\n"
        "  --devices N        how many (default 1)\n"
        "  --vram-mib M       memory of one device\n"
        "  --zone Z           zone the machine is in, for the workers\n"
        "  --rack R           rack it stands in (default: $SHOAL_RACK, else not known)\n"
        "  --sysfs DIR        where the kernel tells of devices and NUMA nodes (/sys)\n"
        "  --data DIR         status pages go here (default: a new folder under /tmp)\n"
        "  --lease-ms N       stop everything when the server is silent this long (15000, until\n"
        "                     the server says otherwise)\n"
        "  --emulate-slot-us N  make each slot take at least this long (driver local only)\n"
        "example:\n"
        "  shoal agent --server http://127.0.0.1:7070 --token-file shoal-data/agent-token "
        "--node 7\n",
        stdout);
}

/* "model name : X" of /proc/cpuinfo, or "cpu". */
static void read_processor(char *ret_name, size_t bytes)
{
    (void)snprintf(ret_name, bytes, "cpu");
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[512];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "model name", 10) != 0) continue;
        const char *name = strchr(line, ':');
        if (name == NULL) break;
        name += 1 + strspn(name + 1, " \t");
        (void)snprintf(ret_name, bytes, "%.*s", (int)strcspn(name, "\n"), name);
        break;
    }
    if (file != NULL) (void)fclose(file); /* read only */
}

static bool take_number(const char *option, const char *text, int64_t min, int64_t max,
                        int64_t *ret_value, struct error *ret_error)
{
    int64_t value;
    if (!yaml_parse_integer(text, &value) || value < min || value > max)
        return error_set(ret_error, "--%s %s: expected a whole number from %lld to %lld", option,
                         text, (long long)min, (long long)max);
    *ret_value = value;
    return true;
}

/* Keys use all 64 bits. */
static bool take_key(const char *text, uint64_t *ret_key, struct error *ret_error)
{
    uint64_t key = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (key > (UINT64_MAX - digit) / 10) break;
        key = key * 10 + digit;
    }
    if (*at != '\0' || at == text || key == 0)
        return error_set(ret_error, "--node %s: expected the number of a node, 1 or more", text);
    *ret_key = key;
    return true;
}

static bool take_rack(const char *text, struct agent_options *options, struct error *ret_error)
{
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~') length = SIZE_MAX - 1;
    if (length > REPORT_RACK_MAX)
        return error_set(ret_error, "rack \"%.80s\": at most %d printable characters, no blanks",
                         text, REPORT_RACK_MAX);
    options->rack = text;
    return true;
}

static bool take(int option, const char *name, const char *value, struct agent_options *options,
                 struct error *ret_error)
{
    int64_t number = 0;
    switch (option) {
    case 's': options->server_url = value; return true;
    case 't': options->token_file = value; return true;
    case 'f': options->server_file = value; return true;
    case 'z': options->zone = value; return true;
    case 'r': return take_rack(value, options, ret_error);
    case 'y': options->sysfs = value; return true;
    case 'd': options->data_dir = value; return true;
    case 'n': return take_key(value, &options->node_key, ret_error);
    case 'm':
        (void)snprintf(options->device_model, sizeof options->device_model, "%s", value);
        return true;
    case 'c':
        if (!take_number(name, value, 1, DEVICES_MAX, &number, ret_error)) return false;
        options->device_count = (uint32_t)number;
        return true;
    case 'v':
        if (!take_number(name, value, 0, VRAM_MIB_MAX, &number, ret_error)) return false;
        options->vram_mib = (uint32_t)number;
        return true;
    case 'l': return take_number(name, value, 100, 86400000, &options->lease_ms, ret_error);
    case 'e': return take_number(name, value, 0, 3600000000, &options->emulate_slot_us, ret_error);
    default: return error_set(ret_error, "unknown option; see shoal agent --help");
    }
}

enum agent_options_result agent_options_parse(int argc, char **argv,
                                              struct agent_options *ret_options,
                                              struct error *ret_error)
{
    static const struct option names[] = {
        {"server", required_argument, NULL, 's'},
        {"server-file", required_argument, NULL, 'f'},
        {"token-file", required_argument, NULL, 't'},
        {"node", required_argument, NULL, 'n'},
        {"device", required_argument, NULL, 'm'},
        {"devices", required_argument, NULL, 'c'},
        {"vram-mib", required_argument, NULL, 'v'},
        {"zone", required_argument, NULL, 'z'},
        {"rack", required_argument, NULL, 'r'},
        {"sysfs", required_argument, NULL, 'y'},
        {"data", required_argument, NULL, 'd'},
        {"lease-ms", required_argument, NULL, 'l'},
        {"emulate-slot-us", required_argument, NULL, 'e'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct agent_options options = {
        .zone = "", .rack = "", .sysfs = "/sys", .device_count = 1, .lease_ms = LEASE_MS_DEFAULT};
    const char *rack = getenv("SHOAL_RACK");
    if (rack != NULL && !take_rack(rack, &options, ret_error)) return AGENT_OPTIONS_WRONG;
    int index = 0;
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, "h", names, &index)) != -1;) {
        if (option == 'h') {
            print_usage();
            return AGENT_OPTIONS_HELP;
        }
        if (option == '?') {
            (void)error_set(ret_error, "see shoal agent --help");
            return AGENT_OPTIONS_WRONG;
        }
        if (!take(option, names[index].name, optarg, &options, ret_error))
            return AGENT_OPTIONS_WRONG;
    }
    if (optind < argc)
        (void)error_set(ret_error, "\"%s\" is not an option; see shoal agent --help", argv[optind]);
    else if (options.server_url == NULL || options.token_file == NULL || options.node_key == 0)
        (void)error_set(ret_error, "--server, --token-file and --node are needed; see shoal agent "
                                   "--help");
    else {
        if (options.device_model[0] == '\0')
            read_processor(options.device_model, sizeof options.device_model);
        *ret_options = options;
        return AGENT_OPTIONS_RUN;
    }
    return AGENT_OPTIONS_WRONG;
}
