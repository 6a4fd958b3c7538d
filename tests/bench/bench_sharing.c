/* What it costs the others that 50 clients watch and 100 rules are there.
 *
 * One client allocates and frees with `depth` requests in flight, first alone, then beside 50
 * subscribers that read everything, 50 that read nothing, 100 rules that do not match, and 50
 * subscribers with 100 rules. The subscribers are read by one process of their own. Each case has
 * its rounds in turn with the case alone, so that a slow moment of the machine meets both. Prints
 * the rate on the wall clock, the daemon's CPU time for each request, and both as ratios to the
 * case alone of the same run; and how much of what happened reached the subscribers. */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/bench_client.h"

enum {
    SUBSCRIBERS = 50,
    RULES = 100,
    ROUNDS = 15, /* an odd number */
    MAX_DEPTH = 64,
    MAX_LINE = 160
};

enum watching {
    NOBODY,
    READERS,
    DEAF
};

static void ask(int client, const char *line)
{
    bench_send(client, line, strlen(line));
    bench_read_answers(client, 1);
}

/* A process that reads all sockets for ever and counts bytes. */
static pid_t start_reader(const int *sockets, uint64_t *bytes)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    static char buffer[262144];
    struct pollfd polled[SUBSCRIBERS];
    for (size_t index = 0; index < SUBSCRIBERS; index++)
        polled[index] = (struct pollfd){.fd = sockets[index], .events = POLLIN};
    for (;;) {
        if (poll(polled, SUBSCRIBERS, -1) < 0)
            _exit(1);
        for (size_t index = 0; index < SUBSCRIBERS; index++) {
            if (!(polled[index].revents & (POLLIN | POLLHUP)))
                continue;
            ssize_t got = recv(polled[index].fd, buffer, sizeof(buffer), MSG_DONTWAIT);
            if (got == 0)
                _exit(0);
            if (got > 0)
                __atomic_fetch_add(bytes, (uint64_t)got, __ATOMIC_RELAXED);
        }
    }
}

struct side {
    char path[64];
    pid_t pid;
    int client;
    int sockets[SUBSCRIBERS];
    pid_t reader;
    uint64_t *bytes; /* that it has read; shared with it */
};

static void start_daemon(struct side *side, const char *folder, const char *name,
                         enum watching watching, bool rules)
{
    static const char subscribe[] = "{\"id\":1,\"method\":\"subscribe\"}\n";
    snprintf(side->path, sizeof(side->path), "%s/%s", folder, name);
    side->reader = 0;
    side->pid = bench_start_daemon(side->path);
    side->client = bench_connect(side->path);
    side->bytes =
        mmap(NULL, sizeof(*side->bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (side->bytes == MAP_FAILED)
        bench_fail("mmap");
    for (int rule = 0; rules && rule < RULES; rule++) {
        char line[MAX_LINE];
        snprintf(line, sizeof(line),
                 "{\"id\":1,\"method\":\"inject\",\"params\":{\"action\":\"out_of_memory\","
                 "\"min_size\":%d}}\n",
                 1000000 + rule);
        ask(side->client, line);
    }
    for (int index = 0; watching != NOBODY && index < SUBSCRIBERS; index++) {
        side->sockets[index] = bench_connect(side->path);
        ask(side->sockets[index], subscribe);
    }
    if (watching == READERS)
        side->reader = start_reader(side->sockets, side->bytes);
}

static void end_daemon(struct side *side, enum watching watching)
{
    int status = 0;
    close(side->client);
    if (side->reader > 0) {
        kill(side->reader, SIGKILL);
        waitpid(side->reader, NULL, 0);
    }
    for (int index = 0; watching != NOBODY && index < SUBSCRIBERS; index++)
        close(side->sockets[index]);
    kill(side->pid, SIGTERM);
    waitpid(side->pid, &status, 0);
    munmap(side->bytes, sizeof(*side->bytes));
    if (status != 0)
        bench_fail("the daemon did not end well");
}

struct rate {
    double seconds; /* for each request, on the wall clock */
    double cpu;     /* of the daemon */
};

static struct rate measure(const struct side *side, unsigned depth, unsigned long requests)
{
    static char batch[MAX_DEPTH * MAX_LINE];
    size_t length = 0;
    for (unsigned number = 0; number < depth || number < 2; number += 2) {
        length +=
            (size_t)snprintf(batch + length, sizeof(batch) - length,
                             "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"allocate\",\"params\":"
                             "{\"requested_bytes\":4096,\"tag\":\"t%u\"}}\n",
                             number, number);
        length += (size_t)snprintf(
            batch + length, sizeof(batch) - length,
            "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"free\",\"params\":{\"tag\":\"t%u\"}}\n",
            number + 1, number);
    }
    size_t first = (size_t)((char *)memchr(batch, '\n', length) - batch) + 1;
    double cpu = bench_cpu_seconds(side->pid);
    double start = bench_seconds_now();
    for (unsigned long done = 0; done < requests; done += depth < 2 ? 2 : depth) {
        if (depth == 1) {
            bench_send(side->client, batch, first);
            bench_read_answers(side->client, 1);
            bench_send(side->client, batch + first, length - first);
            bench_read_answers(side->client, 1);
        } else {
            bench_send(side->client, batch, length);
            bench_read_answers(side->client, depth);
        }
    }
    return (struct rate){(bench_seconds_now() - start) / (double)requests,
                         (bench_cpu_seconds(side->pid) - cpu) / (double)requests};
}

static int compare_doubles(const void *left, const void *right)
{
    double one = *(const double *)left;
    double other = *(const double *)right;
    return one < other ? -1 : one > other;
}

static double median(double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof(*values), compare_doubles);
    return values[ROUNDS / 2];
}

static void compare(const char *folder, const char *name, unsigned depth, unsigned long requests,
                    enum watching watching, bool rules)
{
    struct side alone = {.pid = 0};
    struct side shared = {.pid = 0};
    double wall[ROUNDS];
    double wall_ratio[ROUNDS];
    double cpu[ROUNDS];
    double cpu_ratio[ROUNDS];
    start_daemon(&alone, folder, "a", NOBODY, false);
    start_daemon(&shared, folder, "s", watching, rules);
    measure(&alone, depth, requests);
    measure(&shared, depth, requests);
    uint64_t bytes = __atomic_load_n(shared.bytes, __ATOMIC_RELAXED);
    for (int round = 0; round < ROUNDS; round++) {
        struct rate one = measure(&alone, depth, requests);
        struct rate two = measure(&shared, depth, requests);
        wall[round] = two.seconds;
        wall_ratio[round] = two.seconds / one.seconds;
        cpu[round] = two.cpu;
        cpu_ratio[round] = two.cpu / one.cpu;
    }
    bytes = __atomic_load_n(shared.bytes, __ATOMIC_RELAXED) - bytes;
    printf("depth %2u, %-34s %8.0f requests/s, %6.2f us of the daemon each: %.2f x the wall time, "
           "%.2f x the CPU time",
           depth, name, 1 / median(wall), median(cpu) * 1e6, median(wall_ratio), median(cpu_ratio));
    if (watching == READERS)
        printf("; %.0f bytes for each event and subscriber",
               (double)bytes / SUBSCRIBERS / ROUNDS / (double)requests);
    puts("");
    fflush(stdout);
    end_daemon(&shared, watching);
    end_daemon(&alone, NOBODY);
}

int main(void)
{
    static const struct {
        const char *name;
        enum watching watching;
        bool rules;
    } cases[] = {
        {"nothing more", NOBODY, false},
        {"50 subscribers that read all", READERS, false},
        {"50 subscribers that read nothing", DEAF, false},
        {"100 rules", NOBODY, true},
        {"50 subscribers, 100 rules", READERS, true},
    };
    char folder[] = "/tmp/worsegpu-bench-XXXXXX";
    if (!mkdtemp(folder))
        bench_fail("mkdtemp");
    puts("allocate and free over one connection beside others, tracing on (10,000 events):");
    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++)
        compare(folder, cases[index].name, 64, 64000, cases[index].watching, cases[index].rules);
    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++)
        compare(folder, cases[index].name, 1, 8000, cases[index].watching, cases[index].rules);
    rmdir(folder);
    return 0;
}
