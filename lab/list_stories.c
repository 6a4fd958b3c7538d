/* What `list` says of shapes and public cases, from shapes.def and cases.def; see list_stories.h.
 */
#include "lab/list_stories.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes_text.h"
#include "console/table.h"
#include "lab/cases.h"
#include "lab/shapes.h"

/* ------------------------------------------------------------------------------ shapes */

/* Lines, each with two blanks before it. */
static void print_lines(struct lab *lab, const char *lines)
{
    while (*lines != '\0') {
        size_t length = strcspn(lines, "\n");
        output_text(&lab->output, "  %.*s\n", (int)length, lines);
        lines += length + (lines[length] == '\n');
    }
}

static int print_parameters(struct lab *lab, const struct shape *shape)
{
    static const struct table_column COLUMNS[] = {
        {"  parameter", false}, {"default", false}, {"range", false}, {"meaning", false}};
    struct table table;
    table_init(&table, lab->memory, &lab->output, COLUMNS, sizeof(COLUMNS) / sizeof(COLUMNS[0]));
    for (size_t i = 0; i < shape_parameter_count(shape); i++) {
        const struct shape_parameter *parameter = &shape->parameters[i];
        char name[80];
        char initial[BYTES_TEXT_SIZE];
        char least[BYTES_TEXT_SIZE];
        char most[BYTES_TEXT_SIZE];
        char range[2 * BYTES_TEXT_SIZE + 8];
        snprintf(name, sizeof(name), "  %s", parameter->name);
        shape_number_text(parameter, parameter->initial, initial);
        shape_number_text(parameter, parameter->least, least);
        shape_number_text(parameter, parameter->most, most);
        snprintf(range, sizeof(range), "%s to %s", least, most);
        table_text(&table, name);
        table_text(&table, initial);
        table_text(&table, range);
        table_text(&table, parameter->meaning);
    }
    int status = table_end(&table);
    table_release(&table);
    return status == 0 ? LAB_FINE : lab_no_memory(lab);
}

int list_print_shapes(struct lab *lab)
{
    const struct shape *shape;
    int status = LAB_FINE;
    for (size_t i = 0; status == LAB_FINE && (shape = shape_at(i)) != NULL; i++) {
        if (i > 0)
            output_text(&lab->output, "\n");
        output_styled(&lab->output, OUTPUT_BOLD, shape->name);
        output_text(&lab->output, "  %s\n", shape->summary);
        print_lines(lab, shape->story);
        status = print_parameters(lab, shape);
    }
    return status;
}

void list_write_shapes(struct json_writer *writer)
{
    const struct shape *shape;
    json_writer_key(writer, "shapes");
    json_writer_begin_array(writer);
    for (size_t i = 0; (shape = shape_at(i)) != NULL; i++) {
        json_writer_begin_object(writer);
        json_writer_member_text(writer, "name", shape->name);
        json_writer_member_text(writer, "summary", shape->summary);
        json_writer_member_text(writer, "story", shape->story);
        json_writer_key(writer, "parameters");
        json_writer_begin_array(writer);
        for (size_t k = 0; k < shape_parameter_count(shape); k++) {
            const struct shape_parameter *parameter = &shape->parameters[k];
            json_writer_begin_object(writer);
            json_writer_member_text(writer, "name", parameter->name);
            json_writer_member_text(writer, "type", parameter->bytes ? "bytes" : "count");
            json_writer_member_u64(writer, "default", parameter->initial);
            json_writer_member_u64(writer, "minimum", parameter->least);
            json_writer_member_u64(writer, "maximum", parameter->most);
            json_writer_member_text(writer, "meaning", parameter->meaning);
            json_writer_end_object(writer);
        }
        json_writer_end_array(writer);
        json_writer_end_object(writer);
    }
    json_writer_end_array(writer);
}

/* ------------------------------------------------------------------------------ cases */

/* "torch on 16GiB: allocation 62 is refused; 11.6 GiB reserved at most" */
static void print_run(struct lab *lab, const struct case_run *run)
{
    char capacity[BYTES_TEXT_SIZE];
    char peak[BYTES_TEXT_SIZE];
    bytes_to_exact_text(run->capacity_bytes, capacity);
    bytes_to_text(run->peak_reserved_bytes, false, peak);
    output_text(&lab->output, "  - %s%s%s on %s: ", run->variant, run->variant[0] ? ", " : "",
                run->policy, capacity);
    if (run->refused != 0)
        output_text(&lab->output, "allocation %" PRIu64 " is refused", run->refused);
    else
        output_text(&lab->output, "nothing is refused");
    output_text(&lab->output, "; %s reserved at most\n", peak);
}

int list_print_cases(struct lab *lab)
{
    const struct public_case *public_case;
    for (size_t i = 0; (public_case = public_case_at(i)) != NULL; i++) {
        if (i > 0)
            output_text(&lab->output, "\n");
        output_text(&lab->output, "case:");
        output_styled(&lab->output, OUTPUT_BOLD, public_case->name);
        output_text(&lab->output, "  %s  %s\n", public_case->source, public_case->link);
        print_lines(lab, public_case->story);
        for (size_t k = 0; k < public_case_run_count(public_case); k++)
            print_run(lab, &public_case->runs[k]);
        output_text(&lab->output, "  Cure: ");
        output_text(&lab->output, "%s\n", public_case->cure);
        if (public_case->variants[0] != '\0')
            output_text(&lab->output, "  variant=: %s\n", public_case->variants);
    }
    return LAB_FINE;
}

static void write_run(struct json_writer *writer, const struct case_run *run)
{
    json_writer_begin_object(writer);
    json_writer_member_text(writer, "variant", run->variant);
    json_writer_member_text(writer, "policy", run->policy);
    json_writer_member_u64(writer, "capacity_bytes", run->capacity_bytes);
    json_writer_key(writer, "refused_allocation");
    if (run->refused != 0)
        json_writer_u64(writer, run->refused);
    else
        json_writer_null(writer);
    json_writer_member_u64(writer, "peak_reserved_bytes", run->peak_reserved_bytes);
    json_writer_member_u64(writer, "retries", run->retries);
    json_writer_end_object(writer);
}

void list_write_cases(struct json_writer *writer)
{
    const struct public_case *public_case;
    json_writer_key(writer, "cases");
    json_writer_begin_array(writer);
    for (size_t i = 0; (public_case = public_case_at(i)) != NULL; i++) {
        json_writer_begin_object(writer);
        json_writer_member_text(writer, "name", public_case->name);
        json_writer_member_text(writer, "source", public_case->source);
        json_writer_member_text(writer, "link", public_case->link);
        json_writer_member_text(writer, "variants", public_case->variants);
        json_writer_member_text(writer, "story", public_case->story);
        json_writer_member_text(writer, "cure", public_case->cure);
        json_writer_key(writer, "runs");
        json_writer_begin_array(writer);
        for (size_t k = 0; k < public_case_run_count(public_case); k++)
            write_run(writer, &public_case->runs[k]);
        json_writer_end_array(writer);
        json_writer_end_object(writer);
    }
    json_writer_end_array(writer);
}
