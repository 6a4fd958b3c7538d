/* replay: one recording under one policy, as files for people and for other programs. */
#include <inttypes.h>
#include <string.h>

#include "base/bytes_text.h"
#include "lab/compare.h"
#include "lab/replay_files.h"
#include "lib/worsegpu.h"

/* Addresses that reach up to here make a device without limit a limited one. */
#define MOST_ADDRESS (UINT64_C(1) << 52)
#define LEAST_CHOSEN (UINT64_C(1) << 30)

static const enum lab_option OPTION_OF[REPLAY_KINDS] = {
    [REPLAY_CSV] = LAB_OPTION_csv,
    [REPLAY_NDJSON] = LAB_OPTION_ndjson,
    [REPLAY_CHROME] = LAB_OPTION_chrome_trace,
    [REPLAY_SNAPSHOT] = LAB_OPTION_snapshot,
    [REPLAY_HTML] = LAB_OPTION_html,
};

static const char *const NAME_OF[REPLAY_KINDS] = {
    [REPLAY_CSV] = "csv",           [REPLAY_NDJSON] = "ndjson", [REPLAY_CHROME] = "chrome_trace",
    [REPLAY_SNAPSHOT] = "snapshot", [REPLAY_HTML] = "html",
};

/* ------------------------------------------------------------------------------ the summary */

static void line(struct lab *lab, const char *what, const char *value)
{
    output_text(&lab->output, "%-15s %s\n", what, value);
}

static void bytes_line(struct lab *lab, const char *what, uint64_t bytes, uint64_t event)
{
    char size[BYTES_TEXT_SIZE];
    char exact[LAB_NUMBER_SIZE];
    char number[LAB_NUMBER_SIZE];
    char text[128];
    bytes_to_text(bytes, false, size);
    int length = snprintf(text, sizeof(text), "%s (%s bytes)", size, lab_number(bytes, exact));
    if (event > 0 && length > 0 && (size_t)length < sizeof(text))
        snprintf(text + length, sizeof(text) - (size_t)length, ", at event %s",
                 lab_number(event, number));
    line(lab, what, text);
}

static void print_refusals(const struct replay_run *run)
{
    const struct timeline_sum *sum = &run->sum;
    char one[LAB_NUMBER_SIZE];
    char two[LAB_NUMBER_SIZE];
    char size[BYTES_TEXT_SIZE];
    char text[160];
    if (sum->ooms == 0) {
        line(run->lab, "out of memory", "never");
        return;
    }
    bytes_to_text(sum->first_oom_bytes, false, size);
    snprintf(text, sizeof(text), "%s time%s, first at event %s: %s asked for",
             lab_number(sum->ooms, one), sum->ooms == 1 ? "" : "s", lab_number(sum->first_oom, two),
             size);
    line(run->lab, "out of memory", text);
}

static void print_files(const struct replay_run *run)
{
    const char *what = "written";
    for (size_t i = 0; i < REPLAY_KINDS; i++) {
        if (!run->names[i])
            continue;
        output_text(&run->lab->output, "%-15s ", what);
        output_foreign(&run->lab->output, run->names[i]);
        output_text(&run->lab->output, "\n");
        what = "";
    }
}

static int print_text(const struct replay_run *run)
{
    struct lab *lab = run->lab;
    const struct timeline_sum *sum = &run->sum;
    char one[LAB_NUMBER_SIZE];
    char two[LAB_NUMBER_SIZE];
    char text[160];
    output_foreign(&lab->output, run->about.name);
    output_text(&lab->output, " under ");
    output_foreign(&lab->output, run->about.policy);
    output_text(&lab->output, "\n\n");
    snprintf(text, sizeof(text), "%s allocations, %s frees", lab_number(sum->allocations, one),
             lab_number(sum->frees, two));
    line(lab, "replayed", text);
    if (run->about.capacity_bytes > 0)
        bytes_line(lab, run->chosen ? "device, chosen" : "device", run->about.capacity_bytes, 0);
    else
        line(lab, "device", "without limit");
    bytes_line(lab, "peak live", sum->peak_live, sum->peak_live_event);
    bytes_line(lab, "peak reserved", sum->peak_reserved, sum->peak_reserved_event);
    print_refusals(run);
    line(lab, "device calls", lab_number(sum->last.device_calls, one));
    line(lab, "retries", lab_number(sum->last.retries, one));
    if (sum->host > 0)
        line(lab, "on the host", lab_number(sum->host, one));
    if (sum->last.forgotten_bytes > 0)
        bytes_line(lab, "forgotten", sum->last.forgotten_bytes, 0);
    if (sum->live_at_end > 0)
        line(lab, "never freed", lab_number(sum->live_at_end, one));
    print_files(run);
    return LAB_FINE;
}

static int print_json(const struct replay_run *run)
{
    const struct timeline_sum *sum = &run->sum;
    struct json_writer writer;
    lab_begin_json(run->lab, &writer);
    json_writer_begin_object(&writer);
    json_writer_member_text(&writer, "format", run->about.facts->log.format);
    lab_member_foreign(&writer, "policy", run->about.policy);
    json_writer_key(&writer, "capacity_bytes");
    if (run->about.capacity_bytes > 0)
        json_writer_u64(&writer, run->about.capacity_bytes);
    else
        json_writer_null(&writer);
    json_writer_member_bool(&writer, "capacity_chosen", run->chosen);
    json_writer_member_u64(&writer, "floor_bytes", run->about.facts->peak_bytes);
    json_writer_member_u64(&writer, "allocations", sum->allocations);
    json_writer_member_u64(&writer, "frees", sum->frees);
    json_writer_member_u64(&writer, "peak_live_bytes", sum->peak_live);
    json_writer_member_u64(&writer, "peak_live_event", sum->peak_live_event);
    json_writer_member_u64(&writer, "peak_reserved_bytes", sum->peak_reserved);
    json_writer_member_u64(&writer, "peak_reserved_event", sum->peak_reserved_event);
    json_writer_member_u64(&writer, "ooms", sum->ooms);
    json_writer_key(&writer, "first_oom_event");
    if (sum->ooms > 0)
        json_writer_u64(&writer, sum->first_oom);
    else
        json_writer_null(&writer);
    json_writer_member_u64(&writer, "device_calls", sum->last.device_calls);
    json_writer_member_u64(&writer, "retries", sum->last.retries);
    json_writer_member_u64(&writer, "host", sum->host);
    json_writer_member_u64(&writer, "forgotten_bytes", sum->last.forgotten_bytes);
    json_writer_member_u64(&writer, "live_at_end", sum->live_at_end);
    json_writer_key(&writer, "written");
    json_writer_begin_object(&writer);
    for (size_t i = 0; i < REPLAY_KINDS; i++) {
        if (run->names[i])
            lab_member_foreign(&writer, NAME_OF[i], run->names[i]);
    }
    json_writer_end_object(&writer);
    json_writer_end_object(&writer);
    return lab_print_json(run->lab, &writer);
}

/* ------------------------------------------------------------------------------ the command */

static size_t count_files(const struct replay_run *run, bool standard)
{
    size_t count = 0;
    for (size_t i = 0; i < REPLAY_KINDS; i++)
        count += run->names[i] && (!standard || strcmp(run->names[i], "-") == 0);
    return count;
}

/* The first run gives the figures that some outputs need before they begin. On a device without
 * limit some policies use all the addresses there are, or keep them apart by its size, and no
 * reader of our files can have numbers from 2^53 on: then the device is made as small as 2^n bytes
 * can be without a refusal. log_status. */
static int run_first(struct replay_run *run)
{
    int status = timeline_run(&run->timeline, NULL, 0, &run->sum);
    if (status != LOG_FINE || run->about.capacity_bytes > 0 || run->sum.end < MOST_ADDRESS)
        return status;
    const struct timeline_sum unlimited = run->sum;
    uint64_t capacity = LEAST_CHOSEN;
    while (capacity < unlimited.peak_live)
        capacity *= 2;
    do {
        run->timeline.capacity_bytes = capacity;
        status = timeline_run(&run->timeline, NULL, 0, &run->sum);
        capacity *= 2;
    } while (status == LOG_FINE && run->sum.ooms > unlimited.ooms &&
             capacity < run->unlimited_bytes);
    run->about.capacity_bytes = run->timeline.capacity_bytes;
    run->chosen = true;
    return status;
}

static int replay(struct replay_run *run)
{
    struct lab *lab = run->lab;
    run->about.facts = events_facts(run->timeline.events);
    lab->doing = "replaying";
    int status = run_first(run);
    lab_hide_progress(lab);
    if (status == LOG_NO_MEMORY)
        return lab_no_memory(lab);
    if (status != LOG_FINE)
        return lab_error(lab, LAB_FILE, "no_file", "cannot read the temporary file");
    status = count_files(run, false) > 0 ? replay_write_files(run) : LAB_FINE;
    if (status != LAB_FINE || count_files(run, true) > 0)
        return status;
    return lab->output.json ? print_json(run) : print_text(run);
}

/* A policy or knob that someone mistyped is told before a long log is read. */
static int check(struct replay_run *run)
{
    const struct comparison comparison = {.lab = run->lab, .seed = run->timeline.seed};
    struct compare_row row = {.text = run->timeline.policy};
    struct replay *made = NULL;
    int status = compare_find_unlimited(&comparison, &row);
    run->unlimited_bytes = row.unlimited_bytes;
    run->timeline.capacity_bytes =
        run->about.capacity_bytes > 0 ? run->about.capacity_bytes : row.unlimited_bytes;
    if (status == 0)
        status = compare_create(&comparison, &row, run->timeline.capacity_bytes, &made);
    replay_destroy(made);
    if (status < 0)
        return lab_no_memory(run->lab);
    return status == 0
               ? LAB_FINE
               : lab_usage(run->lab, row.problem, "all there are: worsegpu-lab list policies");
}

static int read_options(struct replay_run *run)
{
    struct lab *lab = run->lab;
    const struct command_line *given = &lab->line;
    if (given->text_count > 1)
        return lab_usage(lab, "replay takes one --policy",
                         "several side by side: worsegpu-lab compare LOG, or replay --html");
    run->timeline.policy = given->text_count == 1 ? given->texts[0] : "torch";
    if (lab_has(lab, LAB_OPTION_seed))
        run->timeline.seed = given->values[LAB_OPTION_seed].text;
    run->quick = lab_has(lab, LAB_OPTION_quick);
    if (lab_has(lab, LAB_OPTION_capacity)) {
        run->about.capacity_bytes = given->values[LAB_OPTION_capacity].number;
        if (run->about.capacity_bytes == 0 || run->about.capacity_bytes > WORSEGPU_MAX_BYTES)
            return lab_usage(lab, "--capacity is from 1 to 9007199254740991 bytes", NULL);
    }
    for (size_t i = 0; i < REPLAY_KINDS; i++) {
        if (lab_has(lab, OPTION_OF[i]))
            run->names[i] = given->values[OPTION_OF[i]].text;
    }
    if (count_files(run, true) > 1)
        return lab_usage(lab, "only one output can go to standard output", NULL);
    if (count_files(run, true) > 0 && lab->output.json)
        return lab_usage(lab, "replay --json prints a summary: outputs need files", NULL);
    return check(run);
}

int perform_replay(struct lab *lab)
{
    struct replay_run run = {.lab = lab};
    struct events *events;
    int status = read_options(&run);
    if (status != LAB_FINE)
        return status;
    status = lab_read_log(lab, &events);
    if (status != LAB_FINE)
        return status;
    run.about.lab = run.timeline.lab = lab;
    run.about.name = lab->line.operands[0];
    run.about.policy = run.timeline.policy;
    run.timeline.events = events;
    status = replay(&run);
    events_release(events);
    return status;
}
