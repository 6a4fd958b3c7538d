/* The policy rmm_pool against a slow model that keeps its lists as arrays and walks them: every
 * offset, refusal, count of blocks looked at, and list, after each of thousands of random steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/statistics.h"
#include "tests/support/policy_world.h"

#define KIB UINT64_C(1024)
#define REFUSED UINT64_MAX

static const struct policy_rules no_rules = {0};

enum {
    STREAMS = 5,
    PIECES = 600,
    LIVE = 80,
    STEPS = 1500
};

struct piece {
    uint64_t offset;
    uint64_t bytes;
};

struct slow_list {
    uint64_t stream;
    bool there;
    size_t count;
    struct piece pieces[PIECES];
};

struct slow {
    struct slow_list lists[STREAMS]; /* in turn */
    size_t turns;
    uint64_t heads[PIECES]; /* where upstream blocks begin */
    size_t upstream;
    uint64_t pool;
    uint64_t maximum; /* 0: none */
    uint64_t capacity;
    uint64_t granularity;
    uint64_t device_end;
    uint64_t scanned;
};

static bool is_head(const struct slow *slow, uint64_t offset)
{
    for (size_t i = 0; i < slow->upstream; i++) {
        if (slow->heads[i] == offset)
            return true;
    }
    return false;
}

static void slow_cut(struct slow_list *list, size_t place)
{
    list->count--;
    memmove(&list->pieces[place], &list->pieces[place + 1],
            (list->count - place) * sizeof(list->pieces[0]));
}

static void slow_insert(const struct slow *slow, struct slow_list *list, struct piece piece)
{
    size_t place = 0;
    assert_true(list->count < PIECES);
    while (place < list->count && list->pieces[place].offset < piece.offset)
        place++;
    memmove(&list->pieces[place + 1], &list->pieces[place],
            (list->count - place) * sizeof(list->pieces[0]));
    list->pieces[place] = piece;
    list->count++;
    if (place + 1 < list->count && piece.offset + piece.bytes == list->pieces[place + 1].offset &&
        !is_head(slow, list->pieces[place + 1].offset)) {
        list->pieces[place].bytes += list->pieces[place + 1].bytes;
        slow_cut(list, place + 1);
    }
    if (place > 0 && !is_head(slow, piece.offset) &&
        list->pieces[place - 1].offset + list->pieces[place - 1].bytes == piece.offset) {
        list->pieces[place - 1].bytes += list->pieces[place].bytes;
        slow_cut(list, place);
    }
}

static struct slow_list *slow_list(struct slow *slow, uint64_t stream)
{
    size_t turn = 0;
    while (turn < slow->turns && slow->lists[turn].stream != stream)
        turn++;
    assert_true(turn < STREAMS);
    if (turn == slow->turns) {
        slow->lists[turn] = (struct slow_list){.stream = stream};
        slow->turns++;
    }
    slow->lists[turn].there = true;
    return &slow->lists[turn];
}

static uint64_t slow_take(const struct slow *slow, struct slow_list *list, size_t place,
                          uint64_t bytes)
{
    struct piece piece = list->pieces[place];
    slow_cut(list, place);
    if (piece.bytes > bytes)
        slow_insert(slow, list, (struct piece){piece.offset + bytes, piece.bytes - bytes});
    return piece.offset;
}

static uint64_t slow_best_fit(struct slow *slow, struct slow_list *list, uint64_t bytes)
{
    size_t best = list->count;
    slow->scanned += list->count;
    for (size_t i = 0; i < list->count; i++) {
        if (list->pieces[i].bytes >= bytes &&
            (best == list->count || list->pieces[i].bytes < list->pieces[best].bytes))
            best = i;
    }
    return best == list->count ? REFUSED : slow_take(slow, list, best, bytes);
}

static uint64_t slow_device(struct slow *slow, uint64_t bytes)
{
    uint64_t offset =
        (slow->device_end + slow->granularity - 1) / slow->granularity * slow->granularity;
    if (offset + bytes > slow->capacity)
        return REFUSED;
    slow->device_end = offset + bytes;
    slow->heads[slow->upstream++] = offset;
    slow->pool += bytes;
    return offset;
}

static uint64_t slow_grow(struct slow *slow, struct slow_list *own, uint64_t bytes)
{
    uint64_t wish = bytes > slow->pool ? bytes : slow->pool;
    if (slow->maximum > 0) {
        uint64_t left =
            slow->pool > slow->maximum ? 0 : (slow->maximum - slow->pool + 255) / 256 * 256;
        if (bytes > left)
            return REFUSED;
        wish = bytes > left / 2 ? bytes : left / 2;
    }
    uint64_t offset;
    while ((offset = slow_device(slow, wish)) == REFUSED) {
        if (wish == bytes)
            return REFUSED;
        wish = bytes > wish / 2 ? bytes : wish / 2;
    }
    if (wish > bytes)
        slow_insert(slow, own, (struct piece){offset + bytes, wish - bytes});
    return offset;
}

static uint64_t slow_allocate(struct slow *slow, uint64_t stream, uint64_t bytes)
{
    struct slow_list *own = slow_list(slow, stream);
    bytes = (bytes + 255) / 256 * 256;
    slow->scanned = 0;
    uint64_t offset = slow_best_fit(slow, own, bytes);
    for (size_t i = 0; offset == REFUSED && i < slow->turns; i++) {
        if (&slow->lists[i] != own && slow->lists[i].there)
            offset = slow_best_fit(slow, &slow->lists[i], bytes);
    }
    for (size_t i = 0; offset == REFUSED && i < slow->turns; i++) {
        struct slow_list *other = &slow->lists[i];
        if (other == own || !other->there)
            continue;
        for (size_t k = 0; k < other->count; k++)
            slow_insert(slow, own, other->pieces[k]);
        other->there = false;
        other->count = 0;
        offset = slow_best_fit(slow, own, bytes);
    }
    return offset == REFUSED ? slow_grow(slow, own, bytes) : offset;
}

/* Compares the rows of the statistics with the slow model's lists. */
struct rows {
    const struct slow *slow;
    size_t turn;
};

static void see_count(void *context, const char *name, uint64_t value)
{
    const struct rows *rows = context;
    if (strcmp(name, "pool_size") == 0)
        assert_int_equal(value, rows->slow->pool);
    else
        assert_int_equal(value, rows->slow->upstream);
}

static void see_list(void *context, const char *name)
{
    (void)context;
    assert_string_equal(name, "lists");
}

static void see_row(void *context, const char *const *names, const uint64_t *values, size_t count)
{
    struct rows *rows = context;
    const struct slow_list *list = &rows->slow->lists[rows->turn];
    while (!list->there)
        list = &rows->slow->lists[++rows->turn];
    assert_true(rows->turn < rows->slow->turns);
    rows->turn++;
    uint64_t largest = 0;
    uint64_t total = 0;
    for (size_t i = 0; i < list->count; i++) {
        total += list->pieces[i].bytes;
        largest = list->pieces[i].bytes > largest ? list->pieces[i].bytes : largest;
    }
    assert_int_equal(count, 4);
    assert_string_equal(names[0], "stream");
    assert_int_equal(values[0], list->stream);
    assert_int_equal(values[1], list->count);
    assert_int_equal(values[2], largest);
    assert_int_equal(values[3], total);
}

static void see_end(void *context)
{
    struct rows *rows = context;
    while (rows->turn < rows->slow->turns)
        assert_false(rows->slow->lists[rows->turn++].there);
}

static void compare_lists(const struct policy_world *world, const struct slow *slow)
{
    struct rows rows = {slow, 0};
    const struct statistics_sink sink = {
        .context = &rows,
        .lists = true,
        .count = see_count,
        .list_begin = see_list,
        .row = see_row,
        .list_end = see_end,
    };
    world->operations->statistics(world->policy, &sink);
}

struct held {
    struct policy_placement placement;
    uint64_t stream;
};

static void slow_step(struct policy_world *world, struct slow *slow, struct held held[LIVE],
                      size_t *count, uint64_t streams)
{
    bool allocates = *count < LIVE && policy_world_below(world, 100) < 55;
    uint64_t stream = policy_world_below(world, streams);
    if (allocates) {
        uint64_t largest = UINT64_C(256) << policy_world_below(world, 7);
        uint64_t bytes = policy_world_below(world, largest) + 1;
        struct policy_request request = {.requested_bytes = bytes, .stream = stream};
        struct policy_outcome outcome;
        uint64_t offset = slow_allocate(slow, stream, bytes);
        int verdict = world->operations->place(world->policy, &request, &outcome);
        assert_int_equal(outcome.blocks_scanned, slow->scanned);
        assert_int_equal(verdict, offset == REFUSED ? POLICY_FULL : POLICY_PLACED);
        if (offset == REFUSED)
            return;
        assert_int_equal(outcome.placement.offset, offset);
        held[(*count)++] = (struct held){outcome.placement, stream};
    } else if (*count > 0) {
        size_t place = (size_t)policy_world_below(world, *count);
        struct policy_free how = {.stream = held[place].stream};
        if (policy_world_below(world, 4) == 0)
            how.stream = stream;
        const struct policy_placement *placement = &held[place].placement;
        slow_insert(slow, slow_list(slow, how.stream),
                    (struct piece){placement->offset, placement->reserved_bytes});
        world->operations->release(world->policy, placement, &how);
        held[place] = held[--*count];
    }
}

static void run_slow(const char *knobs, struct slow *slow, uint64_t initial, uint64_t streams,
                     uint64_t seed)
{
    static struct held held[LIVE];
    size_t count = 0;
    struct policy_world world;
    policy_world_open(&world, "rmm_pool", knobs, slow->capacity, &no_rules);
    world.number = seed;
    if (initial > 0) {
        uint64_t offset = slow_device(slow, initial);
        slow_insert(slow, slow_list(slow, 0), (struct piece){offset, initial});
    }
    for (int step = 0; step < STEPS; step++) {
        slow_step(&world, slow, held, &count, streams);
        compare_lists(&world, slow);
    }
    policy_world_close(&world);
}

static void test_a_slow_model_gives_the_same_answers(void **state)
{
    (void)state;
    static struct slow slow;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        for (uint64_t streams = 1; streams <= STREAMS; streams += 2) {
            slow = (struct slow){.capacity = 256 * KIB, .granularity = 4096};
            run_slow("device_granularity=4096", &slow, 0, streams, seed);
            slow = (struct slow){.capacity = 100000, .granularity = 256, .maximum = 123456};
            run_slow("device_granularity=256 maximum_pool_size=123456", &slow, 0, streams, seed);
            slow = (struct slow){.capacity = 64 * KIB, .granularity = 256, .maximum = 64 * KIB};
            run_slow("initial_pool_size=64KiB maximum_pool_size=64KiB", &slow, 64 * KIB, streams,
                     seed);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slow_model_gives_the_same_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
