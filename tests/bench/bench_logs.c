/* How fast a recorded log is read: torch snapshots against Python's own pickle.load, in one run.
 * Prints; decides nothing.
 *
 * Both read the same file from the disk's cache, best of some rounds by processor time. Python
 * builds all objects of the snapshot, we make the records of it: what each needs before it can
 * answer a question. Skipped plainly where the logs or python3 are not there. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "lab/logs/log.h"

enum {
    ROUNDS = 15,
    PATH_SIZE = 4096
};

static const char *const names[] = {"decomfl.pickle", "medium-512-training.pickle",
                                    "medium-128-inference.pickle", "course-magma.pickle"};

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int count_record(void *context, const struct log_record *record)
{
    uint64_t *records = context;
    *records += record->operation < LOG_OPERATIONS;
    return LOG_FINE;
}

/* Seconds of one reading, least of all rounds. */
static double read_log(const char *path, uint64_t *records, uint64_t *length)
{
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        struct log_source *source;
        struct log_facts facts;
        struct log_problem problem;
        struct log_sink sink = {.context = records, .record = count_record};
        *records = 0;
        double start = cpu_seconds();
        if (log_source_open(path, memory_system(), &source, &problem) != LOG_FINE ||
            log_read(source, NULL, memory_system(), &sink, &facts, &problem) != LOG_FINE) {
            fprintf(stderr, "bench_logs: %s\n", problem.text);
            exit(1);
        }
        *length = log_source_place(source);
        log_source_close(source);
        double seconds = cpu_seconds() - start;
        best = seconds < best ? seconds : best;
    }
    return best;
}

/* The same by Python; negative when there is no python3. */
static double read_by_python(const char *path)
{
    static const char program[] = "import pickle, sys, time\n"
                                  "best = 1e9\n"
                                  "for _ in range(15):\n"
                                  "    start = time.process_time()\n"
                                  "    with open(sys.argv[1], 'rb') as file:\n"
                                  "        pickle.load(file)\n"
                                  "    best = min(best, time.process_time() - start)\n"
                                  "print(best)\n";
    char command[2 * PATH_SIZE];
    setenv("BENCH_PROGRAM", program, 1);
    setenv("BENCH_FILE", path, 1);
    snprintf(command, sizeof(command), "python3 -c \"$BENCH_PROGRAM\" \"$BENCH_FILE\" 2>/dev/null");
    FILE *pipe = popen(command, "r"); /* NOLINT(cert-env33-c): nothing in it is foreign */
    char line[64] = "";
    if (!pipe)
        return -1;
    char *got = fgets(line, sizeof(line), pipe);
    return pclose(pipe) == 0 && got ? strtod(line, NULL) : -1;
}

int main(void)
{
    const char *shared = getenv("WORSEGPU_SHARED");
    printf("logs: torch snapshots, read by us and by Python's pickle (goal: 5 times)\n");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[PATH_SIZE];
        uint64_t length;
        uint64_t records;
        snprintf(path, sizeof(path), "%s/logs/torch/%s", shared ? shared : "../shared", names[i]);
        if (access(path, R_OK) != 0) {
            printf("  %s: skipped, it is not there\n", path);
            continue;
        }
        double ours = read_log(path, &records, &length);
        double theirs = read_by_python(path);
        printf("  %-28s %6" PRIu64 " records %7.2f ms, %4.0f MB/s", names[i], records, ours * 1e3,
               (double)length / ours / 1e6);
        if (theirs > 0)
            printf("; Python %7.2f ms: %.1f times\n", theirs * 1e3, theirs / ours);
        else
            printf("; no python3 to compare with\n");
    }
    return 0;
}
