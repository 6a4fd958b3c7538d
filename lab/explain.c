/* explain: why did it run out of memory, and what would have helped? */
#include "lab/explain.h"

#include <string.h>

#include "lib/worsegpu.h"

static const char *const TRIES[] = {
#define TRY(text) text,
#include "lab/explain_tries.def"
};

static void tick(void *context)
{
    lab_show_progress(context, -1);
}

static struct fit_subject subject_of(const struct explain *explain, const char *policy)
{
    return (struct fit_subject){.memory = explain->lab->memory,
                                .events = explain->events,
                                .policy = policy,
                                .seed = explain->seed,
                                .tick = tick,
                                .tick_context = explain->lab};
}

/* ------------------------------------------------------------------------------ what else would
 * do */

static bool is_listed(const struct explain *explain, const char *policy)
{
    for (size_t i = 0; i < explain->try_count; i++) {
        if (strcmp(explain->tries[i].policy, policy) == 0)
            return true;
    }
    return strcmp(explain->policy, policy) == 0;
}

static int try_policy(struct explain *explain, const char *policy)
{
    if (explain->try_count == EXPLAIN_TRIES || is_listed(explain, policy))
        return LOG_FINE;
    struct explain_try *attempt = &explain->tries[explain->try_count];
    const struct fit_subject subject = subject_of(explain, policy);
    const struct comparison comparison = {.lab = explain->lab, .seed = explain->seed};
    struct compare_row row = {.text = policy};
    struct replay *replay;
    int status = compare_create(&comparison, &row, explain->capacity_bytes, &replay);
    if (status != 0)
        return status < 0 ? status : LOG_FINE; /* not for a device of this size */
    replay_destroy(replay);
    status = fit_try(&subject, explain->capacity_bytes, &attempt->run);
    attempt->policy = policy;
    attempt->counts = attempt->run.counts_only || attempt->run.host > 0;
    explain->try_count += !attempt->counts;
    return status;
}

static int try_others(struct explain *explain)
{
    const char *usual;
    int status = LOG_FINE;
    for (size_t i = 0; status == LOG_FINE && i < sizeof(TRIES) / sizeof(TRIES[0]); i++)
        status = try_policy(explain, TRIES[i]);
    for (size_t i = 0; status == LOG_FINE && (usual = compare_usual(i)) != NULL; i++)
        status = try_policy(explain, usual);
    return status;
}

/* ------------------------------------------------------------------------------ the whole */

int explain_find_out(struct explain *explain)
{
    const struct fit_subject subject = subject_of(explain, explain->policy);
    explain->lab->doing = "looking for the refusal";
    int status = explain_find(explain);
    if (status == LOG_FINE && !explain->refused)
        status = fit_try(&subject, explain->capacity_bytes, &explain->all);
    if (status == LOG_FINE && explain->refused)
        status = explain_find_wrong(explain);
    explain->lab->doing = "looking for the smallest device";
    if (status == LOG_FINE)
        status = fit_search(&subject, explain->unlimited_bytes, true, &explain->fit);
    explain->lab->doing = "trying other settings";
    if (status == LOG_FINE && explain->refused)
        status = try_others(explain);
    explain->lab->doing = "";
    return status;
}

static int explain_log(struct explain *explain)
{
    struct lab *lab = explain->lab;
    struct events *events;
    int status = lab_read_log(lab, &events);
    if (status != LAB_FINE)
        return status;
    explain->events = events;
    status = explain_find_out(explain);
    lab_hide_progress(lab);
    if (status == LOG_FINE)
        status = lab->output.json ? explain_print_json(explain) : explain_print_text(explain);
    else if (status == LOG_NO_MEMORY)
        status = lab_no_memory(lab);
    else
        status = lab_error(lab, LAB_FILE, "no_file", "cannot read the temporary file");
    events_release(events);
    return status;
}

/* Whether the policy is one, and can have a device of this size. */
static int check(struct explain *explain)
{
    const struct comparison comparison = {.lab = explain->lab, .seed = explain->seed};
    struct compare_row row = {.text = explain->policy};
    struct replay *replay = NULL;
    int status = compare_find_unlimited(&comparison, &row);
    if (status == 0)
        status = compare_create(&comparison, &row, explain->capacity_bytes, &replay);
    replay_destroy(replay);
    explain->unlimited_bytes = row.unlimited_bytes;
    if (status < 0)
        return lab_no_memory(explain->lab);
    return status == 0
               ? LAB_FINE
               : lab_usage(explain->lab, row.problem, "all there are: worsegpu-lab list policies");
}

static int explain_recording(struct lab *lab)
{
    const struct command_line *line = &lab->line;
    struct explain explain = {.lab = lab, .policy = "torch"};
    if (line->operand_count == 0)
        return lab_usage(lab, "explain needs a LOG with --capacity, or --oom and a sentence",
                         "try: worsegpu-lab help explain");
    if (!lab_has(lab, LAB_OPTION_capacity))
        return lab_usage(lab, "explain needs --capacity SIZE: how large the GPU is",
                         "the smallest one that will do: worsegpu-lab fit LOG");
    if (line->text_count > 1)
        return lab_usage(lab, "explain takes one --policy", NULL);
    if (line->text_count == 1)
        explain.policy = line->texts[0];
    if (lab_has(lab, LAB_OPTION_seed))
        explain.seed = line->values[LAB_OPTION_seed].text;
    explain.capacity_bytes = line->values[LAB_OPTION_capacity].number;
    if (explain.capacity_bytes == 0 || explain.capacity_bytes > WORSEGPU_MAX_BYTES)
        return lab_usage(lab, "--capacity is from 1 to 9007199254740991 bytes", NULL);
    int status = check(&explain);
    return status == LAB_FINE ? explain_log(&explain) : status;
}

int perform_explain(struct lab *lab)
{
    if (!lab_has(lab, LAB_OPTION_oom))
        return explain_recording(lab);
    if (lab->line.operand_count > 0 || lab_has(lab, LAB_OPTION_capacity))
        return lab_usage(lab, "--oom explains a sentence, without a LOG and --capacity", NULL);
    return explain_sentence(lab, lab->line.values[LAB_OPTION_oom].text);
}
