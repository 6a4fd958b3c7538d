/* The simulator as a program: many seeds on all processors, or one of them shown step by step. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/simulation/world.h"

enum {
    MOST_WORKERS = 256
};

struct wish {
    uint64_t seed; /* one alone ... */
    bool alone;
    uint64_t from; /* ... or so many from this one on */
    uint64_t seeds;
    uint64_t steps;
    uint64_t jobs;
    bool verbose;
    bool wrong; /* this seed shall fail */
    uint64_t wrong_seed;
};

/* What a worker has done so far, where its parent can see it. */
struct progress {
    uint64_t seed; /* being run; 0: none */
    uint64_t seeds;
    uint64_t clients;
    uint64_t answers;
    uint64_t events;
    uint64_t failures; /* of memory */
    uint64_t peak_bytes;
    uint64_t hash; /* of all its runs, whatever their order */
};

static void run_one(const struct wish *wish, uint64_t seed, struct progress *progress)
{
    static struct world world; /* too large for the stack */
    progress->seed = seed;
    if (wish->wrong && wish->wrong_seed == seed)
        world_run_wrong(&world, seed, wish->steps, wish->verbose);
    world_run(&world, seed, wish->steps, wish->verbose);
    progress->seed = 0;
    progress->seeds++;
    progress->clients += world.came;
    progress->answers += world.answers;
    progress->events += world.events;
    progress->failures += world.chaos.failures;
    progress->hash += world.hash;
    if (world.peak_bytes > progress->peak_bytes)
        progress->peak_bytes = world.peak_bytes;
}

static void work(const struct wish *wish, uint64_t worker, struct progress *progress)
{
    for (uint64_t index = worker; index < wish->seeds; index += wish->jobs)
        run_one(wish, wish->from + index, progress);
}

static void tell_replay(const struct wish *wish, uint64_t seed)
{
    const char *build = getenv("WORSEGPU_BUILD");
    fprintf(stderr,
            "seed %" PRIu64 " failed; to see it again: %s/tests/simulation/simulate --seed %" PRIu64
            " --steps %" PRIu64 " --verbose\n",
            seed, build && *build ? build : "build", seed, wish->steps);
}

/* Waits for all workers; whether all went well. The first one that fails ends the others. */
static bool wait_for(const struct wish *wish, const pid_t *workers, const struct progress *progress)
{
    bool fine = true;
    for (uint64_t left = wish->jobs; left > 0; left--) {
        int status;
        pid_t ended = wait(&status);
        if (ended < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
            continue;
        for (uint64_t index = 0; index < wish->jobs; index++) {
            if (workers[index] == ended && fine)
                tell_replay(wish, progress[index].seed);
            else if (workers[index] != ended && fine)
                kill(workers[index], SIGKILL);
        }
        fine = false;
    }
    return fine;
}

static void sum_up(const struct wish *wish, const struct progress *progress)
{
    struct progress all = {.seed = 0};
    for (uint64_t index = 0; index < wish->jobs; index++) {
        all.seeds += progress[index].seeds;
        all.clients += progress[index].clients;
        all.answers += progress[index].answers;
        all.events += progress[index].events;
        all.failures += progress[index].failures;
        all.hash += progress[index].hash;
        if (progress[index].peak_bytes > all.peak_bytes)
            all.peak_bytes = progress[index].peak_bytes;
    }
    printf("%" PRIu64 " seeds of %" PRIu64 " steps: %" PRIu64 " clients, %" PRIu64
           " answers, %" PRIu64 " events, %" PRIu64 " failures of memory, %" PRIu64
           " KiB at most; nothing is wrong\nhash %016" PRIx64 "\n",
           all.seeds, wish->steps, all.clients, all.answers, all.events, all.failures,
           all.peak_bytes / 1024, all.hash);
}

static int run_many(const struct wish *wish)
{
    pid_t workers[MOST_WORKERS];
    struct progress *progress = mmap(NULL, MOST_WORKERS * sizeof(*progress), PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED) {
        perror("simulate: mmap");
        return 2;
    }
    fflush(stdout);
    for (uint64_t index = 0; index < wish->jobs; index++) {
        workers[index] = fork();
        if (workers[index] < 0) {
            perror("simulate: fork");
            return 2;
        }
        if (workers[index] == 0) {
            work(wish, index, &progress[index]);
            fflush(stdout);
            _exit(0);
        }
    }
    if (!wait_for(wish, workers, progress))
        return 1;
    sum_up(wish, progress);
    return 0;
}

static int usage(FILE *stream)
{
    fprintf(stream,
            "usage: simulate [--from FIRST] [--seeds COUNT] [--steps COUNT] [--jobs COUNT]\n"
            "       simulate --seed SEED [--steps COUNT] [--verbose]\n");
    return stream == stdout ? 0 : 2;
}

static bool read_count(const char *text, uint64_t least, uint64_t *count)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    *count = value;
    return *text >= '0' && *text <= '9' && !*end && errno == 0 && value >= least;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},
        {"from", required_argument, NULL, 'f'},
        {"seeds", required_argument, NULL, 'n'},
        {"steps", required_argument, NULL, 't'},
        {"jobs", required_argument, NULL, 'j'},
        {"verbose", no_argument, NULL, 'v'},
        {"wrong", required_argument, NULL, 'w'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct wish wish = {.from = 1, .seeds = 100, .steps = WORLD_STEPS, .jobs = 1};
    bool fine = true;
    int letter;
    while (fine && (letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (letter) {
        case 's':
            fine = read_count(optarg, 0, &wish.from);
            wish.alone = true;
            break;
        case 'f':
            fine = read_count(optarg, 0, &wish.from);
            break;
        case 'n':
            fine = read_count(optarg, 1, &wish.seeds);
            break;
        case 't':
            fine = read_count(optarg, 0, &wish.steps);
            break;
        case 'j':
            fine = read_count(optarg, 1, &wish.jobs);
            break;
        case 'w':
            fine = read_count(optarg, 0, &wish.wrong_seed);
            wish.wrong = true;
            break;
        case 'v':
            wish.verbose = true;
            break;
        case 'h':
            return usage(stdout);
        default:
            fine = false;
            break;
        }
    }
    if (!fine || optind < argc)
        return usage(stderr);
    if (wish.alone) {
        wish.seeds = 1;
        wish.jobs = 1;
    }
    if (wish.jobs > wish.seeds)
        wish.jobs = wish.seeds;
    if (wish.jobs > MOST_WORKERS)
        wish.jobs = MOST_WORKERS;
    return run_many(&wish);
}
