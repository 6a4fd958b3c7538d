/* The story of an out of memory as one JSON document; see explain.h. */
#include <string.h>

#include "lab/explain.h"

static void write_found(struct json_writer *writer, const char *name, uint64_t number)
{
    if (number > 0)
        json_writer_member_u64(writer, name, number);
    else
        json_writer_member_null(writer, name);
}

static void write_owner(struct json_writer *writer, const struct explain_owner *owner)
{
    json_writer_begin_object(writer);
    json_writer_member_u64(writer, "allocation_id", owner->id);
    json_writer_member_u64(writer, "requested_bytes", owner->bytes);
    json_writer_member_u64(writer, "offset", owner->offset);
    json_writer_member_u64(writer, "reserved_bytes", owner->reserved_bytes);
    json_writer_member_u64(writer, "stream", owner->stream);
    json_writer_member_u64(writer, "allocated_at_event", owner->event);
    write_found(writer, "freed_at_event", owner->freed_event);
    json_writer_end_object(writer);
}

static void write_asked(struct json_writer *writer, const struct explain *explain)
{
    json_writer_key(writer, "asked");
    json_writer_begin_object(writer);
    json_writer_member_u64(writer, "requested_bytes", explain->asked.bytes);
    json_writer_member_u64(writer, "stream", explain->asked.stream);
    json_writer_member_u64(writer, "event", explain->number);
    json_writer_member_u64(writer, "allocation_id", explain->asked.id);
    json_writer_member_u64(writer, "place", explain->asked.place);
    json_writer_end_object(writer);
}

static void write_had(struct json_writer *writer, const struct explain *explain)
{
    json_writer_key(writer, "memory");
    json_writer_begin_object(writer);
    json_writer_member_u64(writer, "live_bytes", explain->live_bytes);
    json_writer_member_u64(writer, "live_allocations", explain->live_count);
    json_writer_member_u64(writer, "reserved_bytes", explain->after.reserved_bytes);
    json_writer_member_u64(writer, "used_bytes", explain->after.used_bytes);
    json_writer_member_u64(writer, "pending_bytes", explain->after.pending_bytes);
    json_writer_member_u64(writer, "forgotten_bytes", explain->after.forgotten_bytes);
    json_writer_member_u64(writer, "free_bytes", explain->free_bytes);
    json_writer_member_u64(writer, "free_pieces", explain->free_pieces);
    json_writer_member_u64(writer, "untaken_bytes", explain->untaken_bytes);
    json_writer_key(writer, "largest_free_bytes");
    json_writer_begin_array(writer);
    for (size_t i = 0; i < explain->largest_count; i++)
        json_writer_u64(writer, explain->largest[i]);
    json_writer_end_array(writer);
    json_writer_member_text(writer, "map", explain->map);
    json_writer_member_u64(writer, "map_cell_bytes", explain->cell_bytes);
    json_writer_end_object(writer);
}

static void write_holders(struct json_writer *writer, const struct explain *explain)
{
    const struct explain_window *window = &explain->window;
    json_writer_key(writer, "least_in_the_way");
    if (window->found) {
        json_writer_begin_object(writer);
        json_writer_member_u64(writer, "offset", window->offset);
        json_writer_member_u64(writer, "bytes", window->bytes);
        json_writer_member_u64(writer, "live_bytes", window->live_bytes);
        json_writer_member_u64(writer, "live_blocks", window->live_blocks);
        json_writer_key(writer, "largest_live");
        json_writer_begin_array(writer);
        for (size_t i = 0; i < window->holder_count; i++)
            write_owner(writer, &window->holders[i]);
        json_writer_end_array(writer);
        json_writer_end_object(writer);
    } else {
        json_writer_null(writer);
    }
    json_writer_member_u64(writer, "held_segments", explain->held_segments);
    json_writer_member_u64(writer, "held_bytes", explain->held_bytes);
    json_writer_key(writer, "segments");
    json_writer_begin_array(writer);
    for (size_t i = 0; i < explain->segment_count; i++) {
        const struct explain_segment *segment = &explain->segments[i];
        json_writer_begin_object(writer);
        json_writer_member_u64(writer, "offset", segment->offset);
        json_writer_member_u64(writer, "bytes", segment->bytes);
        json_writer_member_u64(writer, "free_bytes", segment->free_bytes);
        json_writer_member_u64(writer, "live_blocks", segment->live_blocks);
        if (segment->oldest.event > 0) {
            json_writer_key(writer, "oldest");
            write_owner(writer, &segment->oldest);
        }
        json_writer_end_object(writer);
    }
    json_writer_end_array(writer);
}

static void write_tried(struct json_writer *writer, const struct explain *explain)
{
    json_writer_key(writer, "tried");
    json_writer_begin_object(writer);
    json_writer_member_u64(writer, "searched", explain->scanned);
    json_writer_member_u64(writer, "device_calls",
                           explain->after.device_calls - explain->before.device_calls);
    json_writer_member_u64(writer, "retries", explain->after.retries - explain->before.retries);
    json_writer_member_u64(writer, "given_back_bytes",
                           explain->before.reserved_bytes > explain->after.reserved_bytes
                               ? explain->before.reserved_bytes - explain->after.reserved_bytes
                               : 0);
    json_writer_end_object(writer);
    json_writer_key(writer, "went_wrong");
    if (explain->wrong_event > 0) {
        json_writer_begin_object(writer);
        json_writer_member_u64(writer, "event", explain->wrong_event);
        json_writer_member_bool(writer, "allocation", explain->wrong.operation == LOG_ALLOCATE);
        json_writer_member_u64(writer, "requested_bytes", explain->wrong.bytes);
        json_writer_member_u64(writer, "most_after_it_bytes", explain->wrong_largest);
        json_writer_end_object(writer);
    } else {
        json_writer_null(writer);
    }
}

static void write_cures(struct json_writer *writer, const struct explain *explain)
{
    uint64_t smallest = explain->fit.smallest;
    json_writer_key(writer, "others");
    json_writer_begin_array(writer);
    for (size_t i = 0; i < explain->try_count; i++) {
        const struct explain_try *attempt = &explain->tries[i];
        json_writer_begin_object(writer);
        json_writer_member_text(writer, "policy", attempt->policy);
        json_writer_member_bool(writer, "served", attempt->run.served);
        write_found(writer, "refused_at_event", attempt->run.refused_event);
        json_writer_member_u64(writer, "peak_reserved_bytes", attempt->run.peak_reserved);
        json_writer_member_u64(writer, "retries", attempt->run.retries);
        json_writer_end_object(writer);
    }
    json_writer_end_array(writer);
    write_found(writer, "more_bytes",
                smallest > explain->capacity_bytes ? smallest - explain->capacity_bytes : 0);
}

int explain_print_json(const struct explain *explain)
{
    struct json_writer writer;
    lab_begin_json(explain->lab, &writer);
    json_writer_begin_object(&writer);
    lab_member_foreign(&writer, "policy", explain->policy);
    json_writer_member_u64(&writer, "capacity_bytes", explain->capacity_bytes);
    json_writer_member_u64(&writer, "events", events_facts(explain->events)->events);
    json_writer_member_u64(&writer, "floor_bytes", events_facts(explain->events)->peak_bytes);
    json_writer_member_bool(&writer, "out_of_memory", explain->refused);
    if (explain->refused) {
        json_writer_member_bool(&writer, "nothing_can_help", explain_is_full(explain));
        write_asked(&writer, explain);
        write_had(&writer, explain);
        write_holders(&writer, explain);
        write_tried(&writer, explain);
        write_cures(&writer, explain);
    } else {
        json_writer_member_u64(&writer, "peak_reserved_bytes", explain->all.peak_reserved);
        json_writer_member_u64(&writer, "host", explain->all.host);
    }
    write_found(&writer, "smallest_device_bytes", explain->fit.smallest);
    write_found(&writer, "refuses_again_at_bytes", explain->fit.fails_again);
    write_found(&writer, "sure_from_bytes", explain->fit.sure);
    json_writer_end_object(&writer);
    return lab_print_json(explain->lab, &writer);
}
