/* list: the policies with their knobs, and the formats, as the tables have them; shapes and cases
 * are list_stories.c's. */
#include <inttypes.h>
#include <string.h>

#include "base/bytes_text.h"
#include "console/table.h"
#include "lab/lab.h"
#include "lab/list_stories.h"
#include "lib/policy.h"

static const char *type_word(enum knob_type type)
{
    switch (type) {
    case KNOB_BYTES:
        return "bytes";
    case KNOB_COUNT:
        return "count";
    case KNOB_NUMBER:
        return "number";
    case KNOB_YESNO:
        return "yesno";
    case KNOB_CHOICE:
        return "choice";
    case KNOB_TEXT:
    default:
        return "text";
    }
}

/* ------------------------------------------------------------------------------ as text */

static void range_text(const struct policy_knob *knob, char text[256])
{
    char least[BYTES_TEXT_SIZE];
    char most[BYTES_TEXT_SIZE];
    switch (knob->type) {
    case KNOB_BYTES:
        bytes_to_exact_text(knob->minimum, least);
        bytes_to_exact_text(knob->maximum, most);
        snprintf(text, 256, "%s to %s", least, most);
        break;
    case KNOB_COUNT:
        snprintf(text, 256, "%" PRIu64 " to %" PRIu64, knob->minimum, knob->maximum);
        break;
    case KNOB_NUMBER:
        snprintf(text, 256, "0 to 1");
        break;
    case KNOB_CHOICE:
        snprintf(text, 256, "%s", knob->choices);
        break;
    case KNOB_TEXT:
        snprintf(text, 256, "at most %" PRIu64 " bytes", knob->maximum);
        break;
    case KNOB_YESNO:
    default:
        snprintf(text, 256, "true or false");
        break;
    }
}

static int print_knobs(struct lab *lab, const struct policy_operations *policy)
{
    static const struct table_column COLUMNS[] = {
        {"  knob", false}, {"default", false}, {"range", false}, {"meaning", false}};
    struct table table;
    if (policy->knob_count == 0)
        return LAB_FINE;
    table_init(&table, lab->memory, &lab->output, COLUMNS, sizeof(COLUMNS) / sizeof(COLUMNS[0]));
    for (size_t i = 0; i < policy->knob_count; i++) {
        const struct policy_knob *knob = &policy->knobs[i];
        char name[80];
        char range[256];
        snprintf(name, sizeof(name), "  %s", knob->name);
        range_text(knob, range);
        table_text(&table, name);
        table_text(&table, knob->default_text[0] != '\0' ? knob->default_text : "\"\"");
        table_text(&table, range);
        table_text(&table, knob->meaning);
    }
    int status = table_end(&table);
    table_release(&table);
    return status == 0 ? LAB_FINE : lab_no_memory(lab);
}

static int print_policies(struct lab *lab)
{
    const struct policy_operations *policy;
    int status = LAB_FINE;
    for (size_t i = 0; status == LAB_FINE && (policy = policy_at(i)) != NULL; i++) {
        if (i > 0)
            output_text(&lab->output, "\n");
        output_styled(&lab->output, OUTPUT_BOLD, policy->name);
        output_text(&lab->output, "  %s\n", policy->summary);
        status = print_knobs(lab, policy);
    }
    return status;
}

static int print_formats(struct lab *lab)
{
    static const struct table_column COLUMNS[] = {{"format", false}, {"what it is", false}};
    const struct log_format *format;
    struct table table;
    table_init(&table, lab->memory, &lab->output, COLUMNS, sizeof(COLUMNS) / sizeof(COLUMNS[0]));
    for (size_t i = 0; (format = log_format_at(i)) != NULL; i++) {
        table_text(&table, format->name);
        table_text(&table, format->summary);
    }
    int status = table_end(&table);
    table_release(&table);
    return status == 0 ? LAB_FINE : lab_no_memory(lab);
}

/* ------------------------------------------------------------------------------ as JSON */

static void write_choices(struct json_writer *writer, const char *choices)
{
    json_writer_key(writer, "choices");
    json_writer_begin_array(writer);
    for (const char *at = choices; *at != '\0';) {
        size_t length = strcspn(at, " ");
        json_writer_string(writer, at, length);
        at += length + (at[length] == ' ');
    }
    json_writer_end_array(writer);
}

static void write_knob(struct json_writer *writer, const struct policy_knob *knob)
{
    json_writer_begin_object(writer);
    json_writer_member_text(writer, "name", knob->name);
    json_writer_member_text(writer, "type", type_word(knob->type));
    json_writer_member_text(writer, "default", knob->default_text);
    if (knob->type == KNOB_BYTES || knob->type == KNOB_COUNT) {
        json_writer_member_u64(writer, "minimum", knob->minimum);
        json_writer_member_u64(writer, "maximum", knob->maximum);
    } else if (knob->type == KNOB_NUMBER) {
        json_writer_member_u64(writer, "minimum", 0);
        json_writer_member_u64(writer, "maximum", 1);
    } else if (knob->type == KNOB_TEXT) {
        json_writer_member_u64(writer, "maximum_bytes", knob->maximum);
    } else if (knob->type == KNOB_CHOICE) {
        write_choices(writer, knob->choices);
    }
    json_writer_member_text(writer, "meaning", knob->meaning);
    json_writer_end_object(writer);
}

static void write_policies(struct json_writer *writer)
{
    const struct policy_operations *policy;
    json_writer_key(writer, "policies");
    json_writer_begin_array(writer);
    for (size_t i = 0; (policy = policy_at(i)) != NULL; i++) {
        json_writer_begin_object(writer);
        json_writer_member_text(writer, "name", policy->name);
        json_writer_member_text(writer, "summary", policy->summary);
        json_writer_key(writer, "knobs");
        json_writer_begin_array(writer);
        for (size_t k = 0; k < policy->knob_count; k++)
            write_knob(writer, &policy->knobs[k]);
        json_writer_end_array(writer);
        json_writer_end_object(writer);
    }
    json_writer_end_array(writer);
}

static void write_formats(struct json_writer *writer)
{
    const struct log_format *format;
    json_writer_key(writer, "formats");
    json_writer_begin_array(writer);
    for (size_t i = 0; (format = log_format_at(i)) != NULL; i++) {
        json_writer_begin_object(writer);
        json_writer_member_text(writer, "name", format->name);
        json_writer_member_text(writer, "summary", format->summary);
        json_writer_end_object(writer);
    }
    json_writer_end_array(writer);
}

/* ------------------------------------------------------------------------------ the command */

struct listing {
    const char *name;
    int (*print)(struct lab *lab);
    void (*write)(struct json_writer *writer);
};

static const struct listing LISTINGS[] = {
    {"policies", print_policies, write_policies},
    {"formats", print_formats, write_formats},
    {"shapes", list_print_shapes, list_write_shapes},
    {"cases", list_print_cases, list_write_cases},
};

enum {
    LISTING_COUNT = sizeof(LISTINGS) / sizeof(LISTINGS[0])
};

static int print_listings(struct lab *lab, const char *what)
{
    int status = LAB_FINE;
    for (size_t i = 0; i < LISTING_COUNT && status == LAB_FINE; i++) {
        if (what && strcmp(what, LISTINGS[i].name) != 0)
            continue;
        if (!what && i > 0)
            output_text(&lab->output, "\n");
        status = LISTINGS[i].print(lab);
    }
    return status;
}

static int write_listings(struct lab *lab, const char *what)
{
    struct json_writer writer;
    lab_begin_json(lab, &writer);
    json_writer_begin_object(&writer);
    for (size_t i = 0; i < LISTING_COUNT; i++)
        if (!what || strcmp(what, LISTINGS[i].name) == 0)
            LISTINGS[i].write(&writer);
    json_writer_end_object(&writer);
    return lab_print_json(lab, &writer);
}

int perform_list(struct lab *lab)
{
    const char *what = lab->line.operand_count > 0 ? lab->line.operands[0] : NULL;
    size_t known = 0;
    while (what && known < LISTING_COUNT && strcmp(what, LISTINGS[known].name) != 0)
        known++;
    if (known == LISTING_COUNT)
        return lab_usage(lab, "list knows policies, formats, shapes and cases",
                         "try: worsegpu-lab list policies");
    return lab->output.json ? write_listings(lab, what) : print_listings(lab, what);
}
