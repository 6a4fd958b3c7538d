/* worsegpu-lab fit: the ranked table and the document, checked by compare and by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "tests/support/real_process.h"

/* Worst fit serves this on 17 bytes, refuses on 21, and serves from 22 on: see test_fit_search.c.
 */
#define ODD "+9,+6,-1,+2,-0,+5,+6,-2,+6\n"

static const char *lab(struct real_room *room)
{
    return real_program(room, "worsegpu-lab");
}

static const char *log_of(struct real_room *room, const char *text)
{
    const char *path = real_room_path(room, "log");
    real_room_write(room, path, text);
    return path;
}

static cJSON *document_of(struct real_room *room, struct real_process *process)
{
    if (real_process_wait(process) != 0)
        fail_msg("%s", real_process_errors(room, process));
    cJSON *document = cJSON_Parse(real_process_output(room, process));
    assert_non_null(document);
    return document;
}

static const cJSON *row_of(const cJSON *document, int index)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(document, "settings"), index);
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(member))
        fail_msg("%s is no number", name);
    return member->valuedouble;
}

static const char *text_of(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

static bool is_null(const cJSON *object, const char *name)
{
    return cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(object, name));
}

static void test_fit_ranks_the_smallest_device_first(void **state)
{
    struct real_room *room = *state;
    cJSON *document =
        document_of(room, real_process_run(room, NULL, lab(room), "fit", "--json", "--policy",
                                           "buddy", "--policy", "list_fit", "--policy", "driver",
                                           log_of(room, "+1000,+3000\n"), NULL));
    assert_string_equal(text_of(row_of(document, 0), "policy"), "list_fit");
    assert_int_equal(number(row_of(document, 0), "rank"), 1);
    assert_true(is_null(row_of(document, 0), "refused_at_bytes")); /* it is the floor */
    assert_string_equal(text_of(row_of(document, 1), "policy"), "buddy");
    assert_int_equal(number(row_of(document, 1), "smallest_device_bytes"), 1024 + 4096);
    assert_int_equal(number(row_of(document, 1), "refused_at_bytes"), 1024 + 4096 - 1);
    assert_string_equal(text_of(row_of(document, 2), "policy"), "driver");
    assert_int_equal(number(row_of(document, 2), "rank"), 3);
    cJSON_Delete(document);
}

static void test_fit_says_where_more_memory_is_worse(void **state)
{
    struct real_room *room = *state;
    const char *log = log_of(room, ODD);
    cJSON *document =
        document_of(room, real_process_run(room, NULL, lab(room), "fit", "--json", "--policy",
                                           "list_fit fit=worst", log, NULL));
    const cJSON *row = row_of(document, 0);
    assert_int_equal(number(row, "smallest_device_bytes"), 17);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(row, "refuses_on_larger")));
    assert_int_equal(number(row, "refuses_again_at_bytes"), 21);
    assert_int_equal(number(row, "sure_from_bytes"), 22);
    cJSON_Delete(document);
    struct real_process *process =
        real_process_run(room, NULL, lab(room), "fit", "--policy", "list_fit fit=worst", log, NULL);
    assert_int_equal(real_process_wait(process), 0);
    assert_non_null(
        strstr(real_process_output(room, process), "refuses again on 21 bytes; from 22"));
}

static void test_fit_tries_every_combination_of_knobs(void **state)
{
    struct real_room *room = *state;
    cJSON *document =
        document_of(room, real_process_run(room, NULL, lab(room), "fit", "--json", "--policy",
                                           "list_fit", "--vary", "fit=first,worst", "--vary",
                                           "header=8,16", log_of(room, ODD), NULL));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(document, "settings")), 4);
    cJSON_Delete(document);
}

/* compare has the same search. */
static void test_fit_and_compare_agree(void **state)
{
    struct real_room *room = *state;
    const char *log = log_of(room, "+1000,+70000,-0,+3000000,+500,-1,+90000,-2,+12000000\n");
    cJSON *fit =
        document_of(room, real_process_run(room, NULL, lab(room), "fit", "--json", log, NULL));
    cJSON *compare =
        document_of(room, real_process_run(room, NULL, lab(room), "compare", "--json", log, NULL));
    const cJSON *row;
    int found = 0;
    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(compare, "policies"))
    {
        const cJSON *other;
        cJSON_ArrayForEach(other, cJSON_GetObjectItemCaseSensitive(fit, "settings"))
        {
            if (strcmp(text_of(row, "policy"), text_of(other, "policy")) != 0)
                continue;
            assert_true(number(row, "smallest_device_bytes") ==
                        number(other, "smallest_device_bytes"));
            found++;
        }
    }
    assert_int_equal(found, cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(fit, "settings")));
    assert_true(found > 10);
    cJSON_Delete(fit);
    cJSON_Delete(compare);
}

static void test_those_that_place_nothing_are_not_ranked(void **state)
{
    struct real_room *room = *state;
    cJSON *document = document_of(
        room,
        real_process_run(room, NULL, lab(room), "fit", "--json", "--policy", "reference",
                         "--policy", "worse", "--policy", "buddy",
                         log_of(room, "+100000,+100000,+100000,+100000,+100000,+100000\n"), NULL));
    assert_string_equal(text_of(row_of(document, 0), "policy"), "buddy");
    assert_true(is_null(row_of(document, 1), "rank"));
    assert_true(is_null(row_of(document, 2), "rank"));
    cJSON_Delete(document);
}

static void test_the_same_log_gives_the_same_bytes(void **state)
{
    struct real_room *room = *state;
    const char *log = log_of(room, ODD);
    struct real_process *one = real_process_run(room, NULL, lab(room), "fit", log, NULL);
    struct real_process *two = real_process_run(room, NULL, lab(room), "fit", log, NULL);
    assert_int_equal(real_process_wait(one), 0);
    assert_string_equal(real_process_output(room, one), real_process_output(room, two));
}

static void refused(struct real_room *room, const char *option, const char *value, const char *part)
{
    struct real_process *process =
        real_process_run(room, NULL, lab(room), "fit", real_room_path(room, "none"), "--policy",
                         "torch", option, value, NULL);
    assert_int_equal(real_process_wait(process), 2);
    if (!strstr(real_process_errors(room, process), part))
        fail_msg("%s", real_process_errors(room, process));
}

static void test_wrong_settings_are_refused_before_the_log_is_read(void **state)
{
    struct real_room *room = *state;
    refused(room, "--policy", "torhc", "did you mean 'torch'?");
    refused(room, "--vary", "max_split_size_mb=5", "max_split_size_mb");
    refused(room, "--vary", "max_split_size_mb", "KEY=VALUE");
}

/* A recorded log: the answers that compare's documents hold as well, and every one of them tested.
 */
static void test_a_recorded_log_is_fitted(void **state)
{
    struct real_room *room = *state;
    const char *shared = getenv("WORSEGPU_SHARED");
    const char *log =
        real_room_text(room, "%s/logs/torch/decomfl.pickle", shared ? shared : "../shared");
    if (access(log, R_OK) != 0) {
        print_message("skipped: there is no %s\n", log);
        skip();
    }
    cJSON *document =
        document_of(room, real_process_run(room, NULL, lab(room), "fit", "--json", log, NULL));
    const cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(document, "settings"))
    {
        if (is_null(row, "refused_at_bytes"))
            assert_true(number(row, "smallest_device_bytes") == number(document, "floor_bytes"));
        else
            assert_true(number(row, "refused_at_bytes") ==
                        number(row, "smallest_device_bytes") - 1);
        if (strcmp(text_of(row, "policy"), "torch") == 0)
            assert_int_equal(number(row, "smallest_device_bytes"), 1782 * 1048576);
    }
    cJSON_Delete(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_fit_ranks_the_smallest_device_first),
        IN_ROOM(test_fit_says_where_more_memory_is_worse),
        IN_ROOM(test_fit_tries_every_combination_of_knobs),
        IN_ROOM(test_fit_and_compare_agree),
        IN_ROOM(test_those_that_place_nothing_are_not_ranked),
        IN_ROOM(test_the_same_log_gives_the_same_bytes),
        IN_ROOM(test_wrong_settings_are_refused_before_the_log_is_read),
        IN_ROOM(test_a_recorded_log_is_fitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
