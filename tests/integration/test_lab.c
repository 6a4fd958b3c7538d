/* worsegpu-lab as a program: its command line, list, inspect and convert, on logs that the tests
 * write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "lab/logs/log.h"
#include "lib/policy.h"
#include "tests/support/real_process.h"

/* Three allocations on two streams, one of them never freed, with times. */
#define LOG                                                                                        \
    "{\"operation\":\"allocate\",\"allocation_id\":1,\"requested_bytes\":1000,\"sequence\":1,"     \
    "\"time_us\":0}\n"                                                                             \
    "{\"operation\":\"allocate\",\"allocation_id\":2,\"requested_bytes\":3000,\"sequence\":2,"     \
    "\"time_us\":5,\"stream\":1}\n"                                                                \
    "{\"operation\":\"free\",\"allocation_id\":2,\"sequence\":3,\"time_us\":1005}\n"               \
    "{\"operation\":\"allocate_failed\",\"requested_bytes\":4096,\"sequence\":4,"                  \
    "\"time_us\":1010}\n"                                                                          \
    "{\"operation\":\"allocate\",\"allocation_id\":3,\"requested_bytes\":1024,\"sequence\":5,"     \
    "\"time_us\":2000,\"alignment\":256,\"upper\":true}\n"                                         \
    "{\"operation\":\"free\",\"allocation_id\":3,\"sequence\":6,\"time_us\":2010}\n"

static const char *lab(struct real_room *room)
{
    return real_program(room, "worsegpu-lab");
}

static const char *write_log(struct real_room *room, const char *name, const char *content)
{
    const char *path = real_room_path(room, name);
    real_room_write(room, path, content);
    return path;
}

static void says(struct real_room *room, const struct real_process *process, const char *part)
{
    const char *output = real_process_output(room, process);
    if (!strstr(output, part))
        fail_msg("not in what was printed: %s\n%s", part, output);
}

static void complains(struct real_room *room, struct real_process *process, int status,
                      const char *part)
{
    const char *errors = real_process_errors(room, process);
    if (real_process_wait(process) != status || !strstr(errors, part))
        fail_msg("status %d, not %d, or not in the complaint: %s\n%s", real_process_wait(process),
                 status, part, errors);
}

/* ------------------------------------------------------------------------------ the command line
 */

static void test_without_a_command_it_says_what_it_is(void **state)
{
    struct real_room *room = *state;
    complains(room, real_process_run(room, NULL, lab(room), NULL), 2, "recorded logs");
}

static void test_a_mistyped_command_option_and_policy_get_the_nearest_real_one(void **state)
{
    struct real_room *room = *state;
    const char *log = write_log(room, "log", LOG);
    complains(room, real_process_run(room, NULL, lab(room), "inspcet", log, NULL), 2,
              "did you mean: worsegpu-lab inspect");
    complains(room, real_process_run(room, NULL, lab(room), "compare", "--polcy", "x", log, NULL),
              2, "did you mean --policy?");
    complains(room,
              real_process_run(room, NULL, lab(room), "compare", "--policy", "tocrh", log, NULL), 2,
              "'torch'");
    complains(room,
              real_process_run(room, NULL, lab(room), "inspect", "--format", "rmm-cvs", log, NULL),
              2, "rmm-csv");
}

static void test_every_command_teaches_with_an_example(void **state)
{
    struct real_room *room = *state;
    static const char *const COMMANDS[] = {"inspect", "verify", "compare",
                                           "convert", "list",   "help"};
    for (size_t i = 0; i < sizeof(COMMANDS) / sizeof(COMMANDS[0]); i++) {
        char example[64];
        struct real_process *process =
            real_process_run(room, NULL, lab(room), COMMANDS[i], "--help", NULL);
        assert_int_equal(real_process_wait(process), 0);
        says(room, process, "Examples");
        snprintf(example, sizeof(example), "  worsegpu-lab %s", COMMANDS[i]);
        says(room, process, example);
        process = real_process_run(room, NULL, lab(room), "help", NULL);
        says(room, process, COMMANDS[i]);
    }
}

static void test_a_missing_a_bad_and_an_empty_log_have_their_own_ends(void **state)
{
    struct real_room *room = *state;
    const char *bad = write_log(room, "bad", "this is no log\n");
    const char *empty = write_log(room, "empty", "");
    complains(room,
              real_process_run(room, NULL, lab(room), "inspect", real_room_path(room, "no"), NULL),
              3, "No such file");
    complains(room, real_process_run(room, NULL, lab(room), "inspect", bad, NULL), 1, "line 1");
    complains(room, real_process_run(room, NULL, lab(room), "inspect", empty, NULL), 1, "empty");
}

static void test_an_error_is_a_json_document_where_that_was_asked_for(void **state)
{
    struct real_room *room = *state;
    const char *bad = write_log(room, "bad", "this is no log\n");
    struct real_process *process =
        real_process_run(room, NULL, lab(room), "inspect", "--json", bad, NULL);
    assert_int_equal(real_process_wait(process), 1);
    says(room, process, "{\"error\":{\"message\":\"");
    says(room, process, "\"data\":{\"kind\":\"bad_log\"}}}\n");
}

/* ------------------------------------------------------------------------------ list */

static void test_list_has_every_policy_with_its_knobs_and_every_format(void **state)
{
    struct real_room *room = *state;
    const struct policy_operations *policy;
    const struct log_format *format;
    struct real_process *text = real_process_run(room, NULL, lab(room), "list", NULL);
    struct real_process *json = real_process_run(room, NULL, lab(room), "list", "--json", NULL);
    char part[200];
    for (size_t i = 0; (policy = policy_at(i)) != NULL; i++) {
        says(room, text, policy->summary);
        snprintf(part, sizeof(part), "{\"name\":\"%s\",\"summary\":", policy->name);
        says(room, json, part);
        for (size_t k = 0; k < policy->knob_count; k++) {
            says(room, text, policy->knobs[k].meaning);
            snprintf(part, sizeof(part), "{\"name\":\"%s\",\"type\":", policy->knobs[k].name);
            says(room, json, part);
        }
    }
    for (size_t i = 0; (format = log_format_at(i)) != NULL; i++) {
        says(room, text, format->summary);
        snprintf(part, sizeof(part), "{\"name\":\"%s\",\"summary\":", format->name);
        says(room, json, part);
    }
}

static void test_list_of_formats_has_no_policies(void **state)
{
    struct real_room *room = *state;
    struct real_process *process = real_process_run(room, NULL, lab(room), "list", "formats", NULL);
    says(room, process, "worsegpu-trace");
    assert_null(strstr(real_process_output(room, process), "torch_expandable"));
    complains(room, real_process_run(room, NULL, lab(room), "list", "polices", NULL), 2,
              "policies");
}

/* ------------------------------------------------------------------------------ inspect */

static void test_inspect_tells_what_the_log_holds(void **state)
{
    struct real_room *room = *state;
    const char *log = write_log(room, "log", LOG);
    struct real_process *process = real_process_run(room, NULL, lab(room), "inspect", log, NULL);
    assert_int_equal(real_process_wait(process), 0);
    says(room, process, "events              6\n");
    says(room, process, "  allocate          3\n");
    says(room, process, "span                2.010 ms\n");
    says(room, process, "streams             2\n");
    says(room, process, "starts              with nothing allocated\n");
    says(room, process,
         "live peak           3.9 KiB (4,000 bytes) in 2 allocations, at event 2, allocation 2, "
         "line or byte 2\n");
    says(room, process,
         "live at the end     1 allocation, 1,000.0 B (1,000 bytes); the largest has 1,000 bytes: "
         "allocation 1, line or byte 1\n");
    says(room, process, "refused             1 request, for 4.0 KiB (4,096 bytes) in all\n");
}

/* 1000 is from 512, 3000 from 2048, 1024 from 1024. Lives: one event each; 1000 and 10 us. */
static void test_inspect_as_json_has_the_same_figures(void **state)
{
    struct real_room *room = *state;
    const char *log = write_log(room, "log", LOG);
    struct real_process *process =
        real_process_run(room, NULL, lab(room), "inspect", "--json", log, NULL);
    assert_int_equal(real_process_wait(process), 0);
    says(room, process,
         "\"live_peak\":{\"bytes\":4000,\"count\":2,\"event\":2,\"allocation\":2,"
         "\"place\":2}");
    says(room, process,
         "\"live_at_end\":{\"count\":1,\"bytes\":1000,\"largest_bytes\":1000,"
         "\"largest_allocation\":1,\"largest_place\":1}");
    says(room, process, "\"refused\":1,\"refused_bytes\":4096");
    says(room, process,
         "\"sizes\":[{\"from_bytes\":512,\"count\":1,\"bytes\":1000},{\"from_bytes\":1024,"
         "\"count\":1,\"bytes\":1024},{\"from_bytes\":2048,\"count\":1,\"bytes\":3000}]");
    says(room, process, "\"life_in_events\":[{\"from_events\":1,\"count\":2}]");
    says(room, process,
         "\"life_in_time\":[{\"from_us\":8,\"count\":1},{\"from_us\":512,"
         "\"count\":1}]");
}

static void test_inspect_counts_what_is_freed_on_another_stream(void **state)
{
    struct real_room *room = *state;
    const char *log = write_log(
        room, "log",
        "{\"operation\":\"allocate\",\"allocation_id\":1,\"requested_bytes\":5,\"sequence\":1}\n"
        "{\"operation\":\"allocate\",\"allocation_id\":2,\"requested_bytes\":5,\"sequence\":2}\n"
        "{\"operation\":\"free\",\"allocation_id\":1,\"sequence\":3}\n"
        "{\"operation\":\"free\",\"allocation_id\":2,\"sequence\":4,\"stream\":1}\n");
    struct real_process *process = real_process_run(room, NULL, lab(room), "inspect", log, NULL);
    says(room, process, "freed elsewhere     1 allocation, on another stream than allocated\n");
    process = real_process_run(room, NULL, lab(room), "inspect", "--json", log, NULL);
    says(room, process, "\"freed_on_another_stream\":1,");
}

static void test_inspect_says_that_a_log_starts_midway(void **state)
{
    struct real_room *room = *state;
    const char *log = write_log(
        room, "log",
        "{\"operation\":\"free\",\"allocation_id\":7,\"sequence\":1}\n"
        "{\"operation\":\"allocate\",\"allocation_id\":8,\"requested_bytes\":5,\"sequence\":2}\n");
    struct real_process *process = real_process_run(room, NULL, lab(room), "inspect", log, NULL);
    says(room, process, "perhaps mid-run: 1 free names what it never allocated");
    process = real_process_run(room, NULL, lab(room), "inspect", "--json", log, NULL);
    says(room, process, "\"starts_midway\":true,\"there_before\":0,\"unknown_frees\":1");
}

/* ------------------------------------------------------------------------------ convert */

static void test_our_own_trace_converts_to_the_same_bytes(void **state)
{
    struct real_room *room = *state;
    const char *log = write_log(room, "log", LOG);
    struct real_process *process = real_process_run(room, NULL, lab(room), "convert", log, NULL);
    assert_int_equal(real_process_wait(process), 0);
    assert_string_equal(real_process_output(room, process), LOG);
}

/* A free names nothing, but has a stream, addresses are used again, times begin late: once
 * converted, all of that is as we number it. */
static void test_a_converted_log_converts_to_the_same_bytes(void **state)
{
    struct real_room *room = *state;
    const char *log = write_log(room, "log.csv",
                                "Thread,Time,Action,Pointer,Size,Stream\n"
                                "1,10:00:00:000004,free,0x99,256,0x5\n"
                                "1,10:00:00:000005,allocate,0x10,256,0x7\n"
                                "1,10:00:00:000006,allocate,0x20,512,0x0\n"
                                "1,10:00:00:000007,free,0x10,256,0x9\n"
                                "1,10:00:00:000009,allocate,0x10,128,0x9\n"
                                "1,10:00:00:000010,allocate failure,(nil),4096,0x7\n");
    const char *once = real_room_path(room, "once");
    const char *twice = real_room_path(room, "twice");
    struct real_process *process =
        real_process_run(room, NULL, lab(room), "convert", log, "--output", once, NULL);
    complains(room, process, 0, "1 event left out");
    process = real_process_run(room, NULL, lab(room), "convert", once, "--output", twice, NULL);
    assert_int_equal(real_process_wait(process), 0);
    assert_string_equal(real_room_read(room, once), real_room_read(room, twice));
    assert_int_equal(real_lines(real_room_read(room, once)), 5);
    assert_non_null(strstr(real_room_read(room, once),
                           "{\"operation\":\"free\",\"allocation_id\":1,\"sequence\":3,"
                           "\"time_us\":2,\"stream\":2}\n"));
}

static void test_convert_with_json_wants_a_file_and_prints_a_summary(void **state)
{
    struct real_room *room = *state;
    const char *log = write_log(room, "log", LOG);
    const char *to = real_room_path(room, "to");
    complains(room, real_process_run(room, NULL, lab(room), "convert", "--json", log, NULL), 2,
              "--output");
    struct real_process *process =
        real_process_run(room, NULL, lab(room), "convert", "--json", log, "--output", to, NULL);
    assert_int_equal(real_process_wait(process), 0);
    says(room, process, "{\"format\":\"worsegpu-trace\",\"device\":0,\"events\":6,");
    assert_string_equal(real_room_read(room, to), LOG);
}

static void test_a_log_that_cannot_be_read_leaves_the_output_as_it_was(void **state)
{
    struct real_room *room = *state;
    const char *bad = write_log(room, "bad", "this is no log\n");
    const char *to = write_log(room, "to", "precious");
    struct real_process *process =
        real_process_run(room, NULL, lab(room), "convert", bad, "--output", to, NULL);
    assert_int_equal(real_process_wait(process), 1);
    assert_string_equal(real_room_read(room, to), "precious");
}

static void test_output_that_cannot_be_written_is_told(void **state)
{
    struct real_room *room = *state;
    const char *log = write_log(room, "log", LOG);
    complains(
        room,
        real_process_run(room, NULL, lab(room), "convert", log, "--output", "/nowhere/x", NULL), 3,
        "cannot write /nowhere/x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_without_a_command_it_says_what_it_is),
        IN_ROOM(test_a_mistyped_command_option_and_policy_get_the_nearest_real_one),
        IN_ROOM(test_every_command_teaches_with_an_example),
        IN_ROOM(test_a_missing_a_bad_and_an_empty_log_have_their_own_ends),
        IN_ROOM(test_an_error_is_a_json_document_where_that_was_asked_for),
        IN_ROOM(test_list_has_every_policy_with_its_knobs_and_every_format),
        IN_ROOM(test_list_of_formats_has_no_policies),
        IN_ROOM(test_inspect_tells_what_the_log_holds),
        IN_ROOM(test_inspect_as_json_has_the_same_figures),
        IN_ROOM(test_inspect_counts_what_is_freed_on_another_stream),
        IN_ROOM(test_inspect_says_that_a_log_starts_midway),
        IN_ROOM(test_our_own_trace_converts_to_the_same_bytes),
        IN_ROOM(test_a_converted_log_converts_to_the_same_bytes),
        IN_ROOM(test_convert_with_json_wants_a_file_and_prints_a_summary),
        IN_ROOM(test_a_log_that_cannot_be_read_leaves_the_output_as_it_was),
        IN_ROOM(test_output_that_cannot_be_written_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
