/* Umpire's replay logs, newer and older: expected records, each error, cuts, failing memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tests/support/log_reading.h"

static const char newer[] =
    "{\"category\":\"metadata\",\"name\":\"version\",\"numeric_args\":{\"major\":2022},\"string_"
    "args\":{},\"tags\":{},\"timestamp\":1656026907657405000}\n"
    "{\"category\":\"operation\",\"name\":\"make_memory_resource\",\"numeric_args\":{},\"string_"
    "args\":{\"allocator_ref\":\"0x10\"},\"tags\":{\"allocator_name\":\"HOST\"},\"timestamp\":"
    "1656026907657406000}\n"
    "{\"category\":\"operation\",\"name\":\"make_memory_resource\",\"numeric_args\":{},\"string_"
    "args\":{\"allocator_ref\":\"0x11\"},\"tags\":{\"allocator_name\":\"DEVICE\"},\"timestamp\":"
    "1656026907657407000}\n"
    "{\"category\":\"operation\",\"name\":\"make_allocator\",\"numeric_args\":{},\"string_args\":{"
    "\"allocator_ref\":\"0x20\",\"arg0\":\"DEVICE\"},\"tags\":{\"allocator_name\":\"pool\"},"
    "\"timestamp\":1656026907657408000}\n"
    "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":128},\"string_"
    "args\":{\"allocator_ref\":\"0x10\",\"pointer\":\"0x1f0\"},\"timestamp\":1656026907657409000}\n"
    "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":99},\"string_"
    "args\":{\"allocator_ref\":\"0x20\",\"pointer\":\"0x2f0\"},\"timestamp\":1656026907657410000}\n"
    "{\"category\":\"operation\",\"name\":\"reallocate\",\"numeric_args\":{\"size\":12},\"string_"
    "args\":{\"allocator_ref\":\"0x10\",\"current_ptr\":\"0x1f0\"},\"timestamp\":"
    "1656026907657411000}\n"
    "{\"category\":\"operation\",\"name\":\"reallocate\",\"numeric_args\":{},\"string_args\":{"
    "\"allocator_ref\":\"0x10\",\"new_ptr\":\"0x200\"},\"timestamp\":1656026907657412000}\n"
    "{\"category\":\"operation\",\"name\":\"reallocate\",\"numeric_args\":{\"size\":13},\"string_"
    "args\":{\"allocator_ref\":\"0x10\",\"current_ptr\":\"0x200\"},\"timestamp\":"
    "1656026907657413000}\n"
    "{\"category\":\"operation\",\"name\":\"deallocate\",\"string_args\":{\"allocator_ref\":"
    "\"0x10\",\"pointer\":\"0x200\"},\"timestamp\":1656026907657414000}\n"
    "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":13},\"string_"
    "args\":{\"allocator_ref\":\"0x10\",\"pointer\":\"0x210\"},\"timestamp\":1656026907657415000}\n"
    "{\"category\":\"operation\",\"name\":\"reallocate\",\"numeric_args\":{},\"string_args\":{"
    "\"allocator_ref\":\"0x10\",\"new_ptr\":\"0x210\"},\"timestamp\":1656026907657416000}\n"
    "{\"category\":\"operation\",\"name\":\"deallocate\",\"string_args\":{\"allocator_ref\":"
    "\"0x20\",\"pointer\":\"0x2f0\"},\"timestamp\":1656026907657417000}\n"
    "{\"category\":\"operation\",\"name\":\"coalesce\",\"numeric_args\":{},\"string_args\":{},"
    "\"timestamp\":1656026907657418000}\n";

static const char older[] =
    "# a comment\n"
    "\n"
    "{ \"kind\":\"replay\", \"uid\":1, \"timestamp\":1558388052211477000, \"event\": "
    "\"makeMemoryResource\", \"payload\": { \"name\": \"HOST\" }, \"result\": \"0x10\" }\n"
    "{ \"kind\":\"replay\", \"uid\":1, \"timestamp\":1558388052211478000, \"event\": "
    "\"makeAllocator\", \"payload\": { \"allocator_name\":\"pool\", \"args\": [ \"HOST\" ] } }\n"
    "{ \"kind\":\"replay\", \"uid\":1, \"timestamp\":1558388052211479000, \"event\": "
    "\"makeAllocator\", \"payload\": { \"allocator_name\":\"pool\", \"args\": [ \"HOST\" ] }, "
    "\"result\": { \"allocator_ref\":\"0x20\" } }\n"
    "{ \"kind\":\"replay\", \"uid\":1, \"timestamp\":1558388052211480000, \"event\": \"allocate\", "
    "\"payload\": { \"allocator_ref\": \"0x20\", \"size\": 0 } }\n"
    "{ \"kind\":\"replay\", \"uid\":1, \"timestamp\":1558388052211480000, \"event\": \"allocate\", "
    "\"payload\": { \"allocator_ref\": \"0x20\", \"size\": 0 }, \"result\": { \"memory_ptr\": "
    "\"0x2010\" } }\n"
    "{ \"kind\":\"replay\", \"uid\":1, \"timestamp\":1558388052211481000, \"event\": \"allocate\", "
    "\"payload\": { \"allocator_ref\": \"0x20\", \"size\": 7 }, \"result\": { \"memory_ptr\": "
    "\"0x2010\" } }\n"
    "{ \"kind\":\"replay\", \"uid\":1, \"timestamp\":1558388052211482000, \"event\": "
    "\"deallocate\", \"payload\": { \"allocator_ref\": \"0x20\", \"memory_ptr\": \"0x2010\" } }\n"
    "{ \"kind\":\"replay\", \"uid\":1, \"timestamp\":1558388052211483000, \"event\": "
    "\"deallocate\", \"payload\": { \"allocator_ref\": \"0x20\", \"memory_ptr\": \"0x2010\" } }\n"
    "{ \"kind\":\"replay\", \"uid\":1, \"timestamp\":1558388052211484000, \"event\": \"coalesce\", "
    "\"payload\": { } }\n";

static void test_the_newer_form_with_two_resources_and_both_kinds_of_reallocation(void **state)
{
    assert_log_records("umpire", newer,
                       "allocate 0x1f0 128 bytes at 0x1f0 place 5\n"
                       "allocate 0x2f0 99 bytes at 0x2f0 device 1 time 1 place 6\n"
                       "free 0x1f0 own stream time 3 place 8\n"
                       "allocate 0x200 12 bytes at 0x200 time 3 place 8\n"
                       "free 0x200 own stream time 5 place 10\n"
                       "allocate 0x210 13 bytes at 0x210 time 6 place 11\n"
                       "free 0x2f0 own stream device 1 time 8 place 13\n");
    (void)state;
}

static void test_the_older_form_where_a_request_of_nothing_shares_an_address(void **state)
{
    assert_log_records("umpire", older,
                       "allocate 0x2010 7 bytes at 0x2010 time 1 place 8\n"
                       "free 0x2010 own stream time 2 place 9\n");
    (void)state;
}

static void test_each_error_has_its_line(void **state)
{
    assert_log_bad("umpire",
                   "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":1}"
                   ",\"string_args\":{\"pointer\":\"0x1\"}}\n"
                   "{\"category\":\"operation\",\"name\":\"allocate\",\"string_args\":{\"pointer\":"
                   "\"0x1\"}}\n",
                   "line 2: \"size\" is missing, a whole number from 0 to 2^64 - 1");
    assert_log_bad("umpire",
                   "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":1}"
                   ",\"string_args\":{\"pointer\":\"0x1\"}}\n"
                   "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":-"
                   "1},\"string_args\":{\"pointer\":\"0x1\"}}\n",
                   "line 2: \"size\" is no whole number from 0 to 2^64 - 1");
    assert_log_bad("umpire",
                   "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":1}"
                   ",\"string_args\":{\"pointer\":\"0x1\"}}\n"
                   "{\"category\":\"operation\",\"name\":\"deallocate\",\"string_args\":{"
                   "\"pointer\":\"x\"}}\n",
                   "line 2: \"pointer\" is no address");
    assert_log_bad("umpire",
                   "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":1}"
                   ",\"string_args\":{\"pointer\":\"0x1\"}}\n"
                   "{\"category\":\"operation\",\"name\":\"deallocate\",\"string_args\":{}}\n",
                   "line 2: \"pointer\" is missing, a text");
    assert_log_bad("umpire",
                   "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":1}"
                   ",\"string_args\":{\"pointer\":\"0x1\"}}\n"
                   "{\"category\":\"operation\",\"name\":\"reallocate\",\"string_args\":{\"new_"
                   "ptr\":\"0x1\"}}\n",
                   "line 2: a reallocate tells its new pointer without having begun");
    assert_log_bad("umpire",
                   "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":1}"
                   ",\"string_args\":{\"pointer\":\"0x1\"}}\n"
                   "{\"category\":\"operation\",\"name\":\"reallocate\",\"numeric_args\":{\"size\":"
                   "1},\"string_args\":{\"current_ptr\":\"0x1\"}}\n",
                   "line 2: the log is cut off: this reallocate never tells its new pointer");
    assert_log_bad("umpire",
                   "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":1}"
                   ",\"string_args\":{\"pointer\":\"0x1\"}}\n"
                   "{\"category\":\"operation\",\"name\":\"reallocate\",\"numeric_args\":{\"size\":"
                   "1},\"string_args\":{\"current_ptr\":\"0x1\"}}\n"
                   "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":1}"
                   ",\"string_args\":{\"pointer\":\"0x1\"}}\n"
                   "{\"category\":\"operation\",\"name\":\"reallocate\",\"numeric_args\":{\"size\":"
                   "1},\"string_args\":{\"current_ptr\":\"0x1\"}}\n",
                   "line 4: a reallocate begins before that of line 2 has told its new pointer");
    assert_log_bad("umpire",
                   "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":1}"
                   ",\"string_args\":{\"pointer\":\"0x1\"}}\n"
                   "{\"kind\":\"replay\",\"event\":\"makeMemoryResource\",\"payload\":{\"name\":"
                   "\"HOST\"},\"result\":7}\n",
                   "line 2: the \"result\" is no address");
    assert_log_bad(
        "umpire",
        "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":1},\"string_"
        "args\":{\"pointer\":\"0x1\"}}\n"
        "{\"kind\":\"replay\",\"event\":\"allocate\",\"payload\":{\"size\":7},\"result\":{}}\n",
        "line 2: \"memory_ptr\" is missing, a text");
    assert_log_bad("umpire",
                   "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":1}"
                   ",\"string_args\":{\"pointer\":\"0x1\"}}\n"
                   "{\"category\":\"operation\"}\n",
                   "line 2: \"name\" is missing, a text");
    assert_log_bad(
        "umpire",
        "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":1},\"string_"
        "args\":{\"pointer\":\"0x1\"}}\n"
        "{\"category\":\"operation\",\"na\n",
        "line 2: the JSON is damaged or cut off: the text ends within a string (byte 28)");
    assert_log_bad("umpire",
                   "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":1}"
                   ",\"string_args\":{\"pointer\":\"0x1\"}}\n"
                   "[1]\n",
                   "line 2: this is no JSON object");
    assert_log_bad("umpire", "# nothing\n", "line 1: the log is empty");
    (void)state;
}

static void test_more_than_4096_allocators_are_too_many(void **state)
{
    enum {
        ROOM = 4097 * 160
    };
    char *text = malloc(ROOM);
    assert_non_null(text);
    size_t length = 0;
    for (unsigned int i = 0; i < 4097; i++)
        length += (size_t)snprintf(text + length, ROOM - length,
                                   "{\"kind\":\"replay\",\"event\":\"makeMemoryResource\","
                                   "\"payload\":{\"name\":\"%u\"},\"result\":\"0x%x\"}\n",
                                   i, i + 1);
    assert_log_bad("umpire", text, "line 4097: more than 4096 allocators");
    free(text);
    (void)state;
}

static void test_a_log_cut_off_anywhere_is_refused_or_shorter(void **state)
{
    assert_log_survives_cuts("umpire", newer, strlen(newer), false);
    (void)state;
}

static void test_reading_survives_failing_memory(void **state)
{
    assert_log_survives_chaos("umpire", newer);
    (void)state;
}

static void test_the_older_form_survives_cuts(void **state)
{
    assert_log_survives_cuts("umpire", older, strlen(older), false);
    assert_log_survives_chaos("umpire", older);
    (void)state;
}

static void test_shared_samples_are_read(void **state)
{
    static const struct {
        const char *name;
        uint64_t records;
    } cases[] = {{"umpire/output.replay", 384}, {"umpire/tut_replay_log.json", 126}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t length;
        char *bytes = shared_log(cases[i].name, &length);
        if (!bytes)
            skip();
        struct log_reading reading = {0};
        log_reading_bytes(&reading, NULL, bytes, length, memory_system());
        assert_int_equal(reading.status, LOG_FINE);
        assert_string_equal(reading.facts.format, "umpire");
        assert_int_equal(reading.records, cases[i].records);
        log_reading_release(&reading);
        free(bytes);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_newer_form_with_two_resources_and_both_kinds_of_reallocation),
        cmocka_unit_test(test_the_older_form_where_a_request_of_nothing_shares_an_address),
        cmocka_unit_test(test_each_error_has_its_line),
        cmocka_unit_test(test_more_than_4096_allocators_are_too_many),
        cmocka_unit_test(test_a_log_cut_off_anywhere_is_refused_or_shorter),
        cmocka_unit_test(test_reading_survives_failing_memory),
        cmocka_unit_test(test_the_older_form_survives_cuts),
        cmocka_unit_test(test_shared_samples_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
