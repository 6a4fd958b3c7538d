/* The figures of the slow and simple caching allocator; see naive_torch.h. */
#include "tests/support/naive_torch.h"

#include <inttypes.h>

struct sums {
    uint64_t requested;
    uint64_t split;
    uint64_t split_bytes;
    uint64_t small;
    uint64_t oversize_blocks;
    uint64_t oversize_segments;
    uint64_t segments;
    uint64_t pool[2]; /* small, large */
};

static struct sums sums_of(const struct naive_torch *torch)
{
    struct sums sums = {0};
    for (size_t i = 0; i < NAIVE_BLOCKS; i++) {
        const struct naive_block *it = &torch->blocks[i];
        if (it->state == NAIVE_DEAD || it->state == NAIVE_UNMAPPED)
            continue;
        sums.small += it->small ? it->bytes : 0;
        if (it->state == NAIVE_USED && it->bytes >= torch->settings.max_split)
            sums.oversize_blocks++;
        if (it->state != NAIVE_FREE) {
            sums.requested += it->requested;
            continue;
        }
        sums.pool[!it->small]++;
        if (naive_is_region(torch, i) && !naive_is_whole(torch, i)) {
            sums.split++;
            sums.split_bytes += it->bytes;
        }
    }
    for (size_t i = 0; i < torch->range_count; i++) {
        bool there = torch->ranges[i].present && torch->ranges[i].memory;
        sums.segments += there;
        sums.oversize_segments += there && torch->ranges[i].bytes >= torch->settings.max_split;
    }
    return sums;
}

static void write_pool(const struct naive_torch *torch, FILE *out, bool small)
{
    size_t pool[NAIVE_BLOCKS];
    size_t count = naive_pool(torch, small, pool);
    fprintf(out, "%s:\n", small ? "small" : "large");
    for (size_t i = 0; i < count; i++) {
        const struct naive_block *it = &torch->blocks[pool[i]];
        fprintf(out, "  %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", it->stream, it->offset, it->bytes);
    }
}

void naive_statistics(const struct naive_torch *torch, FILE *out)
{
    struct sums sums = sums_of(torch);
    uint64_t used;
    uint64_t waiting;
    uint64_t used_bytes = naive_sum(torch, NAIVE_USED, &used);
    uint64_t waiting_bytes = naive_sum(torch, NAIVE_WAITING, &waiting);
    const struct {
        const char *name;
        uint64_t value;
    } figures[] = {
        {"allocated_bytes", used_bytes},
        {"allocated_peak", torch->allocated_peak},
        {"reserved_bytes", torch->total},
        {"reserved_peak", torch->reserved_peak},
        {"active_bytes", used_bytes + waiting_bytes},
        {"active_peak", torch->active_peak},
        {"inactive_split_bytes", sums.split_bytes},
        {"requested_bytes", sums.requested},
        {"allocations", used},
        {"active", used + waiting},
        {"segments", sums.segments},
        {"inactive_split", sums.split},
        {"small_reserved_bytes", sums.small},
        {"num_alloc_retries", torch->retries},
        {"num_ooms", torch->ooms},
        {"num_sync_all_streams", torch->syncs},
        {"num_device_alloc", torch->device_alloc},
        {"num_device_free", torch->device_free},
        {"oversize_allocations", sums.oversize_blocks},
        {"oversize_segments", sums.oversize_segments},
    };
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        fprintf(out, "%s %" PRIu64 "\n", figures[i].name, figures[i].value);
    fprintf(out, "free_blocks %" PRIu64 " %" PRIu64 "\npending_events %zu\n", sums.pool[0],
            sums.pool[1], torch->event_count);
    write_pool(torch, out, true);
    write_pool(torch, out, false);
}
