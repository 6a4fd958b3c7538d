/* The client's typed functions: what each sends, what it reads, and what it refuses to read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "client/worsegpu_client.h"
#include "proto/methods.h"
#include "tests/support/chaos.h"
#include "tests/unit/client_fake.h"

#define HANDLE "1-00112233445566778899aabbccddeeff"
#define ALLOCATED                                                                                  \
    "{\"allocation_id\":1,\"handle\":\"" HANDLE "\",\"requested_bytes\":4096,"                     \
    "\"reserved_bytes\":8192,\"device\":\"gpu\",\"block_index\":2,\"offset\":512}"
#define ON_HOST                                                                                    \
    "{\"allocation_id\":18446744073709551615,\"handle\":\"" HANDLE "\",\"requested_bytes\":1,"     \
    "\"reserved_bytes\":1,\"device\":\"cpu\",\"block_index\":-1,\"reason\":\"gpu_oom\""
#define DETAIL                                                                                     \
    "\"detail\":{\"policy\":\"worse\",\"scan\":\"accounted\",\"blocks_scanned\":11,"               \
    "\"gpu_allocations\":12,\"cpu_allocations\":13,\"gpu_requested\":14,"                          \
    "\"gpu_forgotten_blocks\":15,\"peak_gpu_used\":16,\"peak_cpu_bytes\":17,"                      \
    "\"allocate_calls\":18,\"free_calls\":19,\"oom_fallbacks\":20,\"oom_failures\":21,"            \
    "\"faults\":22,"                                                                               \
    "\"last_sequence\":18446744073709551615}"
#define METRICS                                                                                    \
    "\"gpu_capacity\":1,\"gpu_reserved\":2,\"gpu_unreserved\":3,\"gpu_used\":4,\"gpu_free\":5,"    \
    "\"gpu_forgotten\":6,\"gpu_blocks\":7,\"cpu_bytes\":18446744073709551614,"                     \
    "\"active_allocations\":9,\"trace_events\":10,"
#define SNAPSHOT "{" METRICS "\"fragmentation\":0.49," DETAIL "}"
#define CONFIG(seed)                                                                               \
    "{\"name\":\"a\",\"policy\":\"worse\",\"gpu_capacity\":9007199254740991,"                      \
    "\"gpu_probability\":0.5,\"forget_probability\":0.25,\"fallback_on_oom\":false,"               \
    "\"max_request_bytes\":77,\"trace_limit\":5,\"seed\":" seed ",\"scan\":\"walked\"}"
#define EVENTS                                                                                     \
    "{\"events\":[{\"operation\":\"allocate\",\"allocation_id\":1,\"requested_bytes\":10,"         \
    "\"reserved_bytes\":256,\"device\":\"gpu\",\"sequence\":6,\"time_us\":99,\"client\":3,"        \
    "\"tag\":\"t\",\"stream\":8},{\"operation\":\"free\",\"allocation_id\":1,\"released\":false,"  \
    "\"device\":\"gpu\",\"reason\":\"forgotten\",\"sequence\":7}],\"next\":7,\"more\":true,"       \
    "\"dropped\":4}"
#define LIST                                                                                       \
    "{\"allocations\":[" ON_HOST ",\"tag\":\"x\",\"stream\":4,\"client\":5,\"detached\":false}],"  \
    "\"next\":18446744073709551615,\"more\":false}"
#define INFO                                                                                       \
    "{\"server\":\"worsegpud\",\"version\":\"9.9.9\",\"protocol\":1,\"pid\":2,"                    \
    "\"uptime_seconds\":3,\"policies\":[],\"allocators\":[],\"limits\":{\"max_line_bytes\":4,"     \
    "\"max_json_depth\":5,\"max_connections\":6,\"max_connections_per_user\":7,"                   \
    "\"max_allocators_per_connection\":8,\"max_live_allocations\":9,\"max_output_bytes\":10,"      \
    "\"max_trace_limit\":11}}"

#define MAP "{\"from\":7,\"bytes\":100,\"cell_bytes\":50,\"cells\":[[1,2,3,4,5],[50,0,0,0,0]]}"

#define PEERS                                                                                      \
    "{\"clients\":[{\"client\":3,\"name\":null,\"user\":4,\"group\":5,\"process\":-1,"             \
    "\"you\":true,\"connected_us\":6,\"connected_seconds\":7,\"allocations\":8,"                   \
    "\"gpu_bytes\":9,\"cpu_bytes\":10,\"detached\":11,\"private_allocators\":12,"                  \
    "\"requests\":13,\"errors\":14,\"bytes_in\":15,\"bytes_out\":18446744073709551615}],"          \
    "\"next\":3,\"more\":false}"
#define RULE                                                                                       \
    "{\"rule\":1,\"action\":\"out_of_memory\",\"nth\":10,\"times\":1,\"method\":\"allocate\","     \
    "\"min_size\":2,\"max_size\":3,\"stream\":0,\"process\":4,\"user\":0,\"client\":5,"            \
    "\"tag_prefix\":\"ab\",\"allocator\":\"gpu0\",\"matched\":6,\"fired\":7,\"spent\":true}"
#define OTHER_RULE                                                                                 \
    "{\"rule\":2,\"action\":\"delay\",\"delay_ms\":9,\"probability\":0.25,\"rule_seed\":8,"        \
    "\"times\":null,\"allocator\":null,\"matched\":0,\"fired\":0,\"spent\":false}"
#define RULES "{\"rules\":[" RULE "," OTHER_RULE "],\"next\":2,\"more\":true}"

static void start(struct fake *fake, const char *answer)
{
    assert_true(fake_start(fake, NULL, 0));
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

static void test_open_sends_what_is_given_and_reads_the_configuration(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_config actual;
    const struct worsegpu_client_config wanted = {.policy = "worse",
                                                  .gpu_capacity_given = true,
                                                  .gpu_capacity = 5,
                                                  .forget_probability_given = true,
                                                  .forget_probability = 0.25,
                                                  .fallback_on_oom_given = true,
                                                  .seed = "-123456789012345678901234567890",
                                                  .scan = "walked"};
    start(&fake, FAKE_RESULT(1, CONFIG("\"-123456789012345678901234567890\"")));
    assert_int_equal(worsegpu_client_open(fake.client, "a", &wanted, &actual, NULL), 0);
    assert_string_equal(actual.policy, "worse");
    assert_true(actual.gpu_capacity == UINT64_C(9007199254740991));
    assert_true(actual.gpu_probability == 0.5);
    assert_true(actual.forget_probability == 0.25);
    assert_false(actual.fallback_on_oom);
    assert_int_equal(actual.max_request_bytes, 77);
    assert_int_equal(actual.trace_limit, 5);
    assert_string_equal(actual.seed, "-123456789012345678901234567890");
    assert_string_equal(actual.scan, "walked");
    end_having_sent(&fake, "{\"id\":1,\"method\":\"open\",\"params\":{\"name\":\"a\","
                           "\"policy\":\"worse\",\"gpu_capacity\":5,\"forget_probability\":0.25,"
                           "\"fallback_on_oom\":false,\"seed\":\"-123456789012345678901234567890\","
                           "\"scan\":\"walked\"}}\n");
}

static void test_open_with_nothing_given_sends_the_name_alone(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_config actual;
    start(&fake, FAKE_RESULT(1, CONFIG("-9007199254740991")));
    assert_int_equal(worsegpu_client_open(fake.client, "a", NULL, &actual, NULL), 0);
    assert_string_equal(actual.seed, "-9007199254740991");
    end_having_sent(&fake, "{\"id\":1,\"method\":\"open\",\"params\":{\"name\":\"a\"}}\n");
}

static void test_a_probability_that_is_no_number_is_not_sent(void **state)
{
    (void)state;
    struct fake fake;
    const struct worsegpu_client_config wanted = {.gpu_probability_given = true,
                                                  .gpu_probability = NAN};
    start(&fake, "");
    assert_int_equal(worsegpu_client_open(fake.client, "a", &wanted, NULL, NULL),
                     WORSEGPU_CLIENT_INVALID_ARGUMENT);
    end_having_sent(&fake, "");
}

static void test_close_names_the_allocator(void **state)
{
    (void)state;
    struct fake fake;
    start(&fake, FAKE_RESULT(1, "{\"closed\":true}"));
    assert_int_equal(worsegpu_client_close(fake.client, "a", NULL), 0);
    end_having_sent(&fake, "{\"id\":1,\"method\":\"close\",\"params\":{\"allocator\":\"a\"}}\n");
}

static void test_allocate_reads_a_place_on_the_gpu(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_allocation allocation;
    const struct worsegpu_client_request request = {.requested_bytes = 4096,
                                                    .tag = "a\"b",
                                                    .stream_given = true,
                                                    .stream = 3,
                                                    .detached = true};
    start(&fake, FAKE_RESULT(1, ALLOCATED));
    assert_int_equal(worsegpu_client_allocate(fake.client, "gpu0", &request, &allocation, NULL), 0);
    assert_int_equal(allocation.allocation_id, 1);
    assert_string_equal(allocation.handle, HANDLE);
    assert_int_equal(allocation.requested_bytes, 4096);
    assert_int_equal(allocation.reserved_bytes, 8192);
    assert_int_equal(allocation.device, WORSEGPU_CLIENT_GPU);
    assert_int_equal(allocation.block_index, 2);
    assert_int_equal(allocation.offset, 512);
    assert_string_equal(allocation.reason, "");
    end_having_sent(&fake, "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":4096,"
                           "\"tag\":\"a\\\"b\",\"stream\":3,\"detached\":true,"
                           "\"allocator\":\"gpu0\"}}\n");
}

static void test_allocate_reads_a_place_on_the_host(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_allocation allocation;
    const struct worsegpu_client_request request = {.requested_bytes = 1};
    start(&fake, FAKE_RESULT(1, ON_HOST "}"));
    assert_int_equal(worsegpu_client_allocate(fake.client, NULL, &request, &allocation, NULL), 0);
    assert_true(allocation.allocation_id == UINT64_MAX);
    assert_int_equal(allocation.device, WORSEGPU_CLIENT_CPU);
    assert_int_equal(allocation.block_index, -1);
    assert_int_equal(allocation.offset, 0);
    assert_string_equal(allocation.reason, "gpu_oom");
    end_having_sent(&fake,
                    "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":1}}\n");
}

static void test_out_of_memory_says_how_much_was_wanted(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_error error;
    struct worsegpu_client_allocation allocation;
    const struct worsegpu_client_request request = {.requested_bytes = 99};
    start(&fake, FAKE_ERROR(1, 1, "out_of_memory", ",\"requested_bytes\":99"));
    assert_int_equal(worsegpu_client_allocate(fake.client, NULL, &request, &allocation, &error),
                     WORSEGPU_CLIENT_REFUSED);
    assert_true(error.requested_bytes_given);
    assert_int_equal(error.requested_bytes, 99);
    fake_end(&fake);
}

static void test_a_tag_that_is_not_utf8_is_not_sent(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_allocation allocation;
    const struct worsegpu_client_request request = {.requested_bytes = 1, .tag = "\xc3"};
    start(&fake, "");
    assert_int_equal(worsegpu_client_allocate(fake.client, NULL, &request, &allocation, NULL),
                     WORSEGPU_CLIENT_INVALID_ARGUMENT);
    assert_int_equal(worsegpu_client_free_tag(fake.client, "\xff", "t", NULL, NULL),
                     WORSEGPU_CLIENT_INVALID_ARGUMENT);
    end_having_sent(&fake, "");
}

static void test_free_by_handle_and_by_tag(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_release release;
    start(&fake, FAKE_RESULT(1, "{\"allocation_id\":4,\"device\":\"gpu\",\"released\":false}")
                     FAKE_RESULT(2, "{\"allocation_id\":5,\"device\":\"cpu\",\"released\":true}"));
    assert_int_equal(worsegpu_client_free_handle(fake.client, NULL, HANDLE, &release, NULL), 0);
    assert_int_equal(release.allocation_id, 4);
    assert_int_equal(release.device, WORSEGPU_CLIENT_GPU);
    assert_false(release.released);
    assert_int_equal(worsegpu_client_free_tag(fake.client, "a", "t", &release, NULL), 0);
    assert_int_equal(release.allocation_id, 5);
    assert_int_equal(release.device, WORSEGPU_CLIENT_CPU);
    assert_true(release.released);
    end_having_sent(&fake, "{\"id\":1,\"method\":\"free\",\"params\":{\"handle\":\"" HANDLE "\"}}\n"
                           "{\"id\":2,\"method\":\"free\",\"params\":{\"tag\":\"t\","
                           "\"allocator\":\"a\"}}\n");
}

static void test_snapshot_reads_every_number_exactly(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_snapshot snapshot;
    start(&fake, FAKE_RESULT(1, SNAPSHOT));
    assert_int_equal(worsegpu_client_snapshot(fake.client, NULL, &snapshot, NULL), 0);
    assert_int_equal(snapshot.gpu_capacity, 1);
    assert_int_equal(snapshot.gpu_reserved, 2);
    assert_int_equal(snapshot.gpu_unreserved, 3);
    assert_int_equal(snapshot.gpu_used, 4);
    assert_int_equal(snapshot.gpu_free, 5);
    assert_int_equal(snapshot.gpu_forgotten, 6);
    assert_int_equal(snapshot.gpu_blocks, 7);
    assert_true(snapshot.cpu_bytes == UINT64_MAX - 1);
    assert_int_equal(snapshot.active_allocations, 9);
    assert_int_equal(snapshot.trace_events, 10);
    assert_true(snapshot.fragmentation == 0.49);
    assert_string_equal(snapshot.fragmentation_text, "0.49");
    assert_string_equal(snapshot.detail.policy, "worse");
    assert_string_equal(snapshot.detail.scan, "accounted");
    assert_int_equal(snapshot.detail.blocks_scanned, 11);
    assert_int_equal(snapshot.detail.gpu_allocations, 12);
    assert_int_equal(snapshot.detail.cpu_allocations, 13);
    assert_int_equal(snapshot.detail.gpu_requested, 14);
    assert_int_equal(snapshot.detail.gpu_forgotten_blocks, 15);
    assert_int_equal(snapshot.detail.peak_gpu_used, 16);
    assert_int_equal(snapshot.detail.peak_cpu_bytes, 17);
    assert_int_equal(snapshot.detail.allocate_calls, 18);
    assert_int_equal(snapshot.detail.free_calls, 19);
    assert_int_equal(snapshot.detail.oom_fallbacks, 20);
    assert_int_equal(snapshot.detail.oom_failures, 21);
    assert_int_equal(snapshot.detail.faults, 22);
    assert_true(snapshot.detail.last_sequence == UINT64_MAX);
    end_having_sent(&fake, "{\"id\":1,\"method\":\"snapshot\",\"params\":{}}\n");
}

static void test_trace_reads_a_page_of_events(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_trace page;
    start(&fake, FAKE_RESULT(1, EVENTS));
    assert_int_equal(worsegpu_client_trace(fake.client, NULL, 5, 2, &page, NULL), 0);
    assert_int_equal(page.count, 2);
    assert_int_equal(page.next, 7);
    assert_true(page.more);
    assert_int_equal(page.dropped, 4);
    const struct worsegpu_client_event *made = &page.events[0];
    assert_string_equal(made->operation, "allocate");
    assert_int_equal(made->sequence, 6);
    assert_int_equal(made->allocation_id, 1);
    assert_int_equal(made->requested_bytes, 10);
    assert_int_equal(made->reserved_bytes, 256);
    assert_int_equal(made->device, WORSEGPU_CLIENT_GPU);
    assert_true(made->time_given && made->client_given && made->stream_given);
    assert_int_equal(made->time_us, 99);
    assert_int_equal(made->client, 3);
    assert_int_equal(made->stream, 8);
    assert_string_equal(made->tag, "t");
    const struct worsegpu_client_event *freed = &page.events[1];
    assert_string_equal(freed->operation, "free");
    assert_string_equal(freed->reason, "forgotten");
    assert_false(freed->released || freed->time_given || freed->client_given ||
                 freed->stream_given);
    assert_string_equal(freed->tag, "");
    end_having_sent(&fake,
                    "{\"id\":1,\"method\":\"trace\",\"params\":{\"after\":5,\"limit\":2}}\n");
}

static void test_an_empty_page_has_no_items(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_trace page;
    start(&fake, FAKE_RESULT(1, "{\"events\":[],\"next\":5,\"more\":false,\"dropped\":0}"));
    assert_int_equal(worsegpu_client_trace(fake.client, NULL, 5, 2, &page, NULL), 0);
    assert_int_equal(page.count, 0);
    assert_null(page.events);
    fake_end(&fake);
}

/* A reader of pages would turn in a circle. */
static void test_a_page_that_does_not_move_on_is_a_bad_reply(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_trace page;
    start(&fake, FAKE_RESULT(1, "{\"events\":[],\"next\":5,\"more\":true,\"dropped\":0}"));
    assert_int_equal(worsegpu_client_trace(fake.client, NULL, 5, 2, &page, NULL),
                     WORSEGPU_CLIENT_BAD_REPLY);
    fake_end(&fake);
}

static void test_trace_clear_counts(void **state)
{
    (void)state;
    struct fake fake;
    uint64_t cleared = 0;
    start(&fake, FAKE_RESULT(1, "{\"cleared\":18446744073709551615}"));
    assert_int_equal(worsegpu_client_trace_clear(fake.client, "a", &cleared, NULL), 0);
    assert_true(cleared == UINT64_MAX);
    end_having_sent(&fake,
                    "{\"id\":1,\"method\":\"trace_clear\",\"params\":{\"allocator\":\"a\"}}\n");
}

static void test_validate_counts_its_checks_or_names_the_broken_one(void **state)
{
    (void)state;
    struct fake fake;
    uint64_t checks = 0;
    struct worsegpu_client_error error;
    start(&fake, FAKE_RESULT(1, "{\"valid\":true,\"checks\":77}")
                     FAKE_ERROR(2, 8, "invariant_violation", ",\"check\":\"gpu_used_sum\""));
    assert_int_equal(worsegpu_client_validate(fake.client, NULL, &checks, &error), 0);
    assert_int_equal(checks, 77);
    assert_int_equal(worsegpu_client_validate(fake.client, NULL, &checks, &error),
                     WORSEGPU_CLIENT_REFUSED);
    assert_string_equal(error.check, "gpu_used_sum");
    fake_end(&fake);
}

static void test_list_reads_a_page_of_allocations(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_list page;
    start(&fake, FAKE_RESULT(1, LIST));
    assert_int_equal(worsegpu_client_list(fake.client, NULL, 0, 1000, &page, NULL), 0);
    assert_int_equal(page.count, 1);
    assert_true(page.next == UINT64_MAX);
    assert_false(page.more);
    const struct worsegpu_client_allocation *listed = &page.allocations[0];
    assert_true(listed->allocation_id == UINT64_MAX);
    assert_string_equal(listed->tag, "x");
    assert_true(listed->stream_given && listed->client_given);
    assert_int_equal(listed->stream, 4);
    assert_int_equal(listed->client, 5);
    assert_false(listed->detached);
    end_having_sent(&fake,
                    "{\"id\":1,\"method\":\"list\",\"params\":{\"after\":0,\"limit\":1000}}\n");
}

static void test_orphans_are_listed_alone(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_list page;
    start(&fake, FAKE_RESULT(1, LIST));
    assert_int_equal(worsegpu_client_list_orphans(fake.client, "a", 3, 7, &page, NULL), 0);
    assert_int_equal(page.count, 1);
    end_having_sent(&fake, "{\"id\":1,\"method\":\"list\",\"params\":{\"after\":3,\"limit\":7,"
                           "\"orphans\":true,\"allocator\":\"a\"}}\n");
}

static void test_hello_sends_the_name_and_reads_the_number(void **state)
{
    (void)state;
    struct fake fake;
    uint64_t number = 0;
    start(&fake, FAKE_RESULT(1, "{\"client\":8,\"name\":\"me\"}"));
    assert_int_equal(worsegpu_client_hello(fake.client, "me", &number, NULL), 0);
    assert_int_equal(number, 8);
    end_having_sent(&fake, "{\"id\":1,\"method\":\"hello\",\"params\":{\"name\":\"me\"}}\n");
}

static void test_resize_reads_the_configuration(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_config config;
    start(&fake, FAKE_RESULT(1, CONFIG("1")) FAKE_RESULT(2, CONFIG("1")));
    assert_int_equal(worsegpu_client_resize(fake.client, "a", 5, &config, NULL), 0);
    assert_true(config.gpu_capacity == UINT64_C(9007199254740991));
    assert_int_equal(worsegpu_client_resize(fake.client, NULL, 6, NULL, NULL), 0);
    end_having_sent(&fake, "{\"id\":1,\"method\":\"resize\",\"params\":{\"gpu_capacity\":5,"
                           "\"allocator\":\"a\"}}\n"
                           "{\"id\":2,\"method\":\"resize\",\"params\":{\"gpu_capacity\":6}}\n");
}

static void test_clients_reads_a_page_of_connections(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_peers page;
    start(&fake, FAKE_RESULT(1, PEERS));
    assert_int_equal(worsegpu_client_clients(fake.client, 2, 10, &page, NULL), 0);
    assert_int_equal(page.count, 1);
    assert_int_equal(page.next, 3);
    assert_false(page.more);
    const struct worsegpu_client_peer *peer = &page.peers[0];
    assert_int_equal(peer->client, 3);
    assert_string_equal(peer->name, "");
    assert_int_equal(peer->user, 4);
    assert_int_equal(peer->group, 5);
    assert_int_equal(peer->process, -1);
    assert_true(peer->you);
    assert_int_equal(peer->connected_us, 6);
    assert_int_equal(peer->connected_seconds, 7);
    assert_int_equal(peer->allocations, 8);
    assert_int_equal(peer->gpu_bytes, 9);
    assert_int_equal(peer->cpu_bytes, 10);
    assert_int_equal(peer->detached, 11);
    assert_int_equal(peer->private_allocators, 12);
    assert_int_equal(peer->requests, 13);
    assert_int_equal(peer->errors, 14);
    assert_int_equal(peer->bytes_in, 15);
    assert_true(peer->bytes_out == UINT64_MAX);
    end_having_sent(&fake,
                    "{\"id\":1,\"method\":\"clients\",\"params\":{\"after\":2,\"limit\":10}}\n");
}

static void test_inject_sends_what_is_given_and_reads_the_rule(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_rule rule;
    const struct worsegpu_client_wish wish = {.action = "out_of_memory",
                                              .nth = 10,
                                              .times = 1,
                                              .method = "allocate",
                                              .min_size = 2,
                                              .max_size = 3,
                                              .stream_given = true,
                                              .tag_prefix = "ab",
                                              .process = 4,
                                              .user_given = true,
                                              .client = 5,
                                              .allocator = "gpu0"};
    start(&fake, FAKE_RESULT(1, RULE));
    assert_int_equal(worsegpu_client_inject(fake.client, &wish, &rule, NULL), 0);
    assert_int_equal(rule.rule, 1);
    assert_string_equal(rule.action, "out_of_memory");
    assert_int_equal(rule.nth, 10);
    assert_int_equal(rule.every, 0);
    assert_false(rule.probability_given);
    assert_int_equal(rule.times, 1);
    assert_string_equal(rule.method, "allocate");
    assert_int_equal(rule.min_size, 2);
    assert_int_equal(rule.max_size, 3);
    assert_true(rule.stream_given && rule.user_given && rule.spent);
    assert_int_equal(rule.stream, 0);
    assert_int_equal(rule.process, 4);
    assert_int_equal(rule.user, 0);
    assert_int_equal(rule.client, 5);
    assert_string_equal(rule.tag_prefix, "ab");
    assert_string_equal(rule.allocator, "gpu0");
    assert_int_equal(rule.delay_ms, 0);
    assert_int_equal(rule.matched, 6);
    assert_int_equal(rule.fired, 7);
    end_having_sent(&fake, "{\"id\":1,\"method\":\"inject\",\"params\":{"
                           "\"action\":\"out_of_memory\",\"nth\":10,\"times\":1,"
                           "\"method\":\"allocate\",\"min_size\":2,\"max_size\":3,\"stream\":0,"
                           "\"tag_prefix\":\"ab\",\"process\":4,\"user\":0,\"client\":5,"
                           "\"allocator\":\"gpu0\"}}\n");
}

static void test_inject_by_probability_and_by_every(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_rule rule;
    struct worsegpu_client_wish wish = {.action = "delay",
                                        .probability_given = true,
                                        .probability = 0.25,
                                        .rule_seed = 8,
                                        .delay_ms = 9};
    start(&fake, FAKE_RESULT(1, OTHER_RULE) FAKE_RESULT(2, OTHER_RULE));
    assert_int_equal(worsegpu_client_inject(fake.client, &wish, &rule, NULL), 0);
    assert_true(rule.probability_given && rule.probability == 0.25);
    assert_int_equal(rule.rule_seed, 8);
    assert_int_equal(rule.times, 0);
    assert_int_equal(rule.delay_ms, 9);
    assert_false(rule.stream_given || rule.user_given || rule.spent);
    assert_string_equal(rule.allocator, "");
    wish = (struct worsegpu_client_wish){.action = "forget", .every = 3};
    assert_int_equal(worsegpu_client_inject(fake.client, &wish, NULL, NULL), 0);
    end_having_sent(&fake, "{\"id\":1,\"method\":\"inject\",\"params\":{\"action\":\"delay\","
                           "\"probability\":0.25,\"rule_seed\":8,\"delay_ms\":9}}\n"
                           "{\"id\":2,\"method\":\"inject\",\"params\":{\"action\":\"forget\","
                           "\"every\":3}}\n");
}

static void test_a_wish_that_cannot_be_written_is_not_sent(void **state)
{
    (void)state;
    struct fake fake;
    const struct worsegpu_client_wish wishes[] = {
        {.action = "delay", .probability_given = true, .probability = INFINITY},
        {.action = "\xff"},
        {.action = "forget", .method = "\xff"},
        {.action = "forget", .tag_prefix = "\xff"},
        {.action = "forget", .allocator = "\xff"},
    };
    start(&fake, "");
    for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++)
        assert_int_equal(worsegpu_client_inject(fake.client, &wishes[i], NULL, NULL),
                         WORSEGPU_CLIENT_INVALID_ARGUMENT);
    end_having_sent(&fake, "");
}

static void test_a_rule_that_fires_in_no_way_or_in_two_is_a_bad_reply(void **state)
{
    (void)state;
    static const char *const ANSWERS_OF_INJECT[] = {
        FAKE_RESULT(1, "{\"rule\":1,\"action\":\"forget\",\"times\":1,\"allocator\":null,"
                       "\"matched\":0,\"fired\":0,\"spent\":false}"),
        FAKE_RESULT(1, "{\"rule\":1,\"action\":\"forget\",\"nth\":1,\"every\":1,\"times\":1,"
                       "\"allocator\":null,\"matched\":0,\"fired\":0,\"spent\":false}")};
    const struct worsegpu_client_wish wish = {.action = "forget"};
    for (size_t i = 0; i < 2; i++) {
        struct fake fake;
        start(&fake, ANSWERS_OF_INJECT[i]);
        assert_int_equal(worsegpu_client_inject(fake.client, &wish, NULL, NULL),
                         WORSEGPU_CLIENT_BAD_REPLY);
        fake_end(&fake);
    }
}

static void test_rules_reads_a_page_of_rules(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_rules page;
    start(&fake, FAKE_RESULT(1, RULES));
    assert_int_equal(worsegpu_client_rules(fake.client, 0, 2, &page, NULL), 0);
    assert_int_equal(page.count, 2);
    assert_int_equal(page.next, 2);
    assert_true(page.more);
    assert_int_equal(page.rules[0].nth, 10);
    assert_int_equal(page.rules[1].delay_ms, 9);
    end_having_sent(&fake,
                    "{\"id\":1,\"method\":\"rules\",\"params\":{\"after\":0,\"limit\":2}}\n");
}

static void test_rules_clear_of_one_and_of_all(void **state)
{
    (void)state;
    struct fake fake;
    uint64_t cleared = 0;
    start(&fake, FAKE_RESULT(1, "{\"cleared\":1}") FAKE_RESULT(2, "{\"cleared\":9}"));
    assert_int_equal(worsegpu_client_rules_clear(fake.client, 4, NULL, NULL), 0);
    assert_int_equal(worsegpu_client_rules_clear(fake.client, 0, &cleared, NULL), 0);
    assert_int_equal(cleared, 9);
    end_having_sent(&fake, "{\"id\":1,\"method\":\"rules_clear\",\"params\":{\"rule\":4}}\n"
                           "{\"id\":2,\"method\":\"rules_clear\",\"params\":{}}\n");
}

static void test_info_reads_the_daemon_and_its_limits(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_info info;
    start(&fake, FAKE_RESULT(1, INFO));
    assert_int_equal(worsegpu_client_info(fake.client, &info, NULL), 0);
    assert_string_equal(info.server, "worsegpud");
    assert_string_equal(info.version, "9.9.9");
    assert_int_equal(info.protocol, 1);
    assert_int_equal(info.pid, 2);
    assert_int_equal(info.uptime_seconds, 3);
    assert_int_equal(info.max_line_bytes, 4);
    assert_int_equal(info.max_json_depth, 5);
    assert_int_equal(info.max_connections, 6);
    assert_int_equal(info.max_connections_per_user, 7);
    assert_int_equal(info.max_allocators_per_connection, 8);
    assert_int_equal(info.max_live_allocations, 9);
    assert_int_equal(info.max_output_bytes, 10);
    assert_int_equal(info.max_trace_limit, 11);
    end_having_sent(&fake, "{\"id\":1,\"method\":\"info\",\"params\":{}}\n");
}

static void test_a_map_is_read_cell_by_cell(void **state)
{
    struct fake fake;
    struct worsegpu_client_map map;
    (void)state;
    start(&fake, FAKE_RESULT(1, MAP));
    assert_int_equal(worsegpu_client_map(fake.client, "a", 7, 100, 2, &map, NULL), 0);
    assert_int_equal(map.from, 7);
    assert_int_equal(map.bytes, 100);
    assert_int_equal(map.cell_bytes, 50);
    assert_int_equal(map.count, 2);
    const struct worsegpu_client_cell first = {1, 2, 3, 4, 5};
    const struct worsegpu_client_cell second = {50, 0, 0, 0, 0};
    assert_memory_equal(&map.cells[0], &first, sizeof(first));
    assert_memory_equal(&map.cells[1], &second, sizeof(second));
    end_having_sent(&fake, "{\"id\":1,\"method\":\"map\",\"params\":{\"cells\":2,\"from\":7,"
                           "\"bytes\":100,\"allocator\":\"a\"}}\n");
}

static void test_a_map_with_a_cell_that_is_none_is_a_bad_reply(void **state)
{
    static const char *const cells[] = {"[1,2,3,4]", "[1,2,3,4,-5]", "{}", "[1,2,3,4,5,6]"};
    (void)state;
    for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
        char answer[256];
        struct fake fake;
        struct worsegpu_client_map map;
        snprintf(answer, sizeof(answer),
                 FAKE_RESULT(1, "{\"from\":0,\"bytes\":5,\"cell_bytes\":5,\"cells\":[%s]}"),
                 cells[i]);
        start(&fake, answer);
        assert_int_equal(worsegpu_client_map(fake.client, NULL, 0, 0, 1, &map, NULL),
                         WORSEGPU_CLIENT_BAD_REPLY);
        fake_end(&fake);
    }
}

/* ------------------------------------------------------------------------------ every method */

static int call_method(worsegpu_client *client, enum method method,
                       struct worsegpu_client_error *error)
{
    struct worsegpu_client_config config;
    struct worsegpu_client_allocation allocation;
    struct worsegpu_client_release release;
    struct worsegpu_client_snapshot snapshot;
    struct worsegpu_client_trace trace;
    struct worsegpu_client_list list;
    struct worsegpu_client_info info;
    struct worsegpu_client_peers peers;
    struct worsegpu_client_rules rules;
    struct worsegpu_client_rule rule;
    struct worsegpu_client_map map;
    const char *metrics;
    const struct worsegpu_client_request request = {.requested_bytes = 4096, .tag = "t"};
    const struct worsegpu_client_wish wish = {.action = "forget", .tag_prefix = "t"};
    uint64_t count;
    bool used;
    switch (method) {
    case METHOD_info:
        return worsegpu_client_info(client, &info, error);
    case METHOD_open:
        return worsegpu_client_open(client, "a", NULL, &config, error);
    case METHOD_close:
        return worsegpu_client_close(client, "a", error);
    case METHOD_allocate:
        return worsegpu_client_allocate(client, "a", &request, &allocation, error);
    case METHOD_free:
        return worsegpu_client_free_handle(client, "a", HANDLE, &release, error);
    case METHOD_snapshot:
        return worsegpu_client_snapshot(client, "a", &snapshot, error);
    case METHOD_trace:
        return worsegpu_client_trace(client, "a", 0, 10, &trace, error);
    case METHOD_trace_clear:
        return worsegpu_client_trace_clear(client, "a", &count, error);
    case METHOD_validate:
        return worsegpu_client_validate(client, "a", &count, error);
    case METHOD_list:
        return worsegpu_client_list(client, "a", 0, 10, &list, error);
    case METHOD_hello:
        return worsegpu_client_hello(client, "a", &count, error);
    case METHOD_record_stream:
        return worsegpu_client_record_stream(client, "a", "h", 2, &used, error);
    case METHOD_event_done:
        return worsegpu_client_event_done(client, "a", 2, 3, true, &used, error);
    case METHOD_empty_cache:
        return worsegpu_client_empty_cache(client, "a", &count, &used, error);
    case METHOD_statistics:
        return worsegpu_client_statistics(client, "a", error);
    case METHOD_metrics:
        return worsegpu_client_metrics(client, "prometheus", &metrics, error);
    case METHOD_map:
        return worsegpu_client_map(client, "a", 0, 0, 2, &map, error);
    case METHOD_resize:
        return worsegpu_client_resize(client, "a", 1, &config, error);
    case METHOD_clients:
        return worsegpu_client_clients(client, 0, 10, &peers, error);
    case METHOD_inject:
        return worsegpu_client_inject(client, &wish, &rule, error);
    case METHOD_rules:
        return worsegpu_client_rules(client, 0, 10, &rules, error);
    case METHOD_rules_clear:
        return worsegpu_client_rules_clear(client, 1, &count, error);
    case METHOD_subscribe:
        return worsegpu_client_subscribe(client, "a", &(uint64_t){3}, &count, error);
    case METHOD_unsubscribe:
        return worsegpu_client_unsubscribe(client, "a", error);
    case METHODS:
    default:
        fail_msg("a method without a typed function");
        return 0;
    }
}

static const char *const ANSWERS[METHODS] = {
    [METHOD_info] = FAKE_RESULT(1, INFO),
    [METHOD_open] = FAKE_RESULT(1, CONFIG("12345")),
    [METHOD_close] = FAKE_RESULT(1, "{\"closed\":true}"),
    [METHOD_allocate] = FAKE_RESULT(1, ALLOCATED),
    [METHOD_free] = FAKE_RESULT(1, "{\"allocation_id\":1,\"device\":\"gpu\",\"released\":true}"),
    [METHOD_record_stream] =
        FAKE_RESULT(1, "{\"allocation_id\":1,\"device\":\"gpu\",\"used\":true}"),
    [METHOD_event_done] = FAKE_RESULT(1, "{\"stream\":2,\"used\":true}"),
    [METHOD_empty_cache] = FAKE_RESULT(1, "{\"given_back\":2097152,\"used\":true}"),
    [METHOD_statistics] = FAKE_RESULT(1, "{\"policy\":\"torch\",\"statistics\":{}}"),
    [METHOD_metrics] = FAKE_RESULT(1, "{\"content_type\":\"text/plain\",\"text\":\"# EOF\\n\"}"),
    [METHOD_map] = FAKE_RESULT(1, MAP),
    [METHOD_snapshot] = FAKE_RESULT(1, SNAPSHOT),
    [METHOD_trace] = FAKE_RESULT(1, EVENTS),
    [METHOD_trace_clear] = FAKE_RESULT(1, "{\"cleared\":1}"),
    [METHOD_validate] = FAKE_RESULT(1, "{\"valid\":true,\"checks\":1}"),
    [METHOD_list] = FAKE_RESULT(1, LIST),
    [METHOD_hello] = FAKE_RESULT(1, "{\"client\":1,\"name\":\"a\"}"),
    [METHOD_resize] = FAKE_RESULT(1, CONFIG("12345")),
    [METHOD_clients] = FAKE_RESULT(1, PEERS),
    [METHOD_inject] = FAKE_RESULT(1, RULE),
    [METHOD_rules] = FAKE_RESULT(1, RULES),
    [METHOD_rules_clear] = FAKE_RESULT(1, "{\"cleared\":1}"),
    [METHOD_subscribe] = FAKE_RESULT(1, "{\"allocator\":\"a\",\"next\":3}"),
    [METHOD_unsubscribe] = FAKE_RESULT(1, "{\"unsubscribed\":true}"),
};

static bool method_under_chaos(struct chaos *chaos, void *context)
{
    struct fake fake;
    struct worsegpu_client_error error;
    enum method method = *(enum method *)context;
    if (!fake_start(&fake, &chaos->memory, 0))
        return false;
    chaos_hook_cjson(chaos);
    fake_say(&fake, ANSWERS[method]);
    int status = call_method(fake.client, method, &error);
    assert_true(status == WORSEGPU_CLIENT_OK || status == WORSEGPU_CLIENT_NO_MEMORY);
    assert_int_equal(error.status, status);
    fake_end(&fake);
    chaos_hook_cjson(NULL);
    return status == WORSEGPU_CLIENT_OK;
}

static void test_every_method_survives_each_failing_allocation(void **state)
{
    (void)state;
    for (size_t i = 0; i < METHODS; i++) {
        enum method method = (enum method)i;
        assert_true(chaos_loop(method_under_chaos, &method) > 0);
    }
}

/* Every member of every answer counts: renaming any one of those the contract promises is noticed.
 * The ones that may be missing, and those that only worsegpu_client_result shows, are left alone.
 */
static bool may_be_missing(enum method method, const char *name, size_t length)
{
    /* What an event may lack is not what a list of connections may. */
    if (method == METHOD_hello || method == METHOD_clients)
        return length == 4 && memcmp(name, "name", 4) == 0;
    static const char *const NAMES[] = {"jsonrpc",
                                        "name",
                                        "policies",
                                        "allocators",
                                        "closed",
                                        "valid",
                                        "time_us",
                                        "client",
                                        "tag",
                                        "stream",
                                        "reason",
                                        "released",
                                        "allocation_id",
                                        "requested_bytes",
                                        "reserved_bytes",
                                        "unsubscribed",
                                        "allocator",
                                        "times",
                                        "method",
                                        "min_size",
                                        "max_size",
                                        "process",
                                        "user",
                                        "tag_prefix",
                                        "delay_ms"};
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        if (strlen(NAMES[i]) == length && memcmp(NAMES[i], name, length) == 0)
            return true;
    }
    return false;
}

static void test_an_answer_that_lacks_a_member_is_a_bad_reply(void **state)
{
    (void)state;
    size_t tried = 0;
    for (size_t i = 0; i < METHODS; i++) {
        const char *answer = ANSWERS[i];
        for (const char *end = strstr(answer, "\":"); end; end = strstr(end + 1, "\":")) {
            const char *name = end;
            while (name[-1] != '"')
                name--;
            if (may_be_missing((enum method)i, name, (size_t)(end - name)))
                continue;
            char changed[2048];
            struct fake fake;
            struct worsegpu_client_error error;
            snprintf(changed, sizeof(changed), "%s", answer);
            changed[name - answer] = 'X';
            start(&fake, changed);
            assert_int_equal(call_method(fake.client, (enum method)i, &error),
                             WORSEGPU_CLIENT_BAD_REPLY);
            fake_end(&fake);
            tried++;
        }
    }
    assert_true(tried > 80);
}

static void test_a_number_that_is_not_written_as_an_integer_is_a_bad_reply(void **state)
{
    (void)state;
    static const char *const NUMBERS[] = {"-1",    "1.0", "1e3", "18446744073709551616",
                                          "\"1\"", "null"};
    for (size_t i = 0; i < sizeof(NUMBERS) / sizeof(NUMBERS[0]); i++) {
        char answer[256];
        struct fake fake;
        snprintf(answer, sizeof(answer), FAKE_RESULT(1, "{\"cleared\":%s}"), NUMBERS[i]);
        start(&fake, answer);
        assert_int_equal(worsegpu_client_trace_clear(fake.client, NULL, NULL, NULL),
                         WORSEGPU_CLIENT_BAD_REPLY);
        fake_end(&fake);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_sends_what_is_given_and_reads_the_configuration),
        cmocka_unit_test(test_open_with_nothing_given_sends_the_name_alone),
        cmocka_unit_test(test_a_probability_that_is_no_number_is_not_sent),
        cmocka_unit_test(test_close_names_the_allocator),
        cmocka_unit_test(test_allocate_reads_a_place_on_the_gpu),
        cmocka_unit_test(test_allocate_reads_a_place_on_the_host),
        cmocka_unit_test(test_out_of_memory_says_how_much_was_wanted),
        cmocka_unit_test(test_a_tag_that_is_not_utf8_is_not_sent),
        cmocka_unit_test(test_free_by_handle_and_by_tag),
        cmocka_unit_test(test_snapshot_reads_every_number_exactly),
        cmocka_unit_test(test_trace_reads_a_page_of_events),
        cmocka_unit_test(test_an_empty_page_has_no_items),
        cmocka_unit_test(test_a_page_that_does_not_move_on_is_a_bad_reply),
        cmocka_unit_test(test_trace_clear_counts),
        cmocka_unit_test(test_validate_counts_its_checks_or_names_the_broken_one),
        cmocka_unit_test(test_list_reads_a_page_of_allocations),
        cmocka_unit_test(test_info_reads_the_daemon_and_its_limits),
        cmocka_unit_test(test_orphans_are_listed_alone),
        cmocka_unit_test(test_a_map_is_read_cell_by_cell),
        cmocka_unit_test(test_a_map_with_a_cell_that_is_none_is_a_bad_reply),
        cmocka_unit_test(test_hello_sends_the_name_and_reads_the_number),
        cmocka_unit_test(test_resize_reads_the_configuration),
        cmocka_unit_test(test_clients_reads_a_page_of_connections),
        cmocka_unit_test(test_inject_sends_what_is_given_and_reads_the_rule),
        cmocka_unit_test(test_inject_by_probability_and_by_every),
        cmocka_unit_test(test_a_wish_that_cannot_be_written_is_not_sent),
        cmocka_unit_test(test_a_rule_that_fires_in_no_way_or_in_two_is_a_bad_reply),
        cmocka_unit_test(test_rules_reads_a_page_of_rules),
        cmocka_unit_test(test_rules_clear_of_one_and_of_all),
        cmocka_unit_test(test_every_method_survives_each_failing_allocation),
        cmocka_unit_test(test_an_answer_that_lacks_a_member_is_a_bad_reply),
        cmocka_unit_test(test_a_number_that_is_not_written_as_an_integer_is_a_bad_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
