/* Metrics: what stands in the text, exactly; how long requests took, by a clock of the test; labels
 * that need escaping; and what is told when memory is short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/memory_budget.h"
#include "daemon/metrics.h"
#include "tests/support/memory_daemon.h"

enum {
    USER = 1000,
    ROOT = 0,
    LINE_SIZE = 256
};

/* The whole text as a NUL-terminated copy; the caller frees. */
static char *text_of(struct memory_daemon *daemon, enum metrics_format format)
{
    struct metrics_text text;
    metrics_text_init(&text, &daemon->chaos->memory);
    metrics_write(&daemon->server, daemon->now, format, &text, NULL);
    assert_false(text.failed);
    char *copy = strndup(text.bytes, text.length);
    assert_non_null(copy);
    metrics_text_release(&text);
    return copy;
}

/* Whether it is one of the lines. */
static bool has_line(const char *text, const char *line)
{
    size_t length = strlen(line);
    for (const char *at = text; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
        if (strncmp(at, line, length) == 0 && at[length] == '\n')
            return true;
    return false;
}

static void expect_line(struct memory_daemon *daemon, const char *line)
{
    char *text = text_of(daemon, METRICS_PROMETHEUS);
    bool found = has_line(text, line);
    if (!found) {
        char name[LINE_SIZE];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(line, "{ "), line);
        print_error("it has %.300s\n", strstr(text, name) ? strstr(text, name) : "nothing");
    }
    free(text);
    if (!found)
        fail_msg("there is no line %s", line);
}

static void call(struct memory_client *client, const char *method, const char *params,
                 const char *kind)
{
    assert_kind(memory_client_call(client, method, params), kind);
}

/* ------------------------------------------------------------------------------ what stands there
 */

static void test_the_figures_of_a_shared_allocator_are_those_of_its_snapshot(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL,
                        "--gpu-probability=1 --forget-probability=1 --capacity=100000");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    call(client, "allocate", "\"requested_bytes\":4096,\"tag\":\"a\"", "result");
    call(client, "allocate", "\"requested_bytes\":4096,\"tag\":\"b\"", "result");
    call(client, "allocate", "\"requested_bytes\":500000", "result"); /* the host takes it */
    call(client, "free", "\"tag\":\"a\"", "result");
    struct worsegpu_snapshot now;
    worsegpu_snapshot(memory_daemon_gpu0(&daemon)->engine, &now);
    assert_true(now.gpu_forgotten > 0);
    const struct {
        const char *name;
        uint64_t value;
    } lines[] = {
        {"gpu_capacity_bytes", 100000},
        {"gpu_reserved_bytes", now.gpu_reserved},
        {"gpu_unreserved_bytes", now.gpu_unreserved},
        {"gpu_used_bytes", now.gpu_used},
        {"gpu_peak_used_bytes", now.peak_gpu_used},
        {"gpu_requested_bytes", 4096},
        {"gpu_free_bytes", 0},
        {"gpu_largest_free_bytes", 0},
        {"gpu_pending_bytes", 0},
        {"gpu_forgotten_bytes", now.gpu_forgotten},
        {"gpu_blocks", 2},
        {"gpu_forgotten_blocks", 1},
        {"gpu_segments", 0},
        {"gpu_allocations", 1},
        {"cpu_bytes", 500000},
        {"cpu_peak_bytes", 500000},
        {"cpu_capacity_bytes", 0},
        {"cpu_allocations", 1},
        {"active_allocations", 2},
        {"trace_events", 4},
        {"allocations_total", 3},
        {"frees_total", 1},
        {"oom_fallbacks_total", 1},
        {"oom_failures_total", 0},
        {"faults_total", 0},
        {"blocks_scanned_total", now.blocks_scanned},
        {"device_calls_total", 0},
        {"device_retries_total", 0},
        {"events_total", 4},
    };
    for (size_t index = 0; index < sizeof(lines) / sizeof(lines[0]); index++) {
        char line[LINE_SIZE];
        snprintf(line, sizeof(line), "worsegpu_%s{allocator=\"gpu0\",policy=\"worse\"} %" PRIu64,
                 lines[index].name, lines[index].value);
        expect_line(&daemon, line);
    }
    expect_line(&daemon, "worsegpu_fragmentation_ratio{allocator=\"gpu0\",policy=\"worse\"} 1.000");
    memory_daemon_end(&daemon);
}

static void test_a_fraction_has_all_its_digits(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    daemon.server.started.wall_us = UINT64_C(1700000000000042);
    daemon.now.monotonic_ms = daemon.server.started.monotonic_ms + 61007;
    expect_line(&daemon, "worsegpu_start_time_seconds 1700000000.000042");
    expect_line(&daemon, "worsegpu_uptime_seconds 61.007");
    memory_daemon_end(&daemon);
}

static void test_what_clients_do_is_counted(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--fallback-on-oom=false --gpu-probability=1");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    struct memory_client *other = memory_daemon_connect(&daemon, ROOT);
    call(client, "snapshot", "", "result");
    call(client, "snapshot", "", "result");
    call(client, "snapshot", "\"allocator\":\"gpu1\"", "unknown_allocator");
    call(client, "allocate", "\"requested_bytes\":99999999999", "out_of_memory");
    call(client, "dance", "", "method_not_found");
    assert_kind(memory_client_ask(client, "what?"), "parse_error");
    call(other, "inject", "\"action\":\"delay\",\"delay_ms\":5,\"nth\":100", "result");
    memory_client_send_line(client, "");
    memory_daemon_settle(&daemon);
    memory_client_hang_up(other);
    expect_line(&daemon, "worsegpu_requests_total{method=\"snapshot\"} 3");
    expect_line(&daemon, "worsegpu_requests_total{method=\"allocate\"} 1");
    expect_line(&daemon, "worsegpu_requests_total{method=\"none\"} 2");
    expect_line(&daemon, "worsegpu_requests_total{method=\"free\"} 0");
    expect_line(&daemon, "worsegpu_errors_total{kind=\"unknown_allocator\"} 1");
    expect_line(&daemon, "worsegpu_errors_total{kind=\"out_of_memory\"} 1");
    expect_line(&daemon, "worsegpu_errors_total{kind=\"method_not_found\"} 1");
    expect_line(&daemon, "worsegpu_errors_total{kind=\"parse_error\"} 1");
    expect_line(&daemon, "worsegpu_errors_total{kind=\"internal_error\"} 0");
    expect_line(&daemon, "worsegpu_connections_total 2");
    expect_line(&daemon, "worsegpu_connections_open 1");
    expect_line(&daemon, "worsegpu_connections_limit 1024");
    expect_line(&daemon, "worsegpu_rules 1");
    memory_daemon_end(&daemon);
}

static void test_bytes_are_counted_both_ways_over_all_connections(void **state)
{
    static const char line[] = "{\"id\":1,\"method\":\"snapshot\"}";
    struct memory_daemon daemon;
    char expected[LINE_SIZE];
    size_t answered = 0;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    for (int index = 0; index < 3; index++) {
        struct memory_client *client = memory_daemon_connect(&daemon, USER);
        answered += strlen(memory_client_ask(client, line)) + 1;
        memory_client_hang_up(client);
    }
    snprintf(expected, sizeof(expected), "worsegpu_received_bytes_total %zu", 3 * sizeof(line));
    expect_line(&daemon, expected);
    snprintf(expected, sizeof(expected), "worsegpu_sent_bytes_total %zu", answered);
    expect_line(&daemon, expected);
    memory_daemon_end(&daemon);
}

static void test_a_line_too_long_is_an_error_but_no_request(void **state)
{
    struct memory_daemon daemon;
    char line[2000];
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-line-bytes=1024");
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    assert_kind(memory_client_ask(memory_daemon_connect(&daemon, USER), line), "invalid_request");
    expect_line(&daemon, "worsegpu_errors_total{kind=\"invalid_request\"} 1");
    expect_line(&daemon, "worsegpu_requests_total{method=\"none\"} 0");
    memory_daemon_end(&daemon);
}

static void test_events_that_were_sent_and_missed_are_counted(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--trace-limit=2");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    struct memory_client *subscriber = memory_daemon_connect(&daemon, USER);
    for (int index = 0; index < 5; index++)
        call(client, "allocate", "\"requested_bytes\":10", "result");
    memory_client_send_line(subscriber,
                            "{\"id\":1,\"method\":\"subscribe\",\"params\":{\"after\":0}}");
    memory_daemon_settle(&daemon);
    expect_line(&daemon, "worsegpu_subscriptions 1");
    expect_line(&daemon, "worsegpu_subscription_events_sent_total 2");
    expect_line(&daemon, "worsegpu_subscription_events_missed_total 3");
    memory_daemon_end(&daemon);
}

static void test_the_budget_is_told_where_there_is_one(void **state)
{
    struct memory_daemon daemon;
    const struct memory_budget budget = {.limit_bytes = 1000, .used_bytes = 42};
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    char *text = text_of(&daemon, METRICS_PROMETHEUS);
    assert_null(strstr(text, "\nworsegpu_memory_used_bytes "));
    free(text);
    daemon.server.budget = &budget;
    expect_line(&daemon, "worsegpu_memory_used_bytes 42");
    expect_line(&daemon, "worsegpu_memory_limit_bytes 1000");
    memory_daemon_end(&daemon);
}

static void test_a_policy_without_a_largest_free_block_has_no_such_sample(void **state)
{
    struct memory_daemon daemon;
    uint64_t largest;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--policy=reference");
    assert_false(worsegpu_largest_free(memory_daemon_gpu0(&daemon)->engine, &largest));
    char *text = text_of(&daemon, METRICS_PROMETHEUS);
    assert_null(strstr(text, "\nworsegpu_gpu_largest_free_bytes{"));
    free(text);
    memory_daemon_end(&daemon);
}

static void test_private_allocators_and_tags_are_never_named(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    call(client, "hello", "\"name\":\"secret-client\"", "result");
    call(client, "open", "\"name\":\"secret-allocator\"", "result");
    call(client, "allocate", "\"requested_bytes\":10,\"tag\":\"secret-tag\"", "result");
    call(client, "allocate",
         "\"requested_bytes\":10,\"tag\":\"secret-tag\",\"allocator\":\"secret-allocator\"",
         "result");
    for (int format = 0; format < METRICS_FORMATS; format++) {
        char *text = text_of(&daemon, (enum metrics_format)format);
        assert_null(strstr(text, "secret"));
        assert_true(
            has_line(text, "worsegpu_allocations_total{allocator=\"gpu0\",policy=\"worse\"} 1"));
        free(text);
    }
    memory_daemon_end(&daemon);
}

/* ------------------------------------------------------------------------------------- the formats
 */

static void test_openmetrics_names_the_family_of_a_counter_without_total(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    char *text = text_of(&daemon, METRICS_OPENMETRICS);
    assert_non_null(strstr(text, "# HELP worsegpu_received_bytes Bytes that clients sent\n"
                                 "# TYPE worsegpu_received_bytes counter\n"
                                 "# UNIT worsegpu_received_bytes bytes\n"
                                 "worsegpu_received_bytes_total 0\n"));
    free(text);
    text = text_of(&daemon, METRICS_PROMETHEUS);
    assert_non_null(strstr(text, "# HELP worsegpu_received_bytes_total Bytes that clients sent\n"
                                 "# TYPE worsegpu_received_bytes_total counter\n"
                                 "worsegpu_received_bytes_total 0\n"));
    free(text);
    memory_daemon_end(&daemon);
}

static void test_the_text_ends_with_eof_in_both_formats(void **state)
{
    static const char end[] = "\n# EOF\n";
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    for (int format = 0; format < METRICS_FORMATS; format++) {
        char *text = text_of(&daemon, (enum metrics_format)format);
        assert_string_equal(text + strlen(text) - strlen(end), end);
        assert_ptr_equal(strstr(text, end), text + strlen(text) - strlen(end));
        free(text);
    }
    memory_daemon_end(&daemon);
}

/* The rules that both formats have for names and texts, so that a new line of the table keeps them.
 */
static void test_the_table_keeps_the_conventions(void **state)
{
    (void)state;
    for (size_t index = 0; index < metrics_count(); index++) {
        const struct metrics_info *info = metrics_info(index);
        size_t length = strlen(info->name);
        assert_true(strspn(info->name, "abcdefghijklmnopqrstuvwxyz_") == length);
        assert_int_equal(strncmp(info->name, "worsegpu_", strlen("worsegpu_")), 0);
        assert_null(strpbrk(info->help, "\"\\\n"));
        assert_true(*info->help != '\0');
        bool total = strcmp(info->name + length - strlen("_total"), "_total") == 0;
        assert_int_equal(total, strcmp(info->type, "counter") == 0);
        size_t stem = total ? length - strlen("_total") : length;
        size_t unit = strlen(info->unit);
        assert_true(unit < stem);
        assert_int_equal(strncmp(info->name + stem - unit, info->unit, unit), 0);
        for (size_t before = 0; before < index; before++) {
            const char *other = metrics_info(before)->name;
            /* Families, not only samples: OpenMetrics knows them without _total. */
            bool same = strncmp(other, info->name, stem) == 0 &&
                        (other[stem] == '\0' || strcmp(other + stem, "_total") == 0);
            if (same)
                fail_msg("%s and %s are one family", other, info->name);
        }
    }
}

static void test_each_metric_of_the_table_is_written_once_with_its_help_and_type(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    daemon.server.counts.now_ns = NULL;
    char *text = text_of(&daemon, METRICS_PROMETHEUS);
    for (size_t index = 0; index < metrics_count(); index++) {
        const struct metrics_info *info = metrics_info(index);
        char line[LINE_SIZE];
        snprintf(line, sizeof(line), "# TYPE %s %s\n", info->name, info->type);
        bool timed = strcmp(info->type, "histogram") == 0;
        assert_int_equal(answer_count(text, line), timed ? 0 : 1); /* no clock, no histogram */
        snprintf(line, sizeof(line), "# HELP %s %s\n", info->name, info->help);
        assert_int_equal(answer_count(text, line), timed ? 0 : 1);
    }
    free(text);
    memory_daemon_end(&daemon);
}

static void test_labels_are_escaped(void **state)
{
    struct chaos chaos;
    struct metrics_text text;
    (void)state;
    chaos_init(&chaos);
    metrics_text_init(&text, &chaos.memory);
    metrics_text_label(&text, true, "a", "plain");
    metrics_text_label(&text, false, "b", "back\\slash \"quoted\" line\nend");
    static const char expected[] = "a=\"plain\",b=\"back\\\\slash \\\"quoted\\\" line\\nend\"";
    assert_int_equal(text.length, sizeof(expected) - 1);
    assert_memory_equal(text.bytes, expected, text.length);
    metrics_text_release(&text);
    assert_int_equal(chaos.live_pieces, 0);
}

/* ------------------------------------------------------------------------------------- latency */

/* A clock that goes on by a step at each look. */
struct fake_clock {
    uint64_t now_ns;
    uint64_t step_ns;
    unsigned looks;
};

static uint64_t look_at_clock(void *context)
{
    struct fake_clock *clock = context;
    clock->looks++;
    clock->now_ns += clock->step_ns;
    return clock->now_ns;
}

static void give_clock(struct memory_daemon *daemon, struct fake_clock *clock)
{
    daemon->server.counts.now_ns = look_at_clock;
    daemon->server.counts.now_context = clock;
}

static void test_each_request_is_timed_by_one_look_at_the_clock(void **state)
{
    struct memory_daemon daemon;
    struct fake_clock clock = {.step_ns = 3000};
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    give_clock(&daemon, &clock);
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    memory_client_send_text(client, "{\"id\":1,\"method\":\"snapshot\"}\n"
                                    "{\"id\":2,\"method\":\"snapshot\"}\n"
                                    "{\"id\":3,\"method\":\"validate\"}\n");
    memory_daemon_turn(&daemon);
    assert_int_equal(clock.looks, 4); /* and one where the burst began */
    const struct metrics_latency *snapshot = &daemon.server.counts.latency[METHOD_snapshot];
    assert_int_equal(snapshot->sum_ns, 6000);
    assert_int_equal(snapshot->counts[2], 2); /* up to 5 us */
    assert_int_equal(daemon.server.counts.latency[METHOD_validate].sum_ns, 3000);
    memory_daemon_end(&daemon);
}

static void test_allocate_and_free_are_timed_in_groups(void **state)
{
    struct memory_daemon daemon;
    struct fake_clock clock = {.step_ns = 8000};
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    give_clock(&daemon, &clock);
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    for (int number = 0; number < 10; number++)
        memory_client_send_line(client, "{\"id\":1,\"method\":\"allocate\",\"params\":"
                                        "{\"requested_bytes\":100}}");
    memory_client_send_line(client, "{\"id\":2,\"method\":\"snapshot\"}");
    memory_client_send_line(client, "{\"id\":3,\"method\":\"allocate\",\"params\":"
                                    "{\"requested_bytes\":100}}");
    memory_daemon_turn(&daemon);
    /* Where the burst began; after 8; before the snapshot and after it; where the burst ended. */
    assert_int_equal(clock.looks, 5);
    const struct metrics_latency *allocate = &daemon.server.counts.latency[METHOD_allocate];
    assert_int_equal(allocate->sum_ns, 8 * 1000 + 2 * 4000 + 8000);
    assert_int_equal(allocate->counts[0], 8); /* up to 1 us */
    assert_int_equal(allocate->counts[2], 2); /* up to 5 us */
    assert_int_equal(allocate->counts[3], 1); /* up to 10 us */
    assert_int_equal(daemon.server.counts.latency[METHOD_snapshot].sum_ns, 8000);
    memory_daemon_end(&daemon);
}

static void test_buckets_hold_all_that_took_no_longer(void **state)
{
    struct memory_daemon daemon;
    struct fake_clock clock = {.step_ns = 1000};
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    give_clock(&daemon, &clock);
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    call(client, "hello", "\"name\":\"me\"", "result"); /* exactly 1 us */
    clock.step_ns = 1001;
    call(client, "hello", "\"name\":\"me\"", "result");
    clock.step_ns = UINT64_C(11000000000); /* longer than any bucket */
    call(client, "hello", "\"name\":\"me\"", "result");
    static const char *const lines[] = {
        "_bucket{method=\"hello\",le=\"1e-06\"} 1", "_bucket{method=\"hello\",le=\"2e-06\"} 2",
        "_bucket{method=\"hello\",le=\"0.001\"} 2", "_bucket{method=\"hello\",le=\"10.0\"} 2",
        "_bucket{method=\"hello\",le=\"+Inf\"} 3",  "_count{method=\"hello\"} 3",
        "_sum{method=\"hello\"} 11.000002001",      "_count{method=\"free\"} 0",
        "_bucket{method=\"free\",le=\"+Inf\"} 0",
    };
    for (size_t index = 0; index < sizeof(lines) / sizeof(lines[0]); index++) {
        char line[LINE_SIZE];
        snprintf(line, sizeof(line), "worsegpu_request_duration_seconds%s", lines[index]);
        expect_line(&daemon, line);
    }
    memory_daemon_end(&daemon);
}

static void test_bucket_limits_grow_and_say_what_they_are(void **state)
{
    (void)state;
    for (size_t bucket = 0; bucket < METRICS_BUCKETS; bucket++) {
        double seconds = strtod(metrics_bucket_seconds(bucket), NULL);
        double nanoseconds = seconds * 1e9 - (double)metrics_bucket_ns(bucket);
        assert_true(nanoseconds < 0.5 && nanoseconds > -0.5);
        assert_true(bucket == 0 || metrics_bucket_ns(bucket) > metrics_bucket_ns(bucket - 1));
    }
    assert_int_equal(metrics_bucket_ns(0), 1000);
    assert_int_equal(metrics_bucket_ns(METRICS_BUCKETS - 1), UINT64_C(10000000000));
}

static void test_a_delay_on_purpose_is_no_latency(void **state)
{
    struct memory_daemon daemon;
    struct fake_clock clock = {.step_ns = 1500};
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    give_clock(&daemon, &clock);
    struct memory_client *root = memory_daemon_connect(&daemon, ROOT);
    call(root, "inject", "\"action\":\"delay\",\"delay_ms\":50,\"method\":\"snapshot\"", "result");
    memory_client_send_line(root, "{\"id\":1,\"method\":\"snapshot\"}");
    memory_daemon_settle(&daemon);
    assert_null(memory_client_line(root));
    clock.now_ns += 50000000;
    memory_daemon_wait(&daemon, 50);
    memory_daemon_settle(&daemon);
    assert_non_null(memory_client_line(root));
    expect_line(&daemon, "worsegpu_requests_total{method=\"snapshot\"} 1");
    expect_line(&daemon, "worsegpu_request_duration_seconds_sum{method=\"snapshot\"} 0.000001500");
    memory_daemon_end(&daemon);
}

/* ---------------------------------------------------------------------------------- the method */

static void test_the_method_answers_in_the_format_that_is_asked_for(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    const char *answer = memory_client_call(client, "metrics", "");
    assert_true(answer_is(answer, "content_type",
                          "\"application/openmetrics-text; version=1.0.0; charset=utf-8\""));
    assert_non_null(strstr(answer, "# TYPE worsegpu_frees counter\\n"));
    answer = memory_client_call(client, "metrics", "\"format\":\"openmetrics\"");
    assert_non_null(strstr(answer, "# TYPE worsegpu_frees counter\\n"));
    answer = memory_client_call(client, "metrics", "\"format\":\"prometheus\"");
    assert_true(answer_is(answer, "content_type", "\"text/plain; version=0.0.4; charset=utf-8\""));
    assert_non_null(strstr(answer, "# TYPE worsegpu_frees_total counter\\n"));
    call(client, "metrics", "\"format\":\"json\"", "invalid_params");
    call(client, "metrics", "\"format\":\"prometheu\"", "invalid_params");
    memory_daemon_end(&daemon);
}

static void test_an_answer_costs_as_many_requests_as_it_is_long(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-requests-per-turn=2");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    memory_client_send_text(client, "{\"id\":1,\"method\":\"metrics\"}\n"
                                    "{\"id\":2,\"method\":\"metrics\"}\n");
    memory_daemon_turn(&daemon);
    assert_non_null(memory_client_line(client));
    assert_null(memory_client_line(client));
    memory_daemon_settle(&daemon);
    assert_non_null(memory_client_line(client));
    memory_daemon_end(&daemon);
}

static bool write_under_chaos(struct chaos *chaos, void *context)
{
    struct memory_daemon *daemon = context;
    struct metrics_text text;
    metrics_text_init(&text, &chaos->memory);
    metrics_write(&daemon->server, daemon->now, METRICS_OPENMETRICS, &text, NULL);
    bool fine = !text.failed;
    metrics_text_release(&text);
    return fine;
}

static void test_a_text_without_memory_says_so_and_leaves_nothing(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    assert_true(chaos_loop(write_under_chaos, &daemon) > 3);
    memory_daemon_end(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_figures_of_a_shared_allocator_are_those_of_its_snapshot),
        cmocka_unit_test(test_a_fraction_has_all_its_digits),
        cmocka_unit_test(test_what_clients_do_is_counted),
        cmocka_unit_test(test_bytes_are_counted_both_ways_over_all_connections),
        cmocka_unit_test(test_a_line_too_long_is_an_error_but_no_request),
        cmocka_unit_test(test_events_that_were_sent_and_missed_are_counted),
        cmocka_unit_test(test_the_budget_is_told_where_there_is_one),
        cmocka_unit_test(test_a_policy_without_a_largest_free_block_has_no_such_sample),
        cmocka_unit_test(test_private_allocators_and_tags_are_never_named),
        cmocka_unit_test(test_openmetrics_names_the_family_of_a_counter_without_total),
        cmocka_unit_test(test_the_text_ends_with_eof_in_both_formats),
        cmocka_unit_test(test_the_table_keeps_the_conventions),
        cmocka_unit_test(test_each_metric_of_the_table_is_written_once_with_its_help_and_type),
        cmocka_unit_test(test_labels_are_escaped),
        cmocka_unit_test(test_each_request_is_timed_by_one_look_at_the_clock),
        cmocka_unit_test(test_allocate_and_free_are_timed_in_groups),
        cmocka_unit_test(test_buckets_hold_all_that_took_no_longer),
        cmocka_unit_test(test_bucket_limits_grow_and_say_what_they_are),
        cmocka_unit_test(test_a_delay_on_purpose_is_no_latency),
        cmocka_unit_test(test_the_method_answers_in_the_format_that_is_asked_for),
        cmocka_unit_test(test_an_answer_costs_as_many_requests_as_it_is_long),
        cmocka_unit_test(test_a_text_without_memory_says_so_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
