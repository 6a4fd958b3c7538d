/* Tests of daemon/peers.c: who is at the other end, and what that one may do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "daemon/peers.h"
#include "daemon/server.h"

enum {
    DAEMON_USER = 4000,
    USER = 4001,
    GROUP = 5000
};

struct scene {
    struct options options;
    struct server server;
    char name[8];
    int pair[2];
};

/* A daemon of DAEMON_USER, with an admin group or without. */
static void begin(struct scene *scene, bool group)
{
    *scene = (struct scene){.name = "admins"};
    scene->options.admin_group = (struct option_group){.name = scene->name, .gid = GROUP};
    if (!group)
        scene->name[0] = '\0';
    scene->server.options = &scene->options;
    scene->server.memory = memory_system();
    scene->server.uid = DAEMON_USER;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, scene->pair), 0);
}

static void done(const struct scene *scene)
{
    close(scene->pair[0]);
    close(scene->pair[1]);
}

static bool may(const struct scene *scene, uid_t uid, gid_t gid)
{
    struct peer peer = {.uid = uid, .gid = gid, .admin = true};
    assert_int_equal(peer_find_rights(&peer, scene->pair[0], &scene->server), 0);
    return peer.admin;
}

static void test_a_peer_is_who_connected(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, false);
    struct peer peer = peer_of(scene.pair[0]);
    assert_int_equal(peer.uid, geteuid());
    assert_int_equal(peer.gid, getegid());
    assert_int_equal(peer.pid, getpid());
    assert_false(peer.admin);
    done(&scene);
}

static void test_what_is_no_socket_has_no_user(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, true);
    struct peer peer = peer_of(-1);
    assert_int_equal(peer.uid, (uid_t)-1);
    assert_int_equal(peer.gid, (gid_t)-1);
    assert_int_equal(peer_find_rights(&peer, -1, &scene.server), 0);
    assert_false(peer.admin);
    done(&scene);
}

static void test_root_and_the_daemons_own_user_may_always(void **state)
{
    (void)state;
    for (int group = 0; group < 2; group++) {
        struct scene scene;
        begin(&scene, group == 1);
        assert_true(may(&scene, 0, USER));
        assert_true(may(&scene, DAEMON_USER, USER));
        assert_false(may(&scene, USER, USER));
        done(&scene);
    }
}

static void test_the_admin_group_may_as_ones_first_group(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, true);
    assert_true(may(&scene, USER, GROUP));
    assert_false(may(&scene, USER, GROUP + 1));
    done(&scene);
    begin(&scene, false); /* without one, its number means nothing */
    assert_false(may(&scene, USER, GROUP));
    done(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_peer_is_who_connected),
        cmocka_unit_test(test_what_is_no_socket_has_no_user),
        cmocka_unit_test(test_root_and_the_daemons_own_user_may_always),
        cmocka_unit_test(test_the_admin_group_may_as_ones_first_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
