/* What the audits of the policies say of each wrong number: every field of every record that a
 * policy keeps is changed in a few ways, one at a time, and the invariant that is named for it must
 * be the one in tests/figures/audit-figures.txt. So no comparison of an audit can be left out or
 * turned round unseen. An audit that was changed on purpose gets new figures: run this program with
 * WORSEGPU_NEW_FIGURES=FILE, and read the difference before it is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/allocator_internal.h"
#include "lib/policies/bfc.h"
#include "lib/policies/buddy.h"
#include "lib/policies/driver.h"
#include "lib/policies/list_fit.h"
#include "lib/policies/offset.h"
#include "lib/policies/rmm_pool.h"
#include "lib/policies/tlsf.h"
#include "lib/policies/torch_internal.h"
#include "lib/policies/vma.h"
#include "lib/policies/worse.h"
#include "tests/support/engine.h"
#include "tests/support/kept_figures.h"
#include "tests/support/policy_world.h"

enum {
    MOST_NAMES = 40,
    CHANGES = 5
};

struct field {
    const char *name;
    size_t offset;
    size_t size;
};

/* Equal records in a row. */
struct records {
    const char *name;
    void *first;
    size_t count;
    size_t stride;
    const struct field *fields;
    size_t field_count;
};

#define FIELD(type, member)                                                                        \
    {                                                                                              \
#member, offsetof(struct type, member), sizeof(((struct type *)NULL)->member)              \
    }
#define FIELDS(list) (list), sizeof(list) / sizeof((list)[0])

static const struct field block_fields[] = {
    FIELD(block, offset),   FIELD(block, bytes), FIELD(block, requested_bytes),
    FIELD(block, own),      FIELD(block, below), FIELD(block, above),
    FIELD(block, segment),  FIELD(block, group), FIELD(block, list),
    FIELD(block, previous), FIELD(block, next),  FIELD(block, state),
    FIELD(block, flags),
};
static const struct field node_fields[] = {
    FIELD(block_node, major), FIELD(block_node, minor),  FIELD(block_node, left),
    FIELD(block_node, right), FIELD(block_node, weight), FIELD(block_node, greatest),
    FIELD(block_node, count), FIELD(block_node, level),  FIELD(block_node, parent),
};
static const struct field blocks_fields[] = {
    FIELD(blocks, length),
    FIELD(blocks, spares),
    FIELD(blocks, first_spare),
    FIELD(blocks, high_water),
    FIELD(blocks, bytes[BLOCK_FREE]),
    FIELD(blocks, bytes[BLOCK_USED]),
    FIELD(blocks, bytes[BLOCK_PENDING]),
    FIELD(blocks, bytes[BLOCK_FORGOTTEN]),
    FIELD(blocks, bytes[BLOCK_UNMAPPED]),
    FIELD(blocks, count[BLOCK_FREE]),
    FIELD(blocks, count[BLOCK_USED]),
    FIELD(blocks, count[BLOCK_PENDING]),
    FIELD(blocks, count[BLOCK_FORGOTTEN]),
    FIELD(blocks, count[BLOCK_UNMAPPED]),
};
static const struct field device_fields[] = {
    FIELD(device, taken_bytes), FIELD(device, peak_bytes), FIELD(device, taken_calls),
    FIELD(device, given_calls), FIELD(device, end),        FIELD(device, by_offset.root),
};
static const struct field number_fields[] = {{"value", 0, sizeof(uint64_t)}};
static const struct field half_fields[] = {{"value", 0, sizeof(uint32_t)}};

/* ------------------------------------------------------------------------------ breaking */

struct figures {
    FILE *file;
    struct policy_world *world;
    worsegpu_allocator *allocator; /* audited in its place, where it is not NULL */
    const char *names[MOST_NAMES]; /* the invariants named for the field at hand, and how often */
    uint64_t times[MOST_NAMES];
    size_t length;
    uint64_t unseen;
    uint64_t checks;
};

static void count_verdict(struct figures *figures)
{
    struct audit audit = {0};
    if (figures->allocator) {
        int status = worsegpu_validate(figures->allocator, &audit.checks, &audit.broken);
        assert_int_equal(status, audit.broken ? WORSEGPU_INVARIANT_VIOLATION : WORSEGPU_OK);
    } else {
        struct policy_live live = policy_world_live(figures->world);
        const struct policy_operations *operations = figures->world->operations;
        assert_int_equal(operations->check(figures->world->policy, &live, &audit), WORSEGPU_OK);
    }
    figures->checks += audit.checks;
    if (!audit.broken) {
        figures->unseen++;
        return;
    }
    size_t at = 0;
    while (at < figures->length && strcmp(figures->names[at], audit.broken) != 0)
        at++;
    assert_true(at < MOST_NAMES);
    if (at == figures->length) {
        figures->names[at] = audit.broken;
        figures->times[at] = 0;
        figures->length++;
    }
    figures->times[at]++;
}

static uint64_t read_field(const void *place, size_t size)
{
    uint64_t value = 0; /* the low bytes come first on all machines that we build for */
    memcpy(&value, place, size);
    return value;
}

static void break_field(struct figures *figures, const struct records *records,
                        const struct field *field)
{
    figures->length = 0;
    figures->unseen = 0;
    figures->checks = 0;
    for (size_t i = 0; i < records->count; i++) {
        char *place = (char *)records->first + i * records->stride + field->offset;
        uint64_t before = read_field(place, field->size);
        const uint64_t changes[CHANGES] = {before + 1, before - 1, 0, UINT32_MAX, before + 4096};
        for (size_t k = 0; k < CHANGES; k++) {
            memcpy(place, &changes[k], field->size);
            if (read_field(place, field->size) != before)
                count_verdict(figures);
            memcpy(place, &before, field->size);
        }
    }
    fprintf(figures->file, "  %s.%s:", records->name, field->name);
    for (size_t i = 0; i < figures->length; i++)
        fprintf(figures->file, " %s %" PRIu64 ",", figures->names[i], figures->times[i]);
    fprintf(figures->file, " unseen %" PRIu64 "; %" PRIu64 " checks\n", figures->unseen,
            figures->checks);
}

static void break_records(struct figures *figures, const struct records *records)
{
    for (size_t i = 0; i < records->field_count; i++)
        break_field(figures, records, &records->fields[i]);
}

static void break_blocks(struct figures *figures, const char *name, struct blocks *blocks)
{
    char sums[64];
    break_records(figures, &(struct records){name, blocks->items, blocks->length,
                                             sizeof(*blocks->items), FIELDS(block_fields)});
    snprintf(sums, sizeof(sums), "%s sums", name);
    /* A length that is wrong upwards would read what is not there. */
    size_t length = blocks->length;
    struct records records = {sums, blocks, 1, sizeof(*blocks), FIELDS(blocks_fields)};
    records.fields++;
    records.field_count--;
    break_records(figures, &records);
    assert_true(blocks->length == length);
}

/* As many nodes as there are blocks that may be in the set. */
static void break_nodes(struct figures *figures, const char *name, struct block_nodes *nodes,
                        size_t length)
{
    size_t count = length < nodes->capacity ? length : nodes->capacity;
    break_records(figures, &(struct records){name, nodes->items, count, sizeof(*nodes->items),
                                             FIELDS(node_fields)});
}

static void break_device(struct figures *figures, struct device *device)
{
    break_records(figures,
                  &(struct records){"device", device, 1, sizeof(*device), FIELDS(device_fields)});
    break_blocks(figures, "ranges", &device->ranges);
    break_nodes(figures, "ranges nodes", &device->nodes, device->ranges.length);
}

static void break_number(struct figures *figures, const char *name, uint64_t *number)
{
    break_records(figures,
                  &(struct records){name, number, 1, sizeof(*number), FIELDS(number_fields)});
}

static void break_half(struct figures *figures, const char *name, uint32_t *number)
{
    break_records(figures,
                  &(struct records){name, number, 1, sizeof(*number), FIELDS(half_fields)});
}

static void break_lists(struct figures *figures, struct class_lists *lists)
{
    break_number(figures, "lists groups", &lists->groups);
    break_records(figures, &(struct records){"lists words", lists->words, CLASS_LISTS_MAX / 64,
                                             sizeof(lists->words[0]), FIELDS(number_fields)});
    break_records(figures, &(struct records){"lists heads", lists->heads, CLASS_LISTS_MAX,
                                             sizeof(lists->heads[0]), FIELDS(half_fields)});
}

/* ------------------------------------------------------------------------------ each policy */

static void break_bfc(struct figures *figures)
{
    struct bfc *bfc = (struct bfc *)figures->world->policy;
    static const struct field bin_fields[] = {
        FIELD(bfc_bin, free.root),
        FIELD(bfc_bin, free_bytes),
        FIELD(bfc_bin, used_chunks),
        FIELD(bfc_bin, used_bytes),
    };
    break_blocks(figures, "chunks", &bfc->chunks);
    break_nodes(figures, "chunk nodes", &bfc->chunk_nodes, bfc->chunks.length);
    break_records(figures, &(struct records){"bins", bfc->bins, BFC_BINS, sizeof(bfc->bins[0]),
                                             FIELDS(bin_fields)});
    break_half(figures, "bins_with_free", &bfc->bins_with_free);
    break_blocks(figures, "regions", &bfc->regions);
    break_nodes(figures, "region nodes", &bfc->region_nodes, bfc->regions.length);
    break_half(figures, "regions_by_offset", &bfc->regions_by_offset.root);
    break_number(figures, "empty_bytes", &bfc->empty_bytes);
    break_number(figures, "limit_bytes", &bfc->limit_bytes);
    break_number(figures, "pool_bytes", &bfc->pool_bytes);
    break_device(figures, &bfc->device);
}

static void break_buddy(struct figures *figures)
{
    struct buddy_policy *buddy = (struct buddy_policy *)figures->world->policy;
    break_blocks(figures, "blocks", &buddy->blocks);
    break_lists(figures, &buddy->orders);
    break_number(figures, "bytes", &buddy->bytes);
    break_half(figures, "last", &buddy->last);
}

static void break_rmm_pool(struct figures *figures)
{
    struct rmm_pool *pool = (struct rmm_pool *)figures->world->policy;
    static const struct field list_fields[] = {
        FIELD(rmm_list, order.root),
        FIELD(rmm_list, bytes),
    };
    static const struct field reach_fields[] = {
        FIELD(rmm_reach, greatest),
        FIELD(rmm_reach, blocks),
    };
    break_blocks(figures, "blocks", &pool->blocks);
    break_nodes(figures, "nodes", &pool->nodes, pool->blocks.length);
    break_number(figures, "pool_bytes", &pool->pool_bytes);
    break_records(figures, &(struct records){"lists", pool->streams.lists, pool->streams.length,
                                             sizeof(pool->streams.lists[0]), FIELDS(list_fields)});
    break_records(figures,
                  &(struct records){"tree", pool->streams.tree, 2 * (size_t)pool->streams.leaves,
                                    sizeof(pool->streams.tree[0]), FIELDS(reach_fields)});
    break_nodes(figures, "stream nodes", &pool->streams.nodes, pool->streams.length);
    break_half(figures, "by_stream", &pool->streams.by_stream.root);
    break_device(figures, &pool->device);
}

static void break_driver(struct figures *figures)
{
    struct driver_policy *driver = (struct driver_policy *)figures->world->policy;
    break_blocks(figures, "blocks", &driver->blocks);
    break_nodes(figures, "nodes", &driver->nodes, driver->blocks.length);
    break_half(figures, "free_parts", &driver->free_parts.root);
    break_number(figures, "shared_granules", &driver->shared_granules);
    break_device(figures, &driver->device);
}

static void break_range(struct figures *figures, struct class_range *range)
{
    break_blocks(figures, "blocks", &range->blocks);
    break_nodes(figures, "nodes", &range->nodes, range->ordered ? range->blocks.length : 0);
    break_lists(figures, &range->lists);
    break_half(figures, "by_offset", &range->by_offset.root);
    break_number(figures, "bytes", &range->bytes);
    break_half(figures, "last", &range->last);
    break_half(figures, "tail", &range->tail);
}

static void break_tlsf(struct figures *figures)
{
    break_range(figures, &((struct tlsf_policy *)figures->world->policy)->range);
}

static void break_offset(struct figures *figures)
{
    struct offset_policy *offset = (struct offset_policy *)figures->world->policy;
    break_range(figures, &offset->range);
}

static void break_vma_tlsf(struct figures *figures)
{
    break_range(figures, &((struct vma_policy *)figures->world->policy)->range);
}

static void break_vma_linear(struct figures *figures)
{
    struct vma_policy *vma = (struct vma_policy *)figures->world->policy;
    break_blocks(figures, "blocks", &vma->range.blocks);
    break_half(figures, "last", &vma->range.last);
    break_number(figures, "live", &vma->ends.live);
    for (size_t i = 0; i < 2; i++) {
        break_number(figures, "front", &vma->ends.lists[i].front);
        break_records(figures, &(struct records){
                                   "entries", vma->ends.lists[i].items, vma->ends.lists[i].capacity,
                                   sizeof(*vma->ends.lists[i].items), FIELDS(half_fields)});
    }
}

static void break_list_fit(struct figures *figures)
{
    struct list_fit_policy *list_fit = (struct list_fit_policy *)figures->world->policy;
    break_blocks(figures, "blocks", &list_fit->blocks);
    break_nodes(figures, "nodes", &list_fit->nodes, list_fit->blocks.length);
    break_half(figures, "last", &list_fit->last);
    break_half(figures, "unlisted", &list_fit->unlisted);
    break_half(figures, "tree", &list_fit->tree.root);
    break_half(figures, "head", &list_fit->head);
    break_half(figures, "tail", &list_fit->tail);
    break_half(figures, "rover", &list_fit->rover);
}

static void break_torch(struct figures *figures)
{
    struct torch *torch = (struct torch *)figures->world->policy;
    static const struct field stream_fields[] = {
        FIELD(torch_stream, number),
        FIELD(torch_stream, uses),
        FIELD(torch_stream, free[TORCH_SMALL].root),
        FIELD(torch_stream, free[TORCH_LARGE].root),
        FIELD(torch_stream, unmapped[TORCH_SMALL].root),
        FIELD(torch_stream, unmapped[TORCH_LARGE].root),
        FIELD(torch_stream, first_event),
        FIELD(torch_stream, last_event),
        FIELD(torch_stream, waiting),
        FIELD(torch_stream, next),
        FIELD(torch_stream, ready),
    };
    static const struct field use_fields[] = {
        FIELD(torch_use, block), FIELD(torch_use, stream), FIELD(torch_use, previous),
        FIELD(torch_use, next),  FIELD(torch_use, done),
    };
    static const struct field torch_fields[] = {
        FIELD(torch, segments_by_offset.root),
        FIELD(torch, regions),
        FIELD(torch, greatest_expandable),
        FIELD(torch, spare_stream),
        FIELD(torch, recent_stream),
        FIELD(torch, ready_stream),
        FIELD(torch, streams_by_number.root),
        FIELD(torch, spare_use),
        FIELD(torch, recorded.root),
        FIELD(torch, pending_events),
        FIELD(torch, free_blocks[TORCH_SMALL]),
        FIELD(torch, free_blocks[TORCH_LARGE]),
        FIELD(torch, reserved_bytes[TORCH_SMALL]),
        FIELD(torch, reserved_bytes[TORCH_LARGE]),
        FIELD(torch, inactive_split),
        FIELD(torch, inactive_split_bytes),
        FIELD(torch, requested_bytes),
        FIELD(torch, allocated_peak),
        FIELD(torch, active_peak),
        FIELD(torch, oversize_allocations),
        FIELD(torch, oversize_segments),
    };
    break_blocks(figures, "blocks", &torch->blocks);
    break_nodes(figures, "nodes", &torch->nodes, torch->blocks.length);
    break_blocks(figures, "segments", &torch->segments);
    break_nodes(figures, "segment nodes", &torch->segment_nodes, torch->segments.length);
    break_records(figures, &(struct records){"streams", torch->streams, torch->streams_length,
                                             sizeof(*torch->streams), FIELDS(stream_fields)});
    break_nodes(figures, "stream nodes", &torch->stream_nodes, torch->streams_length);
    break_records(figures, &(struct records){"uses", torch->uses, torch->uses_length,
                                             sizeof(*torch->uses), FIELDS(use_fields)});
    break_nodes(figures, "use nodes", &torch->use_nodes, torch->uses_length);
    break_records(figures,
                  &(struct records){"torch", torch, 1, sizeof(*torch), FIELDS(torch_fields)});
    break_device(figures, &torch->device);
}

static void break_worse(struct figures *figures)
{
    struct worse_policy *worse = (struct worse_policy *)figures->world->policy;
    break_records(figures, &(struct records){"states", worse->states, worse->blocks,
                                             sizeof(*worse->states), FIELDS(number_fields)});
    break_records(figures, &(struct records){"offsets", worse->offsets, worse->blocks,
                                             sizeof(*worse->offsets), FIELDS(number_fields)});
    break_number(figures, "reserved_bytes", &worse->reserved_bytes);
    break_number(figures, "used_bytes", &worse->used_bytes);
    break_number(figures, "free_bytes", &worse->free_bytes);
    break_number(figures, "forgotten_bytes", &worse->forgotten_bytes);
    break_number(figures, "forgotten_blocks", &worse->forgotten_blocks);
    break_number(figures, "largest_free_bytes", &worse->largest_free_bytes);
}

static const struct audited {
    const char *policy;
    const char *knobs;
    uint64_t capacity_bytes;
    uint64_t streams;
    struct policy_rules rules;
    void (*break_all)(struct figures *figures);
} audited[] = {
    {"bfc",
     "allow_growth=true garbage_collection=true",
     UINT64_C(64) << 20,
     1,
     {.alignment = 256},
     break_bfc},
    {"bfc", "", UINT64_C(4) << 20, 1, {.alignment = 256}, break_bfc},
    {"buddy", "minimum_block=256", 100000, 1, {0}, break_buddy},
    {"rmm_pool",
     "initial_pool_size=64KiB",
     UINT64_C(1) << 20,
     3,
     {.alignment = 256},
     break_rmm_pool},
    {"driver",
     "",
     UINT64_C(64) << 20,
     1,
     {.alignment = 256, .beyond_capacity = true},
     break_driver},
    {"tlsf", "", 100000, 1, {.alignment = 8, .header_bytes = 8}, break_tlsf},
    {"offset", "", 100000, 1, {0}, break_offset},
    {"vma", "", 100000, 1, {0}, break_vma_tlsf},
    {"vma", "algorithm=linear", 100000, 1, {0}, break_vma_linear},
    {"list_fit", "", 100000, 1, {0}, break_list_fit},
    {"list_fit", "fit=best", 100000, 1, {0}, break_list_fit},
    {"list_fit", "order=size_up", 100000, 1, {0}, break_list_fit},
    {"torch", "", UINT64_C(256) << 20, 2, {.alignment = 512, .beyond_capacity = true}, break_torch},
    {"torch",
     "alloc_conf=expandable_segments:True",
     UINT64_C(256) << 20,
     2,
     {.alignment = 512, .beyond_capacity = true},
     break_torch},
    {"worse", "", 100000, 1, {0}, break_worse},
};

/* ------------------------------------------------------------------------------ the allocator */

static const struct field record_fields[] = {
    FIELD(handle_record, id),        FIELD(handle_record, requested_bytes),
    FIELD(handle_record, skip),      FIELD(handle_record, reserved_bytes),
    FIELD(handle_record, tag_bytes), FIELD(handle_record, device),
};
static const struct field event_fields[] = {
    FIELD(trace_record, allocation_id), FIELD(trace_record, operation),
    FIELD(trace_record, action),        FIELD(trace_record, tag_bytes),
    FIELD(trace_record, device),        FIELD(trace_record, reserved_bytes),
};
static const struct field allocator_fields[] = {
    FIELD(worsegpu_allocator, live.live),
    FIELD(worsegpu_allocator, live.survivors),
    FIELD(worsegpu_allocator, host.used_bytes),
    FIELD(worsegpu_allocator, host.allocations),
    FIELD(worsegpu_allocator, host.peak_bytes),
    FIELD(worsegpu_allocator, trace.limit),
    FIELD(worsegpu_allocator, trace.count),
    FIELD(worsegpu_allocator, trace.next),
    FIELD(worsegpu_allocator, trace.last_sequence),
    FIELD(worsegpu_allocator, counters.last_id),
    FIELD(worsegpu_allocator, counters.gpu_allocations),
    FIELD(worsegpu_allocator, counters.gpu_requested),
    FIELD(worsegpu_allocator, counters.gpu_used),
    FIELD(worsegpu_allocator, counters.peak_gpu_used),
    FIELD(worsegpu_allocator, counters.allocate_calls),
    FIELD(worsegpu_allocator, counters.free_calls),
    FIELD(worsegpu_allocator, counters.oom_fallbacks),
    FIELD(worsegpu_allocator, counters.oom_failures),
    FIELD(worsegpu_allocator, counters.faults),
    FIELD(worsegpu_allocator, counters.tellings),
    FIELD(worsegpu_allocator, largest_capacity_bytes),
    FIELD(worsegpu_allocator, config.max_live_allocations),
    FIELD(worsegpu_allocator, config.trace_limit),
};

/* Live ones on both sides, holes, tags, a trace that has gone round. */
static worsegpu_allocator *used_allocator(size_t trace_limit)
{
    enum {
        STEPS = 200
    };
    struct worsegpu_handle handles[STEPS];
    struct worsegpu_config config = engine_config("12");
    config.gpu_probability = 0.8;
    config.forget_probability = 0.1;
    config.gpu_capacity = 100000;
    config.trace_limit = trace_limit;
    worsegpu_allocator *allocator = engine_create(&config);
    for (size_t i = 0; i < STEPS; i++) {
        struct worsegpu_request request = engine_request(100 + i % 7 * 300);
        request.tag = i % 4 == 0 ? "tag" : NULL;
        request.tag_bytes = i % 4 == 0 ? 3 : 0;
        struct worsegpu_allocation allocation;
        assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
        handles[i] = allocation.handle;
        if (i >= 60 && i % 5 != 0)
            assert_int_equal(worsegpu_free(allocator, &handles[i - 60], 0, 0, NULL), WORSEGPU_OK);
    }
    engine_assert_valid(allocator);
    return allocator;
}

static void break_allocator(struct figures *figures, size_t trace_limit)
{
    worsegpu_allocator *allocator = used_allocator(trace_limit);
    figures->allocator = allocator;
    fprintf(figures->file, "allocator with a trace of %zu\n", trace_limit);
    break_records(figures,
                  &(struct records){"records", allocator->live.records, allocator->live.length,
                                    sizeof(*allocator->live.records), FIELDS(record_fields)});
    break_records(figures,
                  &(struct records){"events", allocator->trace.records,
                                    allocator->trace.records ? trace_limit : 0,
                                    sizeof(*allocator->trace.records), FIELDS(event_fields)});
    break_records(figures, &(struct records){"allocator", allocator, 1, sizeof(*allocator),
                                             FIELDS(allocator_fields)});
    engine_assert_valid(allocator);
    worsegpu_destroy(allocator);
    figures->allocator = NULL;
}

static char *all_figures(void)
{
    char *text = NULL;
    size_t length = 0;
    struct figures figures = {.file = open_memstream(&text, &length)};
    assert_non_null(figures.file);
    for (size_t i = 0; i < sizeof(audited) / sizeof(audited[0]); i++) {
        const struct audited *one = &audited[i];
        struct policy_world world;
        policy_world_open(&world, one->policy, one->knobs, one->capacity_bytes, &one->rules);
        world.look_closely = false;
        policy_world_run(&world, WORLD_LOG_UNIFORM, 5, 60, one->streams, 9);
        policy_world_run(&world, WORLD_NEAR_FULL, 6, 60, one->streams, 9);
        figures.world = &world;
        fprintf(figures.file, "%s %s\n", one->policy, one->knobs);
        one->break_all(&figures);
        policy_world_check(&world); /* all as it was */
        policy_world_close(&world);
    }
    break_allocator(&figures, 32);
    break_allocator(&figures, 0);
    fclose(figures.file);
    return text;
}

static void test_every_wrong_number_is_named_as_it_was(void **state)
{
    (void)state;
    kept_figures_compare("audit-figures.txt", all_figures());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_wrong_number_is_named_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
