/* A file that an output is written to, and the words that all of them use; see outputs.h. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "lab/outputs/outputs.h"
#include "lab/trace_line.h"

static void fail(struct output_file *file)
{
    if (file->failure == 0)
        file->failure = errno != 0 ? errno : EIO;
}

bool output_file_open(struct output_file *file, const char *name, FILE *standard)
{
    file->standard = strcmp(name, "-") == 0;
    file->to = file->standard ? standard : fopen(name, "we");
    return file->to != NULL;
}

void output_file_close(struct output_file *file)
{
    errno = 0;
    if ((file->standard ? fflush(file->to) : fclose(file->to)) != 0)
        fail(file);
}

void output_file_bytes(struct output_file *file, const void *bytes, size_t length)
{
    errno = 0;
    if (file->failure == 0 && fwrite(bytes, 1, length, file->to) != length)
        fail(file);
}

void output_file_text(struct output_file *file, const char *format, ...)
{
    if (file->failure != 0)
        return;
    va_list arguments;
    va_start(arguments, format);
    errno = 0;
    if (vfprintf(file->to, format, arguments) < 0)
        fail(file);
    va_end(arguments);
}

int output_file_json(struct output_file *file, struct json_writer *writer)
{
    if (writer->failure != JSON_WRITER_FINE)
        return LOG_NO_MEMORY;
    output_file_bytes(file, writer->data, writer->length);
    json_writer_cut(writer, 0);
    return LOG_FINE;
}

const char *output_operation(const struct timeline_row *row)
{
    if (row->operation == LOG_ALLOCATE && row->result == REPLAY_REFUSED)
        return "out_of_memory";
    if (row->operation == LOG_ALLOCATE && row->result == REPLAY_HOST)
        return "allocate_on_host";
    return trace_line_word(row->operation);
}

const char *output_move(enum device_event event)
{
    switch (event) {
    case DEVICE_REGION:
        return "segment_alloc";
    case DEVICE_REGION_FREE:
        return "segment_free";
    case DEVICE_MAP:
        return "segment_map";
    case DEVICE_UNMAP:
        return "segment_unmap";
    case DEVICE_RESERVE:
    case DEVICE_UNRESERVE:
    default:
        return NULL;
    }
}
