/* Events and memory as comma-separated values; see outputs.h.
 *
 * A step of the device is a row of its own, before the row of the event that made the policy do it;
 * what it does not say is left empty. */
#include <inttypes.h>

#include "lab/outputs/outputs.h"

int csv_output_begin(struct csv_output *output)
{
    output_file_text(&output->file,
                     "event,time_us,operation,allocation_id,requested_bytes,stream,offset,"
                     "block_bytes,live_bytes,used_bytes,reserved_bytes,free_bytes,"
                     "largest_free_bytes,pending_bytes,forgotten_bytes,segments,device_calls,"
                     "retries,ooms,host\n");
    return LOG_FINE;
}

static void write_number(struct output_file *file, bool known, uint64_t number)
{
    if (known)
        output_file_text(file, ",%" PRIu64, number);
    else
        output_file_text(file, ",");
}

static void write_moves(struct csv_output *output, const struct timeline_row *row)
{
    for (size_t i = 0; i < row->move_count; i++) {
        const struct timeline_move *move = &row->moves[i];
        const char *word = output_move(move->event);
        if (!word)
            continue;
        output_file_text(&output->file, "%" PRIu64, row->number);
        write_number(&output->file, output->about->facts->log.times, row->time_us);
        output_file_text(&output->file, ",%s,,,,%" PRIu64 ",%" PRIu64 ",,,,,,,,,,,,\n", word,
                         move->offset, move->bytes);
    }
}

static int write_row(void *context, const struct timeline_row *row)
{
    struct csv_output *output = context;
    struct output_file *file = &output->file;
    const struct policy_measures *memory = &row->memory;
    bool sized = row->operation == LOG_ALLOCATE || row->operation == LOG_FREE;
    write_moves(output, row);
    output_file_text(file, "%" PRIu64, row->number);
    write_number(file, output->about->facts->log.times, row->time_us);
    output_file_text(file, ",%s", output_operation(row));
    write_number(file, row->id != 0, row->id);
    write_number(file, sized, row->bytes);
    write_number(file, row->stream != LOG_OWN_STREAM, row->stream);
    write_number(file, row->on_gpu, row->offset);
    write_number(file, row->on_gpu, row->block_bytes);
    write_number(file, true, row->live_bytes);
    write_number(file, true, memory->used_bytes);
    write_number(file, true, memory->reserved_bytes);
    write_number(file, true, memory->free_bytes);
    write_number(file, row->largest_known, row->largest_free);
    write_number(file, true, memory->pending_bytes);
    write_number(file, true, memory->forgotten_bytes);
    write_number(file, true, memory->segments);
    write_number(file, true, memory->device_calls);
    write_number(file, true, memory->retries);
    write_number(file, true, row->ooms);
    write_number(file, true, row->host);
    output_file_text(file, "\n");
    return LOG_FINE;
}

struct timeline_sink csv_output_sink(struct csv_output *output)
{
    return (struct timeline_sink){.context = output, .row = write_row};
}
