/* `worsegpu-lab generate` as a program: its command line, and that what it makes is replayed by the
 * lab, by worsegpu-cli and by the daemon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/real_process.h"

static const char *lab(struct real_room *room)
{
    return real_program(room, "worsegpu-lab");
}

static const char *generate_to(struct real_room *room, const char *name, const char *what,
                               const char *form)
{
    const char *path = real_room_path(room, name);
    struct real_process *process = real_process_run(room, NULL, lab(room), "generate", what, "--as",
                                                    form, "--output", path, NULL);
    assert_int_equal(process->status, 0);
    assert_string_equal(real_process_errors(room, process), "");
    return path;
}

static void refused(struct real_room *room, struct real_process *process, int status,
                    const char *part)
{
    const char *errors = real_process_errors(room, process);
    assert_int_equal(process->status, status);
    assert_string_equal(real_process_output(room, process), "");
    if (!strstr(errors, part))
        fail_msg("not in the complaint: %s\n%s", part, errors);
}

static void test_a_script_of_each_story_runs_against_the_daemon(void **state)
{
    static const char *const stories[] = {"training",      "kv_cache",         "leak",
                                          "race",          "case:retry-order", "case:two-streams",
                                          "near_capacity", "one_shot_streams", "random"};
    for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++) {
        const char *script = generate_to(*state, "story.ndjson", stories[i], "script");
        struct real_process *process = real_process_run(
            *state, NULL, real_program(*state, "worsegpud"), "--capacity", "100GiB", "--policy",
            "torch", "--run", real_program(*state, "worsegpu-cli"), "run", script, NULL);
        if (process->status != 0)
            fail_msg("%s: %s", stories[i], real_process_errors(*state, process));
    }
}

static void test_a_trace_of_a_story_happens_again_in_the_daemon(void **state)
{
    const char *trace = generate_to(*state, "story.ndjson", "training", "trace");
    struct real_process *process =
        real_process_run(*state, NULL, real_program(*state, "worsegpud"), "--capacity", "100GiB",
                         "--run", real_program(*state, "worsegpu-cli"), "run", trace, NULL);
    assert_int_equal(process->status, 0);
}

static void test_two_sides_of_a_race_can_run_at_the_same_time(void **state)
{
    const char *line = real_room_text(
        *state,
        "%s generate race process=1 --as script >one && %s generate race process=2 --as script "
        ">two && { %s run one >out1 & %s run two >out2; wait; } && cat out1 out2 | grep -c result",
        lab(*state), lab(*state), real_program(*state, "worsegpu-cli"),
        real_program(*state, "worsegpu-cli"));
    const struct real_setup setup = {.folder = ((struct real_room *)*state)->folder};
    struct real_process *process =
        real_process_run(*state, &setup, real_program(*state, "worsegpud"), "--capacity", "4GiB",
                         "--policy", "reference", "--run", "sh", "-c", line, NULL);
    assert_int_equal(process->status, 0);
    /* 41 allocations and frees on each side. */
    assert_string_equal(real_process_output(*state, process), "164\n");
}

static void test_the_trace_is_the_same_when_it_is_converted(void **state)
{
    const char *trace = generate_to(*state, "story.ndjson", "kv_cache", "trace");
    struct real_process *process =
        real_process_run(*state, NULL, lab(*state), "convert", trace, NULL);
    assert_int_equal(process->status, 0);
    assert_string_equal(real_process_output(*state, process), real_room_read(*state, trace));
}

static void test_without_output_the_story_goes_to_standard_output(void **state)
{
    const char *trace = generate_to(*state, "story.ndjson", "case:batch-order", "trace");
    struct real_process *process =
        real_process_run(*state, NULL, lab(*state), "generate", "case:batch-order", NULL);
    assert_int_equal(process->status, 0);
    assert_string_equal(real_process_output(*state, process), real_room_read(*state, trace));
}

static void test_json_gives_a_summary_of_what_was_written(void **state)
{
    struct real_process *process =
        real_process_run(*state, NULL, lab(*state), "generate", "pins", "pairs=2", "--json",
                         "--output", real_room_path(*state, "pins.ndjson"), NULL);
    assert_int_equal(process->status, 0);
    assert_string_equal(real_process_output(*state, process),
                        "{\"name\":\"pins\",\"seed\":\"0\",\"events\":7,\"allocations\":5}\n");
}

static void test_an_unknown_story_is_refused_with_the_nearest(void **state)
{
    refused(*state, real_process_run(*state, NULL, lab(*state), "generate", "trainig", NULL), 2,
            "there is no shape 'trainig'\ndid you mean 'training'?");
    refused(*state,
            real_process_run(*state, NULL, lab(*state), "generate", "case:two-stream", NULL), 2,
            "there is no case 'two-stream'\ndid you mean 'two-streams'?");
    refused(*state, real_process_run(*state, NULL, lab(*state), "generate", "case:", NULL), 2,
            "worsegpu-lab list cases");
}

static void test_a_variant_that_is_none_is_refused_with_those_there_are(void **state)
{
    refused(*state,
            real_process_run(*state, NULL, lab(*state), "generate", "case:batch-order",
                             "variant=up", NULL),
            2, "small-first large-first; not 'variant=up'");
    refused(*state,
            real_process_run(*state, NULL, lab(*state), "generate", "case:free-in-pieces",
                             "variant=up", NULL),
            2, "has nothing to set");
}

static void test_a_form_that_has_no_words_for_the_story_leaves_the_file_alone(void **state)
{
    const char *path = real_room_path(*state, "kept");
    real_room_write(*state, path, "kept");
    refused(*state,
            real_process_run(*state, NULL, lab(*state), "generate", "case:retry-order", "--as",
                             "rmm", "--output", path, NULL),
            1, "RMM's log has no word");
    assert_string_equal(real_room_read(*state, path), "kept");
}

static void test_wrong_options_are_refused(void **state)
{
    refused(*state,
            real_process_run(*state, NULL, lab(*state), "generate", "pins", "--as", "pdf", NULL), 2,
            "--as takes trace, script or rmm");
    refused(*state,
            real_process_run(*state, NULL, lab(*state), "generate", "pins", "--seed", "1.5", NULL),
            2, "a seed is a whole number");
    refused(*state,
            real_process_run(*state, NULL, lab(*state), "generate", "pins", "--output",
                             "/nowhere/pins", NULL),
            3, "cannot write /nowhere/pins: No such file or directory");
}

static void test_what_cannot_be_written_ends_with_an_error(void **state)
{
    struct real_process *process =
        real_process_run(*state, NULL, "/bin/sh", "-c",
                         real_room_text(*state, "%s generate pins >/dev/full", lab(*state)), NULL);
    refused(*state, process, 3, "cannot write standard output: No space left on device");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_a_script_of_each_story_runs_against_the_daemon),
        IN_ROOM(test_a_trace_of_a_story_happens_again_in_the_daemon),
        IN_ROOM(test_two_sides_of_a_race_can_run_at_the_same_time),
        IN_ROOM(test_the_trace_is_the_same_when_it_is_converted),
        IN_ROOM(test_without_output_the_story_goes_to_standard_output),
        IN_ROOM(test_json_gives_a_summary_of_what_was_written),
        IN_ROOM(test_an_unknown_story_is_refused_with_the_nearest),
        IN_ROOM(test_a_variant_that_is_none_is_refused_with_those_there_are),
        IN_ROOM(test_a_form_that_has_no_words_for_the_story_leaves_the_file_alone),
        IN_ROOM(test_wrong_options_are_refused),
        IN_ROOM(test_what_cannot_be_written_ends_with_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
