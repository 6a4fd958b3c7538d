/* One event as a line of our own trace; see trace_line.h. */
#include "lab/trace_line.h"

#include <stddef.h>

const char *trace_line_word(enum log_operation operation)
{
    switch (operation) {
    case LOG_ALLOCATE:
        return "allocate";
    case LOG_FREE:
        return "free";
    case LOG_REFUSED:
        return "allocate_failed";
    case LOG_RECORD_STREAM:
        return "record_stream";
    case LOG_EVENT_DONE:
        return "event_done";
    case LOG_EMPTY_CACHE:
        return "empty_cache";
    default:
        return NULL;
    }
}

void trace_line_write(struct json_writer *writer, const struct trace_line *line)
{
    const char *word = trace_line_word(line->operation);
    if (!word)
        return;
    json_writer_begin_object(writer);
    json_writer_member_text(writer, "operation", word);
    if (line->id != 0)
        json_writer_member_u64(writer, "allocation_id", line->id);
    if (line->operation == LOG_ALLOCATE || line->operation == LOG_REFUSED)
        json_writer_member_u64(writer, "requested_bytes", line->bytes);
    if (line->operation == LOG_EVENT_DONE && line->bytes != UINT64_MAX)
        json_writer_member_u64(writer, "count", line->bytes);
    if (line->newest)
        json_writer_member_bool(writer, "newest", true);
    if (line->before)
        json_writer_member_bool(writer, "before", true);
    json_writer_member_u64(writer, "sequence", line->sequence);
    if (line->timed)
        json_writer_member_u64(writer, "time_us", line->time_us);
    if (line->tells_stream)
        json_writer_member_u64(writer, "stream", line->stream);
    if (line->alignment != 0)
        json_writer_member_u64(writer, "alignment", line->alignment);
    if (line->upper)
        json_writer_member_bool(writer, "upper", true);
    json_writer_end_object(writer);
    json_writer_newline(writer);
}
