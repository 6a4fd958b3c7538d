/* The words of the engine's enumerations, as they stand on the wire. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/version.h"
#include "lib/worsegpu.h"

static void test_devices_have_the_references_words(void **state)
{
    (void)state;
    assert_string_equal(worsegpu_device_name(WORSEGPU_GPU), "gpu");
    assert_string_equal(worsegpu_device_name(WORSEGPU_CPU), "cpu");
    assert_null(worsegpu_device_name((enum worsegpu_device)2));
}

static void test_operations_have_the_references_words(void **state)
{
    (void)state;
    assert_string_equal(worsegpu_operation_name(WORSEGPU_ALLOCATE), "allocate");
    assert_string_equal(worsegpu_operation_name(WORSEGPU_ALLOCATE_FAILED), "allocate_failed");
    assert_string_equal(worsegpu_operation_name(WORSEGPU_FREE), "free");
    assert_string_equal(worsegpu_operation_name(WORSEGPU_FAULT), "fault"); /* ours */
    assert_string_equal(worsegpu_operation_name(WORSEGPU_RECORD_STREAM), "record_stream");
    assert_string_equal(worsegpu_operation_name(WORSEGPU_EVENT_DONE), "event_done");
    assert_string_equal(worsegpu_operation_name(WORSEGPU_EMPTY_CACHE), "empty_cache");
    assert_null(worsegpu_operation_name(WORSEGPU_OPERATIONS));
}

static void test_reasons_have_the_references_words(void **state)
{
    (void)state;
    assert_null(worsegpu_reason_name(WORSEGPU_NO_REASON));
    assert_string_equal(worsegpu_reason_name(WORSEGPU_PROBABILITY), "probability");
    assert_string_equal(worsegpu_reason_name(WORSEGPU_GPU_OOM), "gpu_oom");
    assert_string_equal(worsegpu_reason_name(WORSEGPU_FORGOTTEN), "forgotten");
    assert_null(worsegpu_reason_name((enum worsegpu_reason)4));
}

static void test_every_fault_action_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < WORSEGPU_FAULT_ACTIONS; i++) {
        const char *name = worsegpu_fault_action_name((enum worsegpu_fault_action)i);
        assert_non_null(name);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(name,
                                    worsegpu_fault_action_name((enum worsegpu_fault_action)j));
    }
    assert_null(worsegpu_fault_action_name(WORSEGPU_FAULT_ACTIONS));
    assert_string_equal(worsegpu_fault_action_name(WORSEGPU_FAULT_OUT_OF_MEMORY), "out_of_memory");
    assert_string_equal(worsegpu_fault_action_name(WORSEGPU_FAULT_DISCONNECT_AFTER),
                        "disconnect_after");
}

static void test_scans_go_both_ways(void **state)
{
    (void)state;
    enum worsegpu_scan scan = WORSEGPU_SCAN_ACCOUNTED;
    assert_true(worsegpu_scan_from_name("walked", &scan));
    assert_int_equal(scan, WORSEGPU_SCAN_WALKED);
    assert_true(worsegpu_scan_from_name("accounted", &scan));
    assert_int_equal(scan, WORSEGPU_SCAN_ACCOUNTED);
    assert_string_equal(worsegpu_scan_name(WORSEGPU_SCAN_ACCOUNTED), "accounted");
    assert_string_equal(worsegpu_scan_name(WORSEGPU_SCAN_WALKED), "walked");
    assert_null(worsegpu_scan_name((enum worsegpu_scan)2));
}

static void test_an_unknown_scan_changes_nothing(void **state)
{
    (void)state;
    const char *const wrong[] = {"", "Walked", "walked ", "walk", "accounted,walked"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        enum worsegpu_scan scan = WORSEGPU_SCAN_WALKED;
        assert_false(worsegpu_scan_from_name(wrong[i], &scan));
        assert_int_equal(scan, WORSEGPU_SCAN_WALKED);
    }
}

static void test_the_version_is_the_files(void **state)
{
    (void)state;
    assert_string_equal(worsegpu_version(), WORSEGPU_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices_have_the_references_words),
        cmocka_unit_test(test_operations_have_the_references_words),
        cmocka_unit_test(test_reasons_have_the_references_words),
        cmocka_unit_test(test_every_fault_action_has_a_name_of_its_own),
        cmocka_unit_test(test_scans_go_both_ways),
        cmocka_unit_test(test_an_unknown_scan_changes_nothing),
        cmocka_unit_test(test_the_version_is_the_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
