/* What the lab makes of its time: `fit` of all policies, and how busy `sweep` keeps the cores.
 * Prints; decides nothing.
 *
 * fit is told in processor time, and as a multiple of one look at the same policies without the
 * search. sweep is told as the share of the cores' time that it worked: the rest is waiting for the
 * log, for a thread that has the longest point, or for another program. Skipped plainly where the
 * logs are not there. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "lab/lab.h"

enum {
    PATH_SIZE = 4096
};

struct took {
    double wall;
    double cpu;
};

static double wall_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Of all threads. */
static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The words end with NULL; what it prints goes nowhere. */
static struct took run(char **words)
{
    int count = 0;
    while (words[count])
        count++;
    FILE *nowhere = fopen("/dev/null", "we");
    if (!nowhere)
        exit(1);
    struct took took = {.wall = wall_seconds(), .cpu = cpu_seconds()};
    int status = lab_main(count, words, memory_system(), nowhere, stderr);
    took.wall = wall_seconds() - took.wall;
    took.cpu = cpu_seconds() - took.cpu;
    fclose(nowhere);
    if (status != LAB_FINE)
        exit(1);
    return took;
}

int main(void)
{
    const char *shared = getenv("WORSEGPU_SHARED");
    char log[PATH_SIZE];
    char output[] = "/tmp/worsegpu-bench-XXXXXX";
    snprintf(log, sizeof(log), "%s/logs/torch/decomfl.pickle", shared ? shared : "../shared");
    if (access(log, R_OK) != 0) {
        printf("lab: skipped, there is no %s\n", log);
        return 0;
    }
    struct took quick =
        run((char *[]){"worsegpu-lab", "compare", "--quick", "--no-time", log, NULL});
    struct took fit = run((char *[]){"worsegpu-lab", "fit", log, NULL});
    printf(
        "lab: fit of all policies on decomfl: %.2f s of one core (goal: 3), %.1f times one look at "
        "each\n",
        fit.cpu, fit.cpu / quick.cpu);
    int file = mkstemp(output);
    if (file < 0)
        return 1;
    close(file);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    char jobs[24];
    snprintf(jobs, sizeof(jobs), "%ld", cores);
    struct took sweep =
        run((char *[]){"worsegpu-lab", "sweep", "--log", log, "--policy", "all", "--capacities",
                       "unlimited,1.05x,1.1x,1.2x,1.5x", "--seeds", "0,1,2,3,4,5,6,7,8,9", "--jobs",
                       jobs, "--output", output, NULL});
    printf("lab: sweep of 800 points on %ld cores: %.2f s, %.1f%% of the cores' time at work "
           "(goal: 95)\n",
           cores, sweep.wall, 100 * sweep.cpu / (sweep.wall * (double)cores));
    unlink(output);
    return 0;
}
