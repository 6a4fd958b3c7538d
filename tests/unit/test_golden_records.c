/* What real allocators answered (../shared/golden-allocators, and PyTorch's own traces), against
 * the models, in this process: any wrong answer of a model is noticed here, and so is any change of
 * one. The same through the installed program is in tests/integration/test_lab_verify.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lab/lab.h"

enum {
    PATTERN_SIZE = 512
};

/* Every record of the pattern is verified, and all is equal. */
static void verify(const char *pattern)
{
    const char *shared = getenv("WORSEGPU_SHARED");
    char whole[PATTERN_SIZE];
    glob_t found;
    snprintf(whole, sizeof(whole), "%s/%s", shared ? shared : "../shared", pattern);
    if (glob(whole, GLOB_BRACE, NULL, &found) != 0) {
        print_message("there are no records %s\n", whole);
        skip();
    }
    char **arguments = calloc(found.gl_pathc + 3, sizeof(*arguments));
    assert_non_null(arguments);
    char program[] = "worsegpu-lab";
    char command[] = "verify";
    arguments[0] = program;
    arguments[1] = command;
    memcpy(arguments + 2, found.gl_pathv, found.gl_pathc * sizeof(*arguments));
    char *printed = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&printed, &length);
    assert_non_null(out);
    int status = lab_main((int)found.gl_pathc + 2, arguments, memory_system(), out, out);
    fclose(out);
    if (status != LAB_FINE)
        fail_msg("%s", printed);
    assert_null(strstr(printed, "mismatch"));
    free(printed);
    free(arguments);
    globfree(&found);
}

static void test_the_records_of_the_course_s_list_are_equal(void **state)
{
    (void)state;
    verify("golden-allocators/ostep/*.ndjson");
}

static void test_the_records_of_tlsf_are_equal(void **state)
{
    (void)state;
    verify("golden-allocators/tlsf/*.ndjson");
}

static void test_the_records_of_offset_allocator_are_equal(void **state)
{
    (void)state;
    verify("golden-allocators/offset-allocator/*.ndjson");
}

static void test_the_records_of_vma_are_equal(void **state)
{
    (void)state;
    verify("golden-allocators/vma/*.ndjson");
}

static void test_the_records_of_rmm_are_equal(void **state)
{
    (void)state;
    verify("golden-allocators/rmm/*.ndjson");
}

static void test_the_records_of_bfc_are_equal(void **state)
{
    (void)state;
    verify("golden-allocators/bfc/*.ndjson");
}

static void test_the_records_of_torch_are_equal(void **state)
{
    (void)state;
    verify("golden-allocators/torch/*.ndjson");
}

static void test_the_traces_of_torch_are_equal(void **state)
{
    (void)state;
    verify("logs/torch/{course-*,decomfl}.pickle");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_records_of_the_course_s_list_are_equal),
        cmocka_unit_test(test_the_records_of_tlsf_are_equal),
        cmocka_unit_test(test_the_records_of_offset_allocator_are_equal),
        cmocka_unit_test(test_the_records_of_vma_are_equal),
        cmocka_unit_test(test_the_records_of_rmm_are_equal),
        cmocka_unit_test(test_the_records_of_bfc_are_equal),
        cmocka_unit_test(test_the_records_of_torch_are_equal),
        cmocka_unit_test(test_the_traces_of_torch_are_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
