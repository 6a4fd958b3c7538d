/* One allocator, eight threads: nothing is lost, and all accounts agree in the end. Meant to be run
 * under the thread sanitizer as well. Threads only count what went wrong; the test looks at it
 * afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "lib/worsegpu.h"
#include "tests/support/engine.h"

enum {
    THREADS = 8,
    ROUNDS = 1500,
    HELD = 32 /* allocations a thread keeps at a time */
};

struct worker {
    pthread_t thread;
    worsegpu_allocator *allocator;
    uint64_t number;
    uint64_t allocations;
    uint64_t frees;
    uint64_t faults;
    uint64_t wrong;
};

static void allocate_one(struct worker *worker, struct worsegpu_handle *handle, uint64_t round)
{
    struct worsegpu_request request = engine_request(1 + (round * 7919 + worker->number) % 100000);
    struct worsegpu_allocation allocation;
    struct worsegpu_allocation found;
    request.tag = "thread";
    request.tag_bytes = 6;
    request.client = worker->number;
    request.owner = worker;
    worker->wrong += worsegpu_allocate(worker->allocator, &request, &allocation) != WORSEGPU_OK;
    worker->allocations++;
    *handle = allocation.handle;
    worker->wrong += worsegpu_find(worker->allocator, handle, &found) != WORSEGPU_OK ||
                     found.owner != worker || memcmp(found.tag, "thread", 6) != 0;
}

static void free_one(struct worker *worker, const struct worsegpu_handle *handle)
{
    struct worsegpu_release release = {0};
    int status = worker->frees % 7 == 6
                     ? worsegpu_forget(worker->allocator, handle, worker->number, 0, &release)
                     : worsegpu_free(worker->allocator, handle, worker->number, 0, &release);
    worker->wrong += status != WORSEGPU_OK;
    worker->wrong += release.owner != worker;
    worker->frees++;
    worker->wrong +=
        worsegpu_free(worker->allocator, handle, 0, 0, NULL) != WORSEGPU_UNKNOWN_HANDLE;
}

static void look_around(struct worker *worker)
{
    struct worsegpu_snapshot snapshot;
    struct worsegpu_allocation page[8];
    struct worsegpu_event events[8];
    size_t count;
    bool more;
    worsegpu_snapshot(worker->allocator, &snapshot);
    worker->wrong +=
        snapshot.gpu_used + snapshot.gpu_free + snapshot.gpu_forgotten != snapshot.gpu_reserved;
    worker->wrong += snapshot.active_allocations > (uint64_t)THREADS * HELD;
    worsegpu_list(worker->allocator, snapshot.allocate_calls / 2, page, 8, &count, &more);
    for (size_t i = 1; i < count; i++)
        worker->wrong += page[i].handle.allocation_id <= page[i - 1].handle.allocation_id;
    worsegpu_trace(worker->allocator, 0, events, 8, &count, &more, NULL);
    for (size_t i = 1; i < count; i++)
        worker->wrong += events[i].sequence != events[i - 1].sequence + 1;
}

/* What somebody outside may do to a running GPU. */
static void meddle(struct worker *worker, uint64_t round)
{
    const struct worsegpu_fault fault = {.action = WORSEGPU_FAULT_DELAY, .client = worker->number};
    worker->wrong += worsegpu_record_fault(worker->allocator, &fault) != WORSEGPU_OK;
    worker->faults++;
    worker->wrong += worsegpu_resize(worker->allocator, (round + 1) << 16) != WORSEGPU_OK;
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct worsegpu_handle held[HELD];
    size_t count = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        if (count == HELD || (count > 0 && round % 3 == 2))
            free_one(worker, &held[--count]);
        else
            allocate_one(worker, &held[count++], round);
        if (round % 64 == 0)
            look_around(worker);
        if (round % 100 == 99)
            meddle(worker, round);
        if (round % 512 == 0)
            worker->wrong += worsegpu_validate(worker->allocator, NULL, NULL) != WORSEGPU_OK;
        if (round % 700 == 699)
            worsegpu_trace_clear(worker->allocator);
    }
    while (count > 0)
        free_one(worker, &held[--count]);
    return NULL;
}

static void hammer(const char *policy)
{
    struct worsegpu_config config = engine_config("9");
    config.policy = policy;
    config.trace_limit = 1000;
    struct worker workers[THREADS] = {0};
    worsegpu_allocator *allocator = engine_create(&config);
    for (size_t i = 0; i < THREADS; i++) {
        workers[i].allocator = allocator;
        workers[i].number = i + 1;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    uint64_t allocations = 0;
    uint64_t frees = 0;
    uint64_t faults = 0;
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        allocations += workers[i].allocations;
        frees += workers[i].frees;
        faults += workers[i].faults;
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(workers[i].wrong, 0);
    engine_assert_valid(allocator);
    struct worsegpu_snapshot snapshot;
    worsegpu_snapshot(allocator, &snapshot);
    assert_int_equal(snapshot.active_allocations, 0);
    assert_int_equal(snapshot.allocate_calls, allocations);
    assert_int_equal(snapshot.free_calls, frees);
    assert_int_equal(snapshot.faults, faults);
    assert_int_equal(snapshot.last_sequence, allocations + frees + faults);
    worsegpu_destroy(allocator);
}

static void test_eight_threads_share_a_worse_gpu(void **state)
{
    (void)state;
    hammer("worse");
}

static void test_eight_threads_share_a_reference(void **state)
{
    (void)state;
    hammer("reference");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eight_threads_share_a_worse_gpu),
        cmocka_unit_test(test_eight_threads_share_a_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
