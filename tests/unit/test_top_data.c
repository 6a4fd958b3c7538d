/* What `top` makes of a daemon's answers: rates between two looks, the newest events as text, the
 * order of the processes, another GPU, and what it does when an answer is missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/memory.h"
#include "client/cli/cli.h"
#include "client/cli/top_data.h"
#include "tests/unit/client_fake.h"

#define INFO(id, gpus)                                                                             \
    FAKE_RESULT(id, "{\"server\":\"worsegpud\",\"version\":\"1\",\"protocol\":1,\"pid\":2,"        \
                    "\"uptime_seconds\":3,\"policies\":[\"worse\"],\"allocators\":[" gpus "],"     \
                    "\"limits\":{\"max_line_bytes\":65536,\"max_json_depth\":5,"                   \
                    "\"max_connections\":6,\"max_connections_per_user\":7,"                        \
                    "\"max_allocators_per_connection\":8,\"max_live_allocations\":9,"              \
                    "\"max_output_bytes\":10,\"max_trace_limit\":11}}")
#define ONE_GPU "{\"name\":\"gpu0\"}"
#define TWO_GPUS "{\"name\":\"gpu0\"},{\"name\":\"gpu1\"}"
#define SNAPSHOT(id, allocates, frees, fallbacks)                                                  \
    FAKE_RESULT(id,                                                                                \
                "{\"gpu_capacity\":512,\"gpu_reserved\":2,\"gpu_unreserved\":3,\"gpu_used\":4,"    \
                "\"gpu_free\":5,\"gpu_forgotten\":6,\"gpu_blocks\":7,\"cpu_bytes\":8,"             \
                "\"active_allocations\":9,\"trace_events\":10,\"fragmentation\":0.5,\"detail\":{"  \
                "\"policy\":\"worse\",\"scan\":\"accounted\",\"blocks_scanned\":11,"               \
                "\"gpu_allocations\":12,\"cpu_allocations\":13,\"gpu_requested\":14,"              \
                "\"gpu_forgotten_blocks\":15,\"peak_gpu_used\":16,\"peak_cpu_bytes\":17,"          \
                "\"allocate_calls\":" #allocates ",\"free_calls\":" #frees                         \
                ",\"oom_fallbacks\":" #fallbacks ",\"oom_failures\":0,\"faults\":0,"               \
                "\"last_sequence\":40}}")
#define MAP(id)                                                                                    \
    FAKE_RESULT(id, "{\"from\":0,\"bytes\":512,\"cell_bytes\":512,\"cells\":[],\"more\":false}")
#define PEER(number, allocations, bytes, requests)                                                 \
    "{\"client\":" #number ",\"name\":null,\"user\":0,\"group\":0,\"process\":1,\"you\":false,"    \
    "\"connected_us\":1,\"connected_seconds\":1,\"allocations\":" #allocations                     \
    ",\"gpu_bytes\":" #bytes ",\"cpu_bytes\":0,\"detached\":0,\"private_allocators\":0,"           \
    "\"requests\":" #requests ",\"errors\":0,\"bytes_in\":1,\"bytes_out\":1}"
#define PEERS(id, peers) FAKE_RESULT(id, "{\"clients\":[" peers "],\"next\":9,\"more\":false}")
#define SUBSCRIBED(id) FAKE_RESULT(id, "{\"allocator\":\"gpu0\",\"next\":40}")
#define EVENT(allocator, members)                                                                  \
    "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"allocator\":\"" allocator             \
    "\",\"event\":{" members "}}}\n"
#define FIRST_LOOK(peers)                                                                          \
    INFO(1, ONE_GPU) SNAPSHOT(2, 10, 5, 1) MAP(3) PEERS(4, peers) SUBSCRIBED(5)

struct stage {
    struct cli cli;
    struct fake fake;
    struct top_data data;
    struct worsegpu_client_error error;
};

static int set_up(void **state)
{
    static struct stage stage;
    stage = (struct stage){.cli = {.program = "top", .memory = memory_system()}};
    /* Wherever it connects again, nobody answers. */
    stage.cli.arguments.values.socket = "/nonexistent/worsegpud.sock";
    stage.cli.arguments.given = UINT32_C(1) << OPTION_socket;
    if (!fake_start(&stage.fake, memory_system(), 2000))
        return -1;
    top_data_init(&stage.data, &stage.cli);
    stage.data.client = stage.fake.client;
    *state = &stage;
    return 0;
}

static int tear_down(void **state)
{
    struct stage *stage = *state;
    fake_hang_up(&stage->fake);
    top_data_release(&stage->data); /* and its client */
    return 0;
}

static int look_at(struct stage *stage, const char *answers, uint64_t time_ms)
{
    fake_say(&stage->fake, answers);
    return top_data_look(&stage->data, 4, time_ms, &stage->error);
}

static void first_look(struct stage *stage, const char *answers)
{
    int status = look_at(stage, answers, 1000);
    if (status != WORSEGPU_CLIENT_OK)
        fail_msg("%d: %s", status, stage->error.message);
}

static void test_rates_need_two_looks(void **state)
{
    struct stage *stage = *state;
    const struct top_view *view = &stage->data.view;
    first_look(stage, FIRST_LOOK(PEER(1, 1, 2, 100)));
    assert_false(view->rates.known);
    assert_string_equal(view->gpu, "gpu0");
    int status = look_at(stage,
                         INFO(6, ONE_GPU) SNAPSHOT(7, 30, 9, 3) MAP(8)
                             PEERS(9, PEER(1, 1, 2, 140) "," PEER(2, 1, 2, 6)),
                         3000);
    assert_int_equal(status, WORSEGPU_CLIENT_OK);
    assert_true(view->rates.known);
    assert_true(view->rates.allocations == 10.0);
    assert_true(view->rates.frees == 2.0);
    assert_true(view->rates.full == 1.0);
    assert_true(view->rates.requests == 23.0); /* (40 + 6) in two seconds */
}

static void test_counters_that_fall_give_no_negative_rate(void **state)
{
    struct stage *stage = *state;
    const struct top_view *view = &stage->data.view;
    /* Connection 1 goes, 2 starts again from nothing: a daemon of the same path is another one. */
    first_look(stage, FIRST_LOOK(PEER(1, 1, 2, 100) "," PEER(2, 1, 2, 100)));
    int status = look_at(
        stage, INFO(6, ONE_GPU) SNAPSHOT(7, 1, 1, 0) MAP(8) PEERS(9, PEER(2, 1, 2, 50)), 2000);
    assert_int_equal(status, WORSEGPU_CLIENT_OK);
    assert_true(view->rates.known);
    assert_true(view->rates.allocations == 0.0);
    assert_true(view->rates.frees == 0.0);
    assert_true(view->rates.full == 0.0);
    assert_true(view->rates.requests == 0.0);
}

static void test_two_looks_at_the_same_moment_give_no_rate(void **state)
{
    struct stage *stage = *state;
    first_look(stage, FIRST_LOOK(PEER(1, 1, 2, 100)));
    int status = look_at(
        stage, INFO(6, ONE_GPU) SNAPSHOT(7, 30, 9, 3) MAP(8) PEERS(9, PEER(1, 1, 2, 140)), 1000);
    assert_int_equal(status, WORSEGPU_CLIENT_OK);
    assert_false(stage->data.view.rates.known);
}

static void assert_order(const struct stage *stage, uint64_t first, uint64_t second, uint64_t third)
{
    const struct top_process *processes = stage->data.view.processes;
    assert_int_equal(stage->data.view.process_count, 3);
    assert_int_equal(processes[0].peer.client, first);
    assert_int_equal(processes[1].peer.client, second);
    assert_int_equal(processes[2].peer.client, third);
}

static void test_processes_are_sorted_as_chosen_and_equal_ones_by_their_number(void **state)
{
    struct stage *stage = *state;
    first_look(stage, FIRST_LOOK(PEER(1, 7, 5, 1) "," PEER(2, 9, 5, 1) "," PEER(3, 7, 8, 1)));
    assert_order(stage, 3, 1, 2);
    top_data_next_sort(&stage->data);
    assert_int_equal(stage->data.view.sort, TOP_BY_ALLOCATIONS);
    assert_order(stage, 2, 1, 3);
    top_data_next_sort(&stage->data);
    assert_int_equal(stage->data.view.sort, TOP_BY_CLIENT);
    assert_order(stage, 1, 2, 3);
    top_data_next_sort(&stage->data);
    assert_int_equal(stage->data.view.sort, TOP_BY_GPU);
    assert_order(stage, 3, 1, 2);
}

static void test_events_are_told_with_all_that_is_known_of_them(void **state)
{
    struct stage *stage = *state;
    const struct top_view *view = &stage->data.view;
    first_look(stage,
               FIRST_LOOK("") EVENT(
                   "gpu0", "\"sequence\":41,\"operation\":\"allocate\",\"allocation_id\":7,"
                           "\"requested_bytes\":100,\"device\":\"cpu\",\"reason\":\"gpu_oom\","
                           "\"client\":3,\"name\":\"trainer\",\"tag\":\"w\"")
                   EVENT("gpu0", "\"sequence\":42,\"operation\":\"fault\",\"action\":\"delay\","
                                 "\"rule\":5,\"allocation_id\":0")
                       EVENT("gpu1", "\"sequence\":1,\"operation\":\"empty_cache\"")
                           EVENT("gpu0", "\"sequence\":43,\"operation\":\"free\",\"released\":true,"
                                         "\"allocation_id\":7,\"device\":\"gpu\""));
    assert_int_equal(view->event_count, 3); /* that of the other GPU is not shown */
    assert_string_equal(view->events[0],
                        "41 allocate 7 100 bytes cpu gpu_oom client 3 trainer tag w");
    assert_string_equal(view->events[1], "42 fault delay by rule 5");
    assert_string_equal(view->events[2], "43 free 7 gpu released");
}

static void test_missed_events_are_told_in_their_place(void **state)
{
    struct stage *stage = *state;
    first_look(stage, FIRST_LOOK("") "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{"
                                     "\"allocator\":\"gpu0\",\"missed\":12}}\n");
    assert_int_equal(stage->data.view.event_count, 1);
    assert_string_equal(stage->data.view.events[0], "12 events missed");
}

static void test_the_oldest_event_goes_when_there_is_no_room(void **state)
{
    struct stage *stage = *state;
    const struct top_view *view = &stage->data.view;
    first_look(stage, FIRST_LOOK(""));
    for (unsigned int i = 0; i < TOP_EVENTS + 3; i++) {
        char text[256];
        snprintf(text, sizeof(text), EVENT("gpu0", "\"sequence\":%u,\"operation\":\"empty_cache\""),
                 i);
        fake_say(&stage->fake, text);
    }
    int status = look_at(stage, INFO(6, ONE_GPU) SNAPSHOT(7, 10, 5, 1) MAP(8) PEERS(9, ""), 2000);
    assert_int_equal(status, WORSEGPU_CLIENT_OK);
    assert_int_equal(view->event_count, TOP_EVENTS);
    assert_string_equal(view->events[0], "3 empty_cache");
    assert_string_equal(view->events[TOP_EVENTS - 1], "66 empty_cache");
}

static void test_the_next_gpu_is_asked_for_its_own_events(void **state)
{
    struct stage *stage = *state;
    char heard[8192];
    first_look(stage, INFO(1, TWO_GPUS) SNAPSHOT(2, 1, 1, 0) SNAPSHOT(3, 1, 1, 0) MAP(4)
                          PEERS(5, "") SUBSCRIBED(6));
    top_data_next_gpu(&stage->data);
    fake_hear(&stage->fake, heard, sizeof(heard));
    /* Leaving the first one is refused, and following the second: it is shown all the same. */
    int status = look_at(stage,
                         INFO(7, TWO_GPUS) SNAPSHOT(8, 9, 1, 0) SNAPSHOT(9, 9, 1, 0) MAP(10)
                             PEERS(11, "") FAKE_ERROR(12, 7, "unknown_allocator", "")
                                 FAKE_ERROR(13, 6, "limit_exceeded", ""),
                         2000);
    assert_int_equal(status, WORSEGPU_CLIENT_OK);
    fake_hear(&stage->fake, heard, sizeof(heard));
    assert_non_null(
        strstr(heard, "\"method\":\"unsubscribe\",\"params\":{\"allocator\":\"gpu0\"}"));
    assert_non_null(strstr(heard, "\"method\":\"subscribe\""));
    assert_string_equal(stage->data.view.gpu, "gpu1");
    assert_int_equal(stage->data.view.gpu_index, 1);
    assert_false(stage->data.view.rates.known); /* the counters were those of another GPU */
    top_data_next_gpu(&stage->data);
    assert_string_equal(stage->data.wanted, "gpu0");
}

static void test_a_daemon_without_a_gpu_shows_nothing_and_is_no_trouble(void **state)
{
    struct stage *stage = *state;
    first_look(stage, INFO(1, ""));
    assert_string_equal(stage->data.view.trouble, "");
    assert_string_equal(stage->data.view.gpu, "");
    top_data_next_gpu(&stage->data);
    assert_string_equal(stage->data.wanted, "");
}

/* Each answer of a look in turn is a refusal: the connection stays, and the next look works. */
static void test_a_refusal_is_told_and_the_connection_is_kept(void **state)
{
    struct stage *stage = *state;
    static const char *const refused[] = {
        FAKE_ERROR(1, 9, "shutting_down", ""),
        INFO(2, ONE_GPU) FAKE_ERROR(3, 9, "shutting_down", ""),
        INFO(4, ONE_GPU) SNAPSHOT(5, 1, 1, 0) FAKE_ERROR(6, 9, "shutting_down", ""),
        INFO(7, ONE_GPU) SNAPSHOT(8, 1, 1, 0) MAP(9) FAKE_ERROR(10, 9, "shutting_down", ""),
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        assert_int_equal(look_at(stage, refused[i], 1000), WORSEGPU_CLIENT_REFUSED);
        assert_string_equal(stage->data.view.trouble, "trying again: no");
        assert_ptr_equal(stage->data.client, stage->fake.client);
    }
    int status = look_at(
        stage, INFO(11, ONE_GPU) SNAPSHOT(12, 1, 1, 0) MAP(13) PEERS(14, "") SUBSCRIBED(15), 2000);
    assert_int_equal(status, WORSEGPU_CLIENT_OK);
    assert_string_equal(stage->data.view.trouble, "");
}

static void test_an_answer_that_breaks_the_contract_ends_the_connection(void **state)
{
    struct stage *stage = *state;
    int status = look_at(stage, INFO(1, ONE_GPU) SNAPSHOT(2, 1, 1, 0) "gibberish\n", 1000);
    assert_int_equal(status, WORSEGPU_CLIENT_BAD_REPLY);
    assert_null(stage->data.client);
    /* The next look connects anew, here in vain. */
    status = top_data_look(&stage->data, 4, 2000, &stage->error);
    assert_int_equal(status, WORSEGPU_CLIENT_NO_DAEMON);
    assert_null(stage->data.client);
    assert_non_null(strstr(stage->data.view.trouble, "no daemon answers"));
}

#define ON_STAGE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_STAGE(test_rates_need_two_looks),
        ON_STAGE(test_counters_that_fall_give_no_negative_rate),
        ON_STAGE(test_two_looks_at_the_same_moment_give_no_rate),
        ON_STAGE(test_processes_are_sorted_as_chosen_and_equal_ones_by_their_number),
        ON_STAGE(test_events_are_told_with_all_that_is_known_of_them),
        ON_STAGE(test_missed_events_are_told_in_their_place),
        ON_STAGE(test_the_oldest_event_goes_when_there_is_no_room),
        ON_STAGE(test_the_next_gpu_is_asked_for_its_own_events),
        ON_STAGE(test_a_daemon_without_a_gpu_shows_nothing_and_is_no_trouble),
        ON_STAGE(test_a_refusal_is_told_and_the_connection_is_kept),
        ON_STAGE(test_an_answer_that_breaks_the_contract_ends_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
