/* Tests of daemon/descriptors.c. The limit belongs to the whole process, so each try has one of its
 * own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/descriptors.h"

enum {
    NOT_ALLOWED =
        2 /* a kernel lets everybody lower a limit, valgrind does not: nothing to see there */
};

/* What descriptors_reserve answers under these limits, and what it leaves as the soft one. */
static void try_with(rlim_t soft, rlim_t hard, uint64_t wanted, uint64_t expected,
                     rlim_t expected_soft)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit = {.rlim_cur = soft, .rlim_max = hard};
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            _exit(NOT_ALLOWED);
        uint64_t room = descriptors_reserve(wanted);
        if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
            _exit(3);
        _exit(room != expected ? 4 : limit.rlim_cur != expected_soft ? 5 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NOT_ALLOWED)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_a_limit_that_is_high_enough_stays(void **state)
{
    (void)state;
    try_with(200, 250, 200 - DESCRIPTORS_RESERVED, 200 - DESCRIPTORS_RESERVED, 200);
}

static void test_a_low_limit_is_raised_as_far_as_needed(void **state)
{
    (void)state;
    try_with(64, 250, 100, 100, 100 + DESCRIPTORS_RESERVED);
}

static void test_where_it_may_not_be_raised_enough_there_is_room_for_fewer(void **state)
{
    (void)state;
    try_with(64, 100, 1000, 100 - DESCRIPTORS_RESERVED, 100);
    try_with(64, 100, UINT64_C(1000000), 100 - DESCRIPTORS_RESERVED, 100);
}

static void test_there_is_always_room_for_one(void **state)
{
    (void)state;
    try_with(16, 16, 1000, 1, 16);
    try_with(DESCRIPTORS_RESERVED, DESCRIPTORS_RESERVED, 5, 1, DESCRIPTORS_RESERVED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_limit_that_is_high_enough_stays),
        cmocka_unit_test(test_a_low_limit_is_raised_as_far_as_needed),
        cmocka_unit_test(test_where_it_may_not_be_raised_enough_there_is_room_for_fewer),
        cmocka_unit_test(test_there_is_always_room_for_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
