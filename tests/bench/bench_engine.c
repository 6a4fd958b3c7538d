/* How fast the engine is, as ratios within one run. Prints; decides nothing.
 *
 * The reference does about 1,000 allocations a second with 20,000 live ones, because it really
 * walks its list; that figure was measured once and is the yardstick of the first line. */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lib/worsegpu.h"

#define REFERENCE_RATE 1000.0
#define MILLION UINT64_C(1000000)

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void check(int status)
{
    if (status == WORSEGPU_OK)
        return;
    fprintf(stderr, "bench_engine: status %d\n", status);
    exit(1);
}

static bool say_yes(void *context, enum worsegpu_device device, uint64_t reserved_bytes)
{
    (void)context;
    (void)device;
    return reserved_bytes > 0;
}

static worsegpu_allocator *make(uint64_t capacity, enum worsegpu_scan scan, bool single_threaded)
{
    struct worsegpu_config config;
    worsegpu_config_default(&config);
    config.gpu_capacity = capacity;
    config.scan = scan;
    config.single_threaded = single_threaded;
    config.max_live_allocations = 2 * MILLION;
    config.seed = "7";
    worsegpu_allocator *allocator;
    check(worsegpu_create(&config, &allocator));
    return allocator;
}

static struct worsegpu_handle allocate(worsegpu_allocator *allocator, uint64_t step,
                                       worsegpu_admit admit)
{
    /* The sizes of the reference's own benchmark. */
    struct worsegpu_request request = {
        .requested_bytes = step * 7919 % (2 << 20) + 4096,
        .admit = admit,
    };
    struct worsegpu_allocation allocation;
    check(worsegpu_allocate(allocator, &request, &allocation));
    return allocation.handle;
}

/* Seconds for `count` allocations without a free; the best of some rounds. */
static double fill_asking(uint64_t count, enum worsegpu_scan scan, bool single_threaded, int rounds,
                          worsegpu_admit admit)
{
    double best = 1e9;
    for (int round = 0; round < rounds; round++) {
        worsegpu_allocator *allocator = make(UINT64_C(1) << 40, scan, single_threaded);
        double start = now_seconds();
        for (uint64_t step = 1; step <= count; step++)
            allocate(allocator, step, admit);
        double seconds = now_seconds() - start;
        worsegpu_destroy(allocator);
        if (seconds < best)
            best = seconds;
    }
    return best;
}

static double fill(uint64_t count, enum worsegpu_scan scan, bool single_threaded, int rounds)
{
    return fill_asking(count, scan, single_threaded, rounds, NULL);
}

static void no_frees(void)
{
    const uint64_t count = 20000;
    double accounted = fill(count, WORSEGPU_SCAN_ACCOUNTED, true, 20);
    double locked = fill(count, WORSEGPU_SCAN_ACCOUNTED, false, 20);
    double asking = fill_asking(count, WORSEGPU_SCAN_ACCOUNTED, true, 20, say_yes);
    double walked = fill(count, WORSEGPU_SCAN_WALKED, true, 3);
    double rate = (double)count / accounted;
    printf("20,000 live, no frees, capacity 2^40: %.0f allocations a second, %.0f times the "
           "reference\n",
           rate, rate / REFERENCE_RATE);
    printf("  with the lock: %.2f times the time\n", locked / accounted);
    printf("  with somebody to admit each: %.2f times the time\n", asking / accounted);
    printf("  walked: %.0f a second; accounted is %.0f times as fast\n", (double)count / walked,
           walked / accounted);
}

/* A large fill costs the kernel's first touch of every page once; that is shown apart, because it
 * says more about the machine than about the engine. */
static void flatness(void)
{
    const uint64_t counts[] = {1000, 10000, 100000, MILLION};
    double cold = fill(MILLION, WORSEGPU_SCAN_ACCOUNTED, true, 1) / (double)MILLION * 1e9;
    double first = 0;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        int rounds = counts[i] >= MILLION ? 5 : 20;
        double each =
            fill(counts[i], WORSEGPU_SCAN_ACCOUNTED, true, rounds) / (double)counts[i] * 1e9;
        if (i == 0)
            first = each;
        printf("%8" PRIu64 " live: %.0f ns an allocation, %.2f times that at 1,000\n", counts[i],
               each, each / first);
    }
    printf("  the same million in memory never used before: %.0f ns an allocation\n", cold);
}

/* One allocation and one free in turn, with so many live ones around. */
static double pairs(uint64_t live, uint64_t count)
{
    struct worsegpu_handle *handles = calloc(live, sizeof(*handles));
    if (!handles)
        exit(1);
    worsegpu_allocator *allocator = make(UINT64_C(1) << 40, WORSEGPU_SCAN_ACCOUNTED, true);
    for (uint64_t i = 0; i < live; i++)
        handles[i] = allocate(allocator, i, NULL);
    uint64_t mixed = 1;
    double start = now_seconds();
    for (uint64_t i = 0; i < count; i++) {
        mixed = mixed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        struct worsegpu_handle *handle = &handles[(mixed >> 33) % live];
        check(worsegpu_free(allocator, handle, 0, 0, NULL));
        *handle = allocate(allocator, i, NULL);
    }
    double seconds = now_seconds() - start;
    worsegpu_destroy(allocator);
    free(handles);
    return seconds / (double)count * 1e9;
}

int main(void)
{
    /* The process keeps the memory it once had, so that only the first round meets new pages. */
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
    mallopt(M_TOP_PAD, 1 << 20);
    no_frees();
    flatness();
    double few = pairs(100, MILLION);
    double many = pairs(10000, MILLION);
    double most = pairs(MILLION, MILLION);
    printf(
        "allocate and free, 10,000 live: %.0f ns a pair (%.2f times that with 100 live; %.2f with "
        "1,000,000)\n",
        many, many / few, most / few);
    return 0;
}
