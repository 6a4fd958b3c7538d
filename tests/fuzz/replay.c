/* Runs a fuzz target over its corpus, tests/fuzz/corpus/NAME, without libFuzzer: linked with each
 * fuzz_NAME.c for `make test`. What once went wrong stays in the corpus and is tried for ever. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *bytes = NULL;
    size_t length = 0;
    FILE *copy = open_memstream(&bytes, &length);
    assert_non_null(copy);
    char piece[4096];
    for (size_t got; (got = fread(piece, 1, sizeof(piece), file)) > 0;)
        assert_int_equal(fwrite(piece, 1, got, copy), got);
    fclose(file);
    assert_int_equal(fclose(copy), 0);
    /* As long as it is, and no byte longer, so that a sanitizer sees what reads beyond it. */
    uint8_t *exact = malloc(length > 0 ? length : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, length);
    free(bytes);
    assert_int_equal(LLVMFuzzerTestOneInput(exact, length), 0);
    free(exact);
}

static void test_the_corpus_does_no_harm(void **state)
{
    char folder[256];
    snprintf(folder, sizeof(folder), "tests/fuzz/corpus/%s", program_invocation_short_name);
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    size_t files = 0;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char path[1024];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        run_file(path);
        files++;
    }
    closedir(directory);
    assert_true(files > 0);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_corpus_does_no_harm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
