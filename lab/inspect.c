/* inspect: what a log holds. One walk through its events, whose live allocations are in one table.
 */
#include "lab/inspect.h"

#include "base/memory.h"

/* ------------------------------------------------------------------------------ finding out */

static size_t bucket_of(uint64_t number)
{
    size_t bits = 0;
    for (; number > 0; number >>= 1)
        bits++;
    return bits;
}

static void see_allocation(struct inspect_findings *found, const struct event *event,
                           uint64_t number)
{
    size_t bucket = bucket_of(event->bytes);
    found->size_count[bucket]++;
    found->size_bytes[bucket] += event->bytes;
    found->alive[event->slot] = (struct inspect_alive){event->id, event->place,   event->bytes,
                                                       number,    event->time_us, event->stream};
    found->live_bytes += event->bytes;
    found->live++;
    if (event->id == found->facts->peak_id) {
        found->peak_event = number;
        found->peak_count = found->live;
    }
}

static void see_free(struct inspect_findings *found, const struct event *event, uint64_t number)
{
    struct inspect_alive *alive = &found->alive[event->slot];
    uint64_t time = event->time_us > alive->time_us ? event->time_us - alive->time_us : 0;
    found->event_life[bucket_of(number - alive->event)]++;
    found->time_life[bucket_of(time)]++;
    found->freed++;
    found->elsewhere += alive->stream != event->stream;
    found->live_bytes -= alive->bytes;
    found->live--;
    alive->id = 0;
}

static void see_leaks(struct inspect_findings *found)
{
    found->leaked_bytes = found->live_bytes;
    for (uint64_t i = 0; i < found->facts->peak_live; i++) {
        const struct inspect_alive *alive = &found->alive[i];
        if (alive->id != 0 &&
            (found->largest_leak.id == 0 || alive->bytes > found->largest_leak.bytes ||
             (alive->bytes == found->largest_leak.bytes && alive->id < found->largest_leak.id)))
            found->largest_leak = *alive;
    }
}

static int find_out(struct lab *lab, const struct events *events, struct inspect_findings *found)
{
    struct events_walk *walk;
    struct event event;
    uint64_t number = 0;
    int status = events_walk_begin(events, &walk);
    if (status != LOG_FINE)
        return status;
    lab->doing = "looking";
    while ((status = events_walk_next(walk, &event)) == LOG_FINE) {
        number++;
        if (number % 65536 == 0)
            lab_show_progress(lab, (double)number / (double)found->facts->events);
        if (event.operation == LOG_ALLOCATE)
            see_allocation(found, &event, number);
        else if (event.operation == LOG_FREE)
            see_free(found, &event, number);
        else if (event.operation == LOG_REFUSED)
            found->refused_bytes += event.bytes;
    }
    events_walk_end(walk);
    see_leaks(found);
    return status == LOG_STOPPED ? LOG_FINE : status;
}

/* ------------------------------------------------------------------------------ the command */

static int inspect(struct lab *lab, const struct events *events)
{
    const struct events_facts *facts = events_facts(events);
    struct inspect_findings found = {.facts = facts};
    size_t slots = facts->peak_live > 0 ? (size_t)facts->peak_live : 1;
    found.alive = memory_allocate_zeroed(lab->memory, slots, sizeof(*found.alive));
    int status = found.alive ? find_out(lab, events, &found) : LOG_NO_MEMORY;
    memory_release_array(lab->memory, found.alive, slots, sizeof(*found.alive));
    if (status != LOG_FINE) {
        const struct log_problem problem = {"cannot read the temporary file"};
        return lab_log_error(lab, lab->line.operands[0], status, &problem);
    }
    lab_hide_progress(lab);
    return lab->output.json ? inspect_print_json(lab, &found) : inspect_print_text(lab, &found);
}

int perform_inspect(struct lab *lab)
{
    struct events *events;
    int status = lab_read_log(lab, &events);
    if (status != LAB_FINE)
        return status;
    status = inspect(lab, events);
    events_release(events);
    return status;
}
