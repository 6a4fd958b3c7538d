/* The rows of a comparison as a table and as JSON; see compare.h. One table of columns drives both,
 * and says what is best and worst. */
#include <inttypes.h>
#include <string.h>

#include "base/bytes_text.h"
#include "console/table.h"
#include "lab/compare.h"

enum column {
    COLUMN_PEAK,
    COLUMN_OVERHEAD,
    COLUMN_SMALLEST,
    COLUMN_CALLS,
    COLUMN_RETRIES,
    COLUMN_OOMS,
    COLUMN_INTERNAL_WORST,
    COLUMN_INTERNAL_MEAN,
    COLUMN_EXTERNAL_WORST,
    COLUMN_EXTERNAL_MEAN,
    COLUMN_SEARCHED,
    COLUMN_TIME,
    COLUMNS
};

enum kind {
    KIND_BYTES,
    KIND_COUNT,
    KIND_RATIO, /* 1.234 */
    KIND_SHARE, /* 12.3% */
    KIND_TIME
};

struct column_info {
    const char *title;
    const char *name; /* in JSON */
    enum kind kind;
};

static const struct column_info INFO[COLUMNS] = {
    [COLUMN_PEAK] = {"peak reserved", "peak_reserved_bytes", KIND_BYTES},
    [COLUMN_OVERHEAD] = {"overhead", "overhead", KIND_RATIO},
    [COLUMN_SMALLEST] = {"smallest device", "smallest_device_bytes", KIND_BYTES},
    [COLUMN_CALLS] = {"device calls", "device_calls", KIND_COUNT},
    [COLUMN_RETRIES] = {"retries", "retries", KIND_COUNT},
    [COLUMN_OOMS] = {"ooms", "ooms", KIND_COUNT},
    [COLUMN_INTERNAL_WORST] = {"internal worst", "internal_worst", KIND_SHARE},
    [COLUMN_INTERNAL_MEAN] = {"mean", "internal_mean", KIND_SHARE},
    [COLUMN_EXTERNAL_WORST] = {"external worst", "external_worst", KIND_SHARE},
    [COLUMN_EXTERNAL_MEAN] = {"mean", "external_mean", KIND_SHARE},
    [COLUMN_SEARCHED] = {"searched", "searched", KIND_COUNT},
    [COLUMN_TIME] = {"ns/op", "ns_per_operation", KIND_TIME},
};

/* A figure: a whole number or a fraction, by the column's kind. */
struct figure {
    bool known;
    uint64_t whole;
    double fraction;
};

static bool is_whole(enum column column)
{
    return INFO[column].kind == KIND_BYTES || INFO[column].kind == KIND_COUNT;
}

static struct figure whole(uint64_t number)
{
    return (struct figure){.known = true, .whole = number};
}

static struct figure fraction(bool known, double number)
{
    return (struct figure){.known = known, .fraction = number};
}

static struct figure figure_of(const struct comparison *comparison, const struct compare_row *row,
                               enum column column)
{
    uint64_t floor = comparison->facts->peak_bytes;
    if (!row->possible)
        return fraction(false, 0);
    switch (column) {
    case COLUMN_PEAK:
        return whole(row->peak_reserved);
    case COLUMN_OVERHEAD:
        return fraction(floor > 0, floor > 0 ? (double)row->peak_reserved / (double)floor : 0);
    case COLUMN_SMALLEST:
        return (struct figure){.known = row->smallest_device > 0, .whole = row->smallest_device};
    case COLUMN_CALLS:
        return whole(row->device_calls);
    case COLUMN_RETRIES:
        return whole(row->retries);
    case COLUMN_OOMS:
        return whole(row->ooms);
    case COLUMN_INTERNAL_WORST:
        return fraction(true, row->internal.worst);
    case COLUMN_INTERNAL_MEAN:
        return fraction(true, row->internal.mean);
    case COLUMN_EXTERNAL_WORST:
        return fraction(row->external_known, row->external.worst);
    case COLUMN_EXTERNAL_MEAN:
        return fraction(row->external_known, row->external.mean);
    case COLUMN_SEARCHED:
        return whole(row->searched);
    case COLUMN_TIME:
    case COLUMNS:
    default:
        return fraction(row->ns_per_operation >= 0, row->ns_per_operation);
    }
}

/* Below, at or above 0. */
static int compare_figures(enum column column, const struct figure *a, const struct figure *b)
{
    if (is_whole(column))
        return (a->whole > b->whole) - (a->whole < b->whole);
    return (a->fraction > b->fraction) - (a->fraction < b->fraction);
}

/* Whether a row takes part in a column: one that refused something or put it elsewhere did less
 * than the others, and one that only counts did nothing. */
static bool is_rival(const struct compare_row *row, enum column column)
{
    if (!row->possible || row->counts_only)
        return false;
    return column == COLUMN_OOMS || (row->ooms == 0 && row->host == 0);
}

/* The least and the greatest figure of a column; false when there are no two different ones. */
static bool extremes(const struct comparison *comparison, enum column column, struct figure *least,
                     struct figure *most)
{
    bool any = false;
    for (size_t i = 0; i < comparison->row_count; i++) {
        const struct compare_row *row = &comparison->rows[i];
        struct figure figure = figure_of(comparison, row, column);
        if (!figure.known || !is_rival(row, column))
            continue;
        if (!any || compare_figures(column, &figure, least) < 0)
            *least = figure;
        if (!any || compare_figures(column, &figure, most) > 0)
            *most = figure;
        any = true;
    }
    return any && compare_figures(column, least, most) != 0;
}

enum mark {
    MARK_NONE,
    MARK_BEST,
    MARK_WORST
};

static enum mark mark_of(const struct comparison *comparison, const struct compare_row *row,
                         enum column column)
{
    struct figure least;
    struct figure most;
    struct figure figure = figure_of(comparison, row, column);
    if (!figure.known || !is_rival(row, column) || !extremes(comparison, column, &least, &most))
        return MARK_NONE;
    if (compare_figures(column, &figure, &least) == 0)
        return MARK_BEST;
    return compare_figures(column, &figure, &most) == 0 ? MARK_WORST : MARK_NONE;
}

static bool is_shown(const struct comparison *comparison, enum column column)
{
    return !(column == COLUMN_TIME && !comparison->timed) &&
           !(column == COLUMN_SMALLEST && comparison->quick);
}

/* ------------------------------------------------------------------------------ as text */

/* Rows are near each other: large sizes are all told in MiB. */
static void bytes_text(uint64_t bytes, char text[64])
{
    char number[LAB_NUMBER_SIZE];
    uint64_t tenths = (bytes / 1048576) * 10 + (bytes % 1048576 * 10 + 524288) / 1048576;
    if (bytes < UINT64_C(10) << 20)
        bytes_to_text(bytes, false, text);
    else
        snprintf(text, 64, "%s.%d MiB", lab_number(tenths / 10, number), (int)(tenths % 10));
}

static void figure_text(enum column column, const struct figure *figure, char text[64])
{
    char number[LAB_NUMBER_SIZE];
    if (!figure->known) {
        snprintf(text, 64, "-");
        return;
    }
    switch (INFO[column].kind) {
    case KIND_BYTES:
        bytes_text(figure->whole, text);
        break;
    case KIND_COUNT:
        snprintf(text, 64, "%s", lab_number(figure->whole, number));
        break;
    case KIND_RATIO:
        snprintf(text, 64, "%.3f", figure->fraction);
        break;
    case KIND_SHARE:
        snprintf(text, 64, "%.1f%%", 100 * figure->fraction);
        break;
    case KIND_TIME:
    default:
        snprintf(text, 64, "%.1f", figure->fraction);
        break;
    }
}

static void print_figure(struct table *table, const struct comparison *comparison,
                         const struct compare_row *row, enum column column)
{
    char text[64];
    char marked[66];
    struct figure figure = figure_of(comparison, row, column);
    enum mark mark = mark_of(comparison, row, column);
    figure_text(column, &figure, text);
    snprintf(marked, sizeof(marked), "%s%s",
             mark == MARK_BEST    ? "*"
             : mark == MARK_WORST ? "!"
                                  : "",
             text);
    table_styled(table,
                 mark == MARK_BEST    ? OUTPUT_GOOD
                 : mark == MARK_WORST ? OUTPUT_BAD
                                      : OUTPUT_PLAIN,
                 marked);
}

static void print_floor(struct table *table, const struct comparison *comparison)
{
    char floor[64];
    bytes_text(comparison->facts->peak_bytes, floor);
    table_styled(table, OUTPUT_BOLD, "floor");
    for (size_t i = 0; i < COLUMNS; i++) {
        if (!is_shown(comparison, (enum column)i))
            continue;
        if (i == COLUMN_PEAK || i == COLUMN_SMALLEST)
            table_text(table, floor);
        else
            table_text(table, i == COLUMN_OVERHEAD ? "1.000" : "");
    }
}

static void print_notes(const struct comparison *comparison)
{
    struct output *output = &comparison->lab->output;
    char one[LAB_NUMBER_SIZE];
    char two[BYTES_TEXT_SIZE];
    const struct events_facts *facts = comparison->facts;
    output_text(
        output,
        "\n* best, ! worst of a column (of those that place blocks and refuse nothing); means "
        "are weighted by %s\n",
        facts->span_us > 0 ? "time" : "events");
    for (size_t i = 0; i < comparison->row_count; i++) {
        const struct compare_row *row = &comparison->rows[i];
        if (!row->possible) {
            output_foreign(output, row->text);
            output_text(output, ": ");
            output_foreign(output, row->problem);
            output_text(output, "\n");
            continue;
        }
        if (row->host > 0 || row->forgotten_bytes > 0) {
            bytes_to_text(row->forgotten_bytes, false, two);
            output_foreign(output, row->text);
            output_text(output, ": %s of %s allocations on the host, %s forgotten\n",
                        lab_number(row->host, one),
                        lab_number(facts->count[LOG_ALLOCATE], (char[LAB_NUMBER_SIZE]){0}), two);
        }
        if (row->ooms > 0) {
            output_foreign(output, row->text);
            output_text(output, ": %s of %s allocations refused; its row is of the others\n",
                        lab_number(row->ooms, one),
                        lab_number(facts->count[LOG_ALLOCATE], (char[LAB_NUMBER_SIZE]){0}));
        }
    }
}

static void print_heading(const struct comparison *comparison)
{
    struct output *output = &comparison->lab->output;
    char number[LAB_NUMBER_SIZE];
    char size[BYTES_TEXT_SIZE];
    output_foreign(output, comparison->lab->line.operands[0]);
    output_text(output, ": %s, %s events, %s allocations; ", comparison->facts->log.format,
                lab_number(comparison->facts->events, number),
                lab_number(comparison->facts->count[LOG_ALLOCATE], (char[LAB_NUMBER_SIZE]){0}));
    if (comparison->capacity_bytes > 0) {
        bytes_to_text(comparison->capacity_bytes, false, size);
        output_text(output, "a device of %s\n\n", size);
    } else {
        output_text(output, "a device without limit\n\n");
    }
}

int compare_print_text(struct comparison *comparison)
{
    struct table_column columns[1 + COLUMNS] = {{"policy", false}};
    size_t count = 1;
    struct table table;
    for (size_t i = 0; i < COLUMNS; i++) {
        if (is_shown(comparison, (enum column)i))
            columns[count++] = (struct table_column){INFO[i].title, true};
    }
    print_heading(comparison);
    table_init(&table, comparison->lab->memory, &comparison->lab->output, columns, count);
    print_floor(&table, comparison);
    for (size_t r = 0; r < comparison->row_count; r++) {
        table_text(&table, comparison->rows[r].text);
        for (size_t i = 0; i < COLUMNS; i++) {
            if (is_shown(comparison, (enum column)i))
                print_figure(&table, comparison, &comparison->rows[r], (enum column)i);
        }
    }
    int status = table_end(&table);
    table_release(&table);
    if (status != 0)
        return lab_no_memory(comparison->lab);
    print_notes(comparison);
    return LAB_FINE;
}

/* ------------------------------------------------------------------------------ as JSON */

static void write_figure(struct json_writer *writer, enum column column,
                         const struct figure *figure)
{
    if (!figure->known)
        json_writer_member_null(writer, INFO[column].name);
    else if (is_whole(column))
        json_writer_member_u64(writer, INFO[column].name, figure->whole);
    else
        json_writer_member_double(writer, INFO[column].name, figure->fraction);
}

static void write_marks(struct json_writer *writer, const struct comparison *comparison,
                        const struct compare_row *row, enum mark mark, const char *name)
{
    json_writer_key(writer, name);
    json_writer_begin_array(writer);
    for (size_t i = 0; i < COLUMNS; i++) {
        if (is_shown(comparison, (enum column)i) &&
            mark_of(comparison, row, (enum column)i) == mark)
            json_writer_text(writer, INFO[i].name);
    }
    json_writer_end_array(writer);
}

static void write_row(struct json_writer *writer, const struct comparison *comparison,
                      const struct compare_row *row)
{
    json_writer_begin_object(writer);
    lab_member_foreign(writer, "policy", row->text);
    if (!row->possible) {
        lab_member_foreign(writer, "problem", row->problem);
        json_writer_end_object(writer);
        return;
    }
    json_writer_member_u64(writer, "capacity_bytes", row->capacity_bytes);
    for (size_t i = 0; i < COLUMNS; i++) {
        struct figure figure = figure_of(comparison, row, (enum column)i);
        if (is_shown(comparison, (enum column)i))
            write_figure(writer, (enum column)i, &figure);
    }
    json_writer_member_u64(writer, "internal_worst_bytes", row->internal.worst_bytes);
    json_writer_member_u64(writer, "internal_worst_event", row->internal.worst_event);
    if (row->external_known) {
        json_writer_member_u64(writer, "external_worst_bytes", row->external.worst_bytes);
        json_writer_member_u64(writer, "external_worst_event", row->external.worst_event);
    }
    json_writer_member_u64(writer, "host", row->host);
    json_writer_member_u64(writer, "forgotten_bytes", row->forgotten_bytes);
    write_marks(writer, comparison, row, MARK_BEST, "best");
    write_marks(writer, comparison, row, MARK_WORST, "worst");
    json_writer_end_object(writer);
}

void compare_write_json(const struct comparison *comparison, struct json_writer *writer)
{
    const struct events_facts *facts = comparison->facts;
    json_writer_begin_object(writer);
    json_writer_member_text(writer, "format", facts->log.format);
    json_writer_member_u64(writer, "device", facts->device);
    json_writer_member_u64(writer, "events", facts->events);
    json_writer_member_u64(writer, "allocations", facts->count[LOG_ALLOCATE]);
    json_writer_member_text(writer, "means_by", facts->span_us > 0 ? "time" : "events");
    if (comparison->capacity_bytes > 0)
        json_writer_member_u64(writer, "capacity_bytes", comparison->capacity_bytes);
    else
        json_writer_member_null(writer, "capacity_bytes");
    json_writer_member_u64(writer, "floor_bytes", facts->peak_bytes);
    json_writer_key(writer, "policies");
    json_writer_begin_array(writer);
    for (size_t i = 0; i < comparison->row_count; i++)
        write_row(writer, comparison, &comparison->rows[i]);
    json_writer_end_array(writer);
    json_writer_end_object(writer);
}

int compare_print_json(struct comparison *comparison)
{
    struct json_writer writer;
    lab_begin_json(comparison->lab, &writer);
    compare_write_json(comparison, &writer);
    return lab_print_json(comparison->lab, &writer);
}
