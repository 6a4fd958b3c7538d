/* How many allocate and free requests a second the daemon takes over its socket, at several depths.
 *
 * One client process, one connection, `depth` requests in flight: half of them allocate with a tag,
 * half free by that tag. The daemon's own CPU time is counted, so that the client's cost does
 * not count. Prints the rate on the wall clock, the rate for one core of the daemon, and each depth
 * as a ratio to depth 1 of the same run. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/bench_client.h"

enum {
    MAX_DEPTH = 256,
    ROUNDS = 3,
    MAX_LINE = 160
};

struct rate {
    double per_second;
    double per_core;
};

static struct rate measure(int client, pid_t daemon_pid, unsigned depth, unsigned long requests)
{
    static char batch[MAX_DEPTH * MAX_LINE];
    size_t length = 0;
    for (unsigned number = 0; number < depth; number += 2) {
        unsigned tag = number / 2;
        length +=
            (size_t)snprintf(batch + length, sizeof(batch) - length,
                             "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"allocate\",\"params\":"
                             "{\"requested_bytes\":4096,\"tag\":\"t%u\"}}\n",
                             number, tag);
        length += (size_t)snprintf(
            batch + length, sizeof(batch) - length,
            "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"free\",\"params\":{\"tag\":\"t%u\"}}\n",
            number + 1, tag);
    }
    unsigned in_batch = depth < 2 ? 2 : depth;
    double cpu = bench_cpu_seconds(daemon_pid);
    double start = bench_seconds_now();
    for (unsigned long done = 0; done < requests; done += in_batch) {
        if (depth == 1) {
            size_t first = (size_t)((char *)memchr(batch, '\n', length) - batch) + 1;
            bench_send(client, batch, first);
            bench_read_answers(client, 1);
            bench_send(client, batch + first, length - first);
            bench_read_answers(client, 1);
        } else {
            bench_send(client, batch, length);
            bench_read_answers(client, depth);
        }
    }
    double wall = bench_seconds_now() - start;
    cpu = bench_cpu_seconds(daemon_pid) - cpu;
    return (struct rate){(double)requests / wall, (double)requests / (cpu > 0 ? cpu : 1e-9)};
}

int main(void)
{
    static const unsigned depths[] = {1, 16, 64};
    static const unsigned long requests[] = {60000, 400000, 1200000};
    char folder[] = "/tmp/worsegpu-bench-XXXXXX";
    char path[64];
    if (!mkdtemp(folder))
        bench_fail("mkdtemp");
    snprintf(path, sizeof(path), "%s/s", folder);
    pid_t pid = bench_start_daemon(path);
    int client = bench_connect(path);
    puts("allocate and free over one connection, tracing on (10,000 events):");
    double base = 0;
    for (size_t index = 0; index < sizeof(depths) / sizeof(depths[0]); index++)
        for (int round = 0; round < ROUNDS; round++) {
            struct rate rate = measure(client, pid, depths[index], requests[index]);
            if (base == 0)
                base = rate.per_core;
            printf("depth %3u: %9.0f requests/s, %9.0f requests/s on one core of the daemon (%.2f "
                   "us each, "
                   "%.1f x depth 1)\n",
                   depths[index], rate.per_second, rate.per_core, 1e6 / rate.per_core,
                   rate.per_core / base);
        }
    close(client);
    kill(pid, SIGTERM);
    int status = 0;
    waitpid(pid, &status, 0);
    rmdir(folder);
    return status == 0 ? 0 : 1;
}
