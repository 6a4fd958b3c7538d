/* fit: on which device, and with which setting, does a recording run? */
#include "lab/fit.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lib/worsegpu.h"

bool fit_is_rival(const struct fit_row *row)
{
    return row->possible && row->answer.smallest > 0 && row->answer.at.host == 0 &&
           !row->answer.at.counts_only;
}

static uint64_t calls_of(const struct fit_row *row)
{
    return row->answer.at.device_calls + row->answer.at.retries;
}

/* The better one first; equal ones stay in the order in which they were asked for, which `rank` has
 * until all is in place. */
static int better(const void *one, const void *two)
{
    const struct fit_row *a = one;
    const struct fit_row *b = two;
    if (fit_is_rival(a) != fit_is_rival(b))
        return fit_is_rival(a) ? -1 : 1;
    if (fit_is_rival(a) && a->answer.smallest != b->answer.smallest)
        return a->answer.smallest < b->answer.smallest ? -1 : 1;
    if (fit_is_rival(a) && calls_of(a) != calls_of(b))
        return calls_of(a) < calls_of(b) ? -1 : 1;
    return a->rank < b->rank ? -1 : 1;
}

static void rank(struct fit *fit)
{
    for (size_t i = 0; i < fit->row_count; i++)
        fit->rows[i].rank = i;
    qsort(fit->rows, fit->row_count, sizeof(*fit->rows), better);
    for (size_t i = 0; i < fit->row_count; i++)
        fit->rows[i].rank = fit_is_rival(&fit->rows[i]) ? i + 1 : 0;
}

/* ------------------------------------------------------------------------------ the search */

struct ticking {
    struct lab *lab;
    double done;
};

static void tick(void *context)
{
    const struct ticking *ticking = context;
    lab_show_progress(ticking->lab, ticking->done);
}

static int search_row(struct fit *fit, size_t index, const char *seed)
{
    struct fit_row *row = &fit->rows[index];
    struct lab *lab = fit->lab;
    struct ticking ticking = {lab, (double)index / (double)fit->row_count};
    const struct comparison comparison = {.lab = lab, .seed = seed};
    struct compare_row look = {.text = row->policy};
    const struct fit_subject subject = {.memory = lab->memory,
                                        .events = fit->events,
                                        .policy = row->policy,
                                        .seed = seed,
                                        .tick = tick,
                                        .tick_context = &ticking};
    int status = compare_find_unlimited(&comparison, &look);
    if (status > 0)
        snprintf(row->problem, sizeof(row->problem), "%s", look.problem);
    row->possible = status == 0;
    return status != 0 ? (status < 0 ? status : LOG_FINE)
                       : fit_search(&subject, look.unlimited_bytes, true, &row->answer);
}

static int search_rows(struct fit *fit, const char *seed)
{
    struct lab *lab = fit->lab;
    int status = LOG_FINE;
    for (size_t i = 0; status == LOG_FINE && i < fit->row_count; i++) {
        char doing[64];
        snprintf(doing, sizeof(doing), "%.60s", fit->rows[i].policy);
        lab->doing = doing;
        status = search_row(fit, i, seed);
        lab->doing = "";
    }
    lab_hide_progress(lab);
    if (status == LOG_NO_MEMORY)
        return lab_no_memory(lab);
    if (status != LOG_FINE)
        return lab_error(lab, LAB_FILE, "no_file", "cannot read the temporary file");
    rank(fit);
    return LAB_FINE;
}

static int fit_log(struct fit *fit, const char *seed)
{
    struct events *events;
    int status = lab_read_log(fit->lab, &events);
    if (status != LAB_FINE)
        return status;
    fit->events = events;
    status = search_rows(fit, seed);
    if (status == LAB_FINE)
        status = fit->lab->output.json ? fit_print_json(fit) : fit_print_text(fit);
    events_release(events);
    return status;
}

/* ------------------------------------------------------------------------------ the settings */

int lab_settings(struct lab *lab, struct text_list *settings)
{
    char problem[FIT_SETTINGS_PROBLEM_SIZE];
    const char *text;
    int status = 0;
    for (size_t i = 0; status == 0; i++) {
        text = command_line_text(&lab->line, LAB_OPTION_policy, i);
        if (!text)
            break;
        status = fit_settings_add(settings, text);
    }
    if (status == 0 && settings->count == 0)
        status = fit_settings_add(settings, "all");
    for (size_t i = 0; status == 0; i++) {
        text = command_line_text(&lab->line, LAB_OPTION_vary, i);
        if (!text)
            break;
        status = fit_settings_vary(settings, text, problem);
    }
    if (status < 0)
        return lab_no_memory(lab);
    return status > 0 ? lab_usage(lab, problem, "all there are: worsegpu-lab list policies")
                      : LAB_FINE;
}

int lab_check_settings(struct lab *lab, const struct text_list *settings, const char *seed)
{
    const struct comparison comparison = {.lab = lab, .seed = seed};
    for (size_t i = 0; i < settings->count; i++) {
        struct compare_row look = {.text = settings->texts[i]};
        int status = compare_find_unlimited(&comparison, &look);
        if (status < 0)
            return lab_no_memory(lab);
        if (status > 0)
            return lab_usage(lab, look.problem, "all there are: worsegpu-lab list policies");
    }
    return LAB_FINE;
}

static int fit_rows(struct lab *lab, const struct text_list *settings, const char *seed)
{
    struct fit fit = {.lab = lab, .row_count = settings->count};
    fit.rows = memory_allocate_zeroed(lab->memory, fit.row_count, sizeof(*fit.rows));
    if (!fit.rows)
        return lab_no_memory(lab);
    for (size_t i = 0; i < fit.row_count; i++)
        fit.rows[i].policy = settings->texts[i];
    int status = fit_log(&fit, seed);
    memory_release_array(lab->memory, fit.rows, fit.row_count, sizeof(*fit.rows));
    return status;
}

int perform_fit(struct lab *lab)
{
    struct text_list settings;
    const char *seed =
        lab_has(lab, LAB_OPTION_seed) ? lab->line.values[LAB_OPTION_seed].text : NULL;
    text_list_init(&settings, lab->memory);
    int status = lab_settings(lab, &settings);
    /* Mistyped ones are told before a long log is read. */
    if (status == LAB_FINE)
        status = lab_check_settings(lab, &settings, seed);
    if (status == LAB_FINE)
        status = fit_rows(lab, &settings, seed);
    text_list_release(&settings);
    return status;
}
