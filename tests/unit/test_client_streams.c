/* The client's functions for knobs, streams, the cache and a policy's own figures: what each sends,
 * and what it reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/memory.h"
#include "tests/unit/client_fake.h"

#define HANDLE "1-00112233445566778899aabbccddeeff"

static void start(struct fake *fake, const char *answer)
{
    assert_true(fake_start(fake, memory_system(), 5000));
    fake_say(fake, answer);
}

/* Ends it after checking what was sent. */
static void end_having_sent(struct fake *fake, const char *expected)
{
    char heard[1024];
    fake_hear(fake, heard, sizeof(heard));
    assert_string_equal(heard, expected);
    fake_end(fake);
}

#define CONFIG                                                                                     \
    "{\"name\":\"a\",\"policy\":\"torch\",\"knobs\":\"memory_fraction=0.5\",\"gpu_capacity\":9,"   \
    "\"gpu_probability\":0.5,\"forget_probability\":0.25,\"fallback_on_oom\":false,"               \
    "\"max_request_bytes\":77,\"trace_limit\":5,\"seed\":1,\"scan\":\"walked\"}"

static void test_open_sends_and_reads_knobs(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_config actual;
    const struct worsegpu_client_config wanted = {.policy = "torch",
                                                  .knobs = "memory_fraction=0.5"};
    start(&fake, FAKE_RESULT(1, CONFIG));
    assert_int_equal(worsegpu_client_open(fake.client, "a", &wanted, &actual, NULL), 0);
    assert_string_equal(actual.knobs, "memory_fraction=0.5");
    end_having_sent(&fake, "{\"id\":1,\"method\":\"open\",\"params\":{\"name\":\"a\","
                           "\"policy\":\"torch\",\"knobs\":\"memory_fraction=0.5\"}}\n");
}

static void test_knobs_that_are_no_utf8_are_not_sent(void **state)
{
    (void)state;
    struct fake fake;
    const struct worsegpu_client_config wanted = {.knobs = "a=\xff"};
    start(&fake, "");
    assert_int_equal(worsegpu_client_open(fake.client, "a", &wanted, NULL, NULL),
                     WORSEGPU_CLIENT_INVALID_ARGUMENT);
    end_having_sent(&fake, "");
}

static void test_allocate_sends_alignment_and_upper(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_allocation allocation;
    const struct worsegpu_client_request request = {
        .requested_bytes = 5, .alignment = 4096, .upper = true};
    start(&fake, FAKE_RESULT(1, "{\"allocation_id\":1,\"handle\":\"" HANDLE "\","
                                "\"requested_bytes\":5,\"reserved_bytes\":512,\"device\":\"gpu\","
                                "\"block_index\":0,\"offset\":0}"));
    assert_int_equal(worsegpu_client_allocate(fake.client, NULL, &request, &allocation, NULL), 0);
    end_having_sent(&fake, "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":5,"
                           "\"alignment\":4096,\"upper\":true}}\n");
}

static void test_free_on_a_stream_names_it_even_if_it_is_0(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_release release;
    start(&fake, FAKE_RESULT(1, "{\"allocation_id\":1,\"device\":\"gpu\",\"released\":true}"));
    assert_int_equal(worsegpu_client_free_on_stream(fake.client, "a", HANDLE, 0, &release, NULL),
                     0);
    assert_true(release.released);
    end_having_sent(&fake, "{\"id\":1,\"method\":\"free\",\"params\":{\"handle\":\"" HANDLE "\","
                           "\"stream\":0,\"allocator\":\"a\"}}\n");
}

static void test_record_stream_says_whether_it_was_of_use(void **state)
{
    (void)state;
    struct fake fake;
    bool used = false;
    start(&fake, FAKE_RESULT(1, "{\"allocation_id\":1,\"device\":\"gpu\",\"used\":true}"));
    assert_int_equal(worsegpu_client_record_stream(fake.client, NULL, HANDLE, 7, &used, NULL), 0);
    assert_true(used);
    end_having_sent(&fake, "{\"id\":1,\"method\":\"record_stream\",\"params\":{\"handle\":\"" HANDLE
                           "\",\"stream\":7}}\n");
}

static void test_event_done_of_all_sends_no_count(void **state)
{
    (void)state;
    struct fake fake;
    bool used = true;
    start(&fake, FAKE_RESULT(1, "{\"stream\":7,\"used\":false}"));
    assert_int_equal(worsegpu_client_event_done(fake.client, NULL, 7, 0, false, &used, NULL), 0);
    assert_false(used);
    end_having_sent(&fake, "{\"id\":1,\"method\":\"event_done\",\"params\":{\"stream\":7}}\n");
}

static void test_event_done_of_the_newest_ones(void **state)
{
    (void)state;
    struct fake fake;
    start(&fake, FAKE_RESULT(1, "{\"stream\":0,\"used\":true}"));
    assert_int_equal(worsegpu_client_event_done(fake.client, "a", 0, 3, true, NULL, NULL), 0);
    end_having_sent(&fake, "{\"id\":1,\"method\":\"event_done\",\"params\":{\"stream\":0,"
                           "\"count\":3,\"newest\":true,\"allocator\":\"a\"}}\n");
}

static void test_empty_cache_says_how_much_went_back(void **state)
{
    (void)state;
    struct fake fake;
    uint64_t given_back = 0;
    bool used = false;
    start(&fake, FAKE_RESULT(1, "{\"given_back\":2097152,\"used\":true}"));
    assert_int_equal(worsegpu_client_empty_cache(fake.client, "a", &given_back, &used, NULL), 0);
    assert_int_equal(given_back, 2097152);
    assert_true(used);
    end_having_sent(&fake,
                    "{\"id\":1,\"method\":\"empty_cache\",\"params\":{\"allocator\":\"a\"}}\n");
}

static void test_statistics_leaves_the_figures_in_the_result(void **state)
{
    (void)state;
    static const char figures[] = "{\"policy\":\"bfc\",\"statistics\":{\"peak\":[1,2],\"x\":null}}";
    struct fake fake;
    size_t length;
    start(&fake, FAKE_RESULT(1, "{\"policy\":\"bfc\",\"statistics\":{\"peak\":[1,2],\"x\":null}}"));
    assert_int_equal(worsegpu_client_statistics(fake.client, NULL, NULL), 0);
    const char *result = worsegpu_client_result(fake.client, &length);
    assert_int_equal(length, strlen(figures));
    assert_memory_equal(result, figures, length);
    end_having_sent(&fake, "{\"id\":1,\"method\":\"statistics\",\"params\":{}}\n");
}

static void test_statistics_that_are_no_object_are_a_bad_reply(void **state)
{
    (void)state;
    struct fake fake;
    start(&fake, FAKE_RESULT(1, "{\"policy\":\"bfc\",\"statistics\":[]}"));
    assert_int_equal(worsegpu_client_statistics(fake.client, NULL, NULL),
                     WORSEGPU_CLIENT_BAD_REPLY);
    fake_end(&fake);
}

static void test_events_of_streams_are_read(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_trace page;
    start(&fake,
          FAKE_RESULT(1, "{\"events\":[{\"operation\":\"allocate\",\"allocation_id\":1,"
                         "\"requested_bytes\":10,\"reserved_bytes\":512,\"device\":\"gpu\","
                         "\"sequence\":1,\"alignment\":256,\"upper\":true},"
                         "{\"operation\":\"record_stream\",\"allocation_id\":1,"
                         "\"device\":\"gpu\",\"sequence\":2,\"stream\":5},"
                         "{\"operation\":\"event_done\",\"count\":4,\"newest\":true,\"sequence\":3,"
                         "\"stream\":5},{\"operation\":\"empty_cache\",\"sequence\":4}],"
                         "\"next\":4,\"more\":false,\"dropped\":0}"));
    assert_int_equal(worsegpu_client_trace(fake.client, NULL, 0, 10, &page, NULL), 0);
    assert_int_equal(page.count, 4);
    assert_int_equal(page.events[0].alignment, 256);
    assert_true(page.events[0].upper);
    assert_int_equal(page.events[1].alignment, 0);
    assert_false(page.events[1].upper);
    assert_true(page.events[1].stream_given && page.events[1].stream == 5);
    assert_int_equal(page.events[1].allocation_id, 1);
    assert_int_equal(page.events[2].count, 4);
    assert_true(page.events[2].newest);
    assert_int_equal(page.events[3].count, 0);
    assert_string_equal(page.events[3].operation, "empty_cache");
    fake_end(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_sends_and_reads_knobs),
        cmocka_unit_test(test_knobs_that_are_no_utf8_are_not_sent),
        cmocka_unit_test(test_allocate_sends_alignment_and_upper),
        cmocka_unit_test(test_free_on_a_stream_names_it_even_if_it_is_0),
        cmocka_unit_test(test_record_stream_says_whether_it_was_of_use),
        cmocka_unit_test(test_event_done_of_all_sends_no_count),
        cmocka_unit_test(test_event_done_of_the_newest_ones),
        cmocka_unit_test(test_empty_cache_says_how_much_went_back),
        cmocka_unit_test(test_statistics_leaves_the_figures_in_the_result),
        cmocka_unit_test(test_statistics_that_are_no_object_are_a_bad_reply),
        cmocka_unit_test(test_events_of_streams_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
