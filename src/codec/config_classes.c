/* `classes` of shoal.yaml: what P0 to P3 are guaranteed. Described for users in docs/config.md. */
#include "codec/config.h"
#include "codec/names.h"
#include <string.h>

static void read_victims(uint32_t job_class, uint32_t *ret_mask, yaml_item *map)
{
    yaml_item *list = yaml_list(map, "may_preempt");
    if (list == NULL) return;
    *ret_mask = 0;
    for (uint32_t i = 0; i < yaml_count(list); i++) {
        yaml_item *item = yaml_at(list, i);
        const char *name = yaml_item_string(item);
        uint32_t victim;
        if (!find_job_class(name, &victim) || victim <= job_class)
            yaml_mistake(item, "%s may preempt only classes below it, which \"%s\" is not",
                         name_job_class(job_class), name);
        else
            *ret_mask |= 1U << victim;
    }
}

void config_read_classes(const struct catalog *catalog, struct config *config, const char *file,
                         yaml_item *root)
{
    yaml_item *classes = yaml_map(root, "classes");
    for (uint32_t i = 0; i < JOB_CLASS_END; i++) {
        struct pool_event *event = &config->classes[i];
        pool_class_default(i, event);
        yaml_item *map = yaml_map(classes, name_job_class(i));
        config_read_buying(map, BUYING_OF_CLASS, i, &config->class_buying[i]);
        if (map == NULL) continue;
        const struct pool_event *buying = &config->class_buying[i];
        config_check_prices(
            catalog, config, file, name_job_class(i), buying->u.buying_defined.price_threshold_ppm,
            yaml_any(yaml_map(map, "buying"), "price_threshold"), /* models */ 0, map, buying);
        event->u.class_defined.reserved_ppm =
            (uint32_t)yaml_micros(map, "reserved", 0, 1000000, event->u.class_defined.reserved_ppm);
        event->u.class_defined.burst_ppm = (uint32_t)yaml_micros(
            map, "burst", 0, 1000000, 1000000 - event->u.class_defined.reserved_ppm);
        if (event->u.class_defined.reserved_ppm + event->u.class_defined.burst_ppm > 1000000)
            yaml_mistake(yaml_any(map, "burst"),
                         "reserved and burst of %s are more than the whole; lower one of them",
                         name_job_class(i));
        event->u.class_defined.preemptible =
            yaml_flag(map, "preemptible", event->u.class_defined.preemptible != 0);
        event->u.class_defined.queues =
            yaml_flag(map, "queues", event->u.class_defined.queues != 0);
        config_read_gates(map, GATE_OF_CLASS, i, &config->class_gates[i]);
        read_victims(i, &event->u.class_defined.may_preempt_mask, map);
    }
}
