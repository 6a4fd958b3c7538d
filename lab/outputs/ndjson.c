/* Events and memory as one JSON object a line; see outputs.h. Names are those of the CSV columns.
 */
#include "lab/outputs/outputs.h"

enum {
    PIECE_BYTES = 64 * 1024 /* written at a time */
};

int ndjson_output_begin(struct ndjson_output *output)
{
    lab_begin_json(output->about->lab, &output->writer);
    return LOG_FINE;
}

void ndjson_output_release(struct ndjson_output *output)
{
    json_writer_release(&output->writer);
}

static void begin_line(struct ndjson_output *output, const struct timeline_row *row,
                       const char *operation)
{
    struct json_writer *writer = &output->writer;
    json_writer_begin_object(writer);
    json_writer_member_u64(writer, "event", row->number);
    if (output->about->facts->log.times)
        json_writer_member_u64(writer, "time_us", row->time_us);
    json_writer_member_text(writer, "operation", operation);
}

static void end_line(struct json_writer *writer)
{
    json_writer_end_object(writer);
    json_writer_newline(writer);
}

static void write_moves(struct ndjson_output *output, const struct timeline_row *row)
{
    for (size_t i = 0; i < row->move_count; i++) {
        const char *word = output_move(row->moves[i].event);
        if (!word)
            continue;
        begin_line(output, row, word);
        json_writer_member_u64(&output->writer, "offset", row->moves[i].offset);
        json_writer_member_u64(&output->writer, "block_bytes", row->moves[i].bytes);
        end_line(&output->writer);
    }
}

static void write_memory(struct json_writer *writer, const struct timeline_row *row)
{
    const struct policy_measures *memory = &row->memory;
    json_writer_member_u64(writer, "live_bytes", row->live_bytes);
    json_writer_member_u64(writer, "used_bytes", memory->used_bytes);
    json_writer_member_u64(writer, "reserved_bytes", memory->reserved_bytes);
    json_writer_member_u64(writer, "free_bytes", memory->free_bytes);
    if (row->largest_known)
        json_writer_member_u64(writer, "largest_free_bytes", row->largest_free);
    json_writer_member_u64(writer, "pending_bytes", memory->pending_bytes);
    json_writer_member_u64(writer, "forgotten_bytes", memory->forgotten_bytes);
    json_writer_member_u64(writer, "segments", memory->segments);
    json_writer_member_u64(writer, "device_calls", memory->device_calls);
    json_writer_member_u64(writer, "retries", memory->retries);
    json_writer_member_u64(writer, "ooms", row->ooms);
    json_writer_member_u64(writer, "host", row->host);
}

static int write_row(void *context, const struct timeline_row *row)
{
    struct ndjson_output *output = context;
    struct json_writer *writer = &output->writer;
    write_moves(output, row);
    begin_line(output, row, output_operation(row));
    if (row->id != 0)
        json_writer_member_u64(writer, "allocation_id", row->id);
    if (row->operation == LOG_ALLOCATE || row->operation == LOG_FREE)
        json_writer_member_u64(writer, "requested_bytes", row->bytes);
    if (row->stream != LOG_OWN_STREAM)
        json_writer_member_u64(writer, "stream", row->stream);
    if (row->on_gpu) {
        json_writer_member_u64(writer, "offset", row->offset);
        json_writer_member_u64(writer, "block_bytes", row->block_bytes);
    }
    write_memory(writer, row);
    end_line(writer);
    return writer->length < PIECE_BYTES ? LOG_FINE : output_file_json(&output->file, writer);
}

static int finish(void *context, const struct timeline_end *end)
{
    struct ndjson_output *output = context;
    (void)end;
    return output_file_json(&output->file, &output->writer);
}

struct timeline_sink ndjson_output_sink(struct ndjson_output *output)
{
    return (struct timeline_sink){.context = output, .row = write_row, .end = finish};
}
