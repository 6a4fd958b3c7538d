/* One point of a sweep as a line of JSON, and as a row of comma-separated values; see sweep.h. */
#include <string.h>

#include "lab/sweep.h"
#include "lab/sweep_columns.h"

/* The columns of the CSV are the members of the line, in this order. */
static const char *const COLUMNS[] = {
    "point",          "log",           "policy",         "capacity",      "capacity_bytes",
    "seed",           "floor_bytes",   "served",         "ooms",          "peak_reserved_bytes",
    "overhead",       "device_calls",  "retries",        "host",          "forgotten_bytes",
    "internal_worst", "internal_mean", "external_worst", "external_mean", "searched",
    "problem",
};

const char *sweep_column(size_t index)
{
    return index < sizeof(COLUMNS) / sizeof(COLUMNS[0]) ? COLUMNS[index] : NULL;
}

static void write_known(struct json_writer *writer, const char *name, bool known, double number)
{
    if (known)
        json_writer_member_double(writer, name, number);
    else
        json_writer_member_null(writer, name);
}

static void write_figures(struct json_writer *writer, uint64_t floor, const struct compare_row *row)
{
    json_writer_member_bool(writer, "served", row->ooms == 0);
    json_writer_member_u64(writer, "ooms", row->ooms);
    json_writer_member_u64(writer, "peak_reserved_bytes", row->peak_reserved);
    write_known(writer, "overhead", floor > 0,
                floor > 0 ? (double)row->peak_reserved / (double)floor : 0);
    json_writer_member_u64(writer, "device_calls", row->device_calls);
    json_writer_member_u64(writer, "retries", row->retries);
    json_writer_member_u64(writer, "host", row->host);
    json_writer_member_u64(writer, "forgotten_bytes", row->forgotten_bytes);
    json_writer_member_double(writer, "internal_worst", row->internal.worst);
    json_writer_member_double(writer, "internal_mean", row->internal.mean);
    write_known(writer, "external_worst", row->external_known, row->external.worst);
    write_known(writer, "external_mean", row->external_known, row->external.mean);
    json_writer_member_u64(writer, "searched", row->searched);
}

void sweep_line_write(struct json_writer *writer, const struct sweep_spec *spec, uint64_t number,
                      const struct events_facts *facts, const struct compare_row *row)
{
    struct sweep_point point = sweep_point_of(spec, number);
    uint64_t capacity = 0;
    const char *text = spec->capacities.texts[point.capacity];
    sweep_capacity(text, facts->peak_bytes, &capacity);
    json_writer_begin_object(writer);
    json_writer_member_text(writer, "sweep", spec->id);
    json_writer_member_u64(writer, "points", spec->points);
    json_writer_member_u64(writer, "point", number);
    lab_member_foreign(writer, "log", spec->logs.texts[point.log]);
    lab_member_foreign(writer, "policy", row->text);
    lab_member_foreign(writer, "capacity", text);
    if (capacity > 0)
        json_writer_member_u64(writer, "capacity_bytes", capacity);
    else
        json_writer_member_null(writer, "capacity_bytes");
    lab_member_foreign(writer, "seed", spec->seeds.texts[point.seed]);
    json_writer_member_u64(writer, "floor_bytes", facts->peak_bytes);
    if (row->possible)
        write_figures(writer, facts->peak_bytes, row);
    else
        lab_member_foreign(writer, "problem", row->problem);
    json_writer_end_object(writer);
    json_writer_newline(writer);
}

/* ------------------------------------------------------------------------------ CSV */

/* In quotes where it must be (RFC 4180). */
static void print_text(FILE *file, const char *text)
{
    if (text[strcspn(text, ",\"\r\n")] == '\0') {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

void sweep_csv_head(FILE *file)
{
    for (size_t i = 0; i < sizeof(COLUMNS) / sizeof(COLUMNS[0]); i++)
        fprintf(file, "%s%s", i > 0 ? "," : "", COLUMNS[i]);
    fputs("\r\n", file);
}

void sweep_csv_row(FILE *file, const struct json_document *document)
{
    for (size_t i = 0; i < sizeof(COLUMNS) / sizeof(COLUMNS[0]); i++) {
        const cJSON *item = json_document_member(document->root, COLUMNS[i]);
        size_t length;
        if (i > 0)
            fputc(',', file);
        if (cJSON_IsString(item))
            print_text(file, item->valuestring);
        else if (cJSON_IsBool(item))
            fputs(cJSON_IsTrue(item) ? "true" : "false", file);
        else if (cJSON_IsNumber(item)) {
            const char *spelling = json_document_spelling(document, item, &length);
            fwrite(spelling, 1, length, file);
        }
    }
    fputs("\r\n", file);
}
