/* merge: the shards of a sweep as one file, if each point is there exactly once. */
#include <string.h>

#include "lab/sweep.h"

enum {
    MOST_NAMED = 10
};

/* LAB_FINE, or LAB_BAD with a sentence that names some of what is missing. */
static int check_complete(const struct sweep_results *results, char problem[SWEEP_PROBLEM_SIZE])
{
    char named[SWEEP_PROBLEM_SIZE / 2] = "";
    size_t length = 0;
    uint64_t missing = results->points - results->count;
    size_t shown = 0;
    size_t line = 0;
    if (missing == 0)
        return LAB_FINE;
    for (uint64_t point = 1; point <= results->points && shown < MOST_NAMED; point++) {
        if (line < results->count && results->lines[line].point == point) {
            line++;
            continue;
        }
        length += (size_t)snprintf(named + length, sizeof(named) - length, "%s%llu",
                                   shown > 0 ? ", " : "", (unsigned long long)point);
        shown++;
    }
    snprintf(problem, SWEEP_PROBLEM_SIZE, "%llu of %llu points are missing: %s%s",
             (unsigned long long)missing, (unsigned long long)results->points, named,
             missing > shown ? ", ..." : "");
    return LAB_BAD;
}

static int read_all(struct lab *lab, struct sweep_results *results,
                    char problem[SWEEP_PROBLEM_SIZE])
{
    int status = LAB_FINE;
    for (size_t i = 0; status == LAB_FINE && i < lab->line.operand_count; i++) {
        uint64_t good;
        bool torn;
        const char *name = lab->line.operands[i];
        status = sweep_results_read(results, name, false, &good, &torn, problem);
        if (status == LAB_FINE && torn) {
            snprintf(problem, SWEEP_PROBLEM_SIZE,
                     "%.300s: its last line was cut off: run that shard again, it goes on where it "
                     "ended",
                     name);
            status = LAB_BAD;
        }
    }
    if (status == LAB_FINE && results->count == 0) {
        snprintf(problem, SWEEP_PROBLEM_SIZE, "there is no result in these files");
        status = LAB_BAD;
    }
    if (status == LAB_FINE)
        status = sweep_results_sort(results, problem);
    return status == LAB_FINE ? check_complete(results, problem) : status;
}

static int print(struct lab *lab, const struct sweep_results *results)
{
    char one[LAB_NUMBER_SIZE];
    char two[LAB_NUMBER_SIZE];
    if (!lab_has(lab, LAB_OPTION_output)) {
        for (size_t i = 0; i < results->count; i++) {
            output_bytes(&lab->output, results->lines[i].text, results->lines[i].length);
            output_bytes(&lab->output, "\n", 1);
        }
        return LAB_FINE;
    }
    const char *name = lab->line.values[LAB_OPTION_output].text;
    if (lab->output.json) {
        struct json_writer writer;
        lab_begin_json(lab, &writer);
        json_writer_begin_object(&writer);
        json_writer_member_text(&writer, "sweep", results->id);
        json_writer_member_u64(&writer, "points", results->points);
        json_writer_member_u64(&writer, "files", results->file_count);
        lab_member_foreign(&writer, "output", name);
        json_writer_end_object(&writer);
        return lab_print_json(lab, &writer);
    }
    output_foreign(&lab->output, name);
    output_text(&lab->output, ": %s points of %s files\n", lab_number(results->points, one),
                lab_number(results->file_count, two));
    return LAB_FINE;
}

int perform_merge(struct lab *lab)
{
    struct sweep_results results;
    char problem[SWEEP_PROBLEM_SIZE];
    if (lab->output.json && !lab_has(lab, LAB_OPTION_output))
        return lab_usage(lab, "with --json, merge needs --output FILE", NULL);
    sweep_results_init(&results, lab->memory);
    int status = read_all(lab, &results, problem);
    if (status == LAB_FINE && lab_has(lab, LAB_OPTION_output))
        status =
            sweep_results_write(&results, lab->line.values[LAB_OPTION_output].text, false, problem);
    if (status == LAB_FINE && lab_has(lab, LAB_OPTION_csv))
        status =
            sweep_results_write(&results, lab->line.values[LAB_OPTION_csv].text, true, problem);
    if (status == LAB_MEMORY)
        status = lab_no_memory(lab);
    else if (status != LAB_FINE)
        status = lab_error(lab, (enum lab_exit)status,
                           status == LAB_FILE ? "no_file" : "bad_results", problem);
    else
        status = print(lab, &results);
    sweep_results_release(&results);
    return status;
}
