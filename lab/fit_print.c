/* The rows of fit as a table and as JSON; see fit.h. */
#include <string.h>

#include "base/bytes_text.h"
#include "console/table.h"
#include "lab/fit.h"

static double overhead(const struct fit *fit, const struct fit_row *row)
{
    uint64_t floor = events_facts(fit->events)->peak_bytes;
    return floor > 0 ? (double)row->answer.smallest / (double)floor : 0;
}

/* ------------------------------------------------------------------------------ as text */

static void print_row(struct table *table, const struct fit *fit, const struct fit_row *row)
{
    char text[64];
    snprintf(text, sizeof(text), "%zu", row->rank);
    table_text(table, row->rank > 0 ? text : "-");
    table_text(table, row->policy);
    if (!row->possible || row->answer.smallest == 0) {
        for (int i = 0; i < 5; i++)
            table_text(table, "-");
        return;
    }
    enum output_style style = row->rank == 1 ? OUTPUT_GOOD : OUTPUT_PLAIN;
    table_styled(table, style, lab_number(row->answer.smallest, text));
    bytes_to_text(row->answer.smallest, false, text);
    table_styled(table, style, text);
    snprintf(text, sizeof(text), "%.3f", overhead(fit, row));
    table_text(table, text);
    table_text(table, lab_number(row->answer.at.device_calls, text));
    table_text(table, lab_number(row->answer.at.retries, text));
}

static void print_about(const struct fit *fit, const struct fit_row *row, const char *text)
{
    output_foreign(&fit->lab->output, row->policy);
    output_text(&fit->lab->output, ": %s\n", text);
}

static void print_note(const struct fit *fit, const struct fit_row *row)
{
    const struct fit_answer *answer = &row->answer;
    char note[512];
    char one[LAB_NUMBER_SIZE];
    char two[LAB_NUMBER_SIZE];
    if (!row->possible)
        print_about(fit, row, row->problem);
    else if (answer->smallest == 0)
        print_about(fit, row, "no device is large enough");
    else if (answer->at.host > 0) {
        snprintf(note, sizeof(note), "not ranked: it put %s allocations on the host",
                 lab_number(answer->at.host, one));
        print_about(fit, row, note);
    } else if (answer->at.counts_only)
        print_about(fit, row, "not ranked: it only counts bytes, and places nothing");
    if (answer->fails_again > 0) {
        snprintf(
            note, sizeof(note),
            "more memory is not always enough: it refuses again on %s bytes; from %s bytes on, "
            "no device that was tried refused",
            lab_number(answer->fails_again, one), lab_number(answer->sure, two));
        print_about(fit, row, note);
    }
}

static void print_heading(const struct fit *fit)
{
    struct output *output = &fit->lab->output;
    const struct events_facts *facts = events_facts(fit->events);
    char number[LAB_NUMBER_SIZE];
    char allocations[LAB_NUMBER_SIZE];
    char size[BYTES_TEXT_SIZE];
    output_foreign(output, fit->lab->line.operands[0]);
    output_text(output, ": %s, %s events, %s allocations\n", facts->log.format,
                lab_number(facts->events, number),
                lab_number(facts->count[LOG_ALLOCATE], allocations));
    bytes_to_text(facts->peak_bytes, false, size);
    output_text(output, "floor: %s bytes (%s) live at once; no policy can do with less\n\n",
                lab_number(facts->peak_bytes, number), size);
}

int fit_print_text(const struct fit *fit)
{
    static const struct table_column COLUMNS[] = {
        {"rank", true},     {"setting", false},     {"smallest device", true}, {"", true},
        {"overhead", true}, {"device calls", true}, {"retries", true}};
    struct output *output = &fit->lab->output;
    struct table table;
    uint64_t runs = 0;
    char number[LAB_NUMBER_SIZE];
    print_heading(fit);
    table_init(&table, fit->lab->memory, output, COLUMNS, sizeof(COLUMNS) / sizeof(COLUMNS[0]));
    for (size_t i = 0; i < fit->row_count; i++) {
        print_row(&table, fit, &fit->rows[i]);
        runs += fit->rows[i].answer.runs;
    }
    int status = table_end(&table);
    table_release(&table);
    if (status != 0)
        return lab_no_memory(fit->lab);
    output_text(output,
                "\neach setting ran on its smallest device, and refused something on one of a byte "
                "less; %s runs\n",
                lab_number(runs, number));
    for (size_t i = 0; i < fit->row_count; i++)
        print_note(fit, &fit->rows[i]);
    return LAB_FINE;
}

/* ------------------------------------------------------------------------------ as JSON */

static void write_found(struct json_writer *writer, const char *name, uint64_t number)
{
    if (number > 0)
        json_writer_member_u64(writer, name, number);
    else
        json_writer_member_null(writer, name);
}

static void write_row(struct json_writer *writer, const struct fit *fit, const struct fit_row *row)
{
    const struct fit_answer *answer = &row->answer;
    json_writer_begin_object(writer);
    write_found(writer, "rank", row->rank);
    lab_member_foreign(writer, "policy", row->policy);
    if (!row->possible) {
        lab_member_foreign(writer, "problem", row->problem);
        json_writer_end_object(writer);
        return;
    }
    write_found(writer, "smallest_device_bytes", answer->smallest);
    if (answer->smallest > 0) {
        json_writer_member_double(writer, "overhead", overhead(fit, row));
        json_writer_member_u64(writer, "device_calls", answer->at.device_calls);
        json_writer_member_u64(writer, "retries", answer->at.retries);
        json_writer_member_u64(writer, "peak_reserved_bytes", answer->at.peak_reserved);
        json_writer_member_u64(writer, "host", answer->at.host);
        json_writer_member_bool(writer, "counts_only", answer->at.counts_only);
        write_found(writer, "refused_at_bytes", answer->failed);
        json_writer_member_bool(writer, "refuses_on_larger", answer->fails_again > 0);
        write_found(writer, "refuses_again_at_bytes", answer->fails_again);
        write_found(writer, "sure_from_bytes", answer->sure);
        write_found(writer, "largest_tried_bytes", answer->largest_tried);
        json_writer_member_u64(writer, "step_bytes", answer->step);
    }
    json_writer_member_u64(writer, "runs", answer->runs);
    json_writer_end_object(writer);
}

int fit_print_json(const struct fit *fit)
{
    const struct events_facts *facts = events_facts(fit->events);
    struct json_writer writer;
    lab_begin_json(fit->lab, &writer);
    json_writer_begin_object(&writer);
    json_writer_member_text(&writer, "format", facts->log.format);
    json_writer_member_u64(&writer, "device", facts->device);
    json_writer_member_u64(&writer, "events", facts->events);
    json_writer_member_u64(&writer, "allocations", facts->count[LOG_ALLOCATE]);
    json_writer_member_u64(&writer, "floor_bytes", facts->peak_bytes);
    json_writer_key(&writer, "settings");
    json_writer_begin_array(&writer);
    for (size_t i = 0; i < fit->row_count; i++)
        write_row(&writer, fit, &fit->rows[i]);
    json_writer_end_array(&writer);
    json_writer_end_object(&writer);
    return lab_print_json(fit->lab, &writer);
}
