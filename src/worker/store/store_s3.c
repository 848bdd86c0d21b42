/* A bucket as a store. Small objects are one PUT; larger ones are multipart uploads, which S3 shows
 * only once completed. The first to write a name is found by a conditional PUT (If-None-Match: *).
 *
 * Lost answers   A request whose answer was lost is tried again (s3.h); then "there is none such
 *                upload" or "there is one already" may be our own doing: the object is looked at
 *                before that is called a failure.
 * Unfinished     An upload that was never completed is listed under its object's name; discarding
 *                it ends all uploads of that name.
 */
#include "base/mem.h"
#include "worker/store/s3.h"
#include "worker/store/s3_xml.h"
#include "worker/store/store_backend.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MAX = 10000, UPLOAD_BYTES = 1024, QUERY_BYTES = 4096, PART_XML_BYTES = 256 };

struct bucket {
    struct s3 *s3;
};

struct bucket_writer {
    struct s3 *s3;
    char name[STORE_NAME_BYTES];
    uint64_t bytes;
    uint8_t *single;             /* the only part, kept until the commit; or NULL */
    char upload[UPLOAD_BYTES];   /* id, encoded for a query; "": single */
    char (*etag)[S3_ETAG_BYTES]; /* [parts], each written by its own put */
};

struct bucket_reader {
    struct s3 *s3;
    char name[STORE_NAME_BYTES], etag[S3_ETAG_BYTES];
};

static void close_bucket(void *self)
{
    struct bucket *bucket = self;
    s3_close(bucket->s3);
    mem_free(bucket);
}

/* The name of a store's object from a key of the bucket; false: not below our prefix. */
static bool take_key(const struct s3 *s3, struct s3_text key, char name[STORE_NAME_BYTES])
{
    size_t prefix = strlen(s3_prefix(s3));
    if (key.count < prefix || memcmp(key.at, s3_prefix(s3), prefix) != 0) return false;
    if (key.count - prefix >= STORE_NAME_BYTES) return false;
    memcpy(name, key.at + prefix, key.count - prefix);
    name[key.count - prefix] = '\0';
    return store_name_is_sound(name);
}

static bool add_rows(const struct s3 *s3, struct s3_text text, const char *row,
                     struct store_listing *listing, struct error *ret_error)
{
    struct s3_text inner;
    while (s3_xml_next(&text, row, &inner)) {
        char name[STORE_NAME_BYTES], size[32] = "0";
        struct s3_text rest = inner, key;
        if (!s3_xml_next(&rest, "Key", &key) || !take_key(s3, key, name)) continue;
        (void)s3_xml_copy(inner, "Size", size, sizeof size); /* uploads have none */
        if (!store_listing_add(listing, name, strtoull(size, NULL, 10), ret_error)) return false;
    }
    return true;
}

/* One page of a listing; *ret_more: ask again with what is in `next`. */
static bool list_page(struct s3 *s3, const char *query, const char *row,
                      struct store_listing *listing, struct s3_answer *answer,
                      struct error *ret_error)
{
    const struct s3_request request = {.method = "GET", .key = "", .query = query};
    if (!s3_send(s3, &request, answer, ret_error)) return false;
    struct s3_text text = {answer->text == NULL ? "" : answer->text, answer->text_bytes};
    if (answer->status / 100 != 2) return s3_refused(s3, &request, answer, ret_error);
    return add_rows(s3, text, row, listing, ret_error);
}

static bool full_prefix(const struct s3 *s3, const char *prefix, char *into, size_t room,
                        struct error *ret_error)
{
    char full[2 * S3_KEY_BYTES];
    snprintf(full, sizeof full, "%s%s", s3_prefix(s3), prefix);
    return s3_encode(full, false, into, room) ||
           error_set(ret_error, "%s: the prefix is too long", s3_url(s3));
}

static bool is_truncated(const struct s3_answer *answer)
{
    char truncated[8] = "";
    struct s3_text text = {answer->text == NULL ? "" : answer->text, answer->text_bytes};
    return s3_xml_copy(text, "IsTruncated", truncated, sizeof truncated) &&
           strcmp(truncated, "true") == 0;
}

/* The text of `tag` in the answer, encoded for a query. */
static bool take_marker(const struct s3_answer *answer, const char *tag, char *into, size_t room)
{
    char raw[UPLOAD_BYTES];
    struct s3_text text = {answer->text == NULL ? "" : answer->text, answer->text_bytes};
    return s3_xml_copy(text, tag, raw, sizeof raw) && s3_encode(raw, false, into, room);
}

static bool list_finished(struct s3 *s3, const char *prefix, struct store_listing *listing,
                          struct error *ret_error)
{
    char token[3 * UPLOAD_BYTES] = "", query[2 * QUERY_BYTES];
    for (;;) {
        struct s3_answer answer;
        snprintf(query, sizeof query, "%s%s%slist-type=2&prefix=%s",
                 token[0] == '\0' ? "" : "continuation-token=", token, token[0] == '\0' ? "" : "&",
                 prefix);
        bool fine = list_page(s3, query, "Contents", listing, &answer, ret_error);
        bool more = fine && is_truncated(&answer);
        if (more && !take_marker(&answer, "NextContinuationToken", token, sizeof token))
            fine = error_set(ret_error, "%s: a listing without its end", s3_url(s3));
        s3_answer_free(&answer);
        if (!fine || !more) return fine;
    }
}

static bool list_uploads(struct s3 *s3, const char *prefix, struct store_listing *listing,
                         struct error *ret_error)
{
    char key[3 * UPLOAD_BYTES] = "", upload[3 * UPLOAD_BYTES] = "", query[3 * QUERY_BYTES];
    for (;;) {
        struct s3_answer answer;
        if (key[0] == '\0')
            snprintf(query, sizeof query, "prefix=%s&uploads=", prefix);
        else
            snprintf(query, sizeof query,
                     "key-marker=%s&prefix=%s&upload-id-marker=%s&uploads=", key, prefix, upload);
        bool fine = list_page(s3, query, "Upload", listing, &answer, ret_error);
        bool more = fine && is_truncated(&answer);
        if (more && (!take_marker(&answer, "NextKeyMarker", key, sizeof key) ||
                     !take_marker(&answer, "NextUploadIdMarker", upload, sizeof upload)))
            fine = error_set(ret_error, "%s: a listing without its end", s3_url(s3));
        s3_answer_free(&answer);
        if (!fine || !more) return fine;
    }
}

static bool list_objects(void *self, const char *prefix, bool unfinished,
                         struct store_listing *listing, struct error *ret_error)
{
    struct s3 *s3 = ((struct bucket *)self)->s3;
    char encoded[QUERY_BYTES];
    if (!full_prefix(s3, prefix, encoded, sizeof encoded, ret_error)) return false;
    return unfinished ? list_uploads(s3, encoded, listing, ret_error)
                      : list_finished(s3, encoded, listing, ret_error);
}

static void free_writer(struct bucket_writer *writer)
{
    mem_free(writer->single);
    mem_free(writer->etag);
    mem_free(writer);
}

static bool begin_upload(struct bucket_writer *writer, struct error *ret_error)
{
    const struct s3_request request = {.method = "POST", .key = writer->name, .query = "uploads="};
    struct s3_answer answer;
    if (!s3_send(writer->s3, &request, &answer, ret_error)) return false;
    bool fine = answer.status / 100 == 2 || s3_refused(writer->s3, &request, &answer, ret_error);
    if (fine && !take_marker(&answer, "UploadId", writer->upload, sizeof writer->upload))
        fine = error_set(ret_error, "%s/%s: the server gave no upload id", s3_url(writer->s3),
                         writer->name);
    s3_answer_free(&answer);
    return fine;
}

static void *create(void *self, const char *name, uint64_t bytes, struct error *ret_error)
{
    struct s3 *s3 = ((struct bucket *)self)->s3;
    uint64_t parts = bytes / STORE_PART_BYTES + 1;
    if (parts > PARTS_MAX) {
        (void)error_set(ret_error, "%s/%s: %" PRIu64 " bytes are more than %d parts of %d MiB",
                        s3_url(s3), name, bytes, PARTS_MAX, STORE_PART_BYTES >> 20);
        return NULL;
    }
    struct bucket_writer *writer = mem_zalloc(1, sizeof *writer);
    bool single = bytes <= STORE_PART_BYTES;
    if (writer != NULL && single) writer->single = mem_alloc(bytes == 0 ? 1 : bytes);
    if (writer != NULL && !single) writer->etag = mem_zalloc(parts, sizeof *writer->etag);
    if (writer == NULL || (writer->single == NULL && writer->etag == NULL)) {
        mem_free(writer);
        (void)error_set(ret_error, "%s/%s: out of memory for writing it", s3_url(s3), name);
        return NULL;
    }
    writer->s3 = s3;
    writer->bytes = bytes;
    snprintf(writer->name, sizeof writer->name, "%s", name);
    if (single || begin_upload(writer, ret_error)) return writer;
    free_writer(writer);
    return NULL;
}

static bool put_part(void *self, uint32_t index, const void *bytes, size_t count,
                     struct error *ret_error)
{
    struct bucket_writer *writer = self;
    if (writer->single != NULL) {
        if (count > 0) memcpy(writer->single, bytes, count);
        return true;
    }
    char query[UPLOAD_BYTES + 64];
    snprintf(query, sizeof query, "partNumber=%u&uploadId=%s", index + 1, writer->upload);
    const struct s3_request request = {
        .method = "PUT", .key = writer->name, .query = query, .body = bytes, .body_bytes = count};
    struct s3_answer answer;
    if (!s3_send(writer->s3, &request, &answer, ret_error)) return false;
    bool fine = answer.status / 100 == 2 || s3_refused(writer->s3, &request, &answer, ret_error);
    if (fine && answer.etag[0] == '\0')
        fine = error_set(ret_error, "%s/%s: the server gave part %u no etag", s3_url(writer->s3),
                         writer->name, index + 1);
    if (fine) memcpy(writer->etag[index], answer.etag, S3_ETAG_BYTES);
    s3_answer_free(&answer);
    return fine;
}

/* Is there an object of this name and length? *ret_etag may be NULL. */
static bool look_at(struct s3 *s3, const char *name, bool *ret_there, uint64_t *ret_bytes,
                    char *ret_etag, struct error *ret_error)
{
    const struct s3_request request = {.method = "HEAD", .key = name};
    struct s3_answer answer;
    if (!s3_send(s3, &request, &answer, ret_error)) return false;
    s3_answer_free(&answer);
    *ret_there = answer.status / 100 == 2;
    *ret_bytes = answer.length;
    if (ret_etag != NULL) memcpy(ret_etag, answer.etag, S3_ETAG_BYTES);
    return *ret_there || answer.status == 404 || s3_refused(s3, &request, &answer, ret_error);
}

static bool put_single(struct bucket_writer *writer, struct error *ret_error)
{
    const struct s3_request request = {.method = "PUT",
                                       .key = writer->name,
                                       .body = writer->single,
                                       .body_bytes = (size_t)writer->bytes};
    struct s3_answer answer;
    if (!s3_send(writer->s3, &request, &answer, ret_error)) return false;
    bool fine = answer.status / 100 == 2 || s3_refused(writer->s3, &request, &answer, ret_error);
    s3_answer_free(&answer);
    return fine;
}

/* The list of parts that completes an upload; NULL: out of memory. */
static char *list_of_parts(const struct bucket_writer *writer, size_t *ret_count)
{
    uint32_t parts = store_parts(writer->bytes);
    size_t room = ((size_t)parts + 1) * (PART_XML_BYTES + S3_ETAG_BYTES), at = 0;
    char *text = mem_alloc(room);
    if (text == NULL) return NULL;
    at += (size_t)snprintf(text, room, "<CompleteMultipartUpload>");
    for (uint32_t i = 0; i < parts; i++)
        at += (size_t)snprintf(text + at, room - at,
                               "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", i + 1,
                               writer->etag[i]);
    at += (size_t)snprintf(text + at, room - at, "</CompleteMultipartUpload>");
    *ret_count = at;
    return text;
}

/* The answer may say "no such upload" because a lost try completed it, and may be an error in spite
 * of its status 200. */
static bool was_completed(struct bucket_writer *writer, const struct s3_request *request,
                          const struct s3_answer *answer, struct error *ret_error)
{
    char code[64];
    struct s3_text text = {answer->text == NULL ? "" : answer->text, answer->text_bytes};
    bool error = s3_xml_copy(text, "Code", code, sizeof code);
    if (answer->status / 100 == 2 && !error) return true;
    uint64_t bytes;
    bool there = false;
    if (answer->uncertain && !look_at(writer->s3, writer->name, &there, &bytes, NULL, ret_error))
        return false;
    if (there && bytes == writer->bytes) return true;
    return s3_refused(writer->s3, request, answer, ret_error);
}

static bool complete(struct bucket_writer *writer, struct error *ret_error)
{
    char query[UPLOAD_BYTES + 16];
    size_t count;
    char *parts = list_of_parts(writer, &count);
    if (parts == NULL)
        return error_set(ret_error, "%s/%s: out of memory for its parts", s3_url(writer->s3),
                         writer->name);
    snprintf(query, sizeof query, "uploadId=%s", writer->upload);
    const struct s3_request request = {
        .method = "POST", .key = writer->name, .query = query, .body = parts, .body_bytes = count};
    struct s3_answer answer;
    bool fine = s3_send(writer->s3, &request, &answer, ret_error);
    fine = fine && was_completed(writer, &request, &answer, ret_error);
    s3_answer_free(&answer);
    mem_free(parts);
    return fine;
}

static bool end_upload(struct s3 *s3, const char *name, const char *upload, struct error *ret_error)
{
    char query[UPLOAD_BYTES + 16];
    snprintf(query, sizeof query, "uploadId=%s", upload);
    const struct s3_request request = {.method = "DELETE", .key = name, .query = query};
    struct s3_answer answer;
    if (!s3_send(s3, &request, &answer, ret_error)) return false;
    bool fine = answer.status / 100 == 2 || answer.status == 404 ||
                s3_refused(s3, &request, &answer, ret_error);
    s3_answer_free(&answer);
    return fine;
}

static void abort_writer(void *self)
{
    struct bucket_writer *writer = self;
    if (writer->upload[0] != '\0') /* fails: it stays listed as unfinished */
        (void)end_upload(writer->s3, writer->name, writer->upload, NULL);
    free_writer(writer);
}

static bool commit(void *self, struct error *ret_error)
{
    struct bucket_writer *writer = self;
    bool fine =
        writer->single != NULL ? put_single(writer, ret_error) : complete(writer, ret_error);
    if (fine)
        free_writer(writer);
    else
        abort_writer(writer);
    return fine;
}

/* Does the object hold exactly these bytes? Then the one who wrote it was us. */
static bool holds(struct s3 *s3, const char *name, const void *bytes, size_t count)
{
    uint8_t *there = mem_alloc(count == 0 ? 1 : count);
    const struct s3_request request = {
        .method = "GET", .key = name, .into = there, .into_bytes = count};
    struct s3_answer answer;
    bool same = there != NULL && s3_send(s3, &request, &answer, NULL);
    if (same) {
        same = answer.status / 100 == 2 && memcmp(there, bytes, count) == 0;
        s3_answer_free(&answer);
    }
    mem_free(there);
    return same;
}

static enum store_put put_if_absent(void *self, const char *name, const void *bytes, size_t count,
                                    struct error *ret_error)
{
    struct s3 *s3 = ((struct bucket *)self)->s3;
    const struct s3_request request = {.method = "PUT",
                                       .key = name,
                                       .header = "If-None-Match: *",
                                       .body = bytes,
                                       .body_bytes = count};
    struct s3_answer answer;
    bool there;
    uint64_t old_bytes;
    /* Servers without conditional writes take the header and overwrite: look first. */
    if (!look_at(s3, name, &there, &old_bytes, NULL, ret_error)) return STORE_PUT_FAILED;
    if (there) {
        (void)error_set(ret_error, "%s/%s: is there already", s3_url(s3), name);
        return STORE_PUT_EXISTS;
    }
    if (!s3_send(s3, &request, &answer, ret_error)) return STORE_PUT_FAILED;
    s3_answer_free(&answer);
    if (answer.status / 100 == 2) return STORE_PUT_DONE;
    if (answer.uncertain && holds(s3, name, bytes, count)) return STORE_PUT_DONE;
    (void)s3_refused(s3, &request, &answer, ret_error);
    return answer.status == 412 || answer.status == 409 ? STORE_PUT_EXISTS : STORE_PUT_FAILED;
}

static void *open_object(void *self, const char *name, uint64_t *ret_bytes, struct error *ret_error)
{
    struct s3 *s3 = ((struct bucket *)self)->s3;
    struct bucket_reader *reader = mem_zalloc(1, sizeof *reader);
    bool there = false;
    if (reader == NULL) {
        (void)error_set(ret_error, "%s/%s: out of memory for reading it", s3_url(s3), name);
        return NULL;
    }
    reader->s3 = s3;
    snprintf(reader->name, sizeof reader->name, "%s", name);
    bool looked = look_at(s3, name, &there, ret_bytes, reader->etag, ret_error);
    if (looked && there) return reader;
    if (looked) (void)error_set(ret_error, "%s/%s: there is no such object", s3_url(s3), name);
    mem_free(reader);
    return NULL;
}

static bool read_object(void *self, uint64_t offset, void *bytes, size_t count,
                        struct error *ret_error)
{
    struct bucket_reader *reader = self;
    char header[S3_ETAG_BYTES + 128];
    snprintf(header, sizeof header, "Range: bytes=%" PRIu64 "-%" PRIu64, offset,
             offset + count - 1);
    const struct s3_request request = {
        .method = "GET", .key = reader->name, .header = header, .into = bytes, .into_bytes = count};
    struct s3_answer answer;
    if (!s3_send(reader->s3, &request, &answer, ret_error)) return false;
    bool fine = answer.status / 100 == 2 || s3_refused(reader->s3, &request, &answer, ret_error);
    if (fine && strcmp(answer.etag, reader->etag) != 0)
        fine = error_set(ret_error, "%s/%s: was written again while it was read",
                         s3_url(reader->s3), reader->name);
    s3_answer_free(&answer);
    return fine;
}

static void close_reader(void *self)
{
    mem_free(self);
}

static bool remove_object(void *self, const char *name, struct error *ret_error)
{
    struct s3 *s3 = ((struct bucket *)self)->s3;
    const struct s3_request request = {.method = "DELETE", .key = name};
    struct s3_answer answer;
    if (!s3_send(s3, &request, &answer, ret_error)) return false;
    bool fine = answer.status / 100 == 2 || answer.status == 404 ||
                s3_refused(s3, &request, &answer, ret_error);
    s3_answer_free(&answer);
    return fine;
}

/* Ends the uploads of exactly this name that one page lists; *ret_ended says whether any was. */
static bool end_page(struct s3 *s3, const char *name, bool *ret_ended, struct error *ret_error)
{
    char prefix[QUERY_BYTES], query[QUERY_BYTES + 32];
    struct s3_answer answer;
    struct s3_text inner;
    *ret_ended = false;
    if (!full_prefix(s3, name, prefix, sizeof prefix, ret_error)) return false;
    snprintf(query, sizeof query, "prefix=%s&uploads=", prefix);
    const struct s3_request request = {.method = "GET", .key = "", .query = query};
    if (!s3_send(s3, &request, &answer, ret_error)) return false;
    bool fine = answer.status / 100 == 2 || s3_refused(s3, &request, &answer, ret_error);
    struct s3_text text = {answer.text == NULL ? "" : answer.text, answer.text_bytes};
    while (fine && s3_xml_next(&text, "Upload", &inner)) {
        char found[STORE_NAME_BYTES], raw[UPLOAD_BYTES], upload[UPLOAD_BYTES];
        struct s3_text rest = inner, key;
        if (!s3_xml_next(&rest, "Key", &key) || !take_key(s3, key, found)) continue;
        if (strcmp(found, name) != 0 || !s3_xml_copy(inner, "UploadId", raw, sizeof raw)) continue;
        fine =
            s3_encode(raw, false, upload, sizeof upload) && end_upload(s3, name, upload, ret_error);
        *ret_ended = true;
    }
    s3_answer_free(&answer);
    return fine;
}

static bool discard(void *self, const char *name, struct error *ret_error)
{
    struct s3 *s3 = ((struct bucket *)self)->s3;
    if (!store_name_is_sound(name))
        return error_set(ret_error, "%.100s: not an unfinished write", name);
    for (int page = 0; page < PARTS_MAX; page++) {
        bool ended;
        if (!end_page(s3, name, &ended, ret_error)) return false;
        if (!ended) return true;
    }
    return error_set(ret_error, "%s/%s: its uploads do not end", s3_url(s3), name);
}

static const struct store_backend backend = {
    .close = close_bucket,
    .list = list_objects,
    .create = create,
    .put_part = put_part,
    .commit = commit,
    .abort = abort_writer,
    .put_if_absent = put_if_absent,
    .open = open_object,
    .read = read_object,
    .close_reader = close_reader,
    .remove = remove_object,
    .discard = discard,
};

struct store *store_s3_open(const char *url, struct error *ret_error)
{
    struct bucket *bucket = mem_zalloc(1, sizeof *bucket);
    if (bucket == NULL) {
        (void)error_set(ret_error, "%.100s: out of memory", url);
        return NULL;
    }
    bucket->s3 = s3_open(url, ret_error);
    if (bucket->s3 == NULL) {
        mem_free(bucket);
        return NULL;
    }
    return store_of(&backend, bucket, s3_url(bucket->s3), ret_error);
}
