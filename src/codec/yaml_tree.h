/* The inside of yaml.h, shared by the builder (yaml_build.c) and the getters (yaml.c). */
#ifndef SHOAL_CODEC_YAML_TREE_H
#define SHOAL_CODEC_YAML_TREE_H

#include "codec/yaml.h"

/* Linear searches stay cheap below this, and no file of ours comes near it. */
enum { YAML_KEYS_MAX = 1024 };

struct yaml_block;

struct yaml_asked { /* a key somebody asked a map for */
    const char *key;
    struct yaml_asked *next;
};

struct yaml_entry { /* of a map (key set) or a list (key NULL) */
    const char *key;
    uint32_t line;
    bool known;
    yaml_item *value;
};

struct yaml_item {
    yaml_tree *tree;
    const char *label; /* what messages call it: its key, or that of its list; "" at the top */
    enum yaml_kind kind;
    uint32_t line, count, capacity;
    bool plain;                 /* a scalar without quotes */
    bool touched;               /* keys were asked for */
    bool element;               /* of a list */
    const char *text;           /* scalar */
    struct yaml_entry *entries; /* [count], list and map */
    struct yaml_asked *asked;   /* map */
};

struct yaml_note { /* a mistake; line 0: none */
    uint32_t line;
    char text[ERROR_TEXT_BYTES];
};

struct yaml_tree {
    const char *file;
    yaml_item *root;
    struct yaml_block *blocks;
    uint32_t item_count;
    bool out_of_memory;
    struct yaml_note mistake, missing;
};

void *yaml_tree_alloc(yaml_tree *tree, size_t bytes); /* zeroed; NULL sets out_of_memory */

/* A user's text as it may stand in a one-line message: short, without control characters. */
struct yaml_shown {
    char text[64];
};
struct yaml_shown yaml_show(const char *text);

#endif
