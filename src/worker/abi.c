/* What the library tells those who load it at run time: its version and the layout of the public
 * structs. A field that is added to shoal.h gets a row here; abi_test.c finds the one forgotten. */
#include "shoal.h"

#define STRUCT(owner)                                                                              \
    {                                                                                              \
#owner, NULL, 0, (uint32_t)sizeof(struct owner)                                            \
    }
#define FIELD(owner, field)                                                                        \
    {                                                                                              \
#owner, #field, (uint32_t)offsetof(struct owner, field),                                   \
            (uint32_t)sizeof(((struct owner *)NULL)->field)                                        \
    }

static const struct shoal_field fields[] = {
    STRUCT(shoal_tensor),
    FIELD(shoal_tensor, name),
    FIELD(shoal_tensor, data),
    FIELD(shoal_tensor, shape),
    FIELD(shoal_tensor, dims),
    STRUCT(shoal_options),
    FIELD(shoal_options, params),
    FIELD(shoal_options, state),
    FIELD(shoal_options, param_count),
    FIELD(shoal_options, state_count),
    FIELD(shoal_options, slots),
    FIELD(shoal_options, steps),
    FIELD(shoal_options, samples_per_slot),
    FIELD(shoal_options, tokens_per_sample),
    FIELD(shoal_options, checkpoint_dir),
    FIELD(shoal_options, checkpoint_every),
    FIELD(shoal_options, identity),
    FIELD(shoal_options, moment_count),
    FIELD(shoal_options, moment_names),
    FIELD(shoal_options, on_nan),
    STRUCT(shoal_work),
    FIELD(shoal_work, kind),
    FIELD(shoal_work, step),
    FIELD(shoal_work, slot),
    FIELD(shoal_work, gradient),
    FIELD(shoal_work, loss),
    FIELD(shoal_work, gradient_norm),
    FIELD(shoal_work, tensor),
    FIELD(shoal_work, first),
    FIELD(shoal_work, count),
    FIELD(shoal_work, weights),
    FIELD(shoal_work, moment),
    FIELD(shoal_work, last),
};

uint32_t shoal_version(void)
{
    return SHOAL_VERSION_MAJOR << 16 | SHOAL_VERSION_MINOR << 8 | SHOAL_VERSION_PATCH;
}

const struct shoal_field *shoal_fields(uint32_t *ret_count)
{
    *ret_count = sizeof fields / sizeof fields[0];
    return fields;
}
