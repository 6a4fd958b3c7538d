/* The search for the smallest device, against trying every single one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lab/fit_search.h"
#include "tests/support/chaos.h"

enum {
    MOST_BYTES = 1536, /* of the devices that are tried one by one */
    STEPS = 24,
    MOST_LIVE = 12
};

static struct events *events_of(const char *text)
{
    struct log_source *source;
    struct log_problem problem;
    struct events *events;
    assert_int_equal(log_source_open_bytes(text, strlen(text), memory_system(), &source, &problem),
                     LOG_FINE);
    int status = events_read(source, log_format_find("ostep-list"), EVENTS_ANY_DEVICE,
                             memory_system(), NULL, NULL, &events, &problem);
    log_source_close(source);
    if (status != LOG_FINE)
        fail_msg("%s: %s", problem.text, text);
    return events;
}

static struct fit_subject subject_of(const struct events *events, const char *policy)
{
    return (struct fit_subject){.memory = memory_system(), .events = events, .policy = policy};
}

static bool serves(const struct events *events, const char *policy, uint64_t bytes)
{
    const struct fit_subject subject = subject_of(events, policy);
    struct fit_run run;
    assert_int_equal(fit_try(&subject, bytes, &run), LOG_FINE);
    return run.served;
}

static struct fit_answer search(const struct events *events, const char *policy, bool above)
{
    const struct fit_subject subject = subject_of(events, policy);
    struct fit_answer answer;
    assert_int_equal(fit_search(&subject, UINT64_C(1) << 31, above, &answer), LOG_FINE);
    return answer;
}

/* "+10,+20,-0,": some allocations and frees; the numbers are its own. */
static void make_log(uint32_t *state, char *text, size_t size)
{
    unsigned live[MOST_LIVE];
    unsigned count = 0;
    unsigned made = 0;
    size_t length = 0;
    for (int i = 0; i < STEPS; i++) {
        *state = *state * 1664525u + 1013904223u;
        unsigned draw = *state >> 8;
        if (count > 0 && (count == MOST_LIVE || draw % 5 < 2)) {
            unsigned which = draw / 8 % count;
            length += (size_t)snprintf(text + length, size - length, "%s-%u", i > 0 ? "," : "",
                                       live[which]);
            live[which] = live[--count];
        } else {
            length += (size_t)snprintf(text + length, size - length, "%s+%u", i > 0 ? "," : "",
                                       1 + draw / 8 % 60);
            live[count++] = made++;
        }
    }
}

static const char *const POLICIES[] = {"list_fit fit=first",
                                       "list_fit fit=worst",
                                       "list_fit fit=best tail=apart",
                                       "tlsf",
                                       "buddy minimum_block=1",
                                       "offset unit_bytes=1",
                                       "vma alignment=1"};

enum {
    POLICY_COUNT = sizeof(POLICIES) / sizeof(POLICIES[0])
};

/* What the search says must be so when each device is really tried, one by one. */
static void check(const struct events *events, const char *policy, const char *text)
{
    bool served[MOST_BYTES];
    uint64_t least = 0;
    uint64_t last_refused = 0;
    struct fit_answer answer = search(events, policy, true);
    for (uint64_t bytes = 1; bytes < MOST_BYTES; bytes++) {
        served[bytes] = serves(events, policy, bytes);
        least = least == 0 && served[bytes] ? bytes : least;
        last_refused = served[bytes] ? last_refused : bytes;
    }
    if (answer.smallest < 1 || answer.smallest >= MOST_BYTES || !served[answer.smallest] ||
        (answer.failed > 0 && answer.failed != answer.smallest - 1) ||
        (answer.smallest > 1 && served[answer.smallest - 1]))
        fail_msg("%s on %s: %d is no boundary", policy, text, (int)answer.smallest);
    if (last_refused < least && (answer.smallest != least || answer.fails_again != 0))
        fail_msg("%s on %s: %d, although %d is and all is monotone", policy, text,
                 (int)answer.smallest, (int)least);
    if (answer.fails_again > 0 &&
        (answer.fails_again <= answer.smallest || served[answer.fails_again] ||
         !served[answer.sure] || served[answer.sure - 1] || answer.sure <= answer.fails_again))
        fail_msg("%s on %s: it refuses again at %d, and surely serves from %d?", policy, text,
                 (int)answer.fails_again, (int)answer.sure);
    assert_true(answer.smallest >= events_facts(events)->peak_bytes);
}

static void test_the_answer_is_a_boundary_when_every_device_is_tried(void **state)
{
    (void)state;
    uint32_t random = 1;
    char text[1024];
    for (int i = 0; i < 8; i++) {
        make_log(&random, text, sizeof(text));
        struct events *events = events_of(text);
        for (size_t p = 0; p < POLICY_COUNT; p++)
            check(events, POLICIES[p], text);
        events_release(events);
    }
}

/* Worst fit on 17: 9 at 0, 6 at 9, which is freed, 2 at 9, the 9 freed, 5 at 0 (9 are free there, 6
 * behind), 6 at 11, the 2 freed: 6 are free in one piece. On 21, 10 are free behind: the 5 goes
 * there, the 6 to the front, and when the 2 is freed there are two pieces of 5. */
static void test_more_memory_that_is_worse_is_told(void **state)
{
    (void)state;
    struct events *events = events_of("+9,+6,-1,+2,-0,+5,+6,-2,+6");
    struct fit_answer answer = search(events, "list_fit fit=worst", true);
    assert_int_equal(answer.smallest, 17);
    assert_int_equal(answer.failed, 0); /* 17 is the floor */
    assert_int_equal(answer.fails_again, 21);
    assert_int_equal(answer.sure, 22);
    answer = search(events, "list_fit fit=worst", false);
    assert_int_equal(answer.smallest, 17);
    assert_int_equal(answer.fails_again, 0);
    events_release(events);
}

static void test_the_step_divides_all_that_is_reserved(void **state)
{
    (void)state;
    struct events *events = events_of("+100,+100,-0,+200");
    assert_int_equal(search(events, "torch", true).step, 2 << 20);
    assert_int_equal(search(events, "torch", true).smallest, 2 << 20);
    assert_int_equal(search(events, "torch", true).failed, (2 << 20) - 1);
    assert_int_equal(search(events, "list_fit alignment=256", true).step, 256);
    events_release(events);
}

/* A device is found to the byte although the step is coarser than that: the header is no part of
 * what is reserved in steps of 16. */
static void test_a_step_that_is_too_coarse_does_no_harm(void **state)
{
    (void)state;
    struct events *events = events_of("+16,+16,+16");
    struct fit_answer answer = search(events, "offset unit_bytes=1", true);
    assert_true(answer.step > 1);
    assert_true(serves(events, "offset unit_bytes=1", answer.smallest));
    assert_false(serves(events, "offset unit_bytes=1", answer.smallest - 1));
    events_release(events);
}

static void test_what_is_put_on_the_host_needs_no_device(void **state)
{
    (void)state;
    struct events *events = events_of("+100000,+100000,+100000,+100000,+100000,+100000");
    struct fit_answer answer = search(events, "worse", true);
    assert_true(answer.at.host > 0);
    assert_true(answer.smallest < events_facts(events)->peak_bytes);
    assert_false(serves(events, "worse", answer.smallest - 1));
    assert_false(serves(events, "worse", 1));
    events_release(events);
}

static void test_a_run_ends_at_the_first_refusal(void **state)
{
    (void)state;
    struct events *events = events_of("+10,+10,-0,+30,+10");
    const struct fit_subject subject = subject_of(events, "list_fit");
    struct fit_run run;
    assert_int_equal(fit_try(&subject, 35, &run), LOG_FINE);
    assert_false(run.served);
    assert_int_equal(run.refused_event, 4);
    assert_int_equal(run.peak_reserved, 20);
    events_release(events);
}

static void test_an_empty_log_needs_nothing(void **state)
{
    (void)state;
    struct events *events = events_of("+10,-0");
    const struct fit_subject subject = subject_of(events, "no such policy");
    struct fit_answer answer;
    assert_int_equal(fit_search(&subject, 1 << 20, true, &answer), LOG_FINE);
    assert_int_equal(answer.smallest, 0);
    events_release(events);
}

struct searching {
    const struct events *events;
};

static bool search_without_memory(struct chaos *chaos, void *context)
{
    const struct searching *searching = context;
    struct fit_subject subject = subject_of(searching->events, "torch");
    struct fit_answer answer;
    subject.memory = &chaos->memory;
    int status = fit_search(&subject, UINT64_C(1) << 31, false, &answer);
    assert_true(status == LOG_FINE || status == LOG_NO_MEMORY);
    return status == LOG_FINE;
}

static void test_running_out_of_memory_ends_the_search(void **state)
{
    (void)state;
    struct events *events = events_of("+100,+3000000,-0,+200");
    struct searching searching = {events};
    assert_true(chaos_loop(search_without_memory, &searching) > 0);
    events_release(events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_answer_is_a_boundary_when_every_device_is_tried),
        cmocka_unit_test(test_more_memory_that_is_worse_is_told),
        cmocka_unit_test(test_the_step_divides_all_that_is_reserved),
        cmocka_unit_test(test_a_step_that_is_too_coarse_does_no_harm),
        cmocka_unit_test(test_what_is_put_on_the_host_needs_no_device),
        cmocka_unit_test(test_a_run_ends_at_the_first_refusal),
        cmocka_unit_test(test_an_empty_log_needs_nothing),
        cmocka_unit_test(test_running_out_of_memory_ends_the_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
