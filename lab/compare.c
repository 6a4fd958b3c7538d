/* compare: one recording under every policy, a row each. */
#include "lab/compare.h"

#include <string.h>

#include "base/memory.h"
#include "lib/worsegpu.h"

/* What is compared unless --policy says otherwise. */
static const char *const USUAL[] = {
    "worse",
    "reference",
    "list_fit fit=first alignment=256 tail=apart",
    "list_fit fit=next alignment=256 tail=apart",
    "list_fit fit=best alignment=256 tail=apart",
    "list_fit fit=worst alignment=256 tail=apart",
    "buddy",
    "offset unit_bytes=256",
    "vma alignment=256",
    "tlsf fl_index_max=40",
    "rmm_pool",
    "bfc allow_growth=true",
    "torch",
    "torch_expandable",
    "driver",
    "driver share_small=false",
};

enum {
    USUAL_COUNT = sizeof(USUAL) / sizeof(USUAL[0])
};

const char *compare_usual(size_t index)
{
    return index < USUAL_COUNT ? USUAL[index] : NULL;
}

static int measure_rows(struct comparison *comparison)
{
    struct lab *lab = comparison->lab;
    for (size_t i = 0; i < comparison->row_count; i++) {
        struct compare_row *row = &comparison->rows[i];
        char doing[64];
        snprintf(doing, sizeof(doing), "%.60s", row->text);
        lab->doing = doing;
        comparison->done = (double)i / (double)comparison->row_count;
        lab_show_progress(lab, comparison->done);
        int status = compare_measure(comparison, row);
        lab->doing = "";
        if (status == LOG_NO_MEMORY)
            return lab_no_memory(lab);
        if (status != LOG_FINE)
            return lab_error(lab, LAB_FILE, "no_file", "cannot read the temporary file");
    }
    lab_hide_progress(lab);
    return LAB_FINE;
}

static int compare(struct comparison *comparison)
{
    struct lab *lab = comparison->lab;
    int status = lab_read_log(lab, (struct events **)&comparison->events);
    if (status != LAB_FINE)
        return status;
    comparison->facts = events_facts(comparison->events);
    status = measure_rows(comparison);
    if (status == LAB_FINE)
        status = lab->output.json ? compare_print_json(comparison) : compare_print_text(comparison);
    events_release((struct events *)comparison->events);
    return status;
}

/* A policy or knob that someone mistyped is told before a long log is read. */
static int check_texts(struct comparison *comparison)
{
    for (size_t i = 0; i < comparison->row_count; i++) {
        struct compare_row *row = &comparison->rows[i];
        struct replay *replay = NULL;
        int status = comparison->capacity_bytes > 0
                         ? compare_create(comparison, row, comparison->capacity_bytes, &replay)
                         : compare_find_unlimited(comparison, row);
        if (status < 0)
            return lab_no_memory(comparison->lab);
        if (status > 0)
            return lab_usage(comparison->lab, row->problem,
                             "all there are: worsegpu-lab list policies");
        replay_destroy(replay);
    }
    return LAB_FINE;
}

int perform_compare(struct lab *lab)
{
    const struct command_line *line = &lab->line;
    bool named = line->text_count > 0;
    struct comparison comparison = {
        .lab = lab,
        .seed = lab_has(lab, LAB_OPTION_seed) ? line->values[LAB_OPTION_seed].text : NULL,
        .quick = lab_has(lab, LAB_OPTION_quick),
        .timed =
            lab->output.json ? lab_has(lab, LAB_OPTION_time) : !lab_has(lab, LAB_OPTION_no_time),
        .row_count = named ? line->text_count : USUAL_COUNT};
    if (lab_has(lab, LAB_OPTION_capacity)) {
        comparison.capacity_bytes = line->values[LAB_OPTION_capacity].number;
        if (comparison.capacity_bytes == 0 || comparison.capacity_bytes > WORSEGPU_MAX_BYTES)
            return lab_usage(lab, "--capacity is from 1 to 9007199254740991 bytes", NULL);
    }
    comparison.rows =
        memory_allocate_zeroed(lab->memory, comparison.row_count, sizeof(*comparison.rows));
    if (!comparison.rows)
        return lab_no_memory(lab);
    for (size_t i = 0; i < comparison.row_count; i++)
        comparison.rows[i].text = named ? line->texts[i] : USUAL[i];
    int status = named ? check_texts(&comparison) : LAB_FINE;
    if (status == LAB_FINE)
        status = compare(&comparison);
    memory_release_array(lab->memory, comparison.rows, comparison.row_count,
                         sizeof(*comparison.rows));
    return status;
}
