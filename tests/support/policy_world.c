/* One policy under the eyes of a slow and simple witness; see policy_world.h. The workloads are in
 * policy_workloads.c. */
#include "tests/support/policy_world.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "lib/statistics.h"

/* ------------------------------------------------------------------------------ life */

static void be_told(void *context, enum device_event event, uint64_t offset, uint64_t bytes)
{
    (void)offset;
    struct policy_world *world = context;
    world->told[event]++;
    if (event == DEVICE_REGION || event == DEVICE_MAP)
        world->told_bytes += bytes;
    if (event == DEVICE_REGION_FREE || event == DEVICE_UNMAP)
        world->told_bytes -= bytes;
}

int policy_world_try_open(struct policy_world *world, const char *name, const char *knobs,
                          uint64_t capacity_bytes, const struct policy_rules *rules,
                          uint64_t fail_at, bool for_good)
{
    memset(world, 0, sizeof(*world));
    chaos_init(&world->chaos);
    chaos_arm(&world->chaos, fail_at, for_good);
    world->operations = policy_find(name);
    if (!world->operations)
        fail_msg("there is no policy %s", name);
    if (rules)
        world->rules = *rules;
    world->look_closely = true;
    worsegpu_config_default(&world->config);
    world->config.policy = name;
    world->config.gpu_capacity = capacity_bytes;
    world->largest_capacity_bytes = capacity_bytes;
    assert_int_equal(python_random_seed(&world->random, "0", memory_system()), WORSEGPU_OK);
    char problem[KNOBS_PROBLEM_SIZE];
    if (!knobs_read(world->operations, &world->config, knobs, world->knobs, problem))
        fail_msg("%s", problem);
    world->watch = (struct device_watch){world, be_told};
    struct policy_setup setup = {
        .config = &world->config,
        .knobs = world->knobs,
        .random = &world->random,
        .hash = {{UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)}},
        .memory = &world->chaos.memory,
        .watch = &world->watch,
    };
    int status = world->operations->create(&setup, &world->policy);
    if (status != WORSEGPU_OK) {
        world->policy = NULL;
        assert_int_equal(status, WORSEGPU_NO_MEMORY);
        assert_true(world->chaos.failed);
    }
    return status;
}

void policy_world_open(struct policy_world *world, const char *name, const char *knobs,
                       uint64_t capacity_bytes, const struct policy_rules *rules)
{
    assert_int_equal(policy_world_try_open(world, name, knobs, capacity_bytes, rules, 0, false),
                     WORSEGPU_OK);
}

void policy_world_close(struct policy_world *world)
{
    if (world->policy)
        world->operations->destroy(world->policy);
    world->policy = NULL;
    assert_int_equal(world->chaos.live_pieces, 0);
    assert_int_equal(world->chaos.live_bytes, 0);
    memory_release_array(memory_system(), world->live, world->live_capacity, sizeof(*world->live));
    memory_release_array(memory_system(), world->forgotten, world->forgotten_capacity,
                         sizeof(*world->forgotten));
    world->live = NULL;
    world->forgotten = NULL;
}

/* ------------------------------------------------------------------------------ one step */

/* Its memory, from where on. */
static uint64_t begin_of(const struct policy_world *world, const struct policy_placement *placement)
{
    return placement->offset - world->rules.header_bytes;
}

static void assert_apart(const struct policy_world *world, const struct policy_placement *left,
                         const struct world_allocation *others, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct policy_placement *right = &others[i].placement;
        if (begin_of(world, left) < begin_of(world, right) + right->reserved_bytes &&
            begin_of(world, right) < begin_of(world, left) + left->reserved_bytes)
            fail_msg("%s: %" PRIu64 " bytes at %" PRIu64 " lie over %" PRIu64 " at %" PRIu64,
                     world->operations->name, left->reserved_bytes, left->offset,
                     right->reserved_bytes, right->offset);
    }
}

static void assert_good_place(const struct policy_world *world,
                              const struct policy_request *request,
                              const struct policy_placement *placement)
{
    assert_true(placement->reserved_bytes >= request->requested_bytes);
    if (world->rules.no_places)
        return;
    assert_true(placement->offset >= world->rules.header_bytes);
    if (request->alignment)
        assert_int_equal(placement->offset % request->alignment, 0);
    if (world->rules.alignment)
        assert_int_equal(placement->offset % world->rules.alignment, 0);
    if (!world->rules.beyond_capacity)
        assert_true(begin_of(world, placement) <= world->largest_capacity_bytes &&
                    placement->reserved_bytes <=
                        world->largest_capacity_bytes - begin_of(world, placement));
    assert_apart(world, placement, world->live, world->live_count);
    assert_apart(world, placement, world->forgotten, (size_t)world->forgotten_blocks);
}

/* Who is asked whether a request is admitted. */
struct doorkeeper {
    bool answer;
    uint64_t asked;
    uint64_t reserved_bytes;
};

static bool admit(void *context, enum worsegpu_device device, uint64_t reserved_bytes)
{
    struct doorkeeper *doorkeeper = context;
    assert_int_equal(device, WORSEGPU_GPU);
    doorkeeper->asked++;
    doorkeeper->reserved_bytes = reserved_bytes;
    return doorkeeper->answer;
}

static void keep(struct world_allocation **array, size_t *capacity, size_t count,
                 const struct world_allocation *allocation)
{
    assert_int_equal(memory_grow(memory_system(), array, capacity, count + 1, sizeof(*allocation)),
                     0);
    (*array)[count] = *allocation;
}

static struct policy_measures measured(const struct policy_world *world)
{
    struct policy_measures measures;
    memset(&measures, 0xff, sizeof(measures));
    world->operations->measure(world->policy, &measures);
    return measures;
}

void policy_world_keep(struct policy_world *world, const struct policy_placement *placement,
                       const struct policy_request *request)
{
    assert_good_place(world, request, placement);
    struct world_allocation allocation = {*placement, request->requested_bytes, request->stream};
    keep(&world->live, &world->live_capacity, world->live_count, &allocation);
    world->live_count++;
    world->used_bytes += placement->reserved_bytes;
    world->placed++;
}

int policy_world_ask(struct policy_world *world, const struct policy_request *request,
                     bool admitted)
{
    struct doorkeeper doorkeeper = {.answer = admitted};
    struct policy_request asked = *request;
    asked.admit = admit;
    asked.admit_context = &doorkeeper;
    struct policy_outcome outcome;
    memset(&outcome, 0xff, sizeof(outcome));
    struct policy_measures before = measured(world);
    int verdict = world->operations->place(world->policy, &asked, &outcome);
    switch (verdict) {
    case POLICY_PLACED:
        assert_true(admitted);
        assert_int_equal(doorkeeper.asked, 1);
        assert_int_equal(doorkeeper.reserved_bytes, outcome.placement.reserved_bytes);
        policy_world_keep(world, &outcome.placement, request);
        break;
    case POLICY_NOT_ADMITTED:
        assert_false(admitted);
        assert_int_equal(doorkeeper.asked, 1);
        assert_true(measured(world).reserved_bytes <= before.reserved_bytes);
        break;
    case WORSEGPU_NO_MEMORY:
        assert_true(world->chaos.failed);
        assert_int_equal(doorkeeper.asked, 0);
        break;
    default:
        assert_true(verdict == POLICY_FULL || verdict == POLICY_HOST);
        assert_int_equal(doorkeeper.asked, 0);
        world->refused++;
    }
    if (world->look_closely)
        policy_world_check(world);
    return verdict;
}

int policy_world_allocate(struct policy_world *world, uint64_t requested_bytes)
{
    struct policy_request request = {.requested_bytes = requested_bytes};
    return policy_world_ask(world, &request, true);
}

uint64_t policy_world_offset(struct policy_world *world, uint64_t requested_bytes)
{
    assert_int_equal(policy_world_allocate(world, requested_bytes), POLICY_PLACED);
    return world->live[world->live_count - 1].placement.offset;
}

void policy_world_free_on(struct policy_world *world, size_t place, uint64_t stream, bool forget)
{
    struct world_allocation ending = world->live[place];
    struct policy_free how = {.stream = stream, .forget = forget};
    bool reusable = world->operations->release(world->policy, &ending.placement, &how);
    assert_true(!forget || !reusable);
    world->live[place] = world->live[--world->live_count];
    world->used_bytes -= ending.placement.reserved_bytes;
    if (!reusable) {
        keep(&world->forgotten, &world->forgotten_capacity, (size_t)world->forgotten_blocks,
             &ending);
        world->forgotten_blocks++;
        world->forgotten_bytes += ending.placement.reserved_bytes;
    }
    if (world->look_closely)
        policy_world_check(world);
}

void policy_world_free(struct policy_world *world, size_t place)
{
    policy_world_free_on(world, place, world->live[place].stream, false);
}

void policy_world_forget(struct policy_world *world, size_t place)
{
    policy_world_free_on(world, place, world->live[place].stream, true);
}

void policy_world_free_offset(struct policy_world *world, uint64_t offset)
{
    for (size_t i = 0; i < world->live_count; i++) {
        if (world->live[i].placement.offset == offset) {
            policy_world_free(world, i);
            return;
        }
    }
    fail_msg("nothing is live at %" PRIu64, offset);
}

void policy_world_resize(struct policy_world *world, uint64_t capacity_bytes)
{
    world->config.gpu_capacity = capacity_bytes;
    if (capacity_bytes > world->largest_capacity_bytes)
        world->largest_capacity_bytes = capacity_bytes;
}

/* ------------------------------------------------------------------------------ looking */

static void each_live(const struct policy_live *live, policy_visit visit, void *context)
{
    const struct policy_world *world = live->context;
    for (size_t i = 0; i < world->live_count; i++)
        visit(context, &world->live[i].placement);
}

struct policy_live policy_world_live(const struct policy_world *world)
{
    return (struct policy_live){
        .each = each_live,
        .context = world,
        .largest_capacity_bytes = world->largest_capacity_bytes,
    };
}

static void check_measures(const struct policy_world *world, const struct policy_measures *measures)
{
    assert_int_equal(measures->used_bytes, world->used_bytes);
    assert_int_equal(measures->forgotten_bytes, world->forgotten_bytes);
    assert_int_equal(measures->free_bytes,
                     measures->reserved_bytes - measures->used_bytes - measures->forgotten_bytes);
    assert_true(measures->free_bytes <= measures->reserved_bytes);
    assert_true(measures->pending_bytes <= measures->free_bytes);
    assert_true(measures->reserved_bytes <= world->largest_capacity_bytes);
    if (world->told[DEVICE_REGION] + world->told[DEVICE_MAP] > 0) {
        assert_int_equal(measures->reserved_bytes, world->told_bytes);
        assert_int_equal(measures->device_calls,
                         world->told[DEVICE_REGION] + world->told[DEVICE_REGION_FREE] +
                             world->told[DEVICE_MAP] + world->told[DEVICE_UNMAP]);
    }
    if (world->rules.no_places)
        return;
    assert_int_equal(measures->forgotten_blocks, world->forgotten_blocks);
    assert_true(measures->blocks >= world->live_count + world->forgotten_blocks);
}

/* What each_block shows. */
struct picture {
    uint64_t end; /* of the last block */
    uint64_t bytes[POLICY_BLOCK_FORGOTTEN + 1];
    uint64_t count[POLICY_BLOCK_FORGOTTEN + 1];
};

static void look_at_block(void *context, const struct policy_block *block)
{
    struct picture *picture = context;
    assert_true(block->bytes > 0);
    assert_true(block->offset >= picture->end);
    assert_true(block->segment <= block->offset);
    picture->end = block->offset + block->bytes;
    picture->bytes[block->state] += block->bytes;
    picture->count[block->state]++;
}

void policy_world_check(struct policy_world *world)
{
    /* Looking needs memory too, which is no part of what is tried. */
    struct chaos armed = world->chaos;
    world->chaos.fail_at = 0;
    struct policy_measures measures = measured(world);
    check_measures(world, &measures);
    if (world->operations->largest_free)
        assert_true(world->operations->largest_free(world->policy) <= measures.free_bytes);
    if (world->operations->each_block) {
        struct picture picture = {0};
        world->operations->each_block(world->policy, look_at_block, &picture);
        assert_int_equal(picture.bytes[POLICY_BLOCK_USED], world->used_bytes);
        if (!world->rules.no_places)
            assert_int_equal(picture.count[POLICY_BLOCK_USED], world->live_count);
        assert_int_equal(picture.bytes[POLICY_BLOCK_FORGOTTEN], world->forgotten_bytes);
        assert_int_equal(picture.bytes[POLICY_BLOCK_PENDING], measures.pending_bytes);
    }
    struct audit audit = {0};
    struct policy_live live = policy_world_live(world);
    assert_int_equal(world->operations->check(world->policy, &live, &audit), WORSEGPU_OK);
    if (audit.broken)
        fail_msg("%s: %s does not hold", world->operations->name, audit.broken);
    world->chaos.fail_at = armed.fail_at;
    world->chaos.requests = armed.requests;
}

/* ------------------------------------------------------------------------------ statistics */

static void tell_count(void *context, const char *name, uint64_t value)
{
    fprintf(context, "%s %" PRIu64 "\n", name, value);
}

static void tell_number(void *context, const char *name, double value)
{
    fprintf(context, "%s %.17g\n", name, value);
}

static void tell_none(void *context, const char *name)
{
    fprintf(context, "%s none\n", name);
}

static void tell_values(void *context, const char *name, const uint64_t *values, size_t count)
{
    fprintf(context, "%s", name);
    for (size_t i = 0; i < count; i++)
        fprintf(context, " %" PRIu64, values[i]);
    fprintf(context, "\n");
}

static void tell_list(void *context, const char *name)
{
    fprintf(context, "%s:\n", name);
}

static void tell_row(void *context, const char *const *names, const uint64_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fprintf(context, "%s%s%s%" PRIu64, i == 0 ? "  " : " ", names ? names[i] : "",
                names ? "=" : "", values[i]);
    fprintf(context, "\n");
}

static void end_list(void *context)
{
    (void)context;
}

static void write_statistics(const struct policy_world *world, FILE *out)
{
    struct statistics_sink sink = {
        .context = out,
        .lists = true,
        .count = tell_count,
        .number = tell_number,
        .none = tell_none,
        .values = tell_values,
        .list_begin = tell_list,
        .row = tell_row,
        .list_end = end_list,
    };
    if (world->operations->statistics)
        world->operations->statistics(world->policy, &sink);
}

static void write_block(void *context, const struct policy_block *block)
{
    fprintf(context, "block %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %d\n", block->offset,
            block->bytes, block->stream, block->segment, (int)block->state);
}

char *policy_world_statistics(const struct policy_world *world)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    write_statistics(world, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

char *policy_world_picture(struct policy_world *world)
{
    struct chaos armed = world->chaos;
    world->chaos.fail_at = 0;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    struct policy_measures measures = measured(world);
    fprintf(out,
            "measures %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
            " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
            measures.reserved_bytes, measures.used_bytes, measures.free_bytes,
            measures.forgotten_bytes, measures.pending_bytes, measures.blocks,
            measures.forgotten_blocks, measures.segments, measures.device_calls, measures.retries);
    write_statistics(world, out);
    if (world->operations->each_block)
        world->operations->each_block(world->policy, write_block, out);
    assert_int_equal(fclose(out), 0);
    world->chaos.fail_at = armed.fail_at;
    world->chaos.requests = armed.requests;
    return text;
}
