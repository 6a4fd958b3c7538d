/* A torch policy alone; see torch_world.h. */
#include "tests/support/torch_world.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/statistics.h"

const struct policy_rules torch_rules = {.alignment = 512, .beyond_capacity = true};

void torch_open(struct policy_world *world, const char *knobs, uint64_t capacity_bytes)
{
    policy_world_open(world, "torch", knobs, capacity_bytes, &torch_rules);
}

uint64_t torch_ask(struct policy_world *world, uint64_t bytes, uint64_t stream)
{
    struct policy_request request = {.requested_bytes = bytes, .stream = stream};
    if (policy_world_ask(world, &request, true) == POLICY_FULL)
        return UINT64_MAX;
    return world->live[world->live_count - 1].placement.offset;
}

void torch_record(struct policy_world *world, uint64_t offset, uint64_t stream)
{
    for (size_t i = 0; i < world->live_count; i++) {
        if (world->live[i].placement.offset != offset)
            continue;
        assert_int_equal(
            world->operations->record_stream(world->policy, &world->live[i].placement, stream), 0);
        policy_world_check(world);
        return;
    }
    fail_msg("nothing is live at %" PRIu64, offset);
}

void torch_done(struct policy_world *world, uint64_t stream, uint64_t count, bool newest)
{
    world->operations->event_done(world->policy, stream, count, newest);
    policy_world_check(world);
}

void torch_empty(struct policy_world *world)
{
    world->operations->empty_cache(world->policy);
    policy_world_check(world);
}

/* ------------------------------------------------------------------------------ figures */

/* What the statistics say, as far as a test asks. */
struct told {
    const char *wanted;
    bool found;
    uint64_t value;
    bool listing; /* within the wanted list */
    uint64_t unit;
    FILE *rows;
    const char *between;
};

static void tell_count(void *context, const char *name, uint64_t value)
{
    struct told *told = context;
    if (strcmp(name, told->wanted) == 0) {
        told->found = true;
        told->value = value;
    }
}

static void tell_values(void *context, const char *name, const uint64_t *values, size_t count)
{
    (void)context;
    (void)values;
    assert_string_equal(name, "free_blocks");
    assert_int_equal(count, 2);
}

static void tell_list(void *context, const char *name)
{
    struct told *told = context;
    told->listing = strcmp(name, told->wanted) == 0;
    told->found = told->found || told->listing;
}

static void tell_row(void *context, const char *const *names, const uint64_t *values, size_t count)
{
    struct told *told = context;
    assert_null(names);
    assert_int_equal(count, 3);
    if (!told->listing)
        return;
    fprintf(told->rows, "%s%" PRIu64 " %" PRIu64 " %" PRIu64, told->between, values[0],
            values[1] / told->unit, values[2] / told->unit);
    told->between = ", ";
}

static void end_list(void *context)
{
    ((struct told *)context)->listing = false;
}

static void ask_statistics(const struct policy_world *world, struct told *told, bool lists)
{
    struct statistics_sink sink = {
        .context = told,
        .lists = lists,
        .count = tell_count,
        .values = tell_values,
        .list_begin = tell_list,
        .row = tell_row,
        .list_end = end_list,
    };
    world->operations->statistics(world->policy, &sink);
    if (!told->found)
        fail_msg("there is no %s", told->wanted);
}

uint64_t torch_figure(const struct policy_world *world, const char *name)
{
    struct told told = {.wanted = name};
    ask_statistics(world, &told, false);
    return told.value;
}

void torch_assert_pool(const struct policy_world *world, const char *pool, uint64_t unit,
                       const char *expected)
{
    char *text = NULL;
    size_t length;
    struct told told = {.wanted = pool, .unit = unit, .between = ""};
    told.rows = open_memstream(&text, &length);
    assert_non_null(told.rows);
    ask_statistics(world, &told, true);
    assert_int_equal(fclose(told.rows), 0);
    assert_string_equal(text, expected);
    free(text);
}
