/* A made-up run as text; see generate_write.h. */
#include "lab/generate_write.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "lab/trace_line.h"

#define RMM_HEADER "Thread,Time,Action,Pointer,Size,Stream\n"

enum {
    LONGEST_LINE = 256, /* in any of the forms */
    RMM_ALIGNMENT = 256
};
#define RMM_FIRST_POINTER UINT64_C(0x7f0000000000)

enum generate_form generate_form_find(const char *name)
{
    static const char *const NAMES[GENERATE_FORMS] = {
        [GENERATE_TRACE] = "trace", [GENERATE_SCRIPT] = "script", [GENERATE_RMM] = "rmm"};
    enum generate_form form = GENERATE_TRACE;
    while (form < GENERATE_FORMS && strcmp(NAMES[form], name) != 0)
        form++;
    return form;
}

void generate_writer_init(struct generate_writer *writer, enum generate_form form, FILE *to,
                          const struct scenario *scenario, const struct worsegpu_memory *memory)
{
    *writer = (struct generate_writer){.memory = memory,
                                       .scenario = scenario,
                                       .form = form,
                                       .to = to,
                                       .next_pointer = RMM_FIRST_POINTER};
    json_writer_init(&writer->line, memory, LONGEST_LINE);
}

void generate_writer_release(struct generate_writer *writer)
{
    json_writer_release(&writer->line);
    memory_release_array(writer->memory, writer->allocations, writer->capacity,
                         sizeof(*writer->allocations));
}

static int put(struct generate_writer *writer, const char *bytes, size_t length)
{
    errno = 0;
    if (writer->failure == 0 && fwrite(bytes, 1, length, writer->to) != length)
        writer->failure = errno != 0 ? errno : EIO;
    return writer->failure == 0 ? LOG_FINE : LOG_STOPPED;
}

int generate_writer_begin(struct generate_writer *writer)
{
    if (writer->form == GENERATE_RMM)
        put(writer, RMM_HEADER, strlen(RMM_HEADER));
    return writer->failure;
}

static int put_json(struct generate_writer *writer)
{
    if (writer->line.failure != JSON_WRITER_FINE)
        return LOG_NO_MEMORY;
    int status = put(writer, writer->line.data, writer->line.length);
    json_writer_cut(&writer->line, 0);
    return status;
}

/* ------------------------------------------------------------------------------ our trace */

static int write_trace(struct generate_writer *writer, const struct log_record *record)
{
    bool from_elsewhere = record->operation == LOG_FREE && record->stream != LOG_OWN_STREAM;
    bool on_a_stream = record->operation == LOG_ALLOCATE && record->stream != 0;
    const struct trace_line line = {
        .operation = record->operation,
        .id = record->key,
        .bytes = record->bytes,
        .sequence = writer->written,
        .time_us = record->time_us,
        .timed = true,
        .stream = record->stream,
        .tells_stream = from_elsewhere || on_a_stream || record->operation == LOG_RECORD_STREAM ||
                        record->operation == LOG_EVENT_DONE,
    };
    trace_line_write(&writer->line, &line);
    return put_json(writer);
}

/* ------------------------------------------------------------------------------ requests */

/* Allocations are called by tags, so that a script needs no handle from an answer. */
static void write_tag(struct json_writer *line, uint64_t id)
{
    char tag[24];
    snprintf(tag, sizeof(tag), "a%" PRIu64, id);
    json_writer_member_text(line, "tag", tag);
}

static const char *method_of(enum log_operation operation)
{
    switch (operation) {
    case LOG_ALLOCATE:
        return "allocate";
    case LOG_FREE:
        return "free";
    case LOG_RECORD_STREAM:
        return "record_stream";
    default:
        return "event_done";
    }
}

static int write_request(struct generate_writer *writer, const struct log_record *record)
{
    struct json_writer *line = &writer->line;
    bool usual =
        record->operation == LOG_FREE ? record->stream == LOG_OWN_STREAM : record->stream == 0;
    json_writer_begin_object(line);
    json_writer_member_text(line, "method", method_of(record->operation));
    json_writer_key(line, "params");
    json_writer_begin_object(line);
    if (record->operation == LOG_ALLOCATE)
        json_writer_member_u64(line, "requested_bytes", record->bytes);
    if (record->operation != LOG_EVENT_DONE)
        write_tag(line, record->key);
    else if (record->bytes != UINT64_MAX)
        json_writer_member_u64(line, "count", record->bytes);
    if (!usual)
        json_writer_member_u64(line, "stream", record->stream);
    json_writer_end_object(line);
    json_writer_end_object(line);
    json_writer_newline(line);
    return put_json(writer);
}

/* ------------------------------------------------------------------------------ RMM's log */

static int remember(struct generate_writer *writer, const struct log_record *record)
{
    if (memory_grow(writer->memory, &writer->allocations, &writer->capacity,
                    (size_t)record->key + 1, sizeof(*writer->allocations)) != 0)
        return LOG_NO_MEMORY;
    writer->allocations[record->key] = (struct generate_allocation){
        .pointer = writer->next_pointer, .bytes = record->bytes, .stream = record->stream};
    writer->next_pointer += (record->bytes + RMM_ALIGNMENT - 1) / RMM_ALIGNMENT * RMM_ALIGNMENT;
    return LOG_FINE;
}

int generate_rmm_tells(void *context, const struct log_record *record)
{
    bool *told = context;
    *told = record->operation == LOG_ALLOCATE || record->operation == LOG_FREE;
    return *told ? LOG_FINE : LOG_STOPPED;
}

/* A million allocations of the largest size would pass the end of what a pointer can say: it goes
 * on from 0 then, and rows still find their allocations by it. */
static int write_row(struct generate_writer *writer, const struct log_record *record)
{
    char row[LONGEST_LINE];
    bool allocates = record->operation == LOG_ALLOCATE;
    if (allocates && remember(writer, record) != LOG_FINE)
        return LOG_NO_MEMORY;
    const struct generate_allocation *told = &writer->allocations[record->key];
    bool own = allocates || record->stream == LOG_OWN_STREAM;
    uint64_t seconds = record->time_us / 1000000;
    int length = snprintf(row, sizeof(row),
                          "%" PRIu64 ",%02" PRIu64 ":%02" PRIu64 ":%02" PRIu64 ".%06" PRIu64
                          ",%s,0x%" PRIx64 ",%" PRIu64 ",0x%" PRIx64 "\n",
                          writer->scenario->process, seconds / 3600 % 24, seconds / 60 % 60,
                          seconds % 60, record->time_us % 1000000, allocates ? "allocate" : "free",
                          told->pointer, told->bytes, own ? told->stream : record->stream);
    return put(writer, row, (size_t)length);
}

int generate_writer_record(void *context, const struct log_record *record)
{
    struct generate_writer *writer = context;
    writer->written++;
    switch (writer->form) {
    case GENERATE_RMM:
        return write_row(writer, record);
    case GENERATE_SCRIPT:
        return write_request(writer, record);
    case GENERATE_TRACE:
    default:
        return write_trace(writer, record);
    }
}
