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
    mem_free(list->merges);
    mem_free(list->names);
    mem_free(list->state);
    mem_free(list->params);
    *list = (struct tensor_list){0};
}

/* ORDER: note */
static void notes_of_model(const struct model_config *config, float *ret_notes)
{
    const uint32_t values[NOTE_COUNT] = {TENSORS_FORMAT, config->layers,  config->width,
                                         config->heads,  config->context, config->vocabulary,
                                         config->tied};
    for (uint32_t i = 0; i < NOTE_COUNT; i++) ret_notes[i] = (float)values[i];
}

static bool add_notes(struct tensor_list *list, const struct trainer *trainer)
{
    const struct tokenizer *tokenizer = &trainer->data.tokenizer;
    uint32_t merges = tokenizer->vocabulary - TOKENIZER_BYTES;
    notes_of_model(&trainer->model.config, list->notes);
    list->state[list->state_count++] = (struct shoal_tensor){
        .name = "lm.config", .data = list->notes, .shape = {NOTE_COUNT}, .dims = 1};
    if (merges == 0) return true;
    list->merges = mem_alloc(2 * (size_t)merges * sizeof *list->merges);
    if (list->merges == NULL) return false;
    for (uint32_t i = 0; i < merges; i++) {
        list->merges[2 * i] = (float)tokenizer->merges[i].left;
        list->merges[2 * i + 1] = (float)tokenizer->merges[i].right;
    }
    list->state[list->state_count++] = (struct shoal_tensor){
        .name = "lm.merges", .data = list->merges, .shape = {merges, 2}, .dims = 2};
    return true;
}

static void add_tensor(struct tensor_list *list, const struct trainer *trainer,
                       const struct model_tensor *tensor)
{
    uint32_t i = list->param_count++;
    char *mean = list->names[3 * i], *variance = list->names[3 * i + 1];
    char *name = list->names[3 * i + 2];
    (void)snprintf(mean, TENSORS_NAME_BYTES, "adamw.mean.%s", tensor->name); /* all fit */
    (void)snprintf(variance, TENSORS_NAME_BYTES, "adamw.variance.%s", tensor->name);
    (void)snprintf(name, TENSORS_NAME_BYTES, "%s", tensor->name);
    list->params[i] = tensor_of(tensor, name, trainer->params);
    list->state[list->state_count++] = tensor_of(tensor, mean, trainer->mean);
    list->state[list->state_count++] = tensor_of(tensor, variance, trainer->variance);
}

bool tensors_make(struct tensor_list *ret_list, const struct trainer *trainer,
                  struct error *ret_error)
{
    const struct model *model = &trainer->model;
    size_t room = model->tensor_count + 1; /* and the evaluation */
    *ret_list = (struct tensor_list){0};
    struct tensor_list *list = ret_list;
    list->params = mem_zalloc(room, sizeof *list->params);
    list->state = mem_zalloc(2 * room + 2, sizeof *list->state);
    list->names = mem_zalloc(3 * room, sizeof *list->names);
    if (list->params == NULL || list->state == NULL || list->names == NULL) goto fail;
    for (uint32_t i = 0; i < model->tensor_count; i++)
        add_tensor(list, trainer, &model->tensors[i]);
    const struct model_tensor evaluation = {
        .name = "eval.loss", .offset = model->param_count, .count = 1, .shape = {1}, .dims = 1};
    if (trainer->eval_every > 0) add_tensor(list, trainer, &evaluation);
    if (add_notes(list, trainer)) return true;
fail:
    tensors_free(list);
    return error_set(ret_error, "out of memory");
}
