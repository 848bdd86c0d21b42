#include "codec/device_groups.h"
#include "core/assert.h"

uint32_t device_groups_get(const uint8_t *row, uint32_t device)
{
    return device < DEVICE_GROUPS_DEVICES ? row[device / 2] >> (device % 2 * 4) & 0xf : 0;
}

void device_groups_set(uint8_t *row, uint32_t device, uint32_t group)
{
    ASSERT(group <= DEVICE_GROUPS_MAX);
    if (device >= DEVICE_GROUPS_DEVICES) return;
    uint32_t shift = device % 2 * 4;
    row[device / 2] = (uint8_t)((row[device / 2] & ~(0xfu << shift)) | group << shift);
}

static void take_row(uint8_t *row, const struct json_map *map, const char *key)
{
    void *structs;
    uint32_t count;
    json_t *list = json_take_list(map, key, DEVICE_GROUPS_DEVICES, 1, &structs, &count);
    for (uint32_t i = 0; i < count; i++) {
        json_t *number = json_array_get(list, i);
        json_int_t group = json_is_integer(number) ? json_integer_value(number) : -1;
        if (group < 0 || group > DEVICE_GROUPS_MAX)
            json_mistake(map, key, "expected numbers of groups, 0 (not known) to 15");
        else
            device_groups_set(row, i, (uint32_t)group);
    }
}

void device_groups_take(struct device_groups *groups, const struct json_map *map, const char *key)
{
    static const char *const keys[] = {"form", "nvlink", "pcie", "numa", NULL};
    struct json_map own = json_take_map(map, key, JSON_OPTIONAL);
    *groups = (struct device_groups){0};
    if (own.object == NULL) return;
    json_known_keys(&own, keys);
    groups->form = (uint32_t)json_take_u64(&own, "form", UINT32_MAX, JSON_REQUIRED);
    if (groups->form != DEVICE_GROUPS_FORM)
        json_mistake(&own, "form", "expected 1; agent and server are of different versions");
    take_row(groups->nvlink, &own, "nvlink");
    take_row(groups->pcie, &own, "pcie");
    take_row(groups->numa, &own, "numa");
}

static json_t *row_json(const uint8_t *row, bool *failed)
{
    json_t *list = json_array();
    uint32_t count = DEVICE_GROUPS_DEVICES;
    while (count > 0 && device_groups_get(row, count - 1) == 0) count--;
    for (uint32_t i = 0; i < count; i++)
        json_append(list, json_integer(device_groups_get(row, i)), failed);
    return list;
}

json_t *device_groups_json(const struct device_groups *groups, bool *failed)
{
    json_t *object = json_object();
    json_set_u64(object, "form", groups->form, failed);
    json_set(object, "nvlink", row_json(groups->nvlink, failed), failed);
    json_set(object, "pcie", row_json(groups->pcie, failed), failed);
    json_set(object, "numa", row_json(groups->numa, failed), failed);
    return object;
}
