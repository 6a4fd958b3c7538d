/* The picture at the end of a snapshot: segments, their blocks, settings; see snapshot_pickle.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lab/outputs/snapshot_pickle.h"
#include "lib/policies/torch_config.h"

enum {
    SMALL_SEGMENT = 2 << 20 /* of torch's small pool */
};

/* A live allocation: where, and how much was asked for. */
struct held {
    uint64_t offset;
    uint64_t bytes;
};

/* The end of the run, while it is written down. */
struct picture {
    struct snapshot_output *output;
    uint64_t base;
    struct held *live; /* in the order of addresses */
    size_t live_count;
    struct policy_block *blocks;
    size_t block_count;
    size_t blocks_capacity;
    bool no_memory;
};

static int by_offset(const void *a, const void *b)
{
    const struct held *one = a;
    const struct held *two = b;
    return (one->offset > two->offset) - (one->offset < two->offset);
}

static void keep_block(void *context, const struct policy_block *block)
{
    struct picture *picture = context;
    if (picture->no_memory || memory_grow(picture->output->about->lab->memory, &picture->blocks,
                                          &picture->blocks_capacity, picture->block_count + 1,
                                          sizeof(*picture->blocks)) != 0) {
        picture->no_memory = true;
        return;
    }
    picture->blocks[picture->block_count++] = *block;
}

/* ------------------------------------------------------------------------------ blocks */

static uint64_t requested(const struct picture *picture, const struct policy_block *block)
{
    size_t low = 0;
    size_t high = picture->live_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (picture->live[middle].offset < block->offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < picture->live_count && picture->live[low].offset == block->offset)
        return picture->live[low].bytes;
    const struct ranges *pending = &picture->output->pending;
    size_t at = ranges_find(pending, block->offset);
    if (at < pending->count && pending->all[at].offset == block->offset)
        return pending->all[at].bytes;
    return block->bytes;
}

static void write_block(const struct picture *picture, uint64_t offset, uint64_t bytes,
                        uint64_t requested_bytes, enum snapshot_word state)
{
    struct snapshot_output *output = picture->output;
    if (bytes == 0)
        return;
    dump_open_dict(output);
    dump_member(output, WORD_ADDRESS, picture->base + offset);
    dump_member(output, WORD_SIZE, bytes);
    dump_member(output, WORD_REQUESTED_SIZE, requested_bytes);
    dump_word(output, WORD_STATE);
    dump_word(output, state);
    dump_word(output, WORD_FRAMES);
    dump_code(output, ']');
    dump_close_dict(output);
}

static enum snapshot_word state_of(const struct policy_block *block)
{
    switch (block->state) {
    case POLICY_BLOCK_USED:
        return WORD_ACTIVE_ALLOCATED;
    case POLICY_BLOCK_PENDING:
    case POLICY_BLOCK_FORGOTTEN: /* freed, but not to be had again */
        return WORD_ACTIVE_PENDING_FREE;
    case POLICY_BLOCK_FREE:
    default:
        return WORD_INACTIVE;
    }
}

/* The blocks of one segment; what no block covers is free. *at: the first one that may be in it. */
static void write_blocks(const struct picture *picture, const struct range *segment, size_t *at)
{
    uint64_t done = segment->offset;
    uint64_t end = segment->offset + segment->bytes;
    for (; *at < picture->block_count && picture->blocks[*at].offset < end; (*at)++) {
        const struct policy_block *block = &picture->blocks[*at];
        if (block->offset < done || block->state == POLICY_BLOCK_FREE)
            continue;
        write_block(picture, done, block->offset - done, 0, WORD_INACTIVE);
        write_block(picture, block->offset, block->bytes, requested(picture, block),
                    state_of(block));
        done = block->offset + block->bytes;
    }
    write_block(picture, done, end - done, 0, WORD_INACTIVE);
}

/* ------------------------------------------------------------------------------ segments */

struct sums {
    uint64_t allocated;
    uint64_t active;
    uint64_t requested;
};

static struct sums sum_up(const struct picture *picture, const struct range *segment, size_t at)
{
    struct sums sums = {0};
    uint64_t end = segment->offset + segment->bytes;
    for (; at < picture->block_count && picture->blocks[at].offset < end; at++) {
        const struct policy_block *block = &picture->blocks[at];
        if (block->offset < segment->offset || block->state == POLICY_BLOCK_FREE)
            continue;
        sums.active += block->bytes;
        sums.allocated += block->state == POLICY_BLOCK_USED ? block->bytes : 0;
        sums.requested += block->state == POLICY_BLOCK_USED ? requested(picture, block) : 0;
    }
    return sums;
}

static void write_segment(const struct picture *picture, const struct range *segment,
                          bool expandable, size_t *at)
{
    struct snapshot_output *output = picture->output;
    const struct sums sums = sum_up(picture, segment, *at);
    dump_open_dict(output);
    dump_member(output, WORD_DEVICE, output->about->facts->device);
    dump_member(output, WORD_ADDRESS, picture->base + segment->offset);
    dump_member(output, WORD_TOTAL_SIZE, segment->bytes);
    dump_member(output, WORD_ALLOCATED_SIZE, sums.allocated);
    dump_member(output, WORD_ACTIVE_SIZE, sums.active);
    dump_member(output, WORD_REQUESTED_SIZE, sums.requested);
    dump_member(output, WORD_STREAM, segment->tag);
    dump_word(output, WORD_SEGMENT_TYPE);
    dump_word(output, segment->bytes <= SMALL_SEGMENT ? WORD_SMALL : WORD_LARGE);
    dump_word(output, WORD_SEGMENT_POOL_ID);
    output_file_bytes(&output->file, "K\0K\0\x86", 5); /* (0, 0) */
    dump_word(output, WORD_IS_EXPANDABLE);
    dump_code(output, expandable ? 0x88 : 0x89);
    dump_word(output, WORD_FRAMES);
    dump_code(output, ']');
    dump_word(output, WORD_BLOCKS);
    output_file_bytes(&output->file, "](", 2);
    write_blocks(picture, segment, at);
    dump_code(output, 'e');
    dump_close_dict(output);
}

static void write_picture(const struct picture *picture, bool expandable)
{
    struct snapshot_output *output = picture->output;
    const struct ranges *segments = &output->segments;
    bool merges = expandable || output->joins;
    size_t at = 0;
    dump_word(output, WORD_SEGMENTS);
    output_file_bytes(&output->file, "](", 2);
    for (size_t i = 0; i < segments->count; i++) {
        struct range segment = segments->all[i];
        while (merges && i + 1 < segments->count &&
               segments->all[i + 1].offset == segment.offset + segment.bytes &&
               segments->all[i + 1].tag == segment.tag)
            segment.bytes += segments->all[++i].bytes;
        while (at < picture->block_count && picture->blocks[at].offset < segment.offset)
            at++;
        write_segment(picture, &segment, expandable, &at);
    }
    dump_code(output, 'e');
}

int dump_segments(struct snapshot_output *output, const struct timeline_end *end, uint64_t base)
{
    const struct worsegpu_memory *memory = output->about->lab->memory;
    const struct policy_operations *operations = replay_operations(end->replay);
    struct picture picture = {.output = output, .base = base};
    picture.live = memory_allocate_array(memory, end->slots, sizeof(*picture.live));
    if (!picture.live)
        return LOG_NO_MEMORY;
    for (size_t i = 0; i < end->slots; i++) {
        if (end->live[i].on_gpu)
            picture.live[picture.live_count++] =
                (struct held){end->live[i].offset, end->live[i].bytes};
    }
    qsort(picture.live, picture.live_count, sizeof(*picture.live), by_offset);
    operations->each_block(replay_policy(end->replay), keep_block, &picture);
    if (!picture.no_memory)
        write_picture(&picture, output->mapped);
    memory_release_array(memory, picture.blocks, picture.blocks_capacity, sizeof(*picture.blocks));
    memory_release_array(memory, picture.live, end->slots, sizeof(*picture.live));
    return picture.no_memory ? LOG_NO_MEMORY : LOG_FINE;
}

/* ------------------------------------------------------------------------------ settings */

/* The text of alloc_conf among the knobs. */
static const char *conf_of(const char *policy, size_t *length)
{
    static const char name[] = "alloc_conf=";
    const char *found = strstr(policy, name);
    *length = 0;
    if (!found)
        return "";
    found += sizeof(name) - 1;
    *length = strcspn(found, " \t");
    return found;
}

static void write_divisions(struct snapshot_output *output, const struct torch_settings *settings)
{
    dump_word(output, WORD_DIVISIONS);
    dump_open_dict(output);
    for (unsigned int i = 0; i < TORCH_DIVISIONS; i++) {
        char power[16];
        int length = snprintf(power, sizeof(power), "%u", 1u << i);
        dump_text(output, power, length > 0 ? (size_t)length : 0);
        dump_number(output, settings->divisions[i]);
    }
    dump_close_dict(output);
}

void dump_settings(struct snapshot_output *output)
{
    size_t length;
    const char *conf = conf_of(output->about->policy, &length);
    char problem[KNOBS_PROBLEM_SIZE];
    struct torch_settings settings;
    torch_settings_default(&settings);
    /* Other policies have no such text; that of torch was checked when it was made. */
    if (!torch_settings_read(conf, length, &settings, problem))
        torch_settings_default(&settings);
    dump_word(output, WORD_ALLOCATOR_SETTINGS);
    dump_open_dict(output);
    dump_word(output, WORD_CONF);
    dump_text(output, conf, length);
    dump_word(output, WORD_MAX_SPLIT_SIZE);
    if (settings.max_split_bytes == UINT64_MAX)
        output_file_bytes(&output->file, "J\xff\xff\xff\xff", 5); /* -1 */
    else
        dump_number(output, settings.max_split_bytes);
    dump_word(output, WORD_COLLECTION_THRESHOLD);
    dump_double(output, settings.collection_threshold);
    dump_word(output, WORD_EXPANDABLE_SEGMENTS);
    dump_code(output, output->mapped ? 0x88 : 0x89);
    write_divisions(output, &settings);
    dump_close_dict(output);
    dump_word(output, WORD_ANNOTATIONS);
    dump_code(output, ']');
}
