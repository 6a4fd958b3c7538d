/* A snapshot as torch.cuda.memory._dump_snapshot pickles it; see outputs.h.
 *
 * PyTorch's memory_viz (Python and the page) and our own reader open it. Addresses are offsets on
 * the fake GPU above BASE, as high as those of real devices and below 2^53, which the page needs. A
 * policy that has one range for good is told as one segment that is as large as it gets.
 *
 * Protocol 4. Names are put into the memo once and named by number then. Lists are appended to in
 * pieces, as Python's pickler does: the page cannot take a long one at once. */
#include <string.h>

#include "lab/outputs/snapshot_pickle.h"

#define BASE (UINT64_C(0x7f) << 40)

enum {
    PIECE = 1000 /* elements appended at once */
};

/* ------------------------------------------------------------------------------ the trace */

static void begin_piece(struct snapshot_output *output)
{
    if (output->batch == 0)
        dump_code(output, '(');
    output->batch++;
}

static void end_piece(struct snapshot_output *output, bool last)
{
    if (output->batch == 0 || (!last && output->batch < PIECE))
        return;
    dump_code(output, 'e');
    output->batch = 0;
}

static void write_event(struct snapshot_output *output, enum snapshot_word action, uint64_t address,
                        uint64_t bytes, uint64_t stream)
{
    begin_piece(output);
    dump_open_dict(output);
    dump_word(output, WORD_ACTION);
    dump_word(output, action);
    dump_member(output, action == WORD_OOM ? WORD_DEVICE_FREE : WORD_ADDR, address);
    dump_member(output, WORD_SIZE, bytes);
    dump_member(output, WORD_STREAM, stream);
    if (output->about->facts->log.times)
        dump_member(output, WORD_TIME_US, output->time_us);
    dump_word(output, WORD_FRAMES);
    dump_code(output, ']');
    dump_close_dict(output);
    end_piece(output, false);
}

/* ------------------------------------------------------------------------------ segments */

/* Given back in one piece may be what was taken in several. */
static int give_back(struct snapshot_output *output, const struct timeline_move *move,
                     enum snapshot_word action)
{
    struct range piece;
    int status;
    while ((status = ranges_cut(&output->segments, move->offset, move->bytes, &piece)) == 0)
        write_event(output, action, BASE + piece.offset, piece.bytes, piece.tag);
    return status < 0 ? LOG_NO_MEMORY : LOG_FINE;
}

static int take(struct snapshot_output *output, const struct timeline_move *move,
                enum snapshot_word action, uint64_t stream)
{
    const struct range range = {move->offset, move->bytes, stream};
    if (ranges_add(&output->segments, &range) != 0)
        return LOG_NO_MEMORY;
    write_event(output, action, BASE + move->offset, move->bytes, stream);
    return LOG_FINE;
}

static int write_moves(struct snapshot_output *output, const struct timeline_row *row)
{
    int status = LOG_FINE;
    for (size_t i = 0; status == LOG_FINE && i < row->move_count; i++) {
        const struct timeline_move *move = &row->moves[i];
        switch (move->event) {
        case DEVICE_REGION:
            status = take(output, move, output->joins ? WORD_SEGMENT_MAP : WORD_SEGMENT_ALLOC,
                          row->stream);
            break;
        case DEVICE_MAP:
            output->mapped = true;
            status = take(output, move, WORD_SEGMENT_MAP, row->stream);
            break;
        case DEVICE_REGION_FREE:
            status =
                give_back(output, move, output->joins ? WORD_SEGMENT_UNMAP : WORD_SEGMENT_FREE);
            break;
        case DEVICE_UNMAP:
            status = give_back(output, move, WORD_SEGMENT_UNMAP);
            break;
        case DEVICE_RESERVE:
        case DEVICE_UNRESERVE:
        default:
            break;
        }
    }
    return status;
}

/* ------------------------------------------------------------------------------ waiting frees */

/* The pending blocks of the policy, and those that we know of, in the same order. */
struct meeting {
    struct snapshot_output *output;
    size_t at;
    size_t kept;
};

static void complete(struct meeting *meeting, uint64_t below)
{
    struct ranges *pending = &meeting->output->pending;
    for (; meeting->at < pending->count && pending->all[meeting->at].offset < below;
         meeting->at++) {
        const struct range *range = &pending->all[meeting->at];
        write_event(meeting->output, WORD_FREE_COMPLETED, BASE + range->offset, range->bytes,
                    range->tag);
    }
}

static void see_block(void *context, const struct policy_block *block)
{
    struct meeting *meeting = context;
    struct ranges *pending = &meeting->output->pending;
    if (block->state != POLICY_BLOCK_PENDING)
        return;
    complete(meeting, block->offset);
    if (meeting->at < pending->count && pending->all[meeting->at].offset == block->offset)
        pending->all[meeting->kept++] = pending->all[meeting->at++];
}

/* Which frees that waited for events have come through: seldom, so all blocks may be looked at. */
static void complete_frees(struct snapshot_output *output, const struct timeline_row *row)
{
    struct meeting meeting = {.output = output};
    const struct policy_operations *operations = replay_operations(row->replay);
    if (output->pending.count == 0 || row->memory.pending_bytes >= output->pending_bytes)
        return;
    operations->each_block(replay_policy((struct replay *)row->replay), see_block, &meeting);
    complete(&meeting, UINT64_MAX);
    output->pending.count = meeting.kept;
}

/* ------------------------------------------------------------------------------ events */

static void write_oom(struct snapshot_output *output, const struct timeline_row *row)
{
    uint64_t capacity = output->about->capacity_bytes;
    uint64_t reserved = row->memory.reserved_bytes;
    write_event(output, WORD_OOM, capacity > reserved ? capacity - reserved : 0, row->bytes,
                row->stream);
}

static int write_free(struct snapshot_output *output, const struct timeline_row *row)
{
    const struct range range = {row->offset, row->bytes, row->stream};
    write_event(output, WORD_FREE_REQUESTED, BASE + row->offset, row->bytes, row->stream);
    if (row->lost)
        return LOG_FINE;
    if (row->memory.pending_bytes <= output->pending_bytes) {
        write_event(output, WORD_FREE_COMPLETED, BASE + row->offset, row->bytes, row->stream);
        return LOG_FINE;
    }
    return ranges_add(&output->pending, &range) == 0 ? LOG_FINE : LOG_NO_MEMORY;
}

static int write_row(void *context, const struct timeline_row *row)
{
    struct snapshot_output *output = context;
    output->time_us = row->time_us;
    complete_frees(output, row);
    int status = write_moves(output, row);
    if (status == LOG_FINE && row->operation == LOG_ALLOCATE && row->on_gpu)
        write_event(output, WORD_ALLOC, BASE + row->offset, row->bytes, row->stream);
    else if (row->operation == LOG_ALLOCATE && row->result == REPLAY_REFUSED)
        write_oom(output, row);
    else if (status == LOG_FINE && row->operation == LOG_FREE && row->on_gpu)
        status = write_free(output, row);
    output->pending_bytes = row->memory.pending_bytes;
    return status;
}

int snapshot_output_begin(struct snapshot_output *output)
{
    ranges_init(&output->segments, output->about->lab->memory);
    ranges_init(&output->pending, output->about->lab->memory);
    /* BFC makes one of regions that touch: that is what viewers do with segments that are mapped.
     */
    output->joins = strncmp(output->about->policy, "bfc", 3) == 0;
    dump_code(output, 0x80);
    dump_code(output, 4);
    dump_open_dict(output);
    dump_word(output, WORD_DEVICE_TRACES);
    dump_code(output, ']');
    dump_code(output, '(');
    /* The trace of our one device; traces of the devices before it are empty. */
    for (uint32_t i = 0; i < output->about->facts->device; i++)
        dump_code(output, ']');
    dump_code(output, ']');
    if (output->sum->moves > 0 || output->sum->end == 0)
        return LOG_FINE;
    const struct timeline_move all = {DEVICE_REGION, 0, output->sum->end};
    return take(output, &all, WORD_SEGMENT_ALLOC, 0);
}

void snapshot_output_release(struct snapshot_output *output)
{
    ranges_release(&output->segments);
    ranges_release(&output->pending);
}

static int finish(void *context, const struct timeline_end *end)
{
    struct snapshot_output *output = context;
    end_piece(output, true);
    dump_code(output, 'e');
    int status = dump_segments(output, end, BASE);
    dump_settings(output);
    dump_close_dict(output);
    dump_code(output, '.');
    return status;
}

struct timeline_sink snapshot_output_sink(struct snapshot_output *output)
{
    return (struct timeline_sink){.context = output, .row = write_row, .end = finish};
}
