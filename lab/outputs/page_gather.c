/* What the page shows, gathered event by event; see page.h. */
#include "base/memory.h"
#include "lab/outputs/page.h"

enum {
    KEPT_OF_STRETCH = 6
};

/* ------------------------------------------------------------------------------ the timeline */

static int add_point(struct page_output *output, const struct page_point *point)
{
    if (output->point_count > 0 && output->points[output->point_count - 1].number >= point->number)
        return LOG_FINE; /* it is there already, as another extreme */
    if (memory_grow(output->about->lab->memory, &output->points, &output->point_capacity,
                    output->point_count + 1, sizeof(*output->points)) != 0)
        return LOG_NO_MEMORY;
    output->points[output->point_count++] = *point;
    return LOG_FINE;
}

/* Those kept of a stretch, in their order. */
static int end_stretch(struct page_output *output)
{
    const struct page_stretch *stretch = &output->stretch;
    const struct page_point *kept[KEPT_OF_STRETCH] = {
        &stretch->first,          &stretch->least_live,    &stretch->most_live,
        &stretch->least_reserved, &stretch->most_reserved, &stretch->last};
    int status = LOG_FINE;
    for (size_t i = 1; i < KEPT_OF_STRETCH; i++) {
        for (size_t k = i; k > 0 && kept[k]->number < kept[k - 1]->number; k--) {
            const struct page_point *later = kept[k - 1];
            kept[k - 1] = kept[k];
            kept[k] = later;
        }
    }
    for (size_t i = 0; status == LOG_FINE && stretch->rows > 0 && i < KEPT_OF_STRETCH; i++)
        status = add_point(output, kept[i]);
    output->stretch.rows = 0;
    return status;
}

static int see_point(struct page_output *output, const struct timeline_row *row)
{
    struct page_stretch *stretch = &output->stretch;
    const struct page_point point = {.number = row->number,
                                     .time_us = row->time_us,
                                     .live = row->live_bytes,
                                     .reserved = row->memory.reserved_bytes,
                                     .largest = row->largest_known ? row->largest_free
                                                                   : row->memory.free_bytes};
    if (stretch->rows++ == 0)
        stretch->first = stretch->least_live = stretch->most_live = stretch->least_reserved =
            stretch->most_reserved = point;
    if (point.live < stretch->least_live.live)
        stretch->least_live = point;
    if (point.live > stretch->most_live.live)
        stretch->most_live = point;
    if (point.reserved < stretch->least_reserved.reserved)
        stretch->least_reserved = point;
    if (point.reserved > stretch->most_reserved.reserved)
        stretch->most_reserved = point;
    stretch->last = point;
    return stretch->rows < output->stretch_rows ? LOG_FINE : end_stretch(output);
}

/* ------------------------------------------------------------------------------ the map */

static bool is_in_map(struct page_output *output, uint64_t bytes)
{
    size_t size_class = timeline_size_class(bytes);
    if (size_class != output->least_class)
        return size_class > output->least_class;
    return output->seen++ % output->every == 0;
}

static int see_allocation(struct page_output *output, const struct timeline_row *row)
{
    output->block_of[row->slot] = 0;
    if (!row->on_gpu || !is_in_map(output, row->block_bytes))
        return LOG_FINE;
    if (memory_grow(output->about->lab->memory, &output->blocks, &output->block_capacity,
                    output->block_count + 1, sizeof(*output->blocks)) != 0)
        return LOG_NO_MEMORY;
    output->blocks[output->block_count++] = (struct page_block){.from = row->number,
                                                                .from_us = row->time_us,
                                                                .offset = row->offset,
                                                                .bytes = row->block_bytes,
                                                                .requested = row->bytes,
                                                                .stream = row->stream,
                                                                .id = row->id};
    output->block_of[row->slot] = output->block_count;
    return LOG_FINE;
}

static void see_free(struct page_output *output, const struct timeline_row *row)
{
    uint64_t place = output->block_of[row->slot];
    output->block_of[row->slot] = 0;
    if (place == 0)
        return;
    struct page_block *block = &output->blocks[place - 1];
    block->to = row->number;
    block->to_us = row->time_us;
    if (row->lost)
        block->lost = 1;
    else if (row->memory.pending_bytes > output->pending_bytes)
        block->lost = 2;
}

static int take_segment(struct page_output *output, const struct timeline_row *row,
                        const struct range *range)
{
    struct range held = *range;
    if (output->segment_count >= PAGE_SEGMENTS) {
        output->segments_left_out++;
        return LOG_FINE;
    }
    held.tag = output->segment_count;
    if (memory_grow(output->about->lab->memory, &output->segments, &output->segment_capacity,
                    output->segment_count + 1, sizeof(*output->segments)) != 0 ||
        ranges_add(&output->held, &held) != 0)
        return LOG_NO_MEMORY;
    output->segments[output->segment_count++] = (struct page_segment){
        .from = row->number, .from_us = row->time_us, .offset = held.offset, .bytes = held.bytes};
    return LOG_FINE;
}

/* A piece of a segment went back. What is left of it begins anew here. */
static int give_back(struct page_output *output, const struct timeline_row *row,
                     const struct timeline_move *move)
{
    struct range piece;
    int cut;
    int status = LOG_FINE;
    while (status == LOG_FINE &&
           (cut = ranges_cut(&output->held, move->offset, move->bytes, &piece)) == 0) {
        struct page_segment *segment = &output->segments[piece.tag];
        uint64_t below = piece.offset - segment->offset;
        uint64_t above = segment->bytes - below - piece.bytes;
        const struct range left[2] = {{segment->offset, below, 0},
                                      {piece.offset + piece.bytes, above, 0}};
        segment->to = row->number;
        segment->to_us = row->time_us;
        for (size_t i = 0; status == LOG_FINE && i < 2; i++) {
            struct range rest;
            if (left[i].bytes == 0)
                continue;
            cut = ranges_cut(&output->held, left[i].offset, left[i].bytes, &rest);
            status = cut < 0 ? LOG_NO_MEMORY : take_segment(output, row, &left[i]);
        }
    }
    return cut < 0 ? LOG_NO_MEMORY : status;
}

static int see_moves(struct page_output *output, const struct timeline_row *row)
{
    int status = LOG_FINE;
    for (size_t i = 0; status == LOG_FINE && i < row->move_count; i++) {
        const struct timeline_move *move = &row->moves[i];
        const struct range range = {move->offset, move->bytes, 0};
        if (move->event == DEVICE_REGION || move->event == DEVICE_MAP)
            status = take_segment(output, row, &range);
        else if (move->event == DEVICE_REGION_FREE || move->event == DEVICE_UNMAP)
            status = give_back(output, row, move);
    }
    return status;
}

/* ------------------------------------------------------------------------------ rows */

static int see_oom(struct page_output *output, const struct timeline_row *row)
{
    if (output->oom_count >= PAGE_OOMS)
        return LOG_FINE;
    if (memory_grow(output->about->lab->memory, &output->ooms, &output->oom_capacity,
                    output->oom_count + 1, sizeof(*output->ooms)) != 0)
        return LOG_NO_MEMORY;
    output->ooms[output->oom_count++] =
        (struct page_oom){.number = row->number, .time_us = row->time_us, .bytes = row->bytes};
    return LOG_FINE;
}

static int see_row(void *context, const struct timeline_row *row)
{
    struct page_output *output = context;
    int status = see_point(output, row);
    if (status == LOG_FINE)
        status = see_moves(output, row);
    if (status == LOG_FINE && row->operation == LOG_ALLOCATE)
        status = see_allocation(output, row);
    if (row->operation == LOG_FREE)
        see_free(output, row);
    if (status == LOG_FINE && row->operation == LOG_ALLOCATE && row->result == REPLAY_REFUSED)
        status = see_oom(output, row);
    output->pending_bytes = row->memory.pending_bytes;
    return status;
}

static int finish(void *context, const struct timeline_end *end)
{
    (void)end;
    return end_stretch(context);
}

struct timeline_sink page_output_sink(struct page_output *output)
{
    return (struct timeline_sink){.context = output, .row = see_row, .end = finish};
}

/* ------------------------------------------------------------------------------ beginning, end */

/* From which size on blocks are in the map: all above a class, and of that class each so many-th.
 */
static void choose_blocks(struct page_output *output)
{
    uint64_t room = PAGE_BLOCKS;
    size_t class = TIMELINE_SIZE_CLASSES;
    while (class > 0 && output->sum->sizes[class - 1] <= room)
        room -= output->sum->sizes[--class];
    output->least_class = class > 0 ? class - 1 : 0;
    output->every = 1;
    if (class == 0)
        return;
    uint64_t there = output->sum->sizes[class - 1];
    output->every = room > 0 ? (there + room - 1) / room : UINT64_MAX;
}

bool page_output_begin(struct page_output *output)
{
    const struct worsegpu_memory *memory = output->about->lab->memory;
    uint64_t rows = output->sum->rows;
    output->stretch_rows = 1;
    if (rows > PAGE_POINTS)
        output->stretch_rows = (rows * KEPT_OF_STRETCH + PAGE_POINTS - 1) / PAGE_POINTS;
    choose_blocks(output);
    ranges_init(&output->held, memory);
    output->slots = (size_t)output->about->facts->peak_live + 1;
    output->block_of = memory_allocate_zeroed(memory, output->slots, sizeof(*output->block_of));
    return output->block_of != NULL;
}

void page_output_release(struct page_output *output)
{
    const struct worsegpu_memory *memory = output->about->lab->memory;
    memory_release_array(memory, output->points, output->point_capacity, sizeof(*output->points));
    memory_release_array(memory, output->blocks, output->block_capacity, sizeof(*output->blocks));
    memory_release_array(memory, output->block_of, output->slots, sizeof(*output->block_of));
    memory_release_array(memory, output->segments, output->segment_capacity,
                         sizeof(*output->segments));
    memory_release_array(memory, output->ooms, output->oom_capacity, sizeof(*output->ooms));
    ranges_release(&output->held);
}
