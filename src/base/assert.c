/* What a failed ASSERT of the pure parts does in our programs: say where, then abort. */
#include "core/assert.h"
#include <stdio.h>
#include <stdlib.h>

_Noreturn void pool_assert_failed(const char *file, int line, const char *expression)
{
    fprintf(stderr,
            "%s:%d: assertion failed: %s\nThis is a bug in shoal. Please report this line.\n", file,
            line, expression);
    abort();
}
