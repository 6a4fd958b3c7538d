/* The page of `replay --html`: what it shows, gathered during a run, and written into the template
 * that the program carries (lab/page/page.html).
 *
 * Small enough to be opened: of a large log the timeline keeps the ends and extremes of equally
 * long stretches, the map the largest blocks; the page says so. */
#ifndef LAB_OUTPUTS_PAGE_H
#define LAB_OUTPUTS_PAGE_H

#include "lab/outputs/columns.h"

enum {
    PAGE_POINTS = 200000, /* of the timeline */
    PAGE_BLOCKS = 200000, /* of the map */
    PAGE_SEGMENTS = 100000,
    PAGE_OOMS = 5000
};

/* One point of the timeline. */
struct page_point {
    uint64_t number;
    uint64_t time_us;
    uint64_t live;
    uint64_t reserved;
    uint64_t largest;
};

/* A stretch of rows of which a few are kept. */
struct page_stretch {
    uint64_t rows;
    struct page_point first, last;
    struct page_point least_live, most_live;
    struct page_point least_reserved, most_reserved;
};

struct page_block {
    uint64_t from; /* event that allocated it */
    uint64_t to;   /* event that freed it; 0: none */
    uint64_t from_us;
    uint64_t to_us;
    uint64_t offset;
    uint64_t bytes;
    uint64_t requested;
    uint64_t stream;
    uint64_t id;
    uint64_t
        lost; /* 1: freed, but forgotten by the policy; 2: waited for events when it was freed */
};

struct page_segment {
    uint64_t from;
    uint64_t to; /* 0: never given back */
    uint64_t from_us;
    uint64_t to_us;
    uint64_t offset;
    uint64_t bytes;
};

struct page_oom {
    uint64_t number;
    uint64_t time_us;
    uint64_t bytes;
};

struct page_output {
    struct output_file file;
    const struct output_about *about;
    const struct timeline_sum *sum; /* of an earlier run of the same */

    struct page_point *points;
    size_t point_count;
    size_t point_capacity;
    struct page_stretch stretch;
    uint64_t stretch_rows; /* how long each is; 1: every row is a point */

    struct page_block *blocks;
    size_t block_count;
    size_t block_capacity;
    uint64_t *block_of; /* by slot: its place in `blocks` and 1; 0: it has none */
    size_t slots;
    size_t least_class; /* of sizes that are in the map */
    uint64_t every;     /* of those in that class, each so many-th */
    uint64_t seen;      /* of those in that class so far */
    uint64_t pending_bytes;

    struct ranges held; /* the tag is the place in `segments` */
    struct page_segment *segments;
    size_t segment_count;
    size_t segment_capacity;
    uint64_t segments_left_out;

    struct page_oom *ooms;
    size_t oom_count;
    size_t oom_capacity;
};

/* After the earlier run. false: no memory. */
bool page_output_begin(struct page_output *output);
void page_output_release(struct page_output *output);
struct timeline_sink page_output_sink(struct page_output *output);

/* Writes the page. `compare` and `story` are JSON values that others made; "null" is fine.
 * log_status. */
int page_output_write(struct page_output *output, const struct json_writer *compare,
                      const struct json_writer *story);

/* Everything between a script's tags must not end it: '<' becomes its escape. */
void page_write_json(struct output_file *file, const char *json, size_t length);

#endif
