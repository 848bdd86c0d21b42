#include "published.h"
#include "base/error.h"
#include "base/io.h"
#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILE_BYTES_MAX = 1 << 30, CELL_WIDTH = 12 };

void published_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(PUBLISHED_FAILED);
}

void *published_alloc(size_t count, size_t bytes)
{
    void *block = mem_zalloc(count > 0 ? count : 1, bytes);
    if (block == NULL) published_fail("no memory for %zu times %zu bytes", count, bytes);
    return block;
}

/* What lives for good stays reachable, so that leak checkers do not mind. */
static struct kept {
    struct kept *next;
    const void *block;
} * kept;

static void keep(const void *block)
{
    struct kept *entry = published_alloc(1, sizeof *entry);
    *entry = (struct kept){kept, block};
    kept = entry;
}

static char *join(const char *folder, const char *name)
{
    char *path = mem_printf("%s/%s", folder, name);
    if (path == NULL) published_fail("no memory for the path of %s", name);
    return path;
}

/* ---- options ---- */

static void help(const struct published *options)
{
    printf("usage: %s [OPTION...]\n%s\n\n", options->program, options->purpose);
    printf("  %-22s %s\n", "--seeds A..B", "these seeds, where the data holds them");
    for (uint32_t i = 0; i < PUBLISHED_LISTS_MAX && options->lists[i] != NULL; i++) {
        const struct published_list *list = options->lists[i];
        char left[64];
        snprintf(left, sizeof left, "%s%s%s%s", list->option, list->word != NULL ? " " : "",
                 list->word != NULL ? list->word : "", list->word != NULL ? "..." : "");
        printf("  %-22s %s\n", left, list->meaning);
    }
    printf("  %-22s %s\n\n", "--json", "one object {\"rows\": [...]}");
    printf("Reads $SHOAL_DATA (default ../shared/data); without it says so and ends with %d.\n\n",
           PUBLISHED_SKIPPED);
    printf("example: %s\n", options->example);
    exit(PUBLISHED_OK);
}

static _Noreturn void usage(const struct published *options, const char *what, const char *word)
{
    fprintf(stderr, "%s: %s \"%s\"; see %s --help\n", options->program, what, word,
            options->program);
    exit(PUBLISHED_USAGE);
}

static void parse_seeds(struct published *options, const char *word)
{
    char *end;
    errno = 0;
    bool digits = word[0] >= '0' && word[0] <= '9';
    options->seed_first = options->seed_last = strtoull(word, &end, 10);
    if (digits && strncmp(end, "..", 2) == 0 && end[2] >= '0' && end[2] <= '9') {
        options->seed_last = strtoull(end + 2, &end, 10);
    }
    if (!digits || *end != 0 || errno != 0 || options->seed_last < options->seed_first) {
        usage(options, "--seeds is one number or A..B, not", word);
    }
    options->seeds_given = true;
}

static struct published_list *find_list(const struct published *options, const char *word)
{
    for (uint32_t i = 0; i < PUBLISHED_LISTS_MAX && options->lists[i] != NULL; i++) {
        if (strcmp(options->lists[i]->option, word) == 0) return options->lists[i];
    }
    return NULL;
}

static int parse_words(struct published *options, struct published_list *list, int at, int argc,
                       char **argv)
{
    if (list->word == NULL) {
        list->count++;
        return at;
    }
    int first = at;
    while (at < argc && strncmp(argv[at], "--", 2) != 0) {
        if (list->count == PUBLISHED_WORDS_MAX) usage(options, "too many words at", argv[at]);
        list->words[list->count++] = argv[at++];
    }
    if (at == first) usage(options, "a word is missing after", list->option);
    return at;
}

void published_parse(struct published *options, int argc, char **argv)
{
    for (int at = 1; at < argc;) {
        const char *word = argv[at++];
        struct published_list *list = find_list(options, word);
        if (list != NULL) {
            at = parse_words(options, list, at, argc, argv);
        } else if (strcmp(word, "--seeds") == 0) {
            if (at == argc) usage(options, "a word is missing after", word);
            parse_seeds(options, argv[at++]);
        } else if (strcmp(word, "--json") == 0) {
            options->json = true;
        } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            help(options);
        } else {
            usage(options, "unknown option", word);
        }
    }
}

static bool is_known(const char *word, const char *const *known, uint32_t known_count)
{
    for (uint32_t i = 0; i < known_count; i++) {
        if (strcmp(known[i], word) == 0) return true;
    }
    return false;
}

void published_check(const struct published *options, const struct published_list *list,
                     const char *const *known, uint32_t known_count)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (is_known(list->words[i], known, known_count)) continue;
        fprintf(stderr, "%s: %s \"%s\" is not known; known:", options->program, list->option,
                list->words[i]);
        for (uint32_t k = 0; k < known_count; k++) fprintf(stderr, " %s", known[k]);
        fputc('\n', stderr);
        exit(PUBLISHED_USAGE);
    }
}

bool published_has(const struct published_list *list, const char *word)
{
    return is_known(word, list->words, list->count);
}

/* ---- files ---- */

const char *published_data(const char *folder)
{
    const char *root = getenv("SHOAL_DATA");
    if (root == NULL || root[0] == 0) root = "../shared/data";
    char *path = join(root, folder);
    struct stat status;
    keep(path);
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) return path;
    fprintf(stderr, "skipped: no folder %s; set SHOAL_DATA to the folder that holds %s\n", path,
            folder);
    exit(PUBLISHED_SKIPPED);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

uint32_t published_names(const char *folder, const char *prefix, const char *suffix,
                         const char *const **ret_names)
{
    DIR *dir = opendir(folder);
    if (dir == NULL) published_fail("%s: %s", folder, error_errno(errno));
    const char **names = NULL;
    uint32_t count = 0, room = 0;
    size_t before = strlen(prefix), behind = strlen(suffix);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t length = strlen(entry->d_name);
        if (length <= before + behind || strncmp(entry->d_name, prefix, before) != 0) continue;
        if (strcmp(entry->d_name + length - behind, suffix) != 0) continue;
        if (count == room) {
            room = room == 0 ? 64 : 2 * room;
            names = mem_realloc(names, room * sizeof *names);
        }
        char *name = mem_strdup(entry->d_name + before);
        if (names == NULL || name == NULL) published_fail("no memory for the names in %s", folder);
        name[length - before - behind] = 0;
        names[count++] = name;
    }
    closedir(dir);
    if (count > 0) qsort(names, count, sizeof *names, compare_names);
    keep(names);
    *ret_names = names;
    return count;
}

char *published_read(const char *folder, const char *name, size_t *ret_bytes)
{
    char *path = join(folder, name), *text;
    struct error error;
    if (!io_read_file(path, FILE_BYTES_MAX, &text, ret_bytes, &error)) {
        published_fail("%s", error.text);
    }
    mem_free(path);
    return text;
}

/* Ends the cell at *at and moves behind it. Returns what ended it: separator, '\n' or 0. */
static char take_cell(char **at, const char **ret_cell, char separator)
{
    char *read = *at, *write = *at;
    bool quoted = *read == '"';
    if (quoted) read++;
    *ret_cell = write;
    while (*read != 0) {
        if (quoted && *read == '"') {
            if (read[1] != '"') {
                quoted = false;
                read++;
                continue;
            }
            read++;
        } else if (!quoted && (*read == separator || *read == '\n')) {
            break;
        }
        if (*read != '\r') *write++ = *read;
        read++;
    }
    char ended = *read;
    *at = ended != 0 ? read + 1 : read;
    *write = 0;
    return ended;
}

static uint32_t count_lines(const char *text)
{
    uint32_t lines = 1;
    for (; *text != 0; text++) lines += *text == '\n';
    return lines;
}

void csv_open(struct csv *csv, const char *folder, const char *name, char separator)
{
    size_t bytes;
    *csv = (struct csv){.text = published_read(folder, name, &bytes), .name = join(folder, name)};
    uint32_t lines = count_lines(csv->text), separators = 0;
    for (const char *c = csv->text; *c != 0 && *c != '\n'; c++) separators += *c == separator;
    csv->columns = separators + 1; /* heads hold no separators */
    csv->cells = published_alloc((size_t)lines * csv->columns, sizeof *csv->cells);
    uint32_t row = 0;
    for (char *at = csv->text; *at != 0; row++) {
        uint32_t column = 0;
        for (char ended = separator; ended == separator; column++) {
            const char *cell;
            ended = take_cell(&at, &cell, separator);
            if (column < csv->columns) csv->cells[(size_t)row * csv->columns + column] = cell;
        }
        if (column != csv->columns) {
            published_fail("%s:%" PRIu32 ": %" PRIu32 " cells under %" PRIu32 " heads", csv->name,
                           row + 1, column, csv->columns);
        }
    }
    if (row == 0) published_fail("%s: no line of heads", csv->name);
    csv->rows = row - 1;
}

void csv_close(struct csv *csv)
{
    mem_free(csv->text);
    mem_free(csv->name);
    mem_free(csv->cells);
    *csv = (struct csv){0};
}

uint32_t csv_column_any(const struct csv *csv, const char *head)
{
    for (uint32_t column = 0; column < csv->columns; column++) {
        if (strcmp(csv->cells[column], head) == 0) return column;
    }
    return UINT32_MAX;
}

uint32_t csv_column(const struct csv *csv, const char *head)
{
    uint32_t column = csv_column_any(csv, head);
    if (column == UINT32_MAX) published_fail("%s: no column \"%s\"", csv->name, head);
    return column;
}

const char *csv_text(const struct csv *csv, uint32_t row, uint32_t column)
{
    if (row >= csv->rows || column >= csv->columns) {
        published_fail("%s: no cell in row %" PRIu32 ", column %" PRIu32, csv->name, row, column);
    }
    return csv->cells[((size_t)row + 1) * csv->columns + column];
}

static _Noreturn void bad_number(const struct csv *csv, uint32_t row, uint32_t column)
{
    published_fail("%s:%" PRIu32 ": %s is not a number: \"%s\"", csv->name, row + 2,
                   csv->cells[column], csv_text(csv, row, column));
}

int64_t csv_integer(const struct csv *csv, uint32_t row, uint32_t column)
{
    const char *text = csv_text(csv, row, column);
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*end != 0 || errno != 0) bad_number(csv, row, column);
    return value;
}

double csv_real(const struct csv *csv, uint32_t row, uint32_t column)
{
    const char *text = csv_text(csv, row, column);
    char *end;
    double value = strtod(text, &end);
    if (*end != 0) bad_number(csv, row, column);
    return value;
}

/* ---- rows ---- */

void rows_open(struct rows *rows, bool json)
{
    *rows = (struct rows){.json = json};
    if (json) fputs("{\"rows\":[", stdout);
}

static void append(char *text, uint32_t *length, size_t room, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void append(char *text, uint32_t *length, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int written = vsnprintf(text + *length, room - *length, format, args);
    va_end(args);
    if (written < 0 || (size_t)written >= room - *length) published_fail("a row is too long");
    *length += (uint32_t)written;
}

static void field_is(struct rows *rows, const char *field, const char *quote, const char *value)
{
    if (rows->json) {
        append(rows->row, &rows->length, sizeof rows->row, "%s\"%s\": %s%s%s",
               rows->length > 0 ? ", " : "", field, quote, value, quote);
        return;
    }
    int width = strlen(field) < CELL_WIDTH ? CELL_WIDTH : (int)strlen(field);
    append(rows->row, &rows->length, sizeof rows->row, "%-*s ", width, value);
    if (rows->count == 0) {
        append(rows->head, &rows->head_length, sizeof rows->head, "%-*s ", width, field);
    }
}

void rows_text(struct rows *rows, const char *field, const char *value)
{
    char escaped[256];
    size_t length = 0;
    for (; *value != 0 && length + 2 < sizeof escaped; value++) {
        if (rows->json && (*value == '"' || *value == '\\')) escaped[length++] = '\\';
        escaped[length++] = *value;
    }
    escaped[length] = 0;
    field_is(rows, field, "\"", escaped);
}

void rows_integer(struct rows *rows, const char *field, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    field_is(rows, field, "", text);
}

void rows_real(struct rows *rows, const char *field, double value, int decimals)
{
    char text[64];
    snprintf(text, sizeof text, "%.*f", decimals, value);
    field_is(rows, field, "", text);
}

void rows_end(struct rows *rows)
{
    if (rows->json) {
        printf("%s{%s}", rows->count > 0 ? ",\n" : "", rows->row);
    } else {
        if (rows->count == 0) printf("%s\n", rows->head);
        printf("%s\n", rows->row);
    }
    fflush(stdout);
    rows->count++;
    rows->length = 0;
    rows->row[0] = 0;
}

void rows_close(struct rows *rows)
{
    if (rows->json) puts("]}");
    fflush(stdout);
}
