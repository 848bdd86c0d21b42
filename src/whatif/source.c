#include "whatif/source.h"
#include "base/io.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>

enum { SCENARIO_BYTES_MAX = 1 << 20 };

static void folder_of(const char *path, char *ret_folder, size_t bytes)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        (void)snprintf(ret_folder, bytes, ".");
    else
        (void)snprintf(ret_folder, bytes, "%.*s", (int)(slash - path), path);
}

bool source_read(struct source *source, const char *file, const struct scene_set *sets,
                 uint32_t set_count, struct scene *scene, struct error *ret_error)
{
    struct sensitivity_source *s = &source->sensitivity;
    if (!io_read_file(file, SCENARIO_BYTES_MAX, &source->text, &s->bytes, ret_error)) return false;
    folder_of(file, source->folder, sizeof source->folder);
    s->file = file;
    s->folder = source->folder;
    s->text = source->text;
    s->sets = sets;
    s->set_count = set_count;
    return scene_read(scene, s->file, s->folder, s->text, s->bytes, s->sets, s->set_count,
                      ret_error);
}

void source_free(struct source *source)
{
    mem_free(source->text);
    source->text = NULL;
}
