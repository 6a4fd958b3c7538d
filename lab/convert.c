/* convert: any log as our own trace, one JSON object a line, with the keys that the daemon gives
 * its events.
 *
 * A converted log converted again is the same bytes: allocations and streams are numbered in the
 * order of what is written, times begin at 0, and what is as usual is left out. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "lab/lab.h"
#include "lab/number_map.h"
#include "lab/trace_line.h"

enum {
    PIECE_BYTES = 64 * 1024 /* written at a time */
};

struct converting {
    struct lab *lab;
    const struct events_facts *facts;
    FILE *to;
    int failure; /* errno of the first write that failed */
    uint64_t written;
    uint64_t left_out;
    uint64_t first_time_us;
    struct number_map streams; /* as they are written, by those of the recording; 0 stays 0 */
    uint64_t *stream_of;       /* of the live allocations, by slot, as in the recording */
    size_t slots;
};

/* A stream is told where it is not the usual one: 0, in a free that of its allocation. */
static bool tells_stream(const struct converting *converting, const struct event *event)
{
    switch (event->operation) {
    case LOG_ALLOCATE:
    case LOG_REFUSED:
        return event->stream != 0;
    case LOG_FREE:
        return event->stream != converting->stream_of[event->slot];
    case LOG_RECORD_STREAM:
    case LOG_EVENT_DONE:
        return true;
    default:
        return false;
    }
}

/* The number that a stream has in what is written. 0, or LOG_NO_MEMORY. */
static int number_stream(struct converting *converting, const struct event *event, uint64_t *number)
{
    *number = 0;
    if (event->stream == 0 || !tells_stream(converting, event))
        return LOG_FINE;
    uint32_t known = number_map_find(&converting->streams, event->stream);
    if (known == NUMBER_MAP_NONE) {
        if (number_map_reserve(&converting->streams) != 0)
            return LOG_NO_MEMORY;
        known = (uint32_t)converting->streams.count + 1;
        number_map_put(&converting->streams, event->stream, known);
    }
    *number = known;
    return LOG_FINE;
}

static uint64_t time_of(struct converting *converting, const struct event *event)
{
    if (converting->written == 1)
        converting->first_time_us = event->time_us;
    return event->time_us > converting->first_time_us ? event->time_us - converting->first_time_us
                                                      : 0;
}

static int write_event(struct converting *converting, struct json_writer *writer,
                       const struct event *event)
{
    uint64_t stream;
    if (number_stream(converting, event, &stream) != LOG_FINE)
        return LOG_NO_MEMORY;
    converting->written++;
    const struct trace_line line = {
        .operation = event->operation,
        .id = event->id,
        .bytes = event->bytes,
        .sequence = converting->written,
        .time_us = time_of(converting, event),
        .stream = stream,
        .alignment = event->alignment,
        .timed = converting->facts->log.times,
        .tells_stream = tells_stream(converting, event),
        .newest = event->newest,
        .before = event->before,
        .upper = event->upper,
    };
    trace_line_write(writer, &line);
    if (event->operation == LOG_ALLOCATE)
        converting->stream_of[event->slot] = event->stream;
    return writer->failure == JSON_WRITER_FINE ? LOG_FINE : LOG_NO_MEMORY;
}

static void hand_over(struct converting *converting, struct json_writer *writer)
{
    errno = 0;
    if (converting->failure == 0 &&
        fwrite(writer->data, 1, writer->length, converting->to) != writer->length)
        converting->failure = errno != 0 ? errno : EIO;
    json_writer_cut(writer, 0);
}

static int write_events(struct converting *converting, struct events_walk *walk)
{
    struct json_writer writer;
    struct event event;
    int status;
    lab_begin_json(converting->lab, &writer);
    while ((status = events_walk_next(walk, &event)) == LOG_FINE && converting->failure == 0) {
        if (!trace_line_word(event.operation)) {
            converting->left_out++; /* what the recorded allocator did by itself */
            continue;
        }
        if (write_event(converting, &writer, &event) != LOG_FINE) {
            json_writer_release(&writer);
            return LOG_NO_MEMORY;
        }
        if (writer.length >= PIECE_BYTES) {
            hand_over(converting, &writer);
            lab_show_progress(converting->lab,
                              (double)converting->written / (double)converting->facts->events);
        }
    }
    hand_over(converting, &writer);
    json_writer_release(&writer);
    return status == LOG_STOPPED ? LOG_FINE : status;
}

static int write_all(struct converting *converting, const struct events *events)
{
    const struct worsegpu_memory *memory = converting->lab->memory;
    /* The numbers are those that a reader gave, small ones: no key is needed against them. */
    const struct keyed_hash hash = {{1, 1}};
    struct events_walk *walk;
    int status = events_walk_begin(events, &walk);
    if (status != LOG_FINE)
        return status;
    number_map_init(&converting->streams, &hash, memory);
    converting->slots = (size_t)converting->facts->peak_live + 1;
    converting->stream_of =
        memory_allocate_array(memory, converting->slots, sizeof(*converting->stream_of));
    converting->lab->doing = "writing";
    status = converting->stream_of ? write_events(converting, walk) : LOG_NO_MEMORY;
    memory_release_array(memory, converting->stream_of, converting->slots,
                         sizeof(*converting->stream_of));
    number_map_release(&converting->streams);
    events_walk_end(walk);
    return status;
}

/* ------------------------------------------------------------------------------ the command */

static int print_summary(const struct converting *converting)
{
    struct lab *lab = converting->lab;
    const struct events_facts *facts = converting->facts;
    lab_hide_progress(lab);
    if (lab->output.json) {
        struct json_writer writer;
        lab_begin_json(lab, &writer);
        json_writer_begin_object(&writer);
        json_writer_member_text(&writer, "format", facts->log.format);
        json_writer_member_u64(&writer, "device", facts->device);
        json_writer_member_u64(&writer, "events", converting->written);
        json_writer_member_u64(&writer, "results_left_out", converting->left_out);
        json_writer_member_u64(&writer, "unknown_frees", facts->unknown_frees);
        json_writer_member_u64(&writer, "unknown_uses", facts->unknown_uses);
        json_writer_end_object(&writer);
        return lab_print_json(lab, &writer);
    }
    if (facts->unknown_frees + facts->unknown_uses > 0)
        output_advice(&lab->output, "%" PRIu64 " event%s left out, of what the log never allocated",
                      facts->unknown_frees + facts->unknown_uses,
                      facts->unknown_frees + facts->unknown_uses == 1 ? "" : "s");
    return LAB_FINE;
}

static int convert(struct lab *lab, const struct events *events, FILE *to, const char *name)
{
    struct converting converting = {.lab = lab, .facts = events_facts(events), .to = to};
    int status = write_all(&converting, events);
    if (status != LOG_FINE) {
        const struct log_problem problem = {"cannot read the temporary file"};
        return lab_log_error(lab, lab->line.operands[0], status, &problem);
    }
    errno = 0;
    if (converting.failure == 0 && fflush(to) != 0)
        converting.failure = errno != 0 ? errno : EIO;
    if (converting.failure != 0)
        return lab_not_written(lab, name, converting.failure);
    return print_summary(&converting);
}

int perform_convert(struct lab *lab)
{
    bool named = lab_has(lab, LAB_OPTION_output);
    const char *name = named ? lab->line.values[LAB_OPTION_output].text : NULL;
    struct events *events;
    if (lab->output.json && !named)
        return lab_usage(lab, "convert --json prints a summary: the trace needs --output FILE",
                         "try: worsegpu-lab convert LOG --json --output FILE");
    int status = lab_read_log(lab, &events);
    if (status != LAB_FINE)
        return status;
    /* Only now: a log that cannot be read leaves the file as it was. */
    FILE *own = named ? fopen(name, "we") : NULL;
    if (named && !own)
        status = lab_not_written(lab, name, errno);
    else
        status = convert(lab, events, own ? own : lab->output.out, name);
    if (own && fclose(own) != 0 && status == LAB_FINE)
        status = lab_not_written(lab, name, errno);
    events_release(events);
    return status;
}
