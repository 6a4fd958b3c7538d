/* Tests of daemon/groups.c: groups by name, and what the kernel knows of a peer's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "daemon/groups.h"
#include "tests/support/chaos.h"

enum {
    MANY = 100 /* more than fit in what is tried first */
};

static void test_a_group_is_found_by_its_name(void **state)
{
    gid_t gid = 77;
    (void)state;
    assert_int_equal(groups_find(memory_system(), "root", &gid), GROUPS_FINE);
    assert_int_equal(gid, 0);
    struct group *other = NULL;
    struct group entry;
    char texts[4096];
    if (getgrgid_r(1, &entry, texts, sizeof(texts), &other) != 0 || !other)
        return; /* a system that has root alone */
    assert_int_equal(groups_find(memory_system(), other->gr_name, &gid), GROUPS_FINE);
    assert_int_equal(gid, 1);
}

static void test_a_group_that_is_not_there_is_unknown(void **state)
{
    static const char *const names[] = {"no such group", "", "0", "root:", "root\nroot"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        gid_t gid = 77;
        assert_int_equal(groups_find(memory_system(), names[i], &gid), GROUPS_UNKNOWN);
        assert_int_equal(gid, 77);
    }
}

static bool find_in_poor_memory(struct chaos *chaos, void *context)
{
    gid_t gid = 77;
    (void)context;
    enum groups_result result = groups_find(&chaos->memory, "root", &gid);
    assert_int_equal(gid, result == GROUPS_FINE ? 0 : 77);
    assert_true(result == GROUPS_FINE || result == GROUPS_NO_MEMORY);
    return result == GROUPS_FINE;
}

static void test_without_memory_no_group_is_found_or_missed(void **state)
{
    (void)state;
    assert_true(chaos_loop(find_in_poor_memory, NULL) > 0);
}

/* -------------------------------------------------------------------------------------- peers */

/* A pair of sockets made by a process that has these groups; ours once it has ended. */
static void make_pair(const gid_t *groups, size_t count, int pair[2])
{
    int carrier[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, carrier), 0);
    pid_t maker = fork();
    assert_true(maker >= 0);
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {.bytes = {0}};
    char byte = 0;
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    if (maker == 0) {
        int made[2];
        if (setgroups(count, groups) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, made) != 0)
            _exit(1);
        control.header = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(made)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        for (size_t i = 0; i < sizeof(made); i++)
            CMSG_DATA(&control.header)[i] = ((unsigned char *)made)[i];
        _exit(sendmsg(carrier[1], &message, 0) == 1 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(maker, &status, 0), maker);
    assert_int_equal(status, 0);
    assert_int_equal(recvmsg(carrier[0], &message, 0), 1);
    for (size_t i = 0; i < 2 * sizeof(int); i++)
        ((unsigned char *)pair)[i] = CMSG_DATA(&control.header)[i];
    close(carrier[0]);
    close(carrier[1]);
}

struct scene {
    int pair[2];
    size_t count;
};

static void has_groups(size_t count, struct scene *scene)
{
    gid_t groups[MANY];
    for (size_t i = 0; i < count; i++)
        groups[i] = (gid_t)(5000 + i);
    make_pair(groups, count, scene->pair);
    scene->count = count;
}

static void done(const struct scene *scene)
{
    close(scene->pair[0]);
    close(scene->pair[1]);
}

static void test_a_peer_has_the_groups_of_who_connected(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); /* nobody else may change the groups of a process */
    for (size_t count = 0; count <= MANY; count += count < 3 ? 1 : MANY - 3) {
        struct scene scene;
        has_groups(count, &scene);
        for (size_t i = 0; i <= count; i++) {
            bool member = i == count;
            assert_int_equal(
                groups_has_peer(memory_system(), scene.pair[0], (gid_t)(5000 + i), &member),
                GROUPS_FINE);
            assert_int_equal(member, i < count);
        }
        done(&scene);
    }
}

static bool look_in_poor_memory(struct chaos *chaos, void *context)
{
    const struct scene *scene = context;
    bool member = true;
    enum groups_result result =
        groups_has_peer(&chaos->memory, scene->pair[1], (gid_t)(5000 + MANY - 1), &member);
    assert_true(result == GROUPS_FINE || result == GROUPS_NO_MEMORY);
    assert_int_equal(member, result == GROUPS_FINE);
    return result == GROUPS_FINE;
}

static void test_without_memory_a_peer_with_many_groups_is_no_member(void **state)
{
    struct scene scene;
    (void)state;
    if (geteuid() != 0)
        skip();
    has_groups(MANY, &scene);
    assert_true(chaos_loop(look_in_poor_memory, &scene) > 0);
    done(&scene);
}

static void test_what_is_no_socket_has_no_member(void **state)
{
    bool member = true;
    (void)state;
    assert_int_equal(groups_has_peer(memory_system(), -1, 0, &member), GROUPS_FINE);
    assert_false(member);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_group_is_found_by_its_name),
        cmocka_unit_test(test_a_group_that_is_not_there_is_unknown),
        cmocka_unit_test(test_without_memory_no_group_is_found_or_missed),
        cmocka_unit_test(test_a_peer_has_the_groups_of_who_connected),
        cmocka_unit_test(test_without_memory_a_peer_with_many_groups_is_no_member),
        cmocka_unit_test(test_what_is_no_socket_has_no_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
