#include "tensors.h"
#include "base/mem.h"
#include <stdio.h>

static struct shoal_tensor tensor_of(const struct model_tensor *tensor, const char *name,
                                     float *flat)
{
    return (struct shoal_tensor){.name = name,
                                 .data = flat + tensor->offset,
                                 .shape = {tensor->shape[0], tensor->shape[1]},
                                 .dims = tensor->dims};
}

void tensors_free(struct tensor_list *list)
{
    mem_free(list->names);
    mem_free(list->state);
    mem_free(list->params);
    *list = (struct tensor_list){0};
}

static void add_tensor(struct tensor_list *list, const struct trainer *trainer,
                       const struct model_tensor *tensor)
{
    char *mean = list->names[list->state_count], *variance = list->names[list->state_count + 1];
    (void)snprintf(mean, TENSORS_NAME_BYTES, "adamw.mean.%s", tensor->name); /* both fit */
    (void)snprintf(variance, TENSORS_NAME_BYTES, "adamw.variance.%s", tensor->name);
    list->params[list->param_count++] = tensor_of(tensor, tensor->name, trainer->params);
    list->state[list->state_count++] = tensor_of(tensor, mean, trainer->mean);
    list->state[list->state_count++] = tensor_of(tensor, variance, trainer->variance);
}

bool tensors_make(struct tensor_list *ret_list, const struct trainer *trainer,
                  struct error *ret_error)
{
    uint32_t count = trainer_tensor_count(trainer);
    *ret_list = (struct tensor_list){0};
    ret_list->params = mem_zalloc(count, sizeof *ret_list->params);
    ret_list->state = mem_zalloc(2 * (size_t)count, sizeof *ret_list->state);
    ret_list->names = mem_zalloc(2 * (size_t)count, sizeof *ret_list->names);
    if (ret_list->params == NULL || ret_list->state == NULL || ret_list->names == NULL) {
        tensors_free(ret_list);
        return error_set(ret_error, "out of memory");
    }
    for (uint32_t i = 0; i < count; i++) add_tensor(ret_list, trainer, trainer_tensor(trainer, i));
    return true;
}
