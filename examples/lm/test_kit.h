/* What every test of this folder includes: cmocka and what cmocka wants before it. */
#ifndef SHOAL_EXAMPLES_LM_TEST_KIT_H
#define SHOAL_EXAMPLES_LM_TEST_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
