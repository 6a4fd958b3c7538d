/* The page, written; see page.h. */
#include <inttypes.h>
#include <string.h>

#include "base/version.h"
#include "lab/outputs/page.h"
#include "lab/page/embed.h"

/* Where the data goes in the template. */
static const char HOLE[] = "<!--DATA-->";

/* A field of each item of an array, as a column: `step` bytes from one to the next. */
struct field {
    const char *name;
    size_t at;
};

struct items {
    const char *name;
    const void *first;
    size_t count;
    size_t step;
    const struct field *fields;
    size_t field_count;
};

#define FIELD(type, name)                                                                          \
    {                                                                                              \
#name, offsetof(struct type, name)                                                         \
    }

static const struct field POINT_FIELDS[] = {FIELD(page_point, number), FIELD(page_point, time_us),
                                            FIELD(page_point, live), FIELD(page_point, reserved),
                                            FIELD(page_point, largest)};
static const struct field BLOCK_FIELDS[] = {
    FIELD(page_block, from),  FIELD(page_block, to),        FIELD(page_block, from_us),
    FIELD(page_block, to_us), FIELD(page_block, offset),    FIELD(page_block, bytes),
    FIELD(page_block, id),    FIELD(page_block, requested), FIELD(page_block, stream),
    FIELD(page_block, lost)};
static const struct field SEGMENT_FIELDS[] = {
    FIELD(page_segment, from),  FIELD(page_segment, to),     FIELD(page_segment, from_us),
    FIELD(page_segment, to_us), FIELD(page_segment, offset), FIELD(page_segment, bytes)};
static const struct field OOM_FIELDS[] = {FIELD(page_oom, number), FIELD(page_oom, time_us),
                                          FIELD(page_oom, bytes)};

static int write_column(struct page_output *output, const struct items *items,
                        const struct field *field)
{
    const struct worsegpu_memory *memory = output->about->lab->memory;
    struct column column = {0};
    int status = LOG_FINE;
    for (size_t i = 0; status == LOG_FINE && i < items->count; i++) {
        uint64_t number;
        memcpy(&number, (const char *)items->first + i * items->step + field->at, sizeof(number));
        if (column_add(&column, memory, number) != 0)
            status = LOG_NO_MEMORY;
    }
    column_write(&column, &output->file);
    column_release(&column, memory);
    return status;
}

static int write_items(struct page_output *output, const struct items *items)
{
    int status = LOG_FINE;
    output_file_text(&output->file, ",\n\"%s\":{\"count\":%zu", items->name, items->count);
    for (size_t i = 0; status == LOG_FINE && i < items->field_count; i++) {
        output_file_text(&output->file, ",\"%s\":", items->fields[i].name);
        status = write_column(output, items, &items->fields[i]);
    }
    output_file_text(&output->file, "}");
    return status;
}

void page_write_json(struct output_file *file, const char *json, size_t length)
{
    while (length > 0) {
        const char *found = memchr(json, '<', length);
        size_t plain = found ? (size_t)(found - json) : length;
        output_file_bytes(file, json, plain);
        json += plain;
        length -= plain;
        if (length > 0) {
            output_file_bytes(file, "\\u003c", 6);
            json++;
            length--;
        }
    }
}

/* ------------------------------------------------------------------------------ the head */

static void write_log(struct json_writer *writer, const struct page_output *output)
{
    const struct output_about *about = output->about;
    const struct events_facts *facts = about->facts;
    const char *slash = strrchr(about->name, '/');
    lab_member_foreign(writer, "log", slash ? slash + 1 : about->name);
    json_writer_member_text(writer, "format", facts->log.format);
    json_writer_member_u64(writer, "device", facts->device);
    json_writer_member_bool(writer, "times", facts->log.times);
    json_writer_member_u64(writer, "events", facts->events);
    json_writer_member_u64(writer, "floor_bytes", facts->peak_bytes);
    lab_member_foreign(writer, "policy", about->policy);
    json_writer_key(writer, "capacity_bytes");
    if (about->capacity_bytes > 0)
        json_writer_u64(writer, about->capacity_bytes);
    else
        json_writer_null(writer);
}

static void write_sum(struct json_writer *writer, const struct timeline_sum *sum)
{
    json_writer_key(writer, "sum");
    json_writer_begin_object(writer);
    json_writer_member_u64(writer, "rows", sum->rows);
    json_writer_member_u64(writer, "allocations", sum->allocations);
    json_writer_member_u64(writer, "frees", sum->frees);
    json_writer_member_u64(writer, "ooms", sum->ooms);
    json_writer_member_u64(writer, "host", sum->host);
    json_writer_member_u64(writer, "peak_live_bytes", sum->peak_live);
    json_writer_member_u64(writer, "peak_live_event", sum->peak_live_event);
    json_writer_member_u64(writer, "peak_reserved_bytes", sum->peak_reserved);
    json_writer_member_u64(writer, "peak_reserved_event", sum->peak_reserved_event);
    json_writer_member_u64(writer, "end", sum->end);
    json_writer_member_u64(writer, "span_us", sum->span_us);
    json_writer_member_u64(writer, "live_at_end", sum->live_at_end);
    json_writer_member_u64(writer, "device_calls", sum->last.device_calls);
    json_writer_member_u64(writer, "retries", sum->last.retries);
    json_writer_member_u64(writer, "forgotten_bytes", sum->last.forgotten_bytes);
    json_writer_end_object(writer);
}

/* What the page leaves out of a large log. */
static void write_limits(struct json_writer *writer, const struct page_output *output)
{
    uint64_t placed = 0;
    for (size_t i = 0; i < TIMELINE_SIZE_CLASSES; i++)
        placed += output->sum->sizes[i];
    json_writer_member_u64(writer, "stretch_rows", output->stretch_rows);
    json_writer_member_u64(writer, "blocks_in_all", placed);
    json_writer_member_u64(writer, "least_block_bytes", timeline_size_least(output->least_class));
    json_writer_member_u64(writer, "segments_left_out", output->segments_left_out);
}

static int write_head(struct page_output *output)
{
    struct json_writer writer;
    lab_begin_json(output->about->lab, &writer);
    json_writer_begin_object(&writer);
    json_writer_member_text(&writer, "version", WORSEGPU_VERSION);
    write_log(&writer, output);
    write_sum(&writer, output->sum);
    write_limits(&writer, output);
    json_writer_end_object(&writer);
    bool fine = writer.failure == JSON_WRITER_FINE;
    if (fine)
        page_write_json(&output->file, writer.data, writer.length - 1); /* without its end */
    json_writer_release(&writer);
    return fine ? LOG_FINE : LOG_NO_MEMORY;
}

/* ------------------------------------------------------------------------------ the whole */

#define ITEMS(member, number, list)                                                                \
    {                                                                                              \
#member, output->member, output->number, sizeof(*output->member), list,                    \
            sizeof(list) / sizeof((list)[0])                                                       \
    }

static int write_data(struct page_output *output, const struct json_writer *compare,
                      const struct json_writer *story)
{
    const struct items all[] = {
        ITEMS(points, point_count, POINT_FIELDS), ITEMS(blocks, block_count, BLOCK_FIELDS),
        ITEMS(segments, segment_count, SEGMENT_FIELDS), ITEMS(ooms, oom_count, OOM_FIELDS)};
    if (compare->failure != JSON_WRITER_FINE || story->failure != JSON_WRITER_FINE)
        return LOG_NO_MEMORY;
    int status = write_head(output);
    for (size_t i = 0; status == LOG_FINE && i < sizeof(all) / sizeof(all[0]); i++)
        status = write_items(output, &all[i]);
    output_file_text(&output->file, ",\n\"compare\":");
    page_write_json(&output->file, compare->data, compare->length);
    output_file_text(&output->file, ",\n\"story\":");
    page_write_json(&output->file, story->data, story->length);
    output_file_text(&output->file, "}");
    return status;
}

int page_output_write(struct page_output *output, const struct json_writer *compare,
                      const struct json_writer *story)
{
    size_t bytes = (size_t)page_template_bytes;
    const char *hole = memmem(page_template, bytes, HOLE, sizeof(HOLE) - 1);
    if (!hole)
        return LOG_BAD; /* `make pagecheck` makes sure that there is one */
    const char *rest = hole + sizeof(HOLE) - 1;
    output_file_bytes(&output->file, page_template, (size_t)(hole - page_template));
    int status = write_data(output, compare, story);
    output_file_bytes(&output->file, rest, bytes - (size_t)(rest - page_template));
    return status;
}
