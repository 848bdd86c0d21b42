/* Text -> tree: libyaml's events, minus everything a configuration file has no use for. */
#include "base/mem.h"
#include "codec/utf8_mark.h"
#include "codec/yaml_tree.h"
#include <string.h>

#include <yaml.h>

enum { BLOCK_BYTES = 16 * 1024 };

struct yaml_block {
    struct yaml_block *next;
    size_t used_bytes, bytes;
    _Alignas(16) char data[];
};

struct builder {
    yaml_tree *tree;
    const char *text;
    size_t bytes;
    yaml_parser_t parser;
    struct error *error;
};

void *yaml_tree_alloc(yaml_tree *tree, size_t bytes)
{
    bytes = (bytes + 15) / 16 * 16;
    struct yaml_block *block = tree->blocks;
    if (block == NULL || block->bytes - block->used_bytes < bytes) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        block = mem_zalloc(1, sizeof *block + size);
        if (block == NULL) {
            tree->out_of_memory = true;
            return NULL;
        }
        block->bytes = size;
        block->next = tree->blocks;
        tree->blocks = block;
    }
    void *memory = block->data + block->used_bytes;
    block->used_bytes += bytes;
    return memory;
}

/* NULL after an error was set. */
static void *need_memory(struct builder *b, size_t bytes)
{
    void *memory = yaml_tree_alloc(b->tree, bytes);
    if (memory == NULL)
        (void)error_set(b->error, "%s: out of memory while reading it", b->tree->file);
    return memory;
}

static char *copy_text(struct builder *b, const char *text, size_t length)
{
    char *copy = need_memory(b, length + 1); /* zeroed: ends itself */
    if (copy != NULL) memcpy(copy, text, length);
    return copy;
}

static uint32_t event_line(const yaml_event_t *event)
{
    return (uint32_t)event->start_mark.line + 1;
}

/* libyaml's reader tells an offset, its scanner and parser a mark. */
static uint32_t problem_line(const struct builder *b)
{
    if (b->parser.error != YAML_READER_ERROR) return (uint32_t)b->parser.problem_mark.line + 1;
    uint32_t line = 1;
    for (size_t i = 0; i < b->parser.problem_offset && i < b->bytes; i++)
        line += b->text[i] == '\n';
    return line;
}

/* The commonest mistake of all, which libyaml words in a dozen ways. */
static bool line_begins_with_tab(const struct builder *b, uint32_t line)
{
    const char *at = b->text, *end = b->text + b->bytes;
    for (uint32_t i = 1; i < line && at != NULL; i++) {
        at = memchr(at, '\n', (size_t)(end - at));
        if (at != NULL) at++;
    }
    if (at == NULL) return false;
    while (at < end && *at == ' ') at++;
    return at < end && *at == '\t';
}

static bool next_event(struct builder *b, yaml_event_t *ret_event)
{
    if (yaml_parser_parse(&b->parser, ret_event)) return true;
    if (b->parser.error == YAML_MEMORY_ERROR)
        return error_set(b->error, "%s: out of memory while reading it", b->tree->file);
    const char *problem = b->parser.problem == NULL ? "syntax" : b->parser.problem;
    uint32_t line = problem_line(b);
    if (b->parser.error == YAML_READER_ERROR)
        return error_set(b->error, "%s:%u: not plain UTF-8 text: %s; save the file as UTF-8",
                         b->tree->file, line, problem);
    if (line_begins_with_tab(b, line))
        return error_set(b->error, "%s:%u: a tab indents this line; use spaces", b->tree->file,
                         line);
    return error_set(b->error, "%s:%u: not valid YAML: %s; check indentation, quotes and brackets",
                     b->tree->file, line, problem);
}

static yaml_item *new_item(struct builder *b, enum yaml_kind kind, const yaml_event_t *event,
                           const char *label)
{
    if (++b->tree->item_count > YAML_NODES_MAX) {
        (void)error_set(b->error, "%s:%u: more than %d values; split the file", b->tree->file,
                        event_line(event), YAML_NODES_MAX);
        return NULL;
    }
    yaml_item *item = need_memory(b, sizeof *item);
    if (item == NULL) return NULL;
    *item = (yaml_item){.tree = b->tree, .kind = kind, .line = event_line(event), .label = label};
    return item;
}

/* false after an error was set. The item's arrays double; what is left behind goes with the tree.
 */
static bool append(struct builder *b, yaml_item *item, struct yaml_entry entry)
{
    if (item->count == item->capacity) {
        uint32_t capacity = item->capacity == 0 ? 8 : item->capacity * 2;
        struct yaml_entry *entries = need_memory(b, capacity * sizeof *entries);
        if (entries == NULL) return false;
        if (item->count > 0) memcpy(entries, item->entries, item->count * sizeof *entries);
        item->entries = entries;
        item->capacity = capacity;
    }
    item->entries[item->count++] = entry;
    return true;
}

static bool refuse(struct builder *b, const yaml_event_t *event, const char *what)
{
    return error_set(b->error, "%s:%u: %s", b->tree->file, event_line(event), what);
}

/* Anchors and tags of any event, and zero bytes in a scalar. */
static bool event_is_plain_data(struct builder *b, const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (event->type == YAML_ALIAS_EVENT) anchor = event->data.alias.anchor;
    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        if (memchr(event->data.scalar.value, 0, event->data.scalar.length) != NULL)
            return refuse(b, event, "a text holds a zero byte; take the \\0 out");
    }
    if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    }
    if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    }
    if (anchor != NULL)
        return refuse(b, event, "anchors and aliases are not allowed; write the value out");
    if (tag != NULL) return refuse(b, event, "tags are not allowed; leave the ! out");
    return true;
}

static yaml_item *build(struct builder *b, yaml_event_t *event, const char *label, uint32_t depth);

static yaml_item *build_scalar(struct builder *b, const yaml_event_t *event, const char *label)
{
    yaml_item *item = new_item(b, YAML_SCALAR, event, label);
    if (item == NULL) return NULL;
    item->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    item->text = copy_text(b, (const char *)event->data.scalar.value, event->data.scalar.length);
    return item->text == NULL ? NULL : item;
}

static yaml_item *build_list(struct builder *b, const yaml_event_t *start, const char *label,
                             uint32_t depth)
{
    yaml_item *list = new_item(b, YAML_LIST, start, label);
    while (list != NULL) {
        yaml_event_t event;
        if (!next_event(b, &event)) return NULL;
        if (event.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&event);
            return list;
        }
        struct yaml_entry entry = {.line = event_line(&event)};
        entry.value = build(b, &event, label, depth + 1);
        if (entry.value == NULL || !append(b, list, entry)) return NULL;
        entry.value->element = true;
    }
    return NULL;
}

/* The key of a map's next entry; *ret_end at the end of the map. Deletes the event. */
static bool build_key(struct builder *b, const yaml_item *map, struct yaml_entry *ret_entry,
                      bool *ret_end)
{
    yaml_event_t event;
    if (!next_event(b, &event)) return false;
    bool good = true;
    *ret_end = event.type == YAML_MAPPING_END_EVENT;
    if (*ret_end) goto done;
    good = event_is_plain_data(b, &event);
    if (good && event.type != YAML_SCALAR_EVENT)
        good = refuse(b, &event, "a key is a list or a map; keys must be words");
    if (!good) goto done;

    *ret_entry = (struct yaml_entry){.line = event_line(&event)};
    ret_entry->key = copy_text(b, (const char *)event.data.scalar.value, event.data.scalar.length);
    good = ret_entry->key != NULL;
    for (uint32_t i = 0; good && i < map->count; i++) {
        if (strcmp(map->entries[i].key, ret_entry->key) != 0) continue;
        good = error_set(b->error, "%s:%u: key \"%s\" is there twice (first in line %u); keep one",
                         b->tree->file, ret_entry->line, yaml_show(ret_entry->key).text,
                         map->entries[i].line);
    }
    if (good && map->count == YAML_KEYS_MAX)
        good = refuse(b, &event, "more than 1024 keys in one map; split it");
done:
    yaml_event_delete(&event);
    return good;
}

static yaml_item *build_map(struct builder *b, const yaml_event_t *start, const char *label,
                            uint32_t depth)
{
    yaml_item *map = new_item(b, YAML_MAP, start, label);
    while (map != NULL) {
        struct yaml_entry entry;
        bool end;
        if (!build_key(b, map, &entry, &end)) return NULL;
        if (end) return map;
        yaml_event_t event;
        if (!next_event(b, &event)) return NULL;
        entry.value = build(b, &event, entry.key, depth + 1);
        if (entry.value == NULL || !append(b, map, entry)) return NULL;
    }
    return NULL;
}

/* The value that begins with this event; deletes the event. NULL after an error was set. */
static yaml_item *build(struct builder *b, yaml_event_t *event, const char *label, uint32_t depth)
{
    yaml_item *item = NULL;
    if (depth > YAML_DEPTH_MAX)
        (void)refuse(b, event, "nested too deep; flatten it");
    else if (!event_is_plain_data(b, event))
        item = NULL;
    else if (event->type == YAML_SCALAR_EVENT)
        item = build_scalar(b, event, label);
    else if (event->type == YAML_SEQUENCE_START_EVENT)
        item = build_list(b, event, label, depth);
    else if (event->type == YAML_MAPPING_START_EVENT)
        item = build_map(b, event, label, depth);
    else
        (void)refuse(b, event, "expected a value");
    yaml_event_delete(event);
    return item;
}

/* true if the event is of that type; else a sentence. Deletes the event. */
static bool expect(struct builder *b, yaml_event_type_t type)
{
    yaml_event_t event;
    if (!next_event(b, &event)) return false;
    bool good = event.type == type;
    if (!good) (void)refuse(b, &event, "a second document begins; keep one per file");
    yaml_event_delete(&event);
    return good;
}

/* An empty file, or one whose only value is nothing, is an empty map. */
static bool build_root(struct builder *b)
{
    yaml_event_t event;
    if (!expect(b, YAML_STREAM_START_EVENT) || !next_event(b, &event)) return false;
    yaml_event_type_t type = event.type;
    if (type == YAML_STREAM_END_EVENT) b->tree->root = new_item(b, YAML_MAP, &event, "");
    yaml_event_delete(&event);
    if (type == YAML_STREAM_END_EVENT) return b->tree->root != NULL;

    if (!next_event(b, &event)) return false;
    yaml_item *root = build(b, &event, "", 1);
    if (root == NULL) return false;
    if (root->kind == YAML_SCALAR && root->plain && root->text[0] == '\0') root->kind = YAML_MAP;
    b->tree->root = root;
    return expect(b, YAML_DOCUMENT_END_EVENT) && expect(b, YAML_STREAM_END_EVENT);
}

yaml_tree *yaml_open(const char *file, const char *text, size_t bytes, struct error *ret_error)
{
    if (bytes > YAML_BYTES_MAX) {
        (void)error_set(ret_error, "%s: %zu bytes is above the limit of %d; split the file", file,
                        bytes, YAML_BYTES_MAX);
        return NULL;
    }
    utf8_skip_mark(&text, &bytes);
    struct builder b = {.text = text, .bytes = bytes, .error = ret_error};
    b.tree = mem_zalloc(1, sizeof *b.tree);
    if (b.tree != NULL) {
        b.tree->file = file;
        b.tree->file = copy_text(&b, file, strlen(file));
    }
    if (b.tree == NULL || b.tree->file == NULL || !yaml_parser_initialize(&b.parser)) {
        (void)error_set(ret_error, "%s: out of memory while reading it", file);
        yaml_close(b.tree);
        return NULL;
    }
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)text, bytes);
    bool good = build_root(&b);
    yaml_parser_delete(&b.parser);
    if (good) return b.tree;
    yaml_close(b.tree);
    return NULL;
}

void yaml_close(yaml_tree *tree)
{
    if (tree == NULL) return;
    for (struct yaml_block *block = tree->blocks, *next; block != NULL; block = next) {
        next = block->next;
        mem_free(block);
    }
    mem_free(tree);
}
