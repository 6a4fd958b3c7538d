/* The state at the start of a torch trace, put into a policy; see torch_check.h.
 *
 * Where the blocks end that are freed during the trace is not recorded: a request is, and what it
 * is rounded up to. In the large pool a rest of up to 1 MiB is not cut off, so that a block may be
 * so much longer than that. Three things tell, as section F of reference/gpu-allocators.md has it:
 * no free block of that pool is so short, so a gap up to the next block or to the end of the
 * segment belongs to the block before it; and what is allocated so closely above a block while it
 * is live begins where it ends. */
#include <inttypes.h>

#include "lab/torch_check.h"
#include "lib/policies/torch.h"
#include "lib/worsegpu.h"

#define LONGEST_REST (UINT64_C(1) << 20) /* that stays with a block of the large pool */

/* The block with the greatest address at or below this one; SIZE_MAX: none. */
static size_t block_below(const struct torch_start *start, uint64_t address)
{
    size_t low = 0;
    size_t high = start->block_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (start->blocks[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? SIZE_MAX : low - 1;
}

/* Whether both lie in the same segment of the start; `lower` is in one of them, or in none. */
static bool same_segment(const struct torch_start *start, uint64_t lower, uint64_t upper)
{
    size_t low = 0;
    size_t high = start->segment_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (start->segments[middle].address <= lower)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && upper - start->segments[low - 1].address < start->segments[low - 1].bytes;
}

static uint64_t rounded(const struct torch_check *check, uint64_t bytes)
{
    return bytes == 0 || bytes > WORSEGPU_MAX_BYTES ? 0 : torch_round_size(check->policy, bytes);
}

/* Looks ahead: what is allocated just above a block while it is live. */
static int look_ahead(struct torch_check *check)
{
    struct torch_start *start = &check->start;
    struct torch_walk walk;
    struct torch_event event;
    if (torch_walk_begin(check->snapshot, check->device, &walk) != 0)
        return LOG_NO_MEMORY;
    int status;
    while ((status = torch_walk_next(&walk, &event, check->problem)) == LOG_FINE) {
        if (event.action != TORCH_ALLOC && event.action != start->freed)
            continue;
        size_t at = block_below(start, event.addr);
        struct torch_before *block = at == SIZE_MAX ? NULL : &start->blocks[at];
        if (!block || block->over || block->block_bytes != 0)
            continue;
        uint64_t bytes = rounded(check, block->requested_bytes);
        uint64_t beyond = event.addr - block->address;
        if (event.action == start->freed)
            block->over = beyond == 0;
        else if (bytes > LONGEST_REST && beyond > bytes && beyond - bytes <= LONGEST_REST &&
                 same_segment(start, block->address, event.addr))
            block->block_bytes = beyond;
    }
    torch_walk_end(&walk);
    return status == LOG_STOPPED ? LOG_FINE : status;
}

/* How long a block is if nothing told; `end` is where the next one begins, or the segment ends. */
static uint64_t length_of(const struct torch_check *check, const struct torch_before *block,
                          const struct torch_before_segment *segment, uint64_t end)
{
    if (block->block_bytes != 0)
        return block->block_bytes;
    const struct torch_snapshot_settings *settings = torch_snapshot_settings(check->snapshot);
    uint64_t bytes = rounded(check, block->requested_bytes);
    uint64_t room = end - block->address;
    if (bytes == 0 || bytes >= room || segment->small)
        return bytes;
    bool never_cut = settings->has_max_split && bytes >= settings->max_split_bytes;
    return never_cut || room - bytes <= LONGEST_REST ? room : bytes;
}

static int not_rebuilt(struct torch_check *check, uint64_t place, const char *what,
                       uint64_t address)
{
    return log_bad(check->problem, true, place,
                   "the trace of device %" PRIu32
                   " begins in the middle of a run, and what was there then cannot be rebuilt: %s "
                   "at %" PRIu64,
                   check->device, what, address);
}

static int restore_segment(struct torch_check *check, const struct torch_before_segment *segment)
{
    if (segment->expandable)
        return not_rebuilt(check, segment->place, "there is an expandable segment",
                           segment->address);
    if (torch_device_reserve(check) != LOG_FINE)
        return LOG_NO_MEMORY;
    if (!torch_device_add(check, segment->address, segment->bytes))
        return not_rebuilt(check, segment->place, "two segments lie on each other",
                           segment->address);
    int status = torch_restore_segment(check->policy, segment->address, segment->bytes,
                                       segment->stream, segment->small);
    if (status == 1)
        return not_rebuilt(check, segment->place, "a segment of an impossible size",
                           segment->address);
    return status == 0 ? LOG_FINE : LOG_NO_MEMORY;
}

static int restore_block(struct torch_check *check, const struct torch_before *block,
                         uint64_t bytes)
{
    struct policy_placement placement;
    int status = torch_restore_block(check->policy, block->address, bytes, block->requested_bytes,
                                     &placement);
    if (status == 1)
        return not_rebuilt(check, block->place, "a block that has no room where it should be",
                           block->address);
    return status == 0 ? torch_check_place(check, block->address, &placement) : LOG_NO_MEMORY;
}

/* Expandable segments are told by their pages alone. If the trace has mapped all that is there at
 * the end, there were none at the start. */
static void drop_expandable(struct torch_check *check)
{
    struct torch_start *start = &check->start;
    uint64_t bytes = 0;
    for (size_t i = 0; i < start->segment_count; i++)
        if (start->segments[i].expandable)
            bytes += start->segments[i].bytes;
    if (bytes == 0 || bytes != start->mapped_bytes)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < start->segment_count; i++)
        if (!start->segments[i].expandable)
            start->segments[kept++] = start->segments[i];
    start->segment_count = kept;
}

int torch_rebuild(struct torch_check *check)
{
    drop_expandable(check);
    const struct torch_start *start = &check->start;
    int status = look_ahead(check);
    size_t next = 0;
    for (size_t i = 0; status == LOG_FINE && i < start->segment_count; i++) {
        const struct torch_before_segment *segment = &start->segments[i];
        uint64_t end = segment->address + segment->bytes;
        if (next < start->block_count && start->blocks[next].address < segment->address)
            break;
        status = restore_segment(check, segment);
        for (; status == LOG_FINE && next < start->block_count && start->blocks[next].address < end;
             next++) {
            bool another = next + 1 < start->block_count && start->blocks[next + 1].address < end;
            uint64_t room = another ? start->blocks[next + 1].address : end;
            const struct torch_before *block = &start->blocks[next];
            status = restore_block(check, block, length_of(check, block, segment, room));
        }
    }
    if (status == LOG_FINE && next < start->block_count)
        status = not_rebuilt(check, start->blocks[next].place,
                             "a block that lies in no known segment", start->blocks[next].address);
    return status;
}
