/* What the page of `replay` shows beside the run: the policies side by side, and the first out of
 * memory as `explain` tells it; see replay_files.h. */
#include <string.h>

#include "base/memory.h"
#include "lab/compare.h"
#include "lab/explain.h"
#include "lab/replay_files.h"

/* ------------------------------------------------------------------------------ the table */

/* The usual line-up, and before it the policy of the run where it is none of these. */
static size_t line_up(const char *policy, struct compare_row *rows)
{
    size_t count = 1;
    const char *usual;
    bool known = false;
    for (size_t i = 0; (usual = compare_usual(i)) != NULL; i++) {
        known = known || strcmp(usual, policy) == 0;
        if (rows)
            rows[count].text = usual;
        count++;
    }
    if (known && rows)
        memmove(rows, rows + 1, (count - 1) * sizeof(*rows));
    else if (rows)
        rows[0].text = policy;
    return known ? count - 1 : count;
}

static int measure(struct comparison *comparison)
{
    int status = LOG_FINE;
    for (size_t i = 0; status == LOG_FINE && i < comparison->row_count; i++) {
        comparison->lab->doing = "comparing";
        comparison->done = (double)i / (double)comparison->row_count;
        lab_show_progress(comparison->lab, comparison->done);
        status = compare_measure(comparison, &comparison->rows[i]);
    }
    return status;
}

int replay_write_table(const struct replay_run *run, struct json_writer *writer)
{
    const struct worsegpu_memory *memory = run->lab->memory;
    struct comparison comparison = {.lab = run->lab,
                                    .events = run->timeline.events,
                                    .facts = run->about.facts,
                                    .seed = run->timeline.seed,
                                    .capacity_bytes = run->chosen ? 0 : run->about.capacity_bytes,
                                    .quick = run->quick};
    size_t room = line_up(run->timeline.policy, NULL) + 1;
    comparison.rows = memory_allocate_zeroed(memory, room, sizeof(*comparison.rows));
    if (!comparison.rows)
        return LOG_NO_MEMORY;
    comparison.row_count = line_up(run->timeline.policy, comparison.rows);
    int status = measure(&comparison);
    if (status == LOG_FINE)
        compare_write_json(&comparison, writer);
    memory_release_array(memory, comparison.rows, room, sizeof(*comparison.rows));
    return status;
}

/* ------------------------------------------------------------------------------ the story */

/* Bytes that a stream was given. */
struct telling {
    const struct worsegpu_memory *memory;
    char *text;
    size_t length;
    size_t capacity;
    bool no_memory;
};

static ssize_t hear(void *context, const char *bytes, size_t length)
{
    struct telling *telling = context;
    if (telling->no_memory || memory_grow(telling->memory, &telling->text, &telling->capacity,
                                          telling->length + length + 1, 1) != 0) {
        telling->no_memory = true;
        return (ssize_t)length; /* the failure is told once, at the end */
    }
    memcpy(telling->text + telling->length, bytes, length);
    telling->length += length;
    telling->text[telling->length] = '\0';
    return (ssize_t)length;
}

/* The words of `explain`, into a text of our own. log_status. */
static int tell_story(const struct explain *explain, struct telling *telling)
{
    const cookie_io_functions_t functions = {.write = hear};
    struct lab told = *explain->lab;
    struct explain copy = *explain;
    /* A page may be shown to others: no folders of this machine. */
    const char *slash = strrchr(explain->lab->line.operands[0], '/');
    const char *name = slash ? slash + 1 : explain->lab->line.operands[0];
    FILE *to = fopencookie(telling, "w", functions);
    if (!to)
        return LOG_NO_MEMORY;
    output_init(&told.output, to, told.output.errors);
    told.line.operands = &name;
    copy.lab = &told;
    int status = explain_print_text(&copy);
    if (fclose(to) != 0 || status != LAB_FINE || telling->no_memory)
        return LOG_NO_MEMORY;
    return LOG_FINE;
}

int replay_write_story(const struct replay_run *run, struct json_writer *writer)
{
    struct explain explain = {.lab = run->lab,
                              .events = run->timeline.events,
                              .policy = run->timeline.policy,
                              .seed = run->timeline.seed,
                              .capacity_bytes = run->timeline.capacity_bytes,
                              .unlimited_bytes = run->unlimited_bytes};
    struct telling telling = {.memory = run->lab->memory};
    if (run->sum.ooms == 0 || run->quick) {
        json_writer_null(writer);
        return LOG_FINE;
    }
    int status = explain_find_out(&explain);
    if (status == LOG_FINE)
        status = tell_story(&explain, &telling);
    if (status == LOG_FINE && telling.text)
        json_writer_string(writer, telling.text, telling.length);
    memory_release_array(telling.memory, telling.text, telling.capacity, 1);
    return status;
}
