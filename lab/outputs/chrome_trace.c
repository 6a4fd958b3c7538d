/* Chrome's trace event format; see outputs.h. Perfetto and chrome://tracing open it.
 *
 * Source of the format: the document "Trace Event Format" of the Catapult project, JSON object
 * form. Times are microseconds; in a log without times an event lasts one. */
#include <inttypes.h>

#include "base/bytes_text.h"
#include "lab/outputs/outputs.h"

static void begin_event(struct chrome_output *output)
{
    output_file_text(&output->file, output->any ? ",\n" : "\n");
    output->any = true;
}

static uint64_t time_of(const struct chrome_output *output, const struct timeline_row *row)
{
    return output->about->facts->log.times ? row->time_us : row->number - 1;
}

int chrome_output_begin(struct chrome_output *output)
{
    const struct output_about *about = output->about;
    struct json_writer writer;
    lab_begin_json(about->lab, &writer);
    json_writer_begin_object(&writer);
    lab_member_foreign(&writer, "log", about->name);
    lab_member_foreign(&writer, "policy", about->policy);
    json_writer_member_text(&writer, "ts", about->facts->log.times ? "microseconds" : "events");
    json_writer_end_object(&writer);
    output_file_text(&output->file, "{\"displayTimeUnit\":\"ms\",\"otherData\":");
    int status = output_file_json(&output->file, &writer);
    output_file_text(&output->file, ",\"traceEvents\":[");
    if (status == LOG_FINE) {
        begin_event(output);
        json_writer_begin_object(&writer);
        json_writer_member_text(&writer, "ph", "M");
        json_writer_member_text(&writer, "name", "process_name");
        json_writer_member_u64(&writer, "pid", 1);
        json_writer_key(&writer, "args");
        json_writer_begin_object(&writer);
        lab_member_foreign(&writer, "name", about->policy);
        json_writer_end_object(&writer);
        json_writer_end_object(&writer);
        status = output_file_json(&output->file, &writer);
    }
    json_writer_release(&writer);
    return status;
}

static void write_instant(struct chrome_output *output, uint64_t ts, char scope, const char *name,
                          uint64_t event, uint64_t bytes)
{
    begin_event(output);
    output_file_text(&output->file,
                     "{\"ph\":\"i\",\"s\":\"%c\",\"name\":\"%s\",\"ts\":%" PRIu64
                     ",\"pid\":1,\"tid\":1,\"args\":{\"event\":%" PRIu64 ",\"bytes\":%" PRIu64 "}}",
                     scope, name, ts, event, bytes);
}

/* Viewers draw each counter on a track of its own, from one value to the next. */
static void write_counter(struct chrome_output *output, uint64_t ts, const char *name,
                          uint64_t bytes)
{
    begin_event(output);
    output_file_text(&output->file,
                     "{\"ph\":\"C\",\"name\":\"%s\",\"ts\":%" PRIu64
                     ",\"pid\":1,\"args\":{\"bytes\":%" PRIu64 "}}",
                     name, ts, bytes);
}

static void write_slice(struct chrome_output *output, char phase, uint64_t ts, uint64_t id,
                        uint64_t bytes)
{
    char size[BYTES_TEXT_SIZE];
    bytes_to_text(bytes, false, size);
    begin_event(output);
    output_file_text(&output->file,
                     "{\"ph\":\"%c\",\"cat\":\"allocation\",\"name\":\"%s\",\"id\":%" PRIu64
                     ",\"ts\":%" PRIu64 ",\"pid\":1,\"tid\":1",
                     phase, size, id, ts);
}

static void write_allocation(struct chrome_output *output, const struct timeline_row *row,
                             uint64_t ts)
{
    if (row->result == REPLAY_REFUSED)
        write_instant(output, ts, 'g', "out of memory", row->number, row->bytes);
    if (!row->on_gpu)
        return;
    write_slice(output, 'b', ts, row->id, row->bytes);
    output_file_text(&output->file,
                     ",\"args\":{\"event\":%" PRIu64 ",\"requested_bytes\":%" PRIu64
                     ",\"offset\":%" PRIu64 ",\"block_bytes\":%" PRIu64 ",\"stream\":%" PRIu64 "}}",
                     row->number, row->bytes, row->offset, row->block_bytes, row->stream);
}

static int write_row(void *context, const struct timeline_row *row)
{
    struct chrome_output *output = context;
    uint64_t ts = time_of(output, row);
    output->last_ts = ts;
    for (size_t i = 0; i < row->move_count; i++) {
        const char *word = output_move(row->moves[i].event);
        if (word)
            write_instant(output, ts, 't', word, row->number, row->moves[i].bytes);
    }
    if (row->operation == LOG_ALLOCATE) {
        write_allocation(output, row, ts);
    } else if (row->operation == LOG_FREE && row->on_gpu) {
        write_slice(output, 'e', ts, row->id, row->bytes);
        output_file_text(&output->file, "}");
    }
    write_counter(output, ts, "live", row->live_bytes);
    write_counter(output, ts, "reserved", row->memory.reserved_bytes);
    if (row->largest_known)
        write_counter(output, ts, "largest free", row->largest_free);
    return LOG_FINE;
}

/* What is still alive ends with the log: a slice without an end is drawn by nobody alike. */
static int finish(void *context, const struct timeline_end *end)
{
    struct chrome_output *output = context;
    for (size_t i = 0; i < end->slots; i++) {
        if (!end->live[i].on_gpu)
            continue;
        write_slice(output, 'e', output->last_ts, end->live[i].id, end->live[i].bytes);
        output_file_text(&output->file, ",\"args\":{\"never_freed\":true}}");
    }
    output_file_text(&output->file, "\n]}\n");
    return LOG_FINE;
}

struct timeline_sink chrome_output_sink(struct chrome_output *output)
{
    return (struct timeline_sink){.context = output, .row = write_row, .end = finish};
}
