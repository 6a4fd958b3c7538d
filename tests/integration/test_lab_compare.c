/* worsegpu-lab compare: every figure of a small log worked out by hand, and a real log's table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "tests/support/real_process.h"

/* A 1000, B 1000, A freed, C 1400, C freed, B freed. The floor is B and C: 2400 bytes. */
#define TINY                                                                                       \
    "{\"operation\":\"allocate\",\"allocation_id\":1,\"requested_bytes\":1000,\"sequence\":1}\n"   \
    "{\"operation\":\"allocate\",\"allocation_id\":2,\"requested_bytes\":1000,\"sequence\":2}\n"   \
    "{\"operation\":\"free\",\"allocation_id\":1,\"sequence\":3}\n"                                \
    "{\"operation\":\"allocate\",\"allocation_id\":3,\"requested_bytes\":1400,\"sequence\":4}\n"   \
    "{\"operation\":\"free\",\"allocation_id\":3,\"sequence\":5}\n"                                \
    "{\"operation\":\"free\",\"allocation_id\":2,\"sequence\":6}\n"

#define FIRST_FIT "list_fit fit=first alignment=256"

/* The same with times: the moment when C and B are live lasts as long as all others together. */
#define TINY_TIMED                                                                                 \
    "{\"operation\":\"allocate\",\"allocation_id\":1,\"requested_bytes\":1000,\"sequence\":1,"     \
    "\"time_us\":0}\n"                                                                             \
    "{\"operation\":\"allocate\",\"allocation_id\":2,\"requested_bytes\":1000,\"sequence\":2,"     \
    "\"time_us\":10}\n"                                                                            \
    "{\"operation\":\"free\",\"allocation_id\":1,\"sequence\":3,\"time_us\":20}\n"                 \
    "{\"operation\":\"allocate\",\"allocation_id\":3,\"requested_bytes\":1400,\"sequence\":4,"     \
    "\"time_us\":30}\n"                                                                            \
    "{\"operation\":\"free\",\"allocation_id\":3,\"sequence\":5,\"time_us\":70}\n"                 \
    "{\"operation\":\"free\",\"allocation_id\":2,\"sequence\":6,\"time_us\":80}\n"

static const char *lab(struct real_room *room)
{
    return real_program(room, "worsegpu-lab");
}

static const char *tiny(struct real_room *room)
{
    const char *path = real_room_path(room, "tiny");
    real_room_write(room, path, TINY);
    return path;
}

static cJSON *document_of(struct real_room *room, struct real_process *process)
{
    assert_int_equal(real_process_wait(process), 0);
    cJSON *document = cJSON_Parse(real_process_output(room, process));
    assert_non_null(document);
    return document;
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(member))
        fail_msg("%s is no number", name);
    return member->valuedouble;
}

static const cJSON *row_of(const cJSON *document, int index)
{
    const cJSON *row =
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(document, "policies"), index);
    assert_non_null(row);
    return row;
}

static void near(double got, double expected)
{
    if (fabs(got - expected) > 1e-9)
        fail_msg("%.12g, not %.12g", got, expected);
}

static bool marked(const cJSON *row, const char *list, const char *column)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(row, list))
    {
        if (strcmp(cJSON_GetStringValue(item), column) == 0)
            return true;
    }
    return false;
}

/* A takes 1024 at 0, B 1024 at 1024. C's 1536 do not fit in A's hole: they lie at 2048, so the
 * range is used up to 3584. The free list is looked at 1 + 1 + 2 times (A's hole, then the rest).
 * Used beyond what was asked for: 24 of 1024, 48 of 2048, 24 of 1024, 24 + 136 = 160 of 2560, 24 of
 * 1024, nothing. With B alone, 1024 + 1536 are free in two holes: 1024 lost of 2560. A device with
 * 3583 bytes has no room for C. */
static void test_first_fit_worked_out_by_hand(void **state)
{
    struct real_room *room = *state;
    cJSON *document = document_of(room, real_process_run(room, NULL, lab(room), "compare", "--json",
                                                         "--policy", FIRST_FIT, tiny(room), NULL));
    const cJSON *row = row_of(document, 0);
    near(number(document, "floor_bytes"), 2400);
    near(number(row, "peak_reserved_bytes"), 3584);
    near(number(row, "overhead"), 3584.0 / 2400);
    near(number(row, "smallest_device_bytes"), 3584);
    near(number(row, "device_calls"), 0);
    near(number(row, "ooms"), 0);
    near(number(row, "searched"), 4);
    near(number(row, "internal_worst"), 160.0 / 2560);
    near(number(row, "internal_worst_event"), 4);
    near(number(row, "internal_mean"), (4 * 24.0 / 1024 + 160.0 / 2560) / 6);
    near(number(row, "external_worst"), 1024.0 / 2560);
    near(number(row, "external_worst_event"), 5);
    near(number(row, "external_mean"), 1024.0 / 2560 / 6);
    cJSON_Delete(document);
}

/* A and B take 1024 each, C 2048 at 2048: 4096 in all, and no smaller device has a whole 2048 left
 * when C comes: below 4096 the range begins as 2048, 1024, ..., A takes the 1024 and B halves the
 * 2048. */
static void test_buddy_worked_out_by_hand(void **state)
{
    struct real_room *room = *state;
    cJSON *document = document_of(room, real_process_run(room, NULL, lab(room), "compare", "--json",
                                                         "--policy", "buddy", tiny(room), NULL));
    const cJSON *row = row_of(document, 0);
    near(number(row, "peak_reserved_bytes"), 4096);
    near(number(row, "smallest_device_bytes"), 4096);
    near(number(row, "internal_worst"), (24 + 648) / 3072.0);
    cJSON_Delete(document);
}

/* Without sharing, each of the three takes 2 MiB of its own from the device and gives it back: 6
 * calls, 4 MiB at once. torch cuts one segment of 2 MiB for all of them. */
static void test_driver_and_torch_worked_out_by_hand(void **state)
{
    struct real_room *room = *state;
    cJSON *document = document_of(room, real_process_run(room, NULL, lab(room), "compare", "--json",
                                                         "--policy", "driver share_small=false",
                                                         "--policy", "torch", tiny(room), NULL));
    const cJSON *driver = row_of(document, 0);
    const cJSON *torch = row_of(document, 1);
    near(number(driver, "peak_reserved_bytes"), 4194304);
    near(number(driver, "smallest_device_bytes"), 4194304);
    near(number(driver, "device_calls"), 6);
    near(number(torch, "peak_reserved_bytes"), 2097152);
    near(number(torch, "smallest_device_bytes"), 2097152);
    near(number(torch, "device_calls"), 1);
    assert_true(marked(torch, "best", "device_calls"));
    assert_true(marked(driver, "worst", "device_calls"));
    assert_false(marked(driver, "best", "device_calls"));
    assert_false(marked(torch, "best", "ooms"));
    cJSON_Delete(document);
}

/* One block that takes as much more as its header has: the search must find that to the byte. */
static void test_the_smallest_device_is_found_to_the_byte(void **state)
{
    struct real_room *room = *state;
    const char *log = real_room_path(room, "one");
    real_room_write(room, log,
                    "{\"operation\":\"allocate\",\"allocation_id\":1,\"requested_bytes\":1000,"
                    "\"sequence\":1}\n");
    for (int header = 0; header < 9; header++) {
        const char *policy = real_room_text(room, "list_fit header=%d", header);
        for (int limited = 0; limited < 2; limited++) {
            cJSON *document = document_of(
                room, real_process_run(room, NULL, lab(room), "compare", "--json", "--policy",
                                       policy, log, limited ? "--capacity=900" : NULL, NULL));
            near(number(row_of(document, 0), "smallest_device_bytes"), 1000 + header);
            cJSON_Delete(document);
        }
    }
}

/* OffsetAllocator rounds what it looks for up to one of eight classes between two powers of two,
 * but takes no more than the units that are needed: what is enough is neither the floor nor what
 * was reserved. */
static void test_the_smallest_device_may_be_larger_than_what_is_reserved(void **state)
{
    struct real_room *room = *state;
    static const struct {
        int unit;
        int needed;
        int class;
    } CASES[] = {{3, 334, 352}, {5, 200, 208}, {7, 143, 144}, {11, 91, 96}, {13, 77, 80}};
    const char *log = real_room_path(room, "one");
    real_room_write(room, log,
                    "{\"operation\":\"allocate\",\"allocation_id\":1,\"requested_bytes\":1000,"
                    "\"sequence\":1}\n");
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        const char *policy = real_room_text(room, "offset unit_bytes=%d", CASES[i].unit);
        cJSON *document =
            document_of(room, real_process_run(room, NULL, lab(room), "compare", "--json",
                                               "--policy", policy, log, NULL));
        const cJSON *row = row_of(document, 0);
        near(number(row, "peak_reserved_bytes"), CASES[i].unit * CASES[i].needed);
        near(number(row, "smallest_device_bytes"), CASES[i].unit * CASES[i].class);
        cJSON_Delete(document);
    }
}

/* From event 4 to 5 lie 40 of the 80 us: 160 of 2560 lost; before and after, 24 of 1024 for 40 us.
 */
static void test_means_are_weighted_by_time_where_there_is_one(void **state)
{
    struct real_room *room = *state;
    const char *log = real_room_path(room, "timed");
    real_room_write(room, log, TINY_TIMED);
    cJSON *document = document_of(room, real_process_run(room, NULL, lab(room), "compare", "--json",
                                                         "--policy", FIRST_FIT, log, NULL));
    const cJSON *row = row_of(document, 0);
    near(number(row, "internal_mean"), (24.0 / 1024 + 160.0 / 2560) / 2);
    near(number(row, "external_mean"), 1024.0 / 2560 / 8);
    cJSON_Delete(document);
}

static void test_a_device_that_is_too_small_refuses_and_is_no_rival(void **state)
{
    struct real_room *room = *state;
    cJSON *document = document_of(
        room, real_process_run(room, NULL, lab(room), "compare", "--json", "--capacity", "3583",
                               "--policy", FIRST_FIT, "--policy", "offset", tiny(room), NULL));
    const cJSON *row = row_of(document, 0);
    near(number(row, "capacity_bytes"), 3583);
    near(number(row, "ooms"), 1);
    near(number(row, "peak_reserved_bytes"), 2048);
    near(number(row, "smallest_device_bytes"), 3584);
    assert_true(marked(row, "worst", "ooms"));
    assert_false(marked(row, "best", "peak_reserved_bytes"));
    cJSON_Delete(document);
}

static void test_more_than_any_device_has_is_refused_by_every_policy(void **state)
{
    struct real_room *room = *state;
    const char *log = real_room_path(room, "huge");
    real_room_write(room, log,
                    "{\"operation\":\"allocate\",\"allocation_id\":1,\"requested_bytes\":"
                    "18446744073709551614,\"sequence\":1}\n");
    cJSON *document =
        document_of(room, real_process_run(room, NULL, lab(room), "compare", "--json", log, NULL));
    int rows = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(document, "policies"));
    assert_true(rows > 10);
    for (int i = 0; i < rows; i++) {
        near(number(row_of(document, i), "ooms"), 1);
        near(number(row_of(document, i), "peak_reserved_bytes"), 0);
    }
    cJSON_Delete(document);
}

static void test_the_same_log_gives_the_same_bytes(void **state)
{
    struct real_room *room = *state;
    const char *log = tiny(room);
    struct real_process *one =
        real_process_run(room, NULL, lab(room), "compare", "--json", log, NULL);
    struct real_process *two =
        real_process_run(room, NULL, lab(room), "compare", "--json", log, NULL);
    assert_int_equal(real_process_wait(one), 0);
    assert_string_equal(real_process_output(room, one), real_process_output(room, two));
    one = real_process_run(room, NULL, lab(room), "compare", "--no-time", log, NULL);
    two = real_process_run(room, NULL, lab(room), "compare", "--no-time", log, NULL);
    assert_int_equal(real_process_wait(one), 0);
    assert_string_equal(real_process_output(room, one), real_process_output(room, two));
    assert_null(strstr(real_process_output(room, one), "ns/op"));
}

static void test_the_table_has_the_floor_every_policy_and_what_is_best(void **state)
{
    struct real_room *room = *state;
    struct real_process *process =
        real_process_run(room, NULL, lab(room), "compare", tiny(room), NULL);
    assert_int_equal(real_process_wait(process), 0);
    const char *output = real_process_output(room, process);
    static const char *const PARTS[] = {"\nfloor ",
                                        "\nworse ",
                                        "\nreference ",
                                        "\nlist_fit fit=first ",
                                        "\nbuddy ",
                                        "\noffset ",
                                        "\nvma ",
                                        "\ntlsf ",
                                        "\nrmm_pool ",
                                        "\nbfc ",
                                        "\ntorch ",
                                        "\ndriver ",
                                        "ns/op",
                                        "* best, ! worst",
                                        "smallest device",
                                        "weighted by",
                                        "a device without limit"};
    for (size_t i = 0; i < sizeof(PARTS) / sizeof(PARTS[0]); i++) {
        if (!strstr(output, PARTS[i]))
            fail_msg("not in the table: %s\n%s", PARTS[i], output);
    }
}

static void test_quick_and_time_choose_the_columns(void **state)
{
    struct real_room *room = *state;
    cJSON *document =
        document_of(room, real_process_run(room, NULL, lab(room), "compare", "--json", "--time",
                                           "--quick", "--policy", "torch", tiny(room), NULL));
    const cJSON *row = row_of(document, 0);
    assert_true(number(row, "ns_per_operation") > 0);
    assert_null(cJSON_GetObjectItemCaseSensitive(row, "smallest_device_bytes"));
    cJSON_Delete(document);
}

static void test_a_knob_out_of_range_is_refused_before_the_log_is_read(void **state)
{
    struct real_room *room = *state;
    struct real_process *process =
        real_process_run(room, NULL, lab(room), "compare", "--policy", "torch memory_fraction=2",
                         real_room_path(room, "none"), NULL);
    assert_int_equal(real_process_wait(process), 2);
    assert_non_null(strstr(real_process_errors(room, process), "memory_fraction"));
}

static void test_a_seed_that_is_no_number_is_refused(void **state)
{
    struct real_room *room = *state;
    static const char *const SEEDS[] = {"x", "", "-", "1x", "0x10", "1.5"};
    for (size_t i = 0; i < sizeof(SEEDS) / sizeof(SEEDS[0]); i++) {
        struct real_process *process =
            real_process_run(room, NULL, lab(room), "compare", "--policy", "worse", "--seed",
                             SEEDS[i], tiny(room), NULL);
        assert_int_equal(real_process_wait(process), 2);
        assert_non_null(strstr(real_process_errors(room, process), "a seed is a decimal integer"));
    }
}

/* ------------------------------------------------------------------------------ a real log */

static const char *shared_file(struct real_room *room, const char *name)
{
    const char *shared = getenv("WORSEGPU_SHARED");
    const char *path = real_room_text(room, "%s/%s", shared ? shared : "../shared", name);
    if (access(path, R_OK) != 0) {
        print_message("%s is not there ($WORSEGPU_SHARED)\n", path);
        skip();
    }
    return path;
}

static void overhead_is(const cJSON *document, const char *policy, double expected)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(document, "policies"))
    {
        if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "policy")), policy) !=
            0)
            continue;
        double got = number(row, "overhead");
        if (fabs(got - expected) > 0.0005)
            fail_msg("%s: %.4f, not %.3f", policy, got, expected);
        return;
    }
    fail_msg("no row: %s", policy);
}

/* The row decomfl of the published measurements (gpu-allocators.md, A9), with three decimals. They
 * were taken with the list policies in an arena that grows when no hole is large enough, which is
 * tail=apart; both TLSF columns (mattconte's, and one with 8 classes for each power of two) are
 * 1.002, and so is BFC.
 *
 * BFC's is the smallest device of the one whose single region is the whole device: such a region is
 * reserved at once, so that what it needs shows there. With allow_growth regions double, and the
 * last one is larger than what is needed of it. */
static void test_the_usual_table_of_a_real_log_is_the_published_one(void **state)
{
    struct real_room *room = *state;
    const char *log = shared_file(room, "logs/torch/decomfl.pickle");
    static const struct {
        const char *policy;
        double overhead;
    } PUBLISHED[] = {{"list_fit fit=first alignment=256 tail=apart", 1.002},
                     {"list_fit fit=best alignment=256 tail=apart", 1.002},
                     {"list_fit fit=next alignment=256 tail=apart", 1.002},
                     {"list_fit fit=worst alignment=256 tail=apart", 1.175},
                     {"tlsf fl_index_max=40", 1.002},
                     {"offset unit_bytes=256", 1.002},
                     {"buddy", 1.806},
                     {"torch", 1.064},
                     {"driver share_small=false", 1.424}};
    cJSON *document = document_of(
        room, real_process_run(room, NULL, lab(room), "compare", "--json", "--quick", log, NULL));
    for (size_t i = 0; i < sizeof(PUBLISHED) / sizeof(PUBLISHED[0]); i++)
        overhead_is(document, PUBLISHED[i].policy, PUBLISHED[i].overhead);
    cJSON_Delete(document);
    document = document_of(room, real_process_run(room, NULL, lab(room), "compare", "--json",
                                                  "--policy", "bfc", log, NULL));
    double floor_bytes = number(document, "floor_bytes");
    double enough = number(row_of(document, 0), "smallest_device_bytes") / floor_bytes;
    if (fabs(enough - 1.002) > 0.0005)
        fail_msg("the smallest device of bfc: %.4f of the floor, not 1.002", enough);
    cJSON_Delete(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_first_fit_worked_out_by_hand),
        IN_ROOM(test_buddy_worked_out_by_hand),
        IN_ROOM(test_driver_and_torch_worked_out_by_hand),
        IN_ROOM(test_the_smallest_device_is_found_to_the_byte),
        IN_ROOM(test_the_smallest_device_may_be_larger_than_what_is_reserved),
        IN_ROOM(test_means_are_weighted_by_time_where_there_is_one),
        IN_ROOM(test_a_device_that_is_too_small_refuses_and_is_no_rival),
        IN_ROOM(test_more_than_any_device_has_is_refused_by_every_policy),
        IN_ROOM(test_the_same_log_gives_the_same_bytes),
        IN_ROOM(test_the_table_has_the_floor_every_policy_and_what_is_best),
        IN_ROOM(test_quick_and_time_choose_the_columns),
        IN_ROOM(test_a_knob_out_of_range_is_refused_before_the_log_is_read),
        IN_ROOM(test_a_seed_that_is_no_number_is_refused),
        IN_ROOM(test_the_usual_table_of_a_real_log_is_the_published_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
