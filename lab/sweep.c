/* sweep: the cross product of logs, settings, capacities and seeds. */
#include "lab/sweep.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/bytes_text.h"
#include "base/memory.h"

enum {
    MOST_JOBS = 1024,
    MOST_SHARDS = 1000000
};

struct sweep {
    struct lab *lab;
    struct sweep_spec spec;
    uint64_t shard; /* from 1 */
    uint64_t shards;
    size_t jobs;
    const char *output;
    uint64_t *pending;
    size_t own; /* points of this shard */
    size_t pending_count;
    bool repaired;
};

/* ------------------------------------------------------------------------------ options */

static size_t cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (size_t)count : 1;
}

/* "3/7" */
static bool read_shard(const char *text, uint64_t *shard, uint64_t *shards)
{
    char first[24];
    size_t length = strcspn(text, "/");
    if (length >= sizeof(first) || text[length] == '\0')
        return false;
    memcpy(first, text, length);
    first[length] = '\0';
    return count_from_text(first, shard) && count_from_text(text + length + 1, shards) &&
           *shard >= 1 && *shard <= *shards && *shards <= MOST_SHARDS;
}

static int read_options(struct sweep *sweep)
{
    struct lab *lab = sweep->lab;
    sweep->shard = 1;
    sweep->shards = 1;
    sweep->jobs = cores();
    if (lab_has(lab, LAB_OPTION_shard) &&
        !read_shard(lab->line.values[LAB_OPTION_shard].text, &sweep->shard, &sweep->shards))
        return lab_usage(lab, "--shard is I/N, for example 1/7 to 7/7", NULL);
    if (lab_has(lab, LAB_OPTION_jobs)) {
        uint64_t jobs = lab->line.values[LAB_OPTION_jobs].number;
        if (jobs < 1 || jobs > MOST_JOBS)
            return lab_usage(lab, "--jobs is from 1 to 1024", NULL);
        sweep->jobs = (size_t)jobs;
    }
    if (!lab_has(lab, LAB_OPTION_output))
        return lab_usage(lab, "sweep needs --output FILE: its results are kept there",
                         "try: worsegpu-lab help sweep");
    sweep->output = lab->line.values[LAB_OPTION_output].text;
    return LAB_FINE;
}

/* ------------------------------------------------------------------------------ what is to do */

static bool is_own(const struct sweep *sweep, uint64_t number)
{
    return (number - 1) % sweep->shards == sweep->shard - 1;
}

/* Whether what the file has is this sweep's, and this shard's. */
static int check_results(const struct sweep *sweep, struct sweep_results *results,
                         char problem[SWEEP_PROBLEM_SIZE])
{
    if (results->id[0] != '\0' && strcmp(results->id, sweep->spec.id) != 0) {
        snprintf(problem, SWEEP_PROBLEM_SIZE,
                 "%.200s has results of another sweep: the specification, a log or the version has "
                 "changed since; take another --output",
                 sweep->output);
        return LAB_BAD;
    }
    for (size_t i = 0; i < results->count; i++) {
        if (is_own(sweep, results->lines[i].point))
            continue;
        snprintf(problem, SWEEP_PROBLEM_SIZE, "%.200s has point %llu, which is not of shard %s",
                 sweep->output, (unsigned long long)results->lines[i].point,
                 sweep->lab->line.values[LAB_OPTION_shard].text);
        return LAB_BAD;
    }
    return sweep_results_sort(results, problem);
}

/* The points of this shard that have no result yet. */
static int find_pending(struct sweep *sweep, const struct sweep_results *results)
{
    size_t line = 0;
    for (int pass = 0; pass < 2; pass++) { /* how many, then which */
        size_t count = 0;
        line = 0;
        sweep->own = 0;
        for (uint64_t number = sweep->shard; number <= sweep->spec.points;
             number += sweep->shards) {
            sweep->own++;
            while (line < results->count && results->lines[line].point < number)
                line++;
            if (line < results->count && results->lines[line].point == number)
                continue;
            if (pass == 1)
                sweep->pending[count] = number;
            count++;
        }
        sweep->pending_count = count;
        if (pass == 0 && count > 0) {
            sweep->pending =
                memory_allocate_array(sweep->lab->memory, count, sizeof(*sweep->pending));
            if (!sweep->pending)
                return lab_no_memory(sweep->lab);
        }
        if (count == 0)
            break;
    }
    return LAB_FINE;
}

static int cannot(const struct sweep *sweep, const char *what, int error)
{
    char problem[SWEEP_PROBLEM_SIZE];
    snprintf(problem, sizeof(problem), "cannot %s %.300s: %s", what, sweep->output,
             strerrordesc_np(error));
    return lab_error(sweep->lab, LAB_FILE, "no_file", problem);
}

/* ------------------------------------------------------------------------------ one shard */

/* Runs what is missing; lines go behind those that are there. */
static int run_pending(struct sweep *sweep, FILE *file)
{
    struct sweep_results results;
    char problem[SWEEP_PROBLEM_SIZE];
    uint64_t good;
    bool torn;
    sweep_results_init(&results, sweep->lab->memory);
    int status = sweep_results_read(&results, sweep->output, true, &good, &torn, problem);
    if (status == LAB_FINE)
        status = check_results(sweep, &results, problem);
    if (status != LAB_FINE)
        status = status == LAB_MEMORY
                     ? lab_no_memory(sweep->lab)
                     : lab_error(sweep->lab, (enum lab_exit)status,
                                 status == LAB_FILE ? "no_file" : "bad_results", problem);
    else
        status = find_pending(sweep, &results);
    sweep_results_release(&results);
    if (status == LAB_FINE && torn && ftruncate(fileno(file), (off_t)good) != 0)
        return cannot(sweep, "repair", errno);
    sweep->repaired = torn;
    if (status != LAB_FINE)
        return status;
    size_t jobs = sweep->jobs < sweep->pending_count ? sweep->jobs : sweep->pending_count;
    struct sweep_run run = {.lab = sweep->lab,
                            .spec = &sweep->spec,
                            .pending = sweep->pending,
                            .pending_count = sweep->pending_count,
                            .jobs = jobs,
                            .file = file};
    return sweep_run(&run);
}

/* All is done: the file in the order of points, and as comma-separated values. */
static int finish(struct sweep *sweep)
{
    struct lab *lab = sweep->lab;
    struct sweep_results results;
    char problem[SWEEP_PROBLEM_SIZE];
    uint64_t good;
    bool torn;
    sweep_results_init(&results, lab->memory);
    int status = sweep_results_read(&results, sweep->output, false, &good, &torn, problem);
    if (status == LAB_FINE)
        status = sweep_results_sort(&results, problem);
    if (status == LAB_FINE)
        status = sweep_results_write(&results, sweep->output, false, problem);
    if (status == LAB_FINE && lab_has(lab, LAB_OPTION_csv))
        status =
            sweep_results_write(&results, lab->line.values[LAB_OPTION_csv].text, true, problem);
    sweep_results_release(&results);
    if (status == LAB_MEMORY)
        return lab_no_memory(lab);
    return status == LAB_FINE ? LAB_FINE
                              : lab_error(lab, (enum lab_exit)status, "no_file", problem);
}

static int run_shard(struct sweep *sweep)
{
    FILE *file = fopen(sweep->output, "ae");
    if (!file)
        return cannot(sweep, "write", errno);
    int status = LAB_FINE;
    if (flock(fileno(file), LOCK_EX | LOCK_NB) != 0) {
        char problem[SWEEP_PROBLEM_SIZE];
        snprintf(problem, sizeof(problem), "another sweep is writing to %.300s", sweep->output);
        status = lab_error(sweep->lab, LAB_FILE, "no_file", problem);
    }
    if (status == LAB_FINE)
        status = run_pending(sweep, file);
    if (status == LAB_FINE)
        status = finish(sweep);
    if (fclose(file) != 0 && status == LAB_FINE)
        status = cannot(sweep, "write", errno);
    return status;
}

/* ------------------------------------------------------------------------------ the end */

static int print(const struct sweep *sweep)
{
    struct lab *lab = sweep->lab;
    size_t before = sweep->own - sweep->pending_count;
    char one[LAB_NUMBER_SIZE];
    char two[LAB_NUMBER_SIZE];
    if (lab->output.json) {
        struct json_writer writer;
        lab_begin_json(lab, &writer);
        json_writer_begin_object(&writer);
        json_writer_member_text(&writer, "sweep", sweep->spec.id);
        json_writer_member_u64(&writer, "points", sweep->spec.points);
        json_writer_member_u64(&writer, "shard", sweep->shard);
        json_writer_member_u64(&writer, "shards", sweep->shards);
        json_writer_member_u64(&writer, "own", sweep->own);
        json_writer_member_u64(&writer, "done_before", before);
        json_writer_member_u64(&writer, "done_now", sweep->pending_count);
        json_writer_member_bool(&writer, "repaired", sweep->repaired);
        lab_member_foreign(&writer, "output", sweep->output);
        json_writer_end_object(&writer);
        return lab_print_json(lab, &writer);
    }
    if (sweep->repaired)
        output_text(&lab->output, "a last line that was cut off has been removed\n");
    output_foreign(&lab->output, sweep->output);
    output_text(&lab->output, ": %s points run, %s were there",
                lab_number(sweep->pending_count, one), lab_number(before, two));
    if (sweep->shards > 1)
        output_text(&lab->output, "; shard %s of %s", lab_number(sweep->shard, one),
                    lab_number(sweep->shards, two));
    output_text(&lab->output, "; the sweep has %s\n", lab_number(sweep->spec.points, one));
    return LAB_FINE;
}

int perform_sweep(struct lab *lab)
{
    struct sweep sweep = {.lab = lab};
    sweep_spec_init(&sweep.spec, lab->memory);
    int status = read_options(&sweep);
    if (status == LAB_FINE)
        status = sweep_spec_read(lab, &sweep.spec);
    if (status == LAB_FINE)
        status = run_shard(&sweep);
    if (status == LAB_FINE)
        status = print(&sweep);
    memory_release_array(lab->memory, sweep.pending, sweep.pending_count, sizeof(*sweep.pending));
    sweep_spec_release(&sweep.spec);
    return status;
}
