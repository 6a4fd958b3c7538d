/* worsegpu-lab sweep and merge: the same bytes however the work is cut up, stopped and gone on
 * with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "tests/support/real_process.h"

enum {
    SHARDS = 7,
    POINTS = 2 * 5 * 3 * 2, /* of SPEC */
    LONG_EVENTS = 6000
};

#define SPEC                                                                                       \
    "# two logs, five settings, three capacities, two seeds\n"                                     \
    "[sweep]\n"                                                                                    \
    "log = one\n"                                                                                  \
    "log = two\n"                                                                                  \
    "policy = worse\n"                                                                             \
    "policy = torch\n"                                                                             \
    "policy = list_fit\n"                                                                          \
    "\n"                                                                                           \
    "vary = max_split_size_mb=default,32\n"                                                        \
    "vary = fit=first,best\n"                                                                      \
    "capacity = unlimited, 1.5x, 3000000\n"                                                        \
    "seed = 0, 1\n"

static const char *lab(struct real_room *room)
{
    return real_program(room, "worsegpu-lab");
}

/* The specification with its logs beside it. */
static const char *spec_of(struct real_room *room, const char *text)
{
    const char *path = real_room_path(room, "spec.ini");
    real_room_write(room, path, text);
    real_room_write(room, real_room_path(room, "one"), "+1000,+70000,-0,+3000000,+500,-1,+90000\n");
    real_room_write(room, real_room_path(room, "two"), "+9,+6,-1,+2,-0,+5,+6,-2,+6\n");
    return path;
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("not there: %s\n%s", part, text);
}

static void must_run(struct real_room *room, struct real_process *process)
{
    if (real_process_wait(process) != 0)
        fail_msg("%s", real_process_errors(room, process));
}

/* A whole sweep, or with `shard` a part of it, into a file of that name. */
static const char *swept(struct real_room *room, const char *spec, const char *name,
                         const char *jobs, const char *shard)
{
    const char *output = real_room_path(room, name);
    must_run(room, real_process_run(room, NULL, lab(room), "sweep", spec, "--output", output,
                                    "--jobs", jobs, shard ? "--shard" : NULL, shard, NULL));
    return output;
}

static void assert_same(struct real_room *room, const char *one, const char *two)
{
    assert_string_equal(real_room_read(room, one), real_room_read(room, two));
}

static void refused(struct real_room *room, struct real_process *process, int status,
                    const char *part)
{
    int got = real_process_wait(process);
    if (got != status || !strstr(real_process_errors(room, process), part))
        fail_msg("%d, not %d with \"%s\": %s", got, status, part,
                 real_process_errors(room, process));
}

/* ------------------------------------------------------------------------------ what it gives */

static cJSON *line_of(const char *text, unsigned index)
{
    for (; index > 0; index--)
        text = strchr(text, '\n') + 1;
    cJSON *line = cJSON_ParseWithLength(text, strcspn(text, "\n"));
    assert_non_null(line);
    return line;
}

static const char *word(const cJSON *line, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(line, name));
}

static double number(const cJSON *line, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, name);
    if (!cJSON_IsNumber(item))
        fail_msg("%s is no number", name);
    return item->valuedouble;
}

static void test_every_combination_is_a_point_in_a_fixed_order(void **state)
{
    struct real_room *room = *state;
    const char *text =
        real_room_read(room, swept(room, spec_of(room, SPEC), "all.ndjson", "2", NULL));
    assert_int_equal(real_lines(text), POINTS);
    for (unsigned i = 0; i < POINTS; i++) {
        cJSON *line = line_of(text, i);
        static const char *const CAPACITIES[] = {"unlimited", "1.5x", "3000000"};
        assert_int_equal(number(line, "point"), i + 1);
        assert_int_equal(number(line, "points"), POINTS);
        assert_string_equal(word(line, "seed"), i % 2 == 0 ? "0" : "1");
        assert_string_equal(word(line, "capacity"), CAPACITIES[i / 2 % 3]);
        assert_string_equal(word(line, "log"), i < POINTS / 2 ? "one" : "two");
        cJSON_Delete(line);
    }
}

static void test_a_capacity_may_be_a_number_of_floors(void **state)
{
    struct real_room *room = *state;
    const char *text =
        real_room_read(room, swept(room, spec_of(room, SPEC), "all.ndjson", "1", NULL));
    cJSON *line = line_of(text, POINTS / 2 + 2); /* "two": its floor is 17 */
    assert_int_equal(number(line, "floor_bytes"), 17);
    assert_int_equal(number(line, "capacity_bytes"), 26);
    cJSON_Delete(line);
    line = line_of(text, POINTS / 2);
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(line, "capacity_bytes")));
    cJSON_Delete(line);
}

static void test_the_figures_are_those_of_compare(void **state)
{
    struct real_room *room = *state;
    static const char *const FIGURES[] = {
        "peak_reserved_bytes", "overhead",      "device_calls",  "retries",  "ooms",
        "internal_worst",      "internal_mean", "external_mean", "searched", "host",
        "forgotten_bytes"};
    const char *text =
        real_room_read(room, swept(room, spec_of(room, SPEC), "all.ndjson", "2", NULL));
    cJSON *line = line_of(text, 4); /* worse on 3,000,000 bytes, with seed 0 */
    struct real_process *process =
        real_process_run(room, NULL, lab(room), "compare", "--json", "--quick", "--policy", "worse",
                         "--capacity", "3000000", real_room_path(room, "one"), NULL);
    must_run(room, process);
    cJSON *compared = cJSON_Parse(real_process_output(room, process));
    const cJSON *row =
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(compared, "policies"), 0);
    assert_string_equal(word(line, "policy"), "worse");
    for (size_t i = 0; i < sizeof(FIGURES) / sizeof(FIGURES[0]); i++)
        assert_true(number(line, FIGURES[i]) == number(row, FIGURES[i]));
    cJSON_Delete(compared);
    cJSON_Delete(line);
}

static void test_csv_has_a_row_for_each_point(void **state)
{
    struct real_room *room = *state;
    const char *csv = real_room_path(room, "all.csv");
    must_run(room, real_process_run(room, NULL, lab(room), "sweep", spec_of(room, SPEC), "--output",
                                    real_room_path(room, "all.ndjson"), "--csv", csv, NULL));
    const char *text = real_room_read(room, csv);
    assert_int_equal(real_lines(text), POINTS + 1);
    assert_memory_equal(text, "point,log,policy,capacity,", 26);
    assert_says(text, "\r\n3,one,worse,1.5x,");
}

static void test_csv_quotes_what_holds_a_comma(void **state)
{
    struct real_room *room = *state;
    const char *csv = real_room_path(room, "all.csv");
    const char *spec = spec_of(room, "log = two\npolicy = torch alloc_conf=max_split_size_mb:32,"
                                     "garbage_collection_threshold:0.8\n");
    must_run(room, real_process_run(room, NULL, lab(room), "sweep", spec, "--output",
                                    real_room_path(room, "all.ndjson"), "--csv", csv, NULL));
    assert_says(real_room_read(room, csv), "\r\n1,two,\"torch alloc_conf=max_split_size_mb:32,"
                                           "garbage_collection_threshold:0.8\",unlimited,,0,17,");
}

static void test_options_do_without_a_file(void **state)
{
    struct real_room *room = *state;
    const char *one = real_room_path(room, "one.ndjson");
    spec_of(room, "");
    must_run(room,
             real_process_run(room, NULL, lab(room), "sweep", "--log", real_room_path(room, "one"),
                              "--log", real_room_path(room, "two"), "--policy", "buddy", "--vary",
                              "minimum_block=256,512", "--capacities", "unlimited,2x", "--seeds",
                              "3,4,5", "--output", one, NULL));
    assert_int_equal(real_lines(real_room_read(room, one)), 2 * 2 * 2 * 3);
}

/* ------------------------------------------------------------------------------ the same bytes */

static void test_any_number_of_jobs_gives_the_same_bytes(void **state)
{
    struct real_room *room = *state;
    const char *spec = spec_of(room, SPEC);
    const char *one = swept(room, spec, "one.ndjson", "1", NULL);
    assert_same(room, one, swept(room, spec, "two.ndjson", "2", NULL));
    assert_same(room, one, swept(room, spec, "many.ndjson", "9", NULL));
}

static void test_one_shard_and_seven_give_the_same_merged_bytes(void **state)
{
    struct real_room *room = *state;
    const char *spec = spec_of(room, SPEC);
    const char *whole = swept(room, spec, "whole.ndjson", "2", NULL);
    const char *parts[SHARDS];
    for (int i = 0; i < SHARDS; i++)
        parts[i] = swept(room, spec, real_room_text(room, "part-%d", i + 1), "1",
                         real_room_text(room, "%d/%d", i + 1, SHARDS));
    const char *merged = real_room_path(room, "merged.ndjson");
    const char *csv = real_room_path(room, "merged.csv");
    must_run(room, real_process_run(room, NULL, lab(room), "merge", parts[3], parts[0], parts[6],
                                    parts[1], parts[5], parts[2], parts[4], "--output", merged,
                                    "--csv", csv, NULL));
    assert_same(room, whole, merged);
    const char *other = real_room_path(room, "whole.csv");
    must_run(room, real_process_run(room, NULL, lab(room), "merge", whole, "--output",
                                    real_room_path(room, "again.ndjson"), "--csv", other, NULL));
    assert_same(room, csv, other);
}

static void test_a_finished_point_is_not_run_again(void **state)
{
    struct real_room *room = *state;
    const char *spec = spec_of(room, SPEC);
    const char *output = swept(room, spec, "all.ndjson", "2", NULL);
    struct real_process *process =
        real_process_run(room, NULL, lab(room), "sweep", spec, "--output", output, "--json", NULL);
    must_run(room, process);
    assert_says(real_process_output(room, process), "\"done_before\":60,\"done_now\":0");
}

static void test_a_line_that_was_cut_off_is_repaired_and_its_point_run(void **state)
{
    struct real_room *room = *state;
    const char *spec = spec_of(room, SPEC);
    const char *whole = swept(room, spec, "whole.ndjson", "2", NULL);
    char *text = real_room_read(room, whole);
    const char *cut = real_room_path(room, "cut.ndjson");
    size_t length = strlen(text);
    for (size_t at = 0; at < length; at += 997) {
        char kept = text[at];
        text[at] = '\0';
        real_room_write(room, cut, text);
        text[at] = kept;
        must_run(room,
                 real_process_run(room, NULL, lab(room), "sweep", spec, "--output", cut, NULL));
        assert_same(room, whole, cut);
    }
}

/* A log that takes a while: the sweep is killed with some lines written, and goes on. */
static void test_a_killed_sweep_goes_on_where_it_was(void **state)
{
    struct real_room *room = *state;
    enum {
        ITEM_BYTES = 24
    };
    char *text = calloc(LONG_EVENTS, ITEM_BYTES);
    size_t length = 0;
    assert_non_null(text);
    for (int i = 0; i < LONG_EVENTS; i++)
        length += (size_t)snprintf(text + length, (size_t)LONG_EVENTS * ITEM_BYTES - length,
                                   "%s+%d", i > 0 ? "," : "", 1000 + i * 7919 % 100000);
    spec_of(room, "");
    real_room_write(room, real_room_path(room, "long"), text);
    free(text);
    const char *spec = real_room_path(room, "long.ini");
    real_room_write(room, spec, "log = long\npolicy = all\nseed = 0,1,2,3,4,5,6,7,8,9\n");
    const char *output = real_room_path(room, "killed.ndjson");
    struct real_process *process =
        real_process_start(room, NULL, lab(room), "sweep", spec, "--output", output, NULL);
    struct real_wait wait = {0};
    struct stat status = {0};
    while (!real_process_has_ended(process) &&
           (stat(output, &status) != 0 || status.st_size < 2000) && real_wait_more(&wait))
        ;
    if (!real_process_has_ended(process)) {
        real_process_signal(process, SIGKILL);
        real_process_wait(process);
    }
    const char *whole = swept(room, spec, "whole.ndjson", "2", NULL);
    must_run(room,
             real_process_run(room, NULL, lab(room), "sweep", spec, "--output", output, NULL));
    assert_same(room, whole, output);
}

/* ------------------------------------------------------------------------------ refusals */

static void test_merge_names_what_is_missing(void **state)
{
    struct real_room *room = *state;
    const char *spec = spec_of(room, SPEC);
    const char *one = swept(room, spec, "a", "1", "1/2");
    refused(room, real_process_run(room, NULL, lab(room), "merge", one, NULL), 1,
            "30 of 60 points are missing: 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, ...");
}

static void test_merge_names_what_is_there_twice(void **state)
{
    struct real_room *room = *state;
    const char *spec = spec_of(room, SPEC);
    const char *one = swept(room, spec, "a", "1", "1/2");
    const char *two = swept(room, spec, "b", "1", "2/2");
    const char *three = swept(room, spec, "c", "1", "3/3");
    refused(room, real_process_run(room, NULL, lab(room), "merge", one, two, three, NULL), 1,
            "point 3 is in ");
}

static void test_merge_refuses_what_is_of_another_sweep_or_none(void **state)
{
    struct real_room *room = *state;
    const char *one = swept(room, spec_of(room, SPEC), "a", "1", "1/2");
    const char *two = swept(room, spec_of(room, "log = one\npolicy = buddy\n"), "b", "1", NULL);
    refused(room, real_process_run(room, NULL, lab(room), "merge", one, two, NULL), 1,
            "line 1: a result of another sweep");
    const char *none = real_room_path(room, "none");
    real_room_write(room, none, "{\"point\":1}\n");
    refused(room, real_process_run(room, NULL, lab(room), "merge", one, none, NULL), 1,
            "line 1: this is no result of a sweep");
    real_room_write(room, none, "{\"sweep\"");
    refused(room, real_process_run(room, NULL, lab(room), "merge", one, none, NULL), 1,
            "its last line was cut off");
    refused(room, real_process_run(room, NULL, lab(room), "merge", "/nonexistent/file", NULL), 3,
            "cannot read");
}

static void test_results_of_another_specification_or_log_are_not_gone_on_with(void **state)
{
    struct real_room *room = *state;
    const char *spec = spec_of(room, SPEC);
    const char *output = swept(room, spec, "a", "2", NULL);
    real_room_write(room, spec, SPEC "seed = 2\n");
    refused(room, real_process_run(room, NULL, lab(room), "sweep", spec, "--output", output, NULL),
            1, "results of another sweep");
    real_room_write(room, spec, SPEC);
    real_room_write(room, real_room_path(room, "two"), "+9,+6,-1,+2,-0,+5,+6,-2,+7\n");
    refused(room, real_process_run(room, NULL, lab(room), "sweep", spec, "--output", output, NULL),
            1, "results of another sweep");
}

static void test_a_shard_keeps_to_its_own_points(void **state)
{
    struct real_room *room = *state;
    const char *spec = spec_of(room, SPEC);
    const char *output = swept(room, spec, "a", "1", "1/2");
    refused(room,
            real_process_run(room, NULL, lab(room), "sweep", spec, "--output", output, "--shard",
                             "2/2", NULL),
            1, "has point 1, which is not of shard 2/2");
}

static void test_two_sweeps_do_not_write_to_one_file(void **state)
{
    struct real_room *room = *state;
    const char *spec = spec_of(room, SPEC);
    const char *output = real_room_path(room, "a");
    int file = open(output, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_true(file >= 0 && flock(file, LOCK_EX) == 0);
    refused(room, real_process_run(room, NULL, lab(room), "sweep", spec, "--output", output, NULL),
            3, "another sweep is writing");
    close(file);
}

static void wrong_line(struct real_room *room, const char *text, const char *part)
{
    const char *spec = spec_of(room, text);
    refused(room,
            real_process_run(room, NULL, lab(room), "sweep", spec, "--output",
                             real_room_path(room, "never"), NULL),
            2, part);
}

static void test_a_wrong_specification_is_refused_with_its_line(void **state)
{
    struct real_room *room = *state;
    wrong_line(room, "log = one\npolcy = torch\n",
               "line 2: there is no key \"polcy\"; did you mean policy");
    wrong_line(room, "log = one\nhello\n", "line 2: this is not \"key = value\"");
    wrong_line(room, "log =\n", "line 1: there is no value");
    wrong_line(room, "log = one\ncapacity = 3GiB, -1\n", "line 2: a capacity is");
    wrong_line(room, "log = -\n", "line 1: a sweep needs logs that are files");
    wrong_line(room, "policy = torch\n", "a sweep needs a log");
    wrong_line(room, "log = one\npolicy = torhc\n", "did you mean 'torch'?");
    wrong_line(room, "log = one\nseed = x\n", "a seed is a decimal integer");
    wrong_line(room, "log = one\nvary = nothing=1\npolicy = buddy\n",
               "none of the policies has a knob");
}

static void test_wrong_options_are_refused(void **state)
{
    struct real_room *room = *state;
    const char *spec = spec_of(room, SPEC);
    refused(room, real_process_run(room, NULL, lab(room), "sweep", spec, NULL), 2, "--output");
    refused(room,
            real_process_run(room, NULL, lab(room), "sweep", spec, "--output", "x", "--shard",
                             "0/3", NULL),
            2, "--shard is I/N");
    refused(room,
            real_process_run(room, NULL, lab(room), "sweep", spec, "--output", "x", "--jobs", "0",
                             NULL),
            2, "--jobs is from 1");
    refused(
        room,
        real_process_run(room, NULL, lab(room), "sweep", spec, "--output", "/nonexistent/x", NULL),
        3, "cannot write");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_every_combination_is_a_point_in_a_fixed_order),
        IN_ROOM(test_a_capacity_may_be_a_number_of_floors),
        IN_ROOM(test_the_figures_are_those_of_compare),
        IN_ROOM(test_csv_has_a_row_for_each_point),
        IN_ROOM(test_csv_quotes_what_holds_a_comma),
        IN_ROOM(test_options_do_without_a_file),
        IN_ROOM(test_any_number_of_jobs_gives_the_same_bytes),
        IN_ROOM(test_one_shard_and_seven_give_the_same_merged_bytes),
        IN_ROOM(test_a_finished_point_is_not_run_again),
        IN_ROOM(test_a_line_that_was_cut_off_is_repaired_and_its_point_run),
        IN_ROOM(test_a_killed_sweep_goes_on_where_it_was),
        IN_ROOM(test_merge_names_what_is_missing),
        IN_ROOM(test_merge_names_what_is_there_twice),
        IN_ROOM(test_merge_refuses_what_is_of_another_sweep_or_none),
        IN_ROOM(test_results_of_another_specification_or_log_are_not_gone_on_with),
        IN_ROOM(test_a_shard_keeps_to_its_own_points),
        IN_ROOM(test_two_sweeps_do_not_write_to_one_file),
        IN_ROOM(test_a_wrong_specification_is_refused_with_its_line),
        IN_ROOM(test_wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
