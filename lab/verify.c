/* verify: records through the models they name, one line a file and a total. What is compared is in
 * verify_golden.c and verify_torch.c. */
#include "lab/verify.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "lab/lab.h"

#define TORCH_FORMAT "torch-snapshot"
#define GOLDEN_FORMAT "golden"

/* What all files come to. */
struct totals {
    struct verify_count counts[4 * VERIFY_MAX_COUNTS];
    size_t count;
    uint64_t files;      /* that were compared */
    uint64_t equal;      /* of them, without a mismatch */
    uint64_t unreadable; /* not compared */
    int status;
};

static void add_totals(struct totals *totals, const struct verify_result *result)
{
    totals->files++;
    totals->equal += result->mismatches == 0;
    if (result->mismatches > 0 && totals->status == LAB_FINE)
        totals->status = LAB_BAD;
    for (size_t i = 0; i < result->count; i++) {
        size_t at = 0;
        while (at < totals->count && strcmp(totals->counts[at].name, result->counts[i].name) != 0)
            at++;
        if (at == sizeof(totals->counts) / sizeof(totals->counts[0]))
            continue;
        if (at == totals->count)
            totals->counts[totals->count++] = (struct verify_count){.name = result->counts[i].name};
        totals->counts[at].equal += result->counts[i].equal;
        totals->counts[at].all += result->counts[i].all;
    }
}

/* ------------------------------------------------------------------------------ printing */

static void print_counts(struct lab *lab, const struct verify_count *counts, size_t count)
{
    char equal[LAB_NUMBER_SIZE];
    char all[LAB_NUMBER_SIZE];
    for (size_t i = 0; i < count; i++)
        output_text(&lab->output, "%s%s of %s %s", i > 0 ? ", " : " ",
                    lab_number(counts[i].equal, equal), lab_number(counts[i].all, all),
                    counts[i].name);
    if (count == 0)
        output_text(&lab->output, " nothing to compare");
}

static void print_file(struct lab *lab, const char *name, const struct verify_result *result)
{
    struct output *output = &lab->output;
    char number[LAB_NUMBER_SIZE];
    output_foreign(output, name);
    output_text(output, ": ");
    output_foreign(output, result->model);
    output_text(output, ":");
    print_counts(lab, result->counts, result->count);
    if (result->mismatches == 0) {
        output_text(output, "\n");
        return;
    }
    output_text(output, "; ");
    output_styled(output, OUTPUT_BAD,
                  result->mismatches == 1 ? "1 mismatch" : lab_number(result->mismatches, number));
    output_text(output, result->mismatches == 1 ? "\n" : " mismatches\n");
    for (const char *at = result->mismatch; *at != '\0';) {
        char line[VERIFY_MISMATCH_SIZE];
        size_t length = strcspn(at, "\n");
        snprintf(line, sizeof(line), "%.*s", (int)length, at);
        output_text(output, "  ");
        output_foreign(output, line);
        output_text(output, "\n");
        at += length + (at[length] == '\n');
    }
}

static void print_totals(struct lab *lab, const struct totals *totals)
{
    struct output *output = &lab->output;
    char number[LAB_NUMBER_SIZE];
    output_text(output, "total: %s %s:", lab_number(totals->files, number),
                totals->files == 1 ? "file" : "files");
    print_counts(lab, totals->counts, totals->count);
    if (totals->equal < totals->files) {
        output_text(output, "; ");
        output_styled(output, OUTPUT_BAD, lab_number(totals->files - totals->equal, number));
        output_text(output, totals->files - totals->equal == 1 ? " file differs" : " files differ");
    } else if (totals->files > 0) {
        output_text(output, "; ");
        output_styled(output, OUTPUT_GOOD, "all equal");
    }
    if (totals->unreadable > 0)
        output_text(output, "; %s not compared", lab_number(totals->unreadable, number));
    output_text(output, "\n");
}

static void write_counts(struct json_writer *writer, const struct verify_count *counts,
                         size_t count)
{
    json_writer_key(writer, "counts");
    json_writer_begin_object(writer);
    for (size_t i = 0; i < count; i++) {
        json_writer_key(writer, counts[i].name);
        json_writer_begin_object(writer);
        json_writer_member_u64(writer, "equal", counts[i].equal);
        json_writer_member_u64(writer, "all", counts[i].all);
        json_writer_end_object(writer);
    }
    json_writer_end_object(writer);
}

static void write_file(struct json_writer *writer, const char *name,
                       const struct verify_result *result)
{
    json_writer_begin_object(writer);
    lab_member_foreign(writer, "file", name);
    lab_member_foreign(writer, "model", result->model);
    write_counts(writer, result->counts, result->count);
    json_writer_member_u64(writer, "mismatches", result->mismatches);
    if (result->mismatches > 0)
        lab_member_foreign(writer, "mismatch", result->mismatch);
    json_writer_end_object(writer);
}

/* ------------------------------------------------------------------------------ files */

static int verify_source(struct lab *lab, struct log_source *source, struct verify_result *result,
                         struct log_problem *problem)
{
    const unsigned char *head;
    size_t bytes;
    int status = log_source_peek(source, LOG_HEAD_BYTES, &head, &bytes, problem);
    if (status != LOG_FINE)
        return status;
    const struct log_format *format =
        log_detect(head, bytes < LOG_HEAD_BYTES ? bytes : LOG_HEAD_BYTES, problem);
    if (!format)
        return LOG_BAD;
    if (strcmp(format->name, TORCH_FORMAT) == 0)
        return verify_torch(source, lab->memory, result, problem);
    if (strcmp(format->name, GOLDEN_FORMAT) == 0)
        return verify_golden(source, lab->memory, result, problem);
    snprintf(problem->text, sizeof(problem->text),
             "a %s log holds no answers of an allocator that could be compared; `worsegpu-lab "
             "compare` replays it",
             format->name);
    return LOG_BAD;
}

static int verify_name(struct lab *lab, const char *name, struct verify_result *result,
                       struct log_problem *problem)
{
    struct log_source *source;
    int status = log_source_open(name, lab->memory, &source, problem);
    if (status != LOG_FINE)
        return status;
    status = verify_source(lab, source, result, problem);
    log_source_close(source);
    return status;
}

/* A file that could not be compared; the others still are. */
static void note_unreadable(struct lab *lab, struct json_writer *writer, const char *name,
                            int status, const struct log_problem *problem, struct totals *totals)
{
    totals->unreadable++;
    if (totals->status == LAB_FINE || totals->status == LAB_BAD)
        totals->status = (int)lab_log_exit(status);
    lab_hide_progress(lab);
    output_complaint(&lab->output, lab_table()->program, "%s: %s", name, problem->text);
    if (!lab->output.json)
        return;
    json_writer_begin_object(writer);
    lab_member_foreign(writer, "file", name);
    lab_member_foreign(writer, "error", problem->text);
    json_writer_end_object(writer);
}

static int verify_files(struct lab *lab, struct json_writer *writer, struct verify_result *result,
                        struct totals *totals)
{
    for (size_t i = 0; i < lab->line.operand_count; i++) {
        const char *name = lab->line.operands[i];
        struct log_problem problem = {""};
        memset(result, 0, sizeof(*result));
        lab->doing = "verifying";
        lab_show_progress(lab, (double)i / (double)lab->line.operand_count);
        int status = verify_name(lab, name, result, &problem);
        if (status == LOG_NO_MEMORY)
            return status;
        if (status != LOG_FINE) {
            note_unreadable(lab, writer, name, status, &problem, totals);
            continue;
        }
        add_totals(totals, result);
        lab_hide_progress(lab);
        if (lab->output.json)
            write_file(writer, name, result);
        else
            print_file(lab, name, result);
    }
    return LOG_FINE;
}

static int verify_all(struct lab *lab, struct verify_result *result)
{
    struct json_writer writer;
    struct totals totals = {.status = LAB_FINE};
    lab_begin_json(lab, &writer);
    json_writer_begin_object(&writer);
    json_writer_key(&writer, "files");
    json_writer_begin_array(&writer);
    if (verify_files(lab, &writer, result, &totals) != LOG_FINE) {
        json_writer_release(&writer);
        return lab_no_memory(lab);
    }
    if (!lab->output.json) {
        print_totals(lab, &totals);
        json_writer_release(&writer);
        return totals.status;
    }
    json_writer_end_array(&writer);
    json_writer_key(&writer, "total");
    json_writer_begin_object(&writer);
    json_writer_member_u64(&writer, "files", totals.files);
    json_writer_member_u64(&writer, "equal", totals.equal);
    json_writer_member_u64(&writer, "not_compared", totals.unreadable);
    write_counts(&writer, totals.counts, totals.count);
    json_writer_end_object(&writer);
    json_writer_end_object(&writer);
    int status = lab_print_json(lab, &writer);
    return status == LAB_FINE ? totals.status : status;
}

int perform_verify(struct lab *lab)
{
    struct verify_result *result = memory_allocate_array(lab->memory, 1, sizeof(*result));
    if (!result)
        return lab_no_memory(lab);
    int status = verify_all(lab, result);
    memory_release_array(lab->memory, result, 1, sizeof(*result));
    return status;
}
