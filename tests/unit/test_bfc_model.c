/* The policy bfc against a slow model that walks an array of chunks: every offset, refusal, count
 * of chunks looked at, and figure, after each of thousands of random steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/statistics.h"
#include "tests/support/policy_world.h"

#define MIB (UINT64_C(1) << 20)
#define REFUSED UINT64_MAX

static const struct policy_rules no_rules = {0};

enum {
    CHUNKS = 1000,
    REGIONS = 200,
    LIVE = 60,
    STEPS = 1200,
    BINS = 21
};

struct slow_region {
    uint64_t offset;
    uint64_t bytes;
};

struct slow_chunk {
    uint64_t offset;
    uint64_t bytes;
    bool used;
};

/* Regions and chunks are in the order of their offsets. */
struct slow {
    struct slow_region regions[REGIONS];
    size_t region_count;
    struct slow_chunk chunks[CHUNKS];
    size_t chunk_count;
    uint64_t limit;
    uint64_t capacity;
    uint64_t granularity;
    uint64_t step;
    uint64_t split; /* so much to spare is split off */
    bool collects;
    bool coalesces;
    uint64_t scanned;
    uint64_t allocations;
    uint64_t collections;
    uint64_t peak_in_use;
    uint64_t largest_allocation;
    uint64_t peak_pool;
};

static uint64_t slow_pool(const struct slow *slow)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < slow->region_count; i++)
        bytes += slow->regions[i].bytes;
    return bytes;
}

static uint64_t slow_in_use(const struct slow *slow)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < slow->chunk_count; i++)
        bytes += slow->chunks[i].used ? slow->chunks[i].bytes : 0;
    return bytes;
}

static int slow_bin(uint64_t bytes)
{
    int bin = 0;
    while (bin < BINS - 1 && bytes >= UINT64_C(512) << bin)
        bin++;
    return bin;
}

static size_t slow_region_of(const struct slow *slow, uint64_t offset)
{
    size_t region = slow->region_count;
    while (region-- > 0 && slow->regions[region].offset > offset)
        continue;
    return region;
}

static void slow_open(struct slow *slow, size_t place, struct slow_chunk chunk)
{
    assert_true(slow->chunk_count < CHUNKS);
    memmove(&slow->chunks[place + 1], &slow->chunks[place],
            (slow->chunk_count - place) * sizeof(chunk));
    slow->chunks[place] = chunk;
    slow->chunk_count++;
}

static void slow_cut(struct slow *slow, size_t place)
{
    slow->chunk_count--;
    memmove(&slow->chunks[place], &slow->chunks[place + 1],
            (slow->chunk_count - place) * sizeof(slow->chunks[0]));
}

/* Merges a free chunk with the next one, if that is free and of the same region. */
static void slow_merge(struct slow *slow, size_t place)
{
    if (place + 1 >= slow->chunk_count)
        return;
    struct slow_chunk *low = &slow->chunks[place];
    const struct slow_chunk *high = &slow->chunks[place + 1];
    if (low->used || high->used ||
        slow_region_of(slow, low->offset) != slow_region_of(slow, high->offset))
        return;
    low->bytes += high->bytes;
    slow_cut(slow, place + 1);
}

/* Looks at the chunks of one bin by size, then offset, up to the first that is large enough. */
static size_t slow_search_bin(struct slow *slow, int bin, uint64_t bytes)
{
    size_t best = CHUNKS;
    uint64_t too_small = 0;
    for (size_t i = 0; i < slow->chunk_count; i++) {
        const struct slow_chunk *chunk = &slow->chunks[i];
        if (chunk->used || slow_bin(chunk->bytes) != bin)
            continue;
        if (chunk->bytes < bytes)
            too_small++;
        else if (best == CHUNKS || chunk->bytes < slow->chunks[best].bytes)
            best = i;
    }
    slow->scanned += too_small + (best != CHUNKS);
    return best;
}

static uint64_t slow_choose(struct slow *slow, uint64_t bytes)
{
    size_t best = CHUNKS;
    for (int bin = slow_bin(bytes); bin < BINS && best == CHUNKS; bin++)
        best = slow_search_bin(slow, bin, bytes);
    if (best == CHUNKS)
        return REFUSED;
    struct slow_chunk *chunk = &slow->chunks[best];
    uint64_t rest = chunk->bytes - bytes;
    chunk->used = true;
    if (rest > 0 && (chunk->bytes >= 2 * bytes || rest >= slow->split)) {
        chunk->bytes = bytes;
        slow_open(slow, best + 1, (struct slow_chunk){chunk->offset + bytes, rest, false});
    }
    return slow->chunks[best].offset;
}

/* Whether a piece of the device fits at this place. */
static bool slow_fits(const struct slow *slow, uint64_t offset, uint64_t bytes)
{
    for (size_t i = 0; i < slow->region_count; i++) {
        const struct slow_region *region = &slow->regions[i];
        if (offset < region->offset + region->bytes && region->offset < offset + bytes)
            return false;
    }
    return offset + bytes <= slow->capacity;
}

static uint64_t slow_device(const struct slow *slow, uint64_t bytes)
{
    if (slow_fits(slow, 0, bytes))
        return 0;
    for (size_t i = 0; i < slow->region_count; i++) {
        uint64_t end = slow->regions[i].offset + slow->regions[i].bytes;
        uint64_t place = (end + slow->granularity - 1) / slow->granularity * slow->granularity;
        if (slow_fits(slow, place, bytes))
            return place;
    }
    return REFUSED;
}

static void slow_add(struct slow *slow, uint64_t offset, uint64_t bytes)
{
    size_t above = slow_region_of(slow, offset) + 1;
    size_t chunk = 0;
    while (chunk < slow->chunk_count && slow->chunks[chunk].offset < offset)
        chunk++;
    slow_open(slow, chunk, (struct slow_chunk){offset, bytes, false});
    if (slow->coalesces && above > 0 &&
        slow->regions[above - 1].offset + slow->regions[above - 1].bytes == offset) {
        slow->regions[above - 1].bytes += bytes;
        slow_merge(slow, chunk - 1);
        return;
    }
    memmove(&slow->regions[above + 1], &slow->regions[above],
            (slow->region_count - above) * sizeof(slow->regions[0]));
    slow->regions[above] = (struct slow_region){offset, bytes};
    slow->region_count++;
    assert_true(slow->region_count < REGIONS);
}

static bool slow_grow(struct slow *slow, uint64_t bytes)
{
    uint64_t room = (slow->limit - slow_pool(slow)) / 256 * 256;
    if (bytes > room)
        return false;
    bool doubled = false;
    for (; slow->step < bytes; slow->step *= 2)
        doubled = true;
    uint64_t wish = slow->step < room ? slow->step : room;
    uint64_t offset;
    while ((offset = slow_device(slow, wish)) == REFUSED) {
        float shrunk = (float)wish * 0.9F;
        uint64_t next = ((uint64_t)shrunk + 255) / 256 * 256;
        wish = next == wish ? wish - 256 : next;
        if (wish < bytes)
            return false;
    }
    if (!doubled)
        slow->step *= 2;
    slow_add(slow, offset, wish);
    return true;
}

static bool slow_is_empty(const struct slow *slow, size_t region, size_t *chunk)
{
    for (size_t i = 0; i < slow->chunk_count; i++) {
        if (slow->chunks[i].offset != slow->regions[region].offset)
            continue;
        *chunk = i;
        return !slow->chunks[i].used && slow->chunks[i].bytes == slow->regions[region].bytes;
    }
    return false;
}

static bool slow_collect(struct slow *slow, uint64_t bytes)
{
    uint64_t empty = 0;
    size_t chunk = 0;
    for (size_t i = 0; i < slow->region_count; i++)
        empty += slow_is_empty(slow, i, &chunk) ? slow->regions[i].bytes : 0;
    if (empty == 0 || bytes > slow->limit - slow_pool(slow) + empty)
        return false;
    slow->collections++;
    for (size_t i = slow->region_count; i-- > 0;) {
        if (!slow_is_empty(slow, i, &chunk))
            continue;
        slow_cut(slow, chunk);
        slow->region_count--;
        memmove(&slow->regions[i], &slow->regions[i + 1],
                (slow->region_count - i) * sizeof(slow->regions[0]));
    }
    return true;
}

static uint64_t slow_allocate(struct slow *slow, uint64_t bytes)
{
    bytes = (bytes + 255) / 256 * 256;
    slow->scanned = 0;
    uint64_t offset = slow_choose(slow, bytes);
    if (offset == REFUSED && slow_grow(slow, bytes))
        offset = slow_choose(slow, bytes);
    if (offset == REFUSED && slow->collects && slow_collect(slow, bytes) && slow_grow(slow, bytes))
        offset = slow_choose(slow, bytes);
    if (slow_pool(slow) > slow->peak_pool)
        slow->peak_pool = slow_pool(slow);
    if (offset == REFUSED)
        return offset;
    size_t place = 0;
    while (slow->chunks[place].offset != offset)
        place++;
    slow->allocations++;
    if (slow->chunks[place].bytes > slow->largest_allocation)
        slow->largest_allocation = slow->chunks[place].bytes;
    if (slow_in_use(slow) > slow->peak_in_use)
        slow->peak_in_use = slow_in_use(slow);
    return offset;
}

static void slow_free(struct slow *slow, uint64_t offset)
{
    size_t place = 0;
    while (slow->chunks[place].offset != offset)
        place++;
    slow->chunks[place].used = false;
    slow_merge(slow, place);
    if (place > 0)
        slow_merge(slow, place - 1);
}

/* ------------------------------------------------------------------------------ its figures */

struct figures {
    const struct slow *slow;
    uint64_t free_chunks;
    uint64_t free_bytes;
    uint64_t largest_free;
    uint64_t bins[BINS][5];
    int bin; /* the next row is of this one or a higher one */
    int told;
};

static struct figures figures_of(const struct slow *slow)
{
    struct figures figures = {.slow = slow};
    for (size_t i = 0; i < slow->chunk_count; i++) {
        const struct slow_chunk *chunk = &slow->chunks[i];
        uint64_t *bin = figures.bins[slow_bin(chunk->bytes)];
        bin[1]++;
        bin[3] += chunk->bytes;
        if (chunk->used) {
            bin[2]++;
            bin[4] += chunk->bytes;
            continue;
        }
        figures.free_chunks++;
        figures.free_bytes += chunk->bytes;
        if (chunk->bytes > figures.largest_free)
            figures.largest_free = chunk->bytes;
    }
    for (uint64_t bin = 0; bin < BINS; bin++)
        figures.bins[bin][0] = bin;
    return figures;
}

static void see_count(void *context, const char *name, uint64_t value)
{
    struct figures *figures = context;
    const struct slow *slow = figures->slow;
    const struct {
        const char *name;
        uint64_t value;
    } expected[] = {
        {"num_allocs", slow->allocations},        {"bytes_in_use", slow_in_use(slow)},
        {"peak_bytes_in_use", slow->peak_in_use}, {"largest_alloc_size", slow->largest_allocation},
        {"pool_bytes", slow_pool(slow)},          {"peak_pool_bytes", slow->peak_pool},
        {"free_chunks", figures->free_chunks},    {"largest_free_chunk", figures->largest_free},
    };
    size_t place = 0;
    while (strcmp(expected[place].name, name) != 0)
        assert_true(++place < sizeof(expected) / sizeof(expected[0]));
    assert_int_equal(value, expected[place].value);
    figures->told++;
}

static void see_number(void *context, const char *name, double value)
{
    struct figures *figures = context;
    assert_string_equal(name, "fragmentation");
    assert_true(figures->free_bytes > 0);
    double expected =
        (double)(figures->free_bytes - figures->largest_free) / (double)figures->free_bytes;
    assert_memory_equal(&value, &expected, sizeof(value));
    figures->told++;
}

static void see_none(void *context, const char *name)
{
    struct figures *figures = context;
    assert_string_equal(name, "fragmentation");
    assert_int_equal(figures->free_bytes, 0);
    figures->told++;
}

static void see_list(void *context, const char *name)
{
    (void)context;
    assert_string_equal(name, "bins");
}

static void see_row(void *context, const char *const *names, const uint64_t *values, size_t count)
{
    struct figures *figures = context;
    assert_null(names);
    assert_int_equal(count, 5);
    while (figures->bin < BINS && figures->bins[figures->bin][1] == 0)
        figures->bin++;
    assert_true(figures->bin < BINS);
    assert_memory_equal(values, figures->bins[figures->bin++], sizeof(figures->bins[0]));
}

static void see_end(void *context)
{
    struct figures *figures = context;
    for (; figures->bin < BINS; figures->bin++)
        assert_int_equal(figures->bins[figures->bin][1], 0);
}

static void compare_figures(const struct policy_world *world, const struct slow *slow)
{
    struct figures figures = figures_of(slow);
    const struct statistics_sink sink = {
        .context = &figures,
        .lists = true,
        .count = see_count,
        .number = see_number,
        .none = see_none,
        .list_begin = see_list,
        .row = see_row,
        .list_end = see_end,
    };
    world->operations->statistics(world->policy, &sink);
    assert_int_equal(figures.told, 9);
    assert_int_equal(world->operations->largest_free(world->policy), figures.largest_free);
    struct policy_measures measures;
    world->operations->measure(world->policy, &measures);
    assert_int_equal(measures.segments, slow->region_count);
    assert_int_equal(measures.retries, slow->collections);
}

/* ------------------------------------------------------------------------------ the comparison */

/* Waves up and down, so that regions empty themselves, and each with larger sizes. */
static void compare_step(struct policy_world *world, struct slow *slow,
                         struct policy_placement held[LIVE], size_t *count, int wave)
{
    uint64_t share = wave % 2 == 0 ? 70 : 3;
    uint64_t sizes = (uint64_t)wave + 6;
    if (*count < LIVE && policy_world_below(world, 100) < share) {
        uint64_t largest = UINT64_C(1024) << policy_world_below(world, sizes);
        if (*count == 0)
            largest = slow->limit; /* now and then more than an empty region has */
        uint64_t bytes = policy_world_below(world, largest) + 1;
        struct policy_request request = {.requested_bytes = bytes};
        struct policy_outcome outcome;
        uint64_t offset = slow_allocate(slow, bytes);
        int verdict = world->operations->place(world->policy, &request, &outcome);
        assert_int_equal(verdict, offset == REFUSED ? POLICY_FULL : POLICY_PLACED);
        assert_int_equal(outcome.blocks_scanned, slow->scanned);
        if (offset == REFUSED)
            return;
        assert_int_equal(outcome.placement.offset, offset);
        held[(*count)++] = outcome.placement;
    } else if (*count > 0) {
        size_t place = (size_t)policy_world_below(world, *count);
        struct policy_free how = {0};
        slow_free(slow, held[place].offset);
        world->operations->release(world->policy, &held[place], &how);
        held[place] = held[--*count];
    }
}

static void compare(const char *knobs, struct slow start)
{
    static struct slow slow;
    static struct policy_placement held[LIVE];
    uint64_t collections = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct policy_world world;
        size_t count = 0;
        slow = start;
        policy_world_open(&world, "bfc", knobs, slow.capacity, &no_rules);
        world.number = seed;
        for (int step = 0; step < STEPS; step++) {
            compare_step(&world, &slow, held, &count, step / 100);
            compare_figures(&world, &slow);
        }
        policy_world_close(&world);
        collections += slow.collections;
    }
    assert_int_equal(collections > 0, start.collects);
}

static void test_one_region_gives_the_slow_models_answers(void **state)
{
    (void)state;
    compare("device_granularity=256", (struct slow){.limit = 16 * MIB + 100,
                                                    .capacity = 16 * MIB + 100,
                                                    .granularity = 256,
                                                    .step = 16 * MIB + 256,
                                                    .split = 128 * MIB,
                                                    .coalesces = true});
}

static void test_growth_gives_the_slow_models_answers(void **state)
{
    (void)state;
    compare("allow_growth=true limit=40MiB fragmentation_fraction=0.001",
            (struct slow){.limit = 40 * MIB,
                          .capacity = 30 * MIB,
                          .granularity = 2 * MIB,
                          .step = 2 * MIB,
                          .split = 41943, /* a thousandth of 40 MiB, cut */
                          .coalesces = true});
}

static void test_collection_gives_the_slow_models_answers(void **state)
{
    (void)state;
    compare("allow_growth=true limit=24MiB garbage_collection=true device_granularity=256",
            (struct slow){.limit = 24 * MIB,
                          .capacity = 24 * MIB,
                          .granularity = 256,
                          .step = 2 * MIB,
                          .split = 128 * MIB,
                          .collects = true,
                          .coalesces = true});
}

static void test_collection_of_regions_apart_gives_the_slow_models_answers(void **state)
{
    (void)state;
    compare("allow_growth=true limit=24MiB garbage_collection=true device_granularity=3MiB "
            "device_coalesces=false",
            (struct slow){.limit = 24 * MIB,
                          .capacity = 23 * MIB,
                          .granularity = 3 * MIB,
                          .step = 2 * MIB,
                          .split = 128 * MIB,
                          .collects = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_region_gives_the_slow_models_answers),
        cmocka_unit_test(test_growth_gives_the_slow_models_answers),
        cmocka_unit_test(test_collection_gives_the_slow_models_answers),
        cmocka_unit_test(test_collection_of_regions_apart_gives_the_slow_models_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
