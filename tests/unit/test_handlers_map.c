/* Tests of daemon/handlers_map.c: what is answered, and who sees whose allocations. */
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
    ROOT = 0
};

struct scene {
    struct memory_daemon daemon;
    struct memory_client *alice; /* connection 1 */
    struct memory_client *bob;   /* 2 */
    struct memory_client *root;  /* 3 */
};

static void begin(struct scene *scene, const char *words)
{
    memory_daemon_start(&scene->daemon, NULL, words);
    scene->alice = memory_daemon_connect(&scene->daemon, ALICE);
    scene->bob = memory_daemon_connect(&scene->daemon, BOB);
    scene->root = memory_daemon_connect(&scene->daemon, ROOT);
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

#define PLAIN "--policy=list_fit --capacity=4096"

static void test_a_map_has_the_bytes_and_the_client_of_each_cell(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, PLAIN);
    call(scene.alice, "allocate", "\"requested_bytes\":1024", "result");
    call(scene.bob, "allocate", "\"requested_bytes\":1024,\"tag\":\"t\"", "result");
    call(scene.alice, "allocate", "\"requested_bytes\":512", "result");
    call(scene.bob, "free", "\"tag\":\"t\"", "result");
    assert_says(call(scene.root, "map", "\"cells\":4", "result"),
                "\"result\":{\"from\":0,\"bytes\":4096,\"cell_bytes\":1024,\"cells\":"
                "[[1024,0,0,0,1],[0,1024,0,0,0],[512,0,0,0,1],[0,0,0,0,0]]}");
    memory_daemon_end(&scene.daemon);
}

static void test_a_part_of_the_range_can_be_asked_for(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, PLAIN);
    call(scene.alice, "allocate", "\"requested_bytes\":1024", "result");
    assert_says(call(scene.alice, "map", "\"from\":512,\"bytes\":1000,\"cells\":3", "result"),
                "{\"from\":512,\"bytes\":1000,\"cell_bytes\":334,\"cells\":"
                "[[334,0,0,0,1],[178,0,0,0,1],[0,0,0,0,0]]}");
    assert_says(call(scene.alice, "map", "\"from\":4096", "result"),
                "{\"from\":4096,\"bytes\":0,\"cell_bytes\":0,\"cells\":[]}");
    memory_daemon_end(&scene.daemon);
}

static void test_a_map_shows_whose_it_is_to_the_same_user_and_root_only(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, PLAIN);
    call(scene.alice, "allocate", "\"requested_bytes\":4096", "result");
    assert_says(call(scene.alice, "map", "\"cells\":1", "result"), "[[4096,0,0,0,1]]");
    assert_says(call(scene.root, "map", "\"cells\":1", "result"), "[[4096,0,0,0,1]]");
    assert_says(call(scene.bob, "map", "\"cells\":1", "result"), "[[4096,0,0,0,0]]");
    memory_daemon_end(&scene.daemon);
}

static void test_an_allocation_that_outlived_its_connection_is_nobody_s(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, PLAIN);
    call(scene.alice, "allocate", "\"requested_bytes\":4096,\"detached\":true", "result");
    memory_client_hang_up(scene.alice);
    memory_daemon_settle(&scene.daemon);
    assert_says(call(scene.root, "map", "\"cells\":1", "result"), "[[4096,0,0,0,0]]");
    memory_daemon_end(&scene.daemon);
}

static void test_there_are_256_cells_unless_more_or_fewer_are_asked_for(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    assert_int_equal(answer_count(call(scene.alice, "map", "", "result"), ",0,0,0,0]"), 256);
    const char *answer = call(scene.alice, "map", "\"cells\":1000", "result");
    assert_int_equal(answer_count(answer, ",0,0,0,0]"), 1000);
    assert_kind(memory_client_call(scene.alice, "map", "\"cells\":0"), "invalid_params");
    assert_kind(memory_client_call(scene.alice, "map", "\"cells\":1001"), "invalid_params");
    assert_kind(memory_client_call(scene.alice, "map", "\"bytes\":0"), "invalid_params");
    assert_kind(memory_client_call(scene.alice, "map", "\"from\":-1"), "invalid_params");
    memory_daemon_end(&scene.daemon);
}

static void test_what_a_private_allocator_holds_is_mapped_too(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    call(scene.bob, "open", "\"name\":\"mine\",\"policy\":\"reference\",\"gpu_capacity\":10",
         "result");
    call(scene.bob, "allocate", "\"requested_bytes\":4,\"allocator\":\"mine\"", "result");
    assert_says(call(scene.bob, "map", "\"cells\":2,\"allocator\":\"mine\"", "result"),
                "[[4,0,0,0,2],[0,0,0,0,0]]");
    assert_kind(memory_client_call(scene.alice, "map", "\"allocator\":\"mine\""),
                "unknown_allocator");
    memory_daemon_end(&scene.daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_map_has_the_bytes_and_the_client_of_each_cell),
        cmocka_unit_test(test_a_part_of_the_range_can_be_asked_for),
        cmocka_unit_test(test_a_map_shows_whose_it_is_to_the_same_user_and_root_only),
        cmocka_unit_test(test_an_allocation_that_outlived_its_connection_is_nobody_s),
        cmocka_unit_test(test_there_are_256_cells_unless_more_or_fewer_are_asked_for),
        cmocka_unit_test(test_what_a_private_allocator_holds_is_mapped_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
