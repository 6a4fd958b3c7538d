/* The files that `replay` writes; see replay_files.h. One run fills all of them. */
#include "lab/replay_files.h"

#include <errno.h>
#include <string.h>

/* All outputs; those that are not wanted have no file. */
struct outputs {
    struct csv_output csv;
    struct ndjson_output ndjson;
    struct chrome_output chrome;
    struct snapshot_output snapshot;
    struct page_output page;
};

static struct output_file *file_of(struct outputs *outputs, enum replay_kind kind)
{
    switch (kind) {
    case REPLAY_CSV:
        return &outputs->csv.file;
    case REPLAY_NDJSON:
        return &outputs->ndjson.file;
    case REPLAY_CHROME:
        return &outputs->chrome.file;
    case REPLAY_SNAPSHOT:
        return &outputs->snapshot.file;
    case REPLAY_HTML:
    case REPLAY_KINDS:
    default:
        return &outputs->page.file;
    }
}

/* log_status. */
static int begin(struct outputs *outputs, enum replay_kind kind)
{
    switch (kind) {
    case REPLAY_CSV:
        return csv_output_begin(&outputs->csv);
    case REPLAY_NDJSON:
        return ndjson_output_begin(&outputs->ndjson);
    case REPLAY_CHROME:
        return chrome_output_begin(&outputs->chrome);
    case REPLAY_SNAPSHOT:
        return snapshot_output_begin(&outputs->snapshot);
    case REPLAY_HTML:
    case REPLAY_KINDS:
    default:
        return page_output_begin(&outputs->page) ? LOG_FINE : LOG_NO_MEMORY;
    }
}

static struct timeline_sink sink_of(struct outputs *outputs, enum replay_kind kind)
{
    switch (kind) {
    case REPLAY_CSV:
        return csv_output_sink(&outputs->csv);
    case REPLAY_NDJSON:
        return ndjson_output_sink(&outputs->ndjson);
    case REPLAY_CHROME:
        return chrome_output_sink(&outputs->chrome);
    case REPLAY_SNAPSHOT:
        return snapshot_output_sink(&outputs->snapshot);
    case REPLAY_HTML:
    case REPLAY_KINDS:
    default:
        return page_output_sink(&outputs->page);
    }
}

/* ------------------------------------------------------------------------------ files */

/* What was opened is in `outputs`, also after a failure. The exit status. */
static int open_files(struct replay_run *run, struct outputs *outputs)
{
    for (size_t i = 0; i < REPLAY_KINDS; i++) {
        const char *name = run->names[i];
        struct output_file *file = file_of(outputs, (enum replay_kind)i);
        if (!name)
            continue;
        if (!output_file_open(file, name, run->lab->output.out))
            return lab_not_written(run->lab, name, errno);
    }
    return LAB_FINE;
}

/* The exit status: the first failure is told. */
static int close_files(struct replay_run *run, struct outputs *outputs, int status)
{
    for (size_t i = 0; i < REPLAY_KINDS; i++) {
        struct output_file *file = file_of(outputs, (enum replay_kind)i);
        if (!file->to)
            continue;
        output_file_close(file);
        if (file->failure != 0 && status == LAB_FINE)
            status =
                lab_not_written(run->lab, file->standard ? NULL : run->names[i], file->failure);
    }
    return status;
}

/* ------------------------------------------------------------------------------ the run */

/* The table and the story take runs of their own. log_status. */
static int write_page(struct replay_run *run, struct outputs *outputs)
{
    struct json_writer table;
    struct json_writer story;
    lab_begin_json(run->lab, &table);
    lab_begin_json(run->lab, &story);
    int status = replay_write_table(run, &table);
    if (status == LOG_FINE)
        status = replay_write_story(run, &story);
    if (status == LOG_FINE)
        status = page_output_write(&outputs->page, &table, &story);
    json_writer_release(&table);
    json_writer_release(&story);
    return status;
}

static int fill(struct replay_run *run, struct outputs *outputs)
{
    struct timeline_sink sinks[REPLAY_KINDS];
    struct timeline_sum sum;
    size_t count = 0;
    int status = LOG_FINE;
    for (size_t i = 0; status == LOG_FINE && i < REPLAY_KINDS; i++) {
        if (!file_of(outputs, (enum replay_kind)i)->to)
            continue;
        status = begin(outputs, (enum replay_kind)i);
        sinks[count++] = sink_of(outputs, (enum replay_kind)i);
    }
    run->lab->doing = "writing";
    if (status == LOG_FINE)
        status = timeline_run(&run->timeline, sinks, count, &sum);
    if (status == LOG_FINE && outputs->page.file.to)
        status = write_page(run, outputs);
    return status;
}

static int fill_files(struct replay_run *run, struct outputs *outputs)
{
    int status = fill(run, outputs);
    lab_hide_progress(run->lab);
    if (outputs->ndjson.file.to)
        ndjson_output_release(&outputs->ndjson);
    if (outputs->snapshot.file.to)
        snapshot_output_release(&outputs->snapshot);
    if (outputs->page.file.to)
        page_output_release(&outputs->page);
    if (status == LOG_NO_MEMORY)
        return lab_no_memory(run->lab);
    return status == LOG_FINE
               ? LAB_FINE
               : lab_error(run->lab, LAB_FILE, "no_file", "cannot read the temporary file");
}

int replay_write_files(struct replay_run *run)
{
    struct outputs outputs = {
        .csv = {.about = &run->about},
        .ndjson = {.about = &run->about, .writer = {.memory = run->lab->memory}},
        .chrome = {.about = &run->about},
        .snapshot = {.about = &run->about,
                     .sum = &run->sum,
                     .segments = {.memory = run->lab->memory},
                     .pending = {.memory = run->lab->memory}},
        .page = {.about = &run->about, .sum = &run->sum, .held = {.memory = run->lab->memory}},
    };
    int status = open_files(run, &outputs);
    if (status == LAB_FINE)
        status = fill_files(run, &outputs);
    return close_files(run, &outputs, status);
}
