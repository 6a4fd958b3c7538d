/* The story of an out of memory, for people; see explain.h. */
#include <inttypes.h>
#include <string.h>

#include "base/bytes_text.h"
#include "console/table.h"
#include "lab/explain.h"

/* A size in both ways: "7,014.0 MiB (7,354,712,064 bytes)". */
struct size_text {
    char text[BYTES_TEXT_SIZE + LAB_NUMBER_SIZE + 12];
};

/* Sizes are near each other: large ones are all told in MiB. */
static const char *about(uint64_t bytes, struct size_text *size)
{
    char number[LAB_NUMBER_SIZE];
    uint64_t tenths = (bytes / 1048576) * 10 + (bytes % 1048576 * 10 + 524288) / 1048576;
    if (bytes < UINT64_C(10) << 20)
        bytes_to_text(bytes, false, size->text);
    else
        snprintf(size->text, sizeof(size->text), "%s.%d MiB", lab_number(tenths / 10, number),
                 (int)(tenths % 10));
    return size->text;
}

static const char *exact(uint64_t bytes, struct size_text *size)
{
    struct size_text unit;
    char number[LAB_NUMBER_SIZE];
    if (bytes < 1024)
        snprintf(size->text, sizeof(size->text), "%s bytes", lab_number(bytes, number));
    else
        snprintf(size->text, sizeof(size->text), "%.40s (%s bytes)", about(bytes, &unit),
                 lab_number(bytes, number));
    return size->text;
}

static void title(const struct explain *explain, const char *text)
{
    output_text(&explain->lab->output, "\n");
    output_styled(&explain->lab->output, OUTPUT_BOLD, text);
    output_text(&explain->lab->output, "\n");
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* How much of the log lies between two events. */
static double share(const struct explain *explain, uint64_t events)
{
    uint64_t all = events_facts(explain->events)->events;
    return all > 0 ? 100.0 * (double)events / (double)all : 0;
}

/* ------------------------------------------------------------------------------ chapters */

static void print_fine(const struct explain *explain)
{
    struct output *output = &explain->lab->output;
    struct size_text one;
    struct size_text two;
    output_foreign(output, explain->policy);
    output_text(output, " serves the whole log on %s: nothing runs out of memory.\n",
                exact(explain->capacity_bytes, &one));
    if (explain->all.host > 0) {
        output_text(output, "%" PRIu64 " allocations were put on the host.\n", explain->all.host);
        return;
    }
    if (explain->fit.smallest == 0)
        return;
    if (explain->fit.smallest <= explain->capacity_bytes)
        output_text(output, "The margin is %s: the smallest device that will do has %s.\n",
                    about(explain->capacity_bytes - explain->fit.smallest, &two),
                    exact(explain->fit.smallest, &one));
    if (explain->fit.fails_again > 0)
        output_text(output, "But not every larger one will do: on %s it refuses again.\n",
                    exact(explain->fit.fails_again, &one));
}

static void print_asked(const struct explain *explain)
{
    struct output *output = &explain->lab->output;
    const struct events_facts *facts = events_facts(explain->events);
    struct size_text one;
    char number[LAB_NUMBER_SIZE];
    char all[LAB_NUMBER_SIZE];
    title(explain, "What was asked for");
    output_text(output, "  %s, on stream %" PRIu64 "\n", exact(explain->asked.bytes, &one),
                explain->asked.stream);
    output_text(output, "  by event %s of %s, %.1f%% into the log",
                lab_number(explain->number, number), lab_number(facts->events, all),
                share(explain, explain->number));
    if (explain->asked.place > 0)
        output_text(output, "; line or byte %s of it", lab_number(explain->asked.place, number));
    output_text(output, "\n");
}

static void print_had(const struct explain *explain)
{
    struct output *output = &explain->lab->output;
    struct size_text one;
    struct size_text two;
    struct size_text three;
    char number[LAB_NUMBER_SIZE];
    title(explain, "What there was");
    output_text(output, "  live      %s in %s allocation%s; with what was asked for: %s\n",
                about(explain->live_bytes, &one), lab_number(explain->live_count, number),
                plural(explain->live_count),
                about(explain->live_bytes + explain->asked.bytes, &two));
    output_text(output, "  reserved  %s of %s; for the live ones: %s\n",
                about(explain->after.reserved_bytes, &one), about(explain->capacity_bytes, &two),
                about(explain->after.used_bytes, &three));
    if (explain->free_pieces == 0)
        output_text(output, "  free      nothing\n");
    else
        output_text(output, "  free      %s in %s piece%s, the largest %s\n",
                    about(explain->free_bytes, &one), lab_number(explain->free_pieces, number),
                    plural(explain->free_pieces), exact(explain->largest[0], &two));
    if (explain->largest_count > 1) {
        output_text(output, "            then");
        for (size_t i = 1; i < explain->largest_count; i++)
            output_text(output, "%s %s", i > 1 ? "," : "", about(explain->largest[i], &one));
        output_text(output, "\n");
    }
    if (explain->takes_segments)
        output_text(output, "  untaken   %s, which the device has left\n",
                    about(explain->untaken_bytes, &one));
    if (explain->after.pending_bytes > 0)
        output_text(output, "  waiting   %s are freed, but in use on another stream\n",
                    about(explain->after.pending_bytes, &one));
    if (explain->after.forgotten_bytes > 0)
        output_text(output, "  forgotten %s were freed and lost by the policy\n",
                    about(explain->after.forgotten_bytes, &one));
    if (explain->cell_bytes > 0) {
        output_text(output, "  map       [%s]\n", explain->map);
        output_text(output, "            # in use, . free, + both; a mark is %s\n",
                    about(explain->cell_bytes, &one));
    }
}

static void print_owner(const struct explain *explain, const struct explain_owner *owner)
{
    struct output *output = &explain->lab->output;
    struct size_text one;
    char number[LAB_NUMBER_SIZE];
    output_text(output, "%s, there since event %s, %.1f%% of the log ago",
                about(owner->bytes, &one), lab_number(owner->event, number),
                share(explain, explain->number - owner->event));
    if (explain->asked.time_us > owner->time_us)
        output_text(output, " (%.3f s)",
                    (double)(explain->asked.time_us - owner->time_us) / 1000000.0);
    if (owner->freed_event > 0)
        output_text(output, "; freed by event %s\n", lab_number(owner->freed_event, number));
    else
        output_text(output, "; never freed\n");
}

static void print_segments(const struct explain *explain)
{
    struct output *output = &explain->lab->output;
    struct size_text one;
    struct size_text two;
    char number[LAB_NUMBER_SIZE];
    if (explain->held_segments == 0)
        return;
    output_text(
        output,
        "  %s are free in %s segment%s that cannot go back to the device, because something "
        "lives there:\n",
        about(explain->held_bytes, &one), lab_number(explain->held_segments, number),
        plural(explain->held_segments));
    for (size_t i = 0; i < explain->segment_count; i++) {
        const struct explain_segment *segment = &explain->segments[i];
        output_text(output, "    %s of %s are free; %s block%s live%s there",
                    about(segment->free_bytes, &one), about(segment->bytes, &two),
                    lab_number(segment->live_blocks, number), plural(segment->live_blocks),
                    segment->live_blocks == 1 ? "s" : "");
        if (segment->oldest.event == 0) {
            output_text(output, "\n");
            continue;
        }
        output_text(output, segment->live_blocks == 1 ? ": " : ", the oldest: ");
        print_owner(explain, &segment->oldest);
    }
}

static void print_holders(const struct explain *explain)
{
    struct output *output = &explain->lab->output;
    const struct explain_window *window = &explain->window;
    struct size_text one;
    struct size_text two;
    char number[LAB_NUMBER_SIZE];
    title(explain, "What holds the pieces apart");
    if (!window->found && explain->held_segments == 0)
        output_text(output, "  nothing: what lives takes the room\n");
    if (window->found && window->live_blocks == 0)
        output_text(output, "  nothing: %s are free in one piece, but not for this request\n",
                    about(window->bytes, &one));
    if (window->found && window->live_bytes >= explain->asked.bytes) {
        output_text(
            output,
            "  no place is nearly large enough: as much would have to go as was asked for\n");
    } else if (window->found && window->live_blocks > 0) {
        output_text(
            output,
            "  the place with least in the way: %s at offset %s, of which %s in %zu block%s "
            "live:\n",
            about(window->bytes, &one), lab_number(window->offset, number),
            about(window->live_bytes, &two), window->live_blocks, plural(window->live_blocks));
        for (size_t i = 0; i < window->holder_count; i++) {
            output_text(output, "    ");
            print_owner(explain, &window->holders[i]);
        }
        if (window->live_blocks > window->holder_count)
            output_text(output, "    and %zu more\n", window->live_blocks - window->holder_count);
    }
    print_segments(explain);
}

static void print_tried(const struct explain *explain)
{
    struct output *output = &explain->lab->output;
    struct size_text one;
    char number[LAB_NUMBER_SIZE];
    uint64_t calls = explain->after.device_calls - explain->before.device_calls;
    title(explain, "What the policy tried");
    if (explain->scanned > 0)
        output_text(output, "  it looked at %s free block%s, of which none would do\n",
                    lab_number(explain->scanned, number), plural(explain->scanned));
    else
        output_text(output, "  it looked for a free block that would do, and has none\n");
    if (calls > 0) {
        uint64_t given = explain->before.reserved_bytes > explain->after.reserved_bytes
                             ? explain->before.reserved_bytes - explain->after.reserved_bytes
                             : 0;
        output_text(output,
                    "  it gave what it held unused back to the device, %s in %s call%s, and tried "
                    "again\n",
                    about(given, &one), lab_number(calls, number), plural(calls));
    } else if (explain->after.retries > explain->before.retries) {
        output_text(
            output,
            "  it flushed its cache, which had nothing whole to give back, and tried again\n");
    } else if (explain->takes_segments) {
        output_text(output, "  it held nothing that it could have given back to the device\n");
    } else {
        output_text(output,
                    "  it holds the whole device: there is nothing that it could ask for\n");
    }
    if (explain->takes_segments)
        output_text(output, "  the device had %s left, which is not enough\n",
                    about(explain->untaken_bytes, &one));
}

static void print_wrong(const struct explain *explain)
{
    struct output *output = &explain->lab->output;
    struct size_text one;
    char number[LAB_NUMBER_SIZE];
    title(explain, "Where it went wrong");
    if (explain->wrong_event == 0) {
        output_text(
            output,
            "  nowhere by size: until the request there was a piece of %s or more, but not "
            "one\n  that the policy may use for it (it rounds up, or keeps pools and streams "
            "apart)\n",
            about(explain->asked.bytes, &one));
        return;
    }
    output_text(output, "  event %s", lab_number(explain->wrong_event, number));
    output_text(output, ", %s event%s before the request: ",
                lab_number(explain->number - explain->wrong_event, number),
                plural(explain->number - explain->wrong_event));
    if (explain->wrong.operation == LOG_ALLOCATE)
        output_text(output, "an allocation of %s\n", exact(explain->wrong.bytes, &one));
    else
        output_text(output, "no allocation, but a %s\n",
                    explain->wrong.operation == LOG_FREE ? "free" : "note on a stream");
    output_text(output,
                "  since then at most %s could be had at once: this request would have been "
                "refused all the time\n",
                about(explain->wrong_largest, &one));
}

/* 0, or -1 without memory. */
static int print_cures(const struct explain *explain)
{
    static const struct table_column COLUMNS[] = {
        {"  setting", false}, {"the whole log", false}, {"peak reserved", true}, {"retries", true}};
    struct output *output = &explain->lab->output;
    struct size_text one;
    struct size_text two;
    struct table table;
    char cell[512];
    char number[LAB_NUMBER_SIZE];
    title(explain, "What would have served it");
    if (explain->fit.smallest > explain->capacity_bytes)
        output_text(output, "  %s more: on %s this policy serves the whole log\n",
                    exact(explain->fit.smallest - explain->capacity_bytes, &one),
                    exact(explain->fit.smallest, &two));
    else if (explain->fit.smallest > 0)
        output_text(
            output,
            "  even less, by chance: on %s this policy serves the whole log, and on this device "
            "not\n",
            exact(explain->fit.smallest, &one));
    else
        output_text(output, "  no device is large enough\n");
    if (explain->fit.fails_again > 0)
        output_text(output,
                    "  more is not always enough: it refuses again on %s, but not from %s on\n",
                    about(explain->fit.fails_again, &one), exact(explain->fit.sure, &two));
    output_text(output, "  on the same device:\n");
    table_init(&table, explain->lab->memory, output, COLUMNS, sizeof(COLUMNS) / sizeof(COLUMNS[0]));
    for (int served = 1; served >= 0; served--) {
        for (size_t i = 0; i < explain->try_count; i++) {
            const struct explain_try *attempt = &explain->tries[i];
            if (attempt->run.served != (served == 1))
                continue;
            snprintf(cell, sizeof(cell), "  %.500s", attempt->policy);
            table_text(&table, cell);
            snprintf(cell, sizeof(cell), "refused at event %s",
                     lab_number(attempt->run.refused_event, number));
            table_styled(&table, served == 1 ? OUTPUT_GOOD : OUTPUT_PLAIN,
                         served == 1 ? "served" : cell);
            table_text(&table, about(attempt->run.peak_reserved, &one));
            table_number(&table, attempt->run.retries);
        }
    }
    int status = table_end(&table);
    table_release(&table);
    return status;
}

static void print_heading(const struct explain *explain)
{
    struct output *output = &explain->lab->output;
    struct size_text one;
    struct size_text two;
    output_foreign(output, explain->lab->line.operands[0]);
    output_text(output, ": ");
    output_styled(output, OUTPUT_BAD, "out of memory");
    output_text(output, " under ");
    output_foreign(output, explain->policy);
    output_text(output, " on %s\n", exact(explain->capacity_bytes, &one));
    if (explain_is_full(explain))
        output_text(
            output,
            "Nothing can help here but a larger device or a smaller program: %s must live at "
            "once.\n",
            exact(explain->live_bytes + explain->asked.bytes, &one));
    else
        output_text(output,
                    "It is not too little memory, but memory in the wrong places: %s live, and %s "
                    "more would fit.\n",
                    about(explain->live_bytes, &one), about(explain->asked.bytes, &two));
}

int explain_print_text(const struct explain *explain)
{
    if (!explain->refused) {
        print_fine(explain);
        return LAB_FINE;
    }
    print_heading(explain);
    print_asked(explain);
    print_had(explain);
    print_holders(explain);
    print_tried(explain);
    print_wrong(explain);
    return print_cures(explain) == 0 ? LAB_FINE : lab_no_memory(explain->lab);
}
