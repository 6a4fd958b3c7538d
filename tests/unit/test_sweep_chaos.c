/* sweep and merge while memory runs out at each point: they end with 4, leak nothing, and the file
 * of results can be gone on with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/lab.h"
#include "tests/support/chaos.h"

enum {
    MOST_WORDS = 16,
    PATH_SIZE = 128
};

/* The files of one test, in a folder of their own. */
struct files {
    char folder[PATH_SIZE];
    char log[2 * PATH_SIZE];
    char output[2 * PATH_SIZE];
    char merged[2 * PATH_SIZE];
    char csv[2 * PATH_SIZE];
};

static void make_files(struct files *files)
{
    snprintf(files->folder, sizeof(files->folder), "/tmp/worsegpu-test-XXXXXX");
    assert_non_null(mkdtemp(files->folder));
    snprintf(files->log, sizeof(files->log), "%s/log", files->folder);
    snprintf(files->output, sizeof(files->output), "%s/results", files->folder);
    snprintf(files->merged, sizeof(files->merged), "%s/merged", files->folder);
    snprintf(files->csv, sizeof(files->csv), "%s/csv", files->folder);
    FILE *log = fopen(files->log, "we");
    assert_non_null(log);
    fputs("+1000,+3000000,-0,+500\n", log);
    fclose(log);
}

static void remove_files(const struct files *files)
{
    unlink(files->log);
    unlink(files->output);
    unlink(files->merged);
    unlink(files->csv);
    assert_int_equal(rmdir(files->folder), 0);
}

/* The words end with NULL. */
static int run(const struct worsegpu_memory *memory, const char *const *words)
{
    char copies[MOST_WORDS][2 * PATH_SIZE];
    char *argv[MOST_WORDS];
    int count = 0;
    char *said = NULL;
    size_t length = 0;
    for (; words[count]; count++) {
        snprintf(copies[count], sizeof(copies[0]), "%s", words[count]);
        argv[count] = copies[count];
    }
    FILE *out = open_memstream(&said, &length);
    assert_non_null(out);
    int status = lab_main(count, argv, memory, out, out);
    fclose(out);
    free(said);
    return status;
}

static int sweep(const struct files *files, const struct worsegpu_memory *memory)
{
    const char *const words[] = {"worsegpu-lab", "sweep",    "--log",    files->log,
                                 "--policy",     "list_fit", "--vary",   "fit=first,best",
                                 "--jobs",       "1",        "--output", files->output,
                                 "--csv",        files->csv, NULL};
    return run(memory, words);
}

static int merge(const struct files *files, const struct worsegpu_memory *memory)
{
    const char *const words[] = {"worsegpu-lab", "merge", files->output, "--output",
                                 files->merged,  "--csv", files->csv,    NULL};
    return run(memory, words);
}

static bool sweep_without_memory(struct chaos *chaos, void *context)
{
    const struct files *files = context;
    unlink(files->output);
    chaos_hook_cjson(chaos);
    int status = sweep(files, &chaos->memory);
    chaos_hook_cjson(NULL);
    assert_true(status == LAB_FINE || status == LAB_MEMORY);
    if (status == LAB_FINE)
        return true;
    struct chaos calm;
    chaos_init(&calm);
    assert_int_equal(sweep(files, &calm.memory), LAB_FINE);
    return false;
}

static void test_sweep_without_memory_can_be_gone_on_with(void **state)
{
    (void)state;
    struct files files;
    make_files(&files);
    assert_true(chaos_loop(sweep_without_memory, &files) > 0);
    remove_files(&files);
}

static bool merge_without_memory(struct chaos *chaos, void *context)
{
    const struct files *files = context;
    chaos_hook_cjson(chaos);
    int status = merge(files, &chaos->memory);
    chaos_hook_cjson(NULL);
    assert_true(status == LAB_FINE || status == LAB_MEMORY);
    return status == LAB_FINE;
}

static void test_merge_without_memory_leaves_nothing_half(void **state)
{
    (void)state;
    struct files files;
    struct chaos calm;
    make_files(&files);
    chaos_init(&calm);
    assert_int_equal(sweep(&files, &calm.memory), LAB_FINE);
    assert_true(chaos_loop(merge_without_memory, &files) > 0);
    remove_files(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sweep_without_memory_can_be_gone_on_with),
        cmocka_unit_test(test_merge_without_memory_leaves_nothing_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
