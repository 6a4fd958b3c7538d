/* Tests of the simulator: some hundred seeds of it, and that a seed is always the same run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/simulation/draw.h"
#include "tests/support/real_process.h"

static const char *simulate(struct real_room *room)
{
    return real_program(room, "tests/simulation/simulate");
}

static void test_some_hundred_seeds_find_nothing_wrong(void **state)
{
    struct real_process *process = real_process_run(*state, NULL, simulate(*state), "--seeds",
                                                    "300", "--steps", "250", "--jobs", "2", NULL);
    if (real_process_wait(process) != 0)
        fail_msg("%s", real_process_errors(*state, process));
    assert_non_null(strstr(real_process_output(*state, process), "300 seeds of 250 steps: "));
}

static void test_the_same_seeds_give_the_same_log_whoever_runs_them(void **state)
{
    struct real_process *one = real_process_run(*state, NULL, simulate(*state), "--from", "7",
                                                "--seeds", "20", "--jobs", "1", NULL);
    struct real_process *two = real_process_run(*state, NULL, simulate(*state), "--from", "7",
                                                "--seeds", "20", "--jobs", "3", NULL);
    assert_non_null(strstr(real_process_output(*state, one), "\nhash "));
    assert_string_equal(real_process_output(*state, one), real_process_output(*state, two));
}

static void test_other_seeds_give_another_log(void **state)
{
    struct real_process *one =
        real_process_run(*state, NULL, simulate(*state), "--seed", "7", NULL);
    struct real_process *two =
        real_process_run(*state, NULL, simulate(*state), "--seed", "8", NULL);
    assert_string_not_equal(strstr(real_process_output(*state, one), "\nhash "),
                            strstr(real_process_output(*state, two), "\nhash "));
}

/* The options after the program's name in the line that tells how to see a seed again. */
static void test_a_failing_seed_is_told_with_the_command_that_shows_it_again(void **state)
{
    static const char command[] = "/tests/simulation/simulate --seed 5 --steps 40 --verbose\n";
    struct real_process *many =
        real_process_run(*state, NULL, simulate(*state), "--seeds", "9", "--steps", "40", "--wrong",
                         "5", "--jobs", "2", NULL);
    const char *told = real_process_errors(*state, many);
    assert_int_equal(real_process_wait(many), 1);
    assert_non_null(strstr(told, "seed 5, step 40: as was wanted"));
    assert_non_null(strstr(told, command));
    struct real_process *again =
        real_process_run(*state, NULL, simulate(*state), "--seed", "5", "--steps", "40",
                         "--verbose", "--wrong", "5", NULL);
    assert_int_equal(real_process_wait(again), 1);
    assert_string_equal(real_process_errors(*state, again), told);
    assert_true(real_lines(real_process_output(*state, again)) > 20);
}

/* The first numbers for seed 0, worked out from the published formulas by another program. */
static void test_the_numbers_are_those_of_the_published_generator(void **state)
{
    struct draw draw;
    (void)state;
    draw_init(&draw, 0);
    assert_int_equal(draw.state[0], UINT64_C(0xe220a8397b1dcdaf));
    assert_int_equal(draw_next(&draw), UINT64_C(0x99ec5f36cb75f2b4));
    assert_int_equal(draw_next(&draw), UINT64_C(0xbf6e1f784956452a));
}

static void test_a_wrong_command_line_is_refused(void **state)
{
    struct real_process *process =
        real_process_run(*state, NULL, simulate(*state), "--seeds", "some", NULL);
    assert_int_equal(real_process_wait(process), 2);
    assert_non_null(strstr(real_process_errors(*state, process), "usage: simulate"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_some_hundred_seeds_find_nothing_wrong),
        IN_ROOM(test_the_same_seeds_give_the_same_log_whoever_runs_them),
        IN_ROOM(test_other_seeds_give_another_log),
        IN_ROOM(test_a_failing_seed_is_told_with_the_command_that_shows_it_again),
        cmocka_unit_test(test_the_numbers_are_those_of_the_published_generator),
        IN_ROOM(test_a_wrong_command_line_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
