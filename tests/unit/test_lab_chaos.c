/* Whole commands of worsegpu-lab while memory runs out at each point: they end with 4, leak
 * nothing, and what they print with --json is one document all the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "lab/lab.h"
#include "tests/support/chaos.h"

enum {
    MOST_WORDS = 20
};

#define LOG                                                                                        \
    "{\"operation\":\"allocate\",\"allocation_id\":1,\"requested_bytes\":1000,\"sequence\":1}\n"   \
    "{\"operation\":\"allocate\",\"allocation_id\":2,\"requested_bytes\":3000000,\"sequence\":2,"  \
    "\"stream\":1}\n"                                                                              \
    "{\"operation\":\"free\",\"allocation_id\":1,\"sequence\":3}\n"

#define RECORD                                                                                     \
    "{\"allocator\":\"OSTEP malloc.py\",\"source\":\"a test\",\"commit\":\"0\",\"configuration\":" \
    "{\"policy\":\"FIRST\",\"list_order\":\"ADDRSORT\",\"coalesce\":true,\"header_size\":0,"       \
    "\"alignment\":-1,\"base_address\":1000},\"capacity\":100,\"sequence\":\"by hand\"}\n"         \
    "{\"op\":\"allocate\",\"id\":0,\"size\":10,\"offset\":1,\"searched\":1}\n"

struct command {
    const char *words[MOST_WORDS]; /* "@" is the log; ends with NULL */
    const char *log;
    int status; /* with all the memory it wants */
    bool json;
};

static void write_file(char name[64], const char *content)
{
    snprintf(name, 64, "/tmp/worsegpu-test-XXXXXX");
    int file = mkstemp(name);
    assert_true(file >= 0);
    assert_int_equal(write(file, content, strlen(content)), (ssize_t)strlen(content));
    close(file);
}

/* Runs it; *printed is what went to standard output. */
static int run(const struct command *command, const char *log, const struct worsegpu_memory *memory,
               char **printed)
{
    char words[MOST_WORDS][80];
    char *argv[MOST_WORDS];
    int count = 0;
    for (; command->words[count]; count++) {
        const char *word = command->words[count];
        snprintf(words[count], sizeof(words[0]), "%s", strcmp(word, "@") == 0 ? log : word);
        argv[count] = words[count];
    }
    char *said = NULL;
    size_t length = 0;
    size_t said_length = 0;
    FILE *out = open_memstream(printed, &length);
    FILE *errors = open_memstream(&said, &said_length);
    assert_true(out && errors);
    int status = lab_main(count, argv, memory, out, errors);
    fclose(out);
    fclose(errors);
    free(said);
    return status;
}

static bool without_memory(struct chaos *chaos, void *context)
{
    const struct command *command = context;
    char log[64];
    char *printed = NULL;
    write_file(log, command->log);
    chaos_hook_cjson(chaos);
    int status = run(command, log, &chaos->memory, &printed);
    chaos_hook_cjson(NULL);
    unlink(log);
    /* Before the options are read, nobody knows that JSON is wanted. */
    if (command->json && printed[0] != '\0') {
        cJSON *document = cJSON_Parse(printed);
        assert_non_null(document);
        cJSON_Delete(document);
    }
    free(printed);
    if (status == command->status)
        return true;
    assert_int_equal(status, LAB_MEMORY);
    return false;
}

static void survives(const struct command *command)
{
    struct command copy = *command;
    assert_true(chaos_loop(without_memory, &copy) > 0);
}

static void test_list_without_memory(void **state)
{
    (void)state;
    survives(&(struct command){{"worsegpu-lab", "list", NULL}, LOG, LAB_FINE, false});
    survives(&(struct command){{"worsegpu-lab", "list", "--json", NULL}, LOG, LAB_FINE, true});
}

static void test_inspect_without_memory(void **state)
{
    (void)state;
    survives(&(struct command){{"worsegpu-lab", "inspect", "@", NULL}, LOG, LAB_FINE, false});
    survives(
        &(struct command){{"worsegpu-lab", "inspect", "--json", "@", NULL}, LOG, LAB_FINE, true});
}

static void test_convert_without_memory(void **state)
{
    (void)state;
    survives(&(struct command){{"worsegpu-lab", "convert", "@", NULL}, LOG, LAB_FINE, false});
}

static void test_verify_without_memory(void **state)
{
    (void)state;
    survives(&(struct command){{"worsegpu-lab", "verify", "@", NULL}, RECORD, LAB_BAD, false});
    survives(
        &(struct command){{"worsegpu-lab", "verify", "--json", "@", NULL}, RECORD, LAB_BAD, true});
}

static void test_compare_without_memory(void **state)
{
    (void)state;
    survives(&(struct command){{"worsegpu-lab", "compare", "--quick", "--no-time", "--policy",
                                "torch", "--policy", "worse", "@", NULL},
                               LOG,
                               LAB_FINE,
                               false});
    survives(&(struct command){
        {"worsegpu-lab", "compare", "--json", "--time", "--policy", "list_fit", "@", NULL},
        LOG,
        LAB_FINE,
        true});
}

static void test_fit_without_memory(void **state)
{
    (void)state;
    survives(&(struct command){
        {"worsegpu-lab", "fit", "--policy", "list_fit", "--vary", "fit=worst", "@", NULL},
        LOG,
        LAB_FINE,
        false});
    survives(&(struct command){
        {"worsegpu-lab", "fit", "--json", "--policy", "buddy", "@", NULL}, LOG, LAB_FINE, true});
}

/* The second allocation does not fit; and one where all do. */
static void test_explain_without_memory(void **state)
{
    (void)state;
    survives(&(struct command){
        {"worsegpu-lab", "explain", "--policy", "list_fit", "--capacity", "3MB", "@", NULL},
        LOG,
        LAB_FINE,
        false});
    survives(
        &(struct command){{"worsegpu-lab", "explain", "--json", "--capacity", "1GiB", "@", NULL},
                          LOG,
                          LAB_FINE,
                          true});
    survives(&(struct command){{"worsegpu-lab", "explain", "--json", "--oom",
                                "CUDA out of memory. Tried to allocate 2.00 GiB.", NULL},
                               LOG,
                               LAB_FINE,
                               true});
}

/* Every output at once, where the second allocation is refused; and one to standard output. */
static void test_replay_without_memory(void **state)
{
    (void)state;
    survives(
        &(struct command){{"worsegpu-lab", "replay", "--json", "--capacity", "3MB", "@", "--csv",
                           "/dev/null", "--ndjson", "/dev/null", "--chrome-trace", "/dev/null",
                           "--snapshot", "/dev/null", "--html", "/dev/null", "--quick", NULL},
                          LOG,
                          LAB_FINE,
                          true});
    survives(&(struct command){
        {"worsegpu-lab", "replay", "--policy", "list_fit", "--csv", "-", "@", NULL},
        LOG,
        LAB_FINE,
        false});
}

static void test_numbers_have_commas(void **state)
{
    (void)state;
    char text[LAB_NUMBER_SIZE];
    assert_string_equal(lab_number(0, text), "0");
    assert_string_equal(lab_number(999, text), "999");
    assert_string_equal(lab_number(1000, text), "1,000");
    assert_string_equal(lab_number(UINT64_MAX, text), "18,446,744,073,709,551,615");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_without_memory),
        cmocka_unit_test(test_inspect_without_memory),
        cmocka_unit_test(test_convert_without_memory),
        cmocka_unit_test(test_verify_without_memory),
        cmocka_unit_test(test_compare_without_memory),
        cmocka_unit_test(test_fit_without_memory),
        cmocka_unit_test(test_explain_without_memory),
        cmocka_unit_test(test_replay_without_memory),
        cmocka_unit_test(test_numbers_have_commas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
