/* Tests of daemon/handlers_streams.c, and of knobs, alignment and streams in the other methods. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/support/memory_daemon.h"

enum {
    ALICE = 1000,
    BOB = 1001,
    ROOT = 0,
    HANDLE_SIZE = WORSEGPU_HANDLE_TEXT_SIZE
};

struct scene {
    struct memory_daemon daemon;
    struct memory_client *alice;
    struct memory_client *bob;
};

static void begin(struct scene *scene, const char *words)
{
    memory_daemon_start(&scene->daemon, NULL, words);
    scene->alice = memory_daemon_connect(&scene->daemon, ALICE);
    scene->bob = memory_daemon_connect(&scene->daemon, BOB);
}

static void end(struct scene *scene)
{
    memory_daemon_end(&scene->daemon);
}

static const char *call(struct memory_client *client, const char *method, const char *params,
                        const char *kind)
{
    const char *answer = memory_client_call(client, method, params);
    assert_kind(answer, kind);
    return answer;
}

static void assert_says(const char *answer, const char *text)
{
    if (!strstr(answer, text))
        fail_msg("'%s' is not in %s", text, answer);
}

/* ------------------------------------------------------------------------------ knobs */

static void test_open_takes_knobs_and_shows_them(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    const char *params = "\"name\":\"mine\",\"policy\":\"torch\",\"knobs\":\"memory_fraction=0.5\"";
    assert_says(call(scene.alice, "open", params, "result"),
                "\"policy\":\"torch\",\"knobs\":\"memory_fraction=0.5\",\"shared\":false");
    assert_says(call(scene.alice, "info", "", "result"), "\"knobs\":\"memory_fraction=0.5\"");
    assert_says(
        call(scene.alice, "resize", "\"allocator\":\"mine\",\"gpu_capacity\":4096", "result"),
        "\"knobs\":\"memory_fraction=0.5\"");
    end(&scene);
}

static void test_wrong_knobs_are_refused_in_a_sentence_that_names_them(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    const char *answer = call(
        scene.alice, "open",
        "\"name\":\"a\",\"policy\":\"torch\",\"knobs\":\"memory_fraction=1.5\"", "invalid_params");
    assert_says(answer, "\"param\":\"knobs\"");
    assert_says(answer, "knob memory_fraction of policy torch must be a number from 0 to 1");
    answer = call(scene.alice, "open", "\"name\":\"a\",\"knobs\":\"speed=1\"", "invalid_params");
    assert_says(answer, "\"param\":\"knobs\"");
    assert_says(answer, "policy worse has no knob 'speed'");
    answer = call(scene.alice, "open", "\"name\":\"a\",\"knobs\":\"x=\\u00e4\"", "invalid_params");
    assert_says(answer, "printable ASCII");
    assert_int_equal(scene.alice->connection->allocator_count, 0);
    end(&scene);
}

static void test_the_longest_knobs_are_answered_with_the_longest_seed(void **state)
{
    enum {
        SEED_DIGITS = WORSEGPU_MAX_SEED_DIGITS,
        KNOBS = WORSEGPU_MAX_KNOBS_BYTES
    };
    static char params[SEED_DIGITS + KNOBS + 200];
    struct scene scene;
    (void)state;
    begin(&scene, "");
    int length =
        snprintf(params, sizeof(params), "\"name\":\"a\",\"seed\":\"%0*d\",\"knobs\":\"%*s\"",
                 SEED_DIGITS, 7, KNOBS, "");
    assert_true(length > 0 && (size_t)length < sizeof(params));
    const char *answer = call(scene.alice, "open", params, "result");
    assert_true(strlen(answer) > SEED_DIGITS + KNOBS);
    answer = call(scene.alice, "resize", "\"allocator\":\"a\",\"gpu_capacity\":4096", "result");
    assert_true(strlen(answer) > SEED_DIGITS + KNOBS);
    end(&scene);
}

static void test_a_shared_allocator_has_the_knobs_of_its_options(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "--policy=torch --knobs=memory_fraction=0.25");
    assert_says(call(scene.alice, "info", "", "result"), "\"knobs\":\"memory_fraction=0.25\"");
    assert_says(call(scene.alice, "allocate", "\"requested_bytes\":20000000", "result"),
                "\"reason\":\"gpu_oom\"");
    end(&scene);
}

static void test_a_daemon_with_wrong_knobs_does_not_start_and_says_why(void **state)
{
    struct options options;
    struct server server;
    char message[512];
    char option_message[OPTIONS_MESSAGE_SIZE];
    char *words[] = {"worsegpud", "--policy", "torch", "--knobs", "memory_fraction=7", NULL};
    struct log log = {0};
    struct chaos chaos;
    (void)state;
    chaos_init(&chaos);
    assert_int_equal(options_read(&options, &chaos.memory, 5, words, option_message), OPTIONS_FINE);
    assert_int_equal(server_init(&server, &options, &chaos.memory, &log, (struct moment){0},
                                 message, sizeof(message)),
                     WORSEGPU_INVALID_ARGUMENT);
    assert_string_equal(message,
                        "gpu0: knob memory_fraction of policy torch must be a number from 0 to 1, "
                        "or none, not '7'");
    options_release(&options);
    assert_int_equal(chaos.live_pieces, 0);
}

/* ------------------------------------------------------------------------------ requests */

static void test_an_alignment_that_is_no_power_of_two_is_a_wrong_parameter(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    const char *answer =
        call(scene.alice, "allocate", "\"requested_bytes\":10,\"alignment\":12", "invalid_params");
    assert_says(answer, "\"param\":\"alignment\"");
    assert_says(answer, "alignment must be 0 or a power of two, not 12");
    call(scene.alice, "allocate", "\"requested_bytes\":10,\"alignment\":4294967297",
         "invalid_params");
    call(scene.alice, "allocate", "\"requested_bytes\":10,\"alignment\":4294967296", "result");
    call(scene.alice, "allocate", "\"requested_bytes\":10,\"alignment\":0", "result");
    end(&scene);
}

static void test_the_trace_shows_alignment_upper_and_the_stream_of_a_free(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    call(scene.alice, "allocate",
         "\"requested_bytes\":10,\"tag\":\"t\",\"stream\":3,\"alignment\":256,\"upper\":true",
         "result");
    call(scene.alice, "free", "\"tag\":\"t\",\"stream\":5", "result");
    call(scene.alice, "allocate", "\"requested_bytes\":10,\"upper\":false", "result");
    const char *answer = call(scene.alice, "trace", "", "result");
    assert_says(answer, "\"tag\":\"t\",\"stream\":3,\"alignment\":256,\"upper\":true},");
    assert_says(answer, "\"tag\":\"t\",\"stream\":5},");
    assert_int_equal(answer_count(answer, "alignment"), 1);
    assert_int_equal(answer_count(answer, "upper"), 1);
    end(&scene);
}

/* ------------------------------------------------------------------------------ telling */

static void test_record_stream_is_for_who_may_free(void **state)
{
    struct scene scene;
    char handle[HANDLE_SIZE];
    char params[256];
    (void)state;
    begin(&scene, "--policy=torch");
    answer_text(call(scene.alice, "allocate", "\"requested_bytes\":10,\"tag\":\"t\"", "result"),
                "handle", handle, HANDLE_SIZE);
    snprintf(params, sizeof(params), "\"handle\":\"%s\",\"stream\":2", handle);
    call(scene.bob, "record_stream", params, "permission_denied");
    assert_says(call(scene.alice, "record_stream", params, "result"), "\"used\":true");
    assert_says(call(scene.alice, "record_stream", "\"tag\":\"t\",\"stream\":3", "result"),
                "\"allocation_id\":1,\"device\":\"gpu\",\"used\":true");
    call(memory_daemon_connect(&scene.daemon, ROOT), "record_stream", params, "result");
    end(&scene);
}

static void test_record_stream_refuses_what_free_refuses(void **state)
{
    struct scene scene;
    char handle[HANDLE_SIZE];
    char params[256];
    (void)state;
    begin(&scene, "");
    answer_text(call(scene.alice, "allocate", "\"requested_bytes\":10,\"tag\":\"t\"", "result"),
                "handle", handle, HANDLE_SIZE);
    call(scene.alice, "open", "\"name\":\"mine\"", "result");
    call(scene.alice, "record_stream", "\"stream\":1", "invalid_params");
    call(scene.alice, "record_stream", "\"tag\":\"no\"", "unknown_handle");
    call(scene.alice, "record_stream", "\"handle\":\"no\"", "unknown_handle");
    snprintf(params, sizeof(params), "\"handle\":\"%s\",\"tag\":\"t\"", handle);
    assert_says(call(scene.alice, "record_stream", params, "invalid_params"),
                "record_stream takes either handle or tag, not both");
    snprintf(params, sizeof(params), "\"handle\":\"%s\",\"allocator\":\"mine\"", handle);
    call(scene.alice, "record_stream", params, "foreign_handle");
    end(&scene);
}

static void test_a_policy_without_streams_answers_that_it_was_of_no_use(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    call(scene.alice, "allocate", "\"requested_bytes\":10,\"tag\":\"t\"", "result");
    assert_says(call(scene.alice, "record_stream", "\"tag\":\"t\"", "result"), "\"used\":false");
    assert_says(call(scene.alice, "event_done", "", "result"), "\"stream\":0,\"used\":false");
    assert_says(call(scene.alice, "empty_cache", "", "result"), "\"given_back\":0,\"used\":false");
    assert_says(call(scene.alice, "statistics", "", "result"),
                "{\"policy\":\"worse\",\"statistics\":{}}");
    call(scene.alice, "validate", "", "result");
    end(&scene);
}

static void test_streams_and_the_cache_are_served_over_the_wire(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "--policy=torch");
    call(scene.alice, "allocate", "\"requested_bytes\":4096,\"tag\":\"a\"", "result");
    call(scene.alice, "record_stream", "\"tag\":\"a\",\"stream\":2", "result");
    call(scene.alice, "free", "\"tag\":\"a\"", "result");
    const char *answer = call(scene.alice, "snapshot", "", "result");
    assert_int_equal(answer_u64(answer, "gpu_pending"), 4096);
    assert_int_equal(answer_u64(answer, "gpu_segments"), 1);
    assert_int_equal(answer_u64(answer, "device_calls"), 1);
    assert_int_equal(answer_u64(answer, "device_retries"), 0);
    assert_int_equal(answer_u64(answer, "gpu_largest_free"), 2097152 - 4096);
    /* Another user's program may do what any program's work does. */
    assert_says(call(scene.bob, "event_done", "\"stream\":2,\"count\":1", "result"),
                "\"stream\":2,\"used\":true");
    assert_says(call(scene.bob, "empty_cache", "", "result"),
                "\"given_back\":2097152,\"used\":true");
    answer = call(scene.alice, "trace", "", "result");
    assert_says(answer, "{\"operation\":\"record_stream\",\"allocation_id\":1,\"device\":\"gpu\",");
    assert_says(answer, "{\"operation\":\"event_done\",\"count\":1,\"sequence\":4,");
    assert_says(answer, "{\"operation\":\"empty_cache\",\"sequence\":5,");
    call(scene.alice, "validate", "", "result");
    end(&scene);
}

static void test_a_models_figures_are_numbers_lists_and_nulls(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "--policy=torch");
    call(scene.alice, "allocate", "\"requested_bytes\":4096", "result");
    const char *answer = call(scene.alice, "statistics", "", "result");
    assert_says(answer, "{\"policy\":\"torch\",\"statistics\":{\"");
    assert_null(strstr(answer, "\"free_list\""));
    end(&scene);
}

static void test_a_counter_has_no_largest_free_block(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "--policy=reference");
    assert_true(answer_is(call(scene.alice, "snapshot", "", "result"), "gpu_largest_free", "null"));
    end(&scene);
}

static void test_a_rule_can_break_off_an_empty_cache(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    struct memory_client *root = memory_daemon_connect(&scene.daemon, ROOT);
    call(root, "inject", "\"action\":\"disconnect_before\",\"method\":\"empty_cache\"", "result");
    memory_client_send_line(scene.alice, "{\"id\":1,\"method\":\"empty_cache\"}");
    memory_daemon_settle(&scene.daemon);
    assert_null(memory_client_line(scene.alice));
    assert_null(scene.alice->connection);
    end(&scene);
}

static void test_a_rule_does_not_match_a_record_stream_that_is_refused(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    struct memory_client *root = memory_daemon_connect(&scene.daemon, ROOT);
    call(root, "inject", "\"action\":\"disconnect_before\",\"method\":\"record_stream\"", "result");
    call(scene.alice, "record_stream", "\"tag\":\"none\"", "unknown_handle");
    assert_int_equal(answer_u64(call(root, "rules", "", "result"), "matched"), 0);
    call(scene.alice, "allocate", "\"requested_bytes\":10,\"tag\":\"t\"", "result");
    memory_client_send_line(scene.alice,
                            "{\"id\":1,\"method\":\"record_stream\",\"params\":{\"tag\":\"t\"}}");
    memory_daemon_settle(&scene.daemon);
    assert_null(scene.alice->connection);
    end(&scene);
}

static void test_a_subscriber_gets_what_is_told(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    call(scene.bob, "subscribe", "", "result");
    call(scene.alice, "event_done", "\"stream\":4,\"newest\":true", "result");
    assert_says(memory_client_line(scene.bob),
                "\"event\":{\"operation\":\"event_done\",\"newest\":true,\"sequence\":1,");
    end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_takes_knobs_and_shows_them),
        cmocka_unit_test(test_wrong_knobs_are_refused_in_a_sentence_that_names_them),
        cmocka_unit_test(test_the_longest_knobs_are_answered_with_the_longest_seed),
        cmocka_unit_test(test_a_shared_allocator_has_the_knobs_of_its_options),
        cmocka_unit_test(test_a_daemon_with_wrong_knobs_does_not_start_and_says_why),
        cmocka_unit_test(test_an_alignment_that_is_no_power_of_two_is_a_wrong_parameter),
        cmocka_unit_test(test_the_trace_shows_alignment_upper_and_the_stream_of_a_free),
        cmocka_unit_test(test_record_stream_is_for_who_may_free),
        cmocka_unit_test(test_record_stream_refuses_what_free_refuses),
        cmocka_unit_test(test_a_policy_without_streams_answers_that_it_was_of_no_use),
        cmocka_unit_test(test_streams_and_the_cache_are_served_over_the_wire),
        cmocka_unit_test(test_a_models_figures_are_numbers_lists_and_nulls),
        cmocka_unit_test(test_a_counter_has_no_largest_free_block),
        cmocka_unit_test(test_a_rule_can_break_off_an_empty_cache),
        cmocka_unit_test(test_a_rule_does_not_match_a_record_stream_that_is_refused),
        cmocka_unit_test(test_a_subscriber_gets_what_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
