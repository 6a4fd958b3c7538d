/* The lists of the OSTEP homework: expected records, each error, cuts, failing memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tests/support/log_reading.h"

static const char list[] = "+10,-0, +20\n"
                           ",+0,-2,-1\n";

static void test_items_are_counted_from_zero(void **state)
{
    assert_log_records("ostep-list", list,
                       "allocate 0x0 10 bytes place 1\n"
                       "free 0x0 own stream place 5\n"
                       "allocate 0x1 20 bytes place 9\n"
                       "free 0x1 own stream place 20\n");
    (void)state;
}

static void test_each_error_has_its_byte(void **state)
{
    assert_log_bad("ostep-list", "+10,-1", "byte 5: allocation 1 is freed before it is made");
    assert_log_bad("ostep-list", "+10,-0,-0", "byte 8: allocation 0 is freed twice");
    assert_log_bad("ostep-list", "+10,", "byte 4: the list is cut off: nothing follows the comma");
    assert_log_bad("ostep-list", "+10 -0", "byte 5: a comma is missing between two items");
    assert_log_bad("ostep-list", "+10,,",
                   "byte 5: ',' is no item: +BYTES allocates, -NUMBER frees");
    assert_log_bad("ostep-list", "+10,+",
                   "byte 5: '+' is no item: +BYTES allocates, -NUMBER frees");
    assert_log_bad("ostep-list", "+10,5",
                   "byte 5: '5' is no item: +BYTES allocates, -NUMBER frees");
    assert_log_bad("ostep-list", "+18446744073709551616",
                   "byte 1: '+1844674407370955161' is no item: +BYTES allocates, -NUMBER frees");
    assert_log_bad("ostep-list", "", "byte 1: the list is empty");
    (void)state;
}

static void test_a_log_cut_off_anywhere_is_refused_or_shorter(void **state)
{
    assert_log_survives_cuts("ostep-list", list, strlen(list), true);
    (void)state;
}

static void test_reading_survives_failing_memory(void **state)
{
    assert_log_survives_chaos("ostep-list", list);
    (void)state;
}

static void test_a_list_longer_than_any_line_is_read(void **state)
{
    enum {
        ITEMS = 4000000
    };
    char *text = malloc(ITEMS * 5 + 2);
    assert_non_null(text);
    size_t length = 0;
    for (size_t i = 0; i < ITEMS; i++) {
        memcpy(text + length, i > 0 ? ",+123" : "+123", i > 0 ? 5 : 4);
        length += i > 0 ? 5 : 4;
    }
    text[length] = 'x';
    struct log_reading reading = {.stop_after = 3};
    log_reading_bytes(&reading, NULL, text, length, memory_system());
    assert_int_equal(reading.status, LOG_STOPPED);
    assert_string_equal(reading.text, "allocate 0x0 123 bytes place 1\nallocate 0x1 123 bytes "
                                      "place 6\nallocate 0x2 123 bytes place 11\n");
    log_reading_release(&reading);
    free(text);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_items_are_counted_from_zero),
        cmocka_unit_test(test_each_error_has_its_byte),
        cmocka_unit_test(test_a_log_cut_off_anywhere_is_refused_or_shorter),
        cmocka_unit_test(test_reading_survives_failing_memory),
        cmocka_unit_test(test_a_list_longer_than_any_line_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
