/* The simulated device below a caching policy: hands out address ranges and takes them back, as a
 * driver does, with the fake GPU's capacity as its limit.
 *
 * Its rules are those of the pretended devices that the golden data was recorded with
 * (golden-allocators/README.md): upward only, or the lowest place that fits, where a place is 0 or
 * the end of a present range, rounded up to the granularity. Verifying a recorded log, the lab puts
 * its own source in its place. Lives inside its policy. */
#ifndef BLOCKS_DEVICE_H
#define BLOCKS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/blocks/block_order.h"
#include "worsegpu_memory.h"

/* What is told of each range, as it happens. */
enum device_event {
    DEVICE_REGION,      /* memory with addresses of its own, taken */
    DEVICE_REGION_FREE, /* and given back */
    DEVICE_RESERVE,     /* addresses alone */
    DEVICE_UNRESERVE,
    DEVICE_MAP, /* memory behind reserved addresses */
    DEVICE_UNMAP
};
struct device_watch {
    void *context;
    void (*tell)(void *context, enum device_event event, uint64_t offset, uint64_t bytes);
};

/* Another place that ranges come from. take: 0 with *offset, or 1 when the device says no. */
struct device_source {
    void *context;
    int (*take)(void *context, enum device_event event, uint64_t bytes, uint64_t *offset);
    void (*give_back)(void *context, enum device_event event, uint64_t offset, uint64_t bytes);
};

enum device_places {
    DEVICE_UPWARD, /* after all ranges ever given */
    DEVICE_LOWEST  /* the lowest place that fits between the present ones */
};
enum device_limit {
    DEVICE_LIMIT_END,  /* a range must end at or below the capacity */
    DEVICE_LIMIT_BYTES /* the bytes in use must stay at or below it; addresses do not run out */
};

struct device {
    const struct worsegpu_memory *memory;
    const struct device_source *source;
    const struct device_watch *watch;
    const uint64_t *capacity_bytes; /* the configuration's, read at each call */
    enum device_places places;
    enum device_limit limit;
    uint64_t granularity; /* offsets are multiples of it; 1 to 2^32 */
    uint64_t taken_bytes; /* of memory, now */
    uint64_t peak_bytes;  /* the greatest taken_bytes so far */
    uint64_t taken_calls; /* pieces of memory taken (regions and maps) */
    uint64_t given_calls; /* and given back */
    uint64_t end;         /* of the highest range ever given */
    struct blocks ranges; /* present ranges, as blocks of their own */
    struct block_nodes nodes;
    struct block_order by_offset; /* weight: room above it up to the next range, after rounding; for
                                     the last one no limit */
};

void device_init(struct device *device, const struct policy_setup *setup, enum device_places places,
                 enum device_limit limit, uint64_t granularity);
void device_release(struct device *device);

/* Room for one more range. 0 or WORSEGPU_NO_MEMORY. */
int device_reserve_memory(struct device *device);

/* Takes a range of memory (DEVICE_REGION) or of addresses alone (DEVICE_RESERVE). 0 with *offset,
 * or 1: the device says no. After device_reserve_memory. */
int device_take(struct device *device, enum device_event event, uint64_t bytes, uint64_t *offset);
/* Gives what was taken so back, DEVICE_REGION_FREE or DEVICE_UNRESERVE: a range, or several that
 * touch, in one piece. */
void device_give_back(struct device *device, enum device_event event, uint64_t offset,
                      uint64_t bytes);

/* Whether so much memory could be taken now, by bytes alone. */
bool device_has_room(const struct device *device, uint64_t bytes);

/* Memory behind reserved addresses: 0, or 1 when the device says no; and without it again. */
int device_map(struct device *device, uint64_t offset, uint64_t bytes);
void device_unmap(struct device *device, uint64_t offset, uint64_t bytes);

/* Whether the new end of a range that a neighbour may join counts as joined: whether `offset` is
 * where a present range ends. */
bool device_range_ends_at(const struct device *device, uint64_t offset);

/* The audit: ranges apart from each other, sums. */
void device_check(const struct device *device, struct audit *audit);

#endif
