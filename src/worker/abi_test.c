/* The table of abi.c is complete: within each struct the fields follow each other, and no gap is as
 * large as a field could be. So a field that shoal.h has and the table lacks shows up here. */
#include "shoal.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Padding before `offset` is only what aligns `bytes` there (at most 8). */
static void check_gap(const char *owner, uint32_t end, uint32_t offset, uint32_t bytes)
{
    uint32_t align = bytes >= 8 ? 8 : bytes;
    uint32_t expected = (end + align - 1) / align * align;
    if (offset != expected)
        fail_msg("struct %s: bytes %u to %u are of no field in abi.c; add the new one there", owner,
                 end, offset);
}

static void table_covers_structs(void **state)
{
    (void)state;
    uint32_t count, end = 0, size = 0, structs = 0;
    const struct shoal_field *field = shoal_fields(&count);
    const char *owner = "";
    for (uint32_t i = 0; i < count; i++) {
        if (field[i].name == NULL) {
            check_gap(owner, end, size, structs == 0 ? 1 : 8);
            owner = field[i].owner;
            size = field[i].bytes;
            end = 0;
            structs++;
            continue;
        }
        assert_string_equal(field[i].owner, owner);
        check_gap(owner, end, field[i].offset, field[i].bytes);
        end = field[i].offset + field[i].bytes;
    }
    check_gap(owner, end, size, 8);
    assert_int_equal(structs, 3);
}

static void version_is_that_of_the_build(void **state)
{
    (void)state;
    char text[32];
    uint32_t version = shoal_version();
    snprintf(text, sizeof text, "%u.%u.%u", version >> 16, version >> 8 & 255, version & 255);
    assert_string_equal(text, SHOAL_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_covers_structs),
        cmocka_unit_test(version_is_that_of_the_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
