/* The rules of the format, one refusal each, and the two files whose hashes are published. */
#include "base/mem.h"
#include "worker/ckpt/safetensors.h"
#include <openssl/sha.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Builds a file with this header text (as given, no padding) and `data` bytes of data. */
static bool parses(const char *header, uint64_t data_bytes)
{
    static char bytes[4096];
    uint64_t length = strlen(header);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    struct safetensors file;
    struct error error;
    bool sound =
        safetensors_parse(bytes, 8 + length + data_bytes, 8 + length + data_bytes, &file, &error);
    if (sound) safetensors_free(&file);
    return sound;
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        uint64_t data_bytes;
    } bad[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9},   /* trailing */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7},   /* short */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12}, /* hole */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
         12}, /* overlap */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,8],\"data_offsets\":[0,0]}}", 0},
        {"{\"__metadata__\":{\"k\":1}}", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
         8},
        {" {}", 0},
        {"{\"a\":{\"dtype\":\"F99\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2}, /* 12 bits */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8},
        {"[]", 0},
        {"", 0},
        {"{\"a\"", 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(parses(bad[i].header, bad[i].data_bytes));
    assert_true(parses("{}", 0));
    assert_true(parses("{\"a\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]}}  ", 2));
}

static void lengths(void **state)
{
    (void)state;
    char bytes[16] = {0};
    struct safetensors file;
    uint64_t huge[] = {0, UINT64_C(1) << 63, 9, 100000001};
    for (size_t i = 0; i < 4; i++) {
        memcpy(bytes, &huge[i], 8);
        memcpy(bytes + 8, "{}      ", 8);
        assert_false(safetensors_parse(bytes, 16, 16, &file, NULL));
    }
    assert_false(safetensors_parse(bytes, 7, 7, &file, NULL));
}

static void check_hash(const struct safetensors_entry *entry, uint32_t count, const void *data,
                       size_t data_bytes, size_t file_bytes, const char *sha256)
{
    char *header, bytes[512], text[65];
    size_t header_bytes;
    assert_true(safetensors_header(entry, count, NULL, 0, 0, 8, &header, &header_bytes, NULL));
    memcpy(bytes, header, header_bytes);
    memcpy(bytes + header_bytes, data, data_bytes);
    mem_free(header);
    assert_int_equal(header_bytes + data_bytes, file_bytes);
    unsigned char digest[32];
    SHA256((const unsigned char *)bytes, file_bytes, digest);
    for (int i = 0; i < 32; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, sha256);
    struct safetensors file;
    assert_true(safetensors_parse(bytes, file_bytes, file_bytes, &file, NULL));
    assert_int_equal(file.count, count);
    assert_string_equal(file.entry[0].name, entry[0].name);
    safetensors_free(&file);
}

static void published_vector(void **state)
{
    (void)state;
    const float data[2] = {1, 2};
    struct safetensors_entry entry = {"a", "F32", {2}, 1, 0, 8};
    check_hash(&entry, 1, data, sizeof data, 72,
               "dfd92c4ba718bb628e136b1bd5ee54816041331903a0071b0155fa119061ccec");
}

static void published_vector_with_metadata_is_read(void **state)
{
    (void)state;
    const char *header =
        "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"BF16\",\"shape\":"
        "[0,3],\"data_offsets\":[0,0]},\"s\":{\"dtype\":\"I64\",\"shape\":[],"
        "\"data_offsets\":[0,8]}}";
    assert_true(parses(header, 8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals),
        cmocka_unit_test(lengths),
        cmocka_unit_test(published_vector),
        cmocka_unit_test(published_vector_with_metadata_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
