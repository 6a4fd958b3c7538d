/* How many allocate and free requests a second the daemon takes over its socket, at several depths.
 *
 * One client process, one connection, `depth` requests in flight: half of them allocate with a tag,
 * half free by that tag. The daemon's own CPU time comes from /proc, so that the client's cost does
 * not count. Prints the rate on the wall clock, the rate for one core of the daemon, and each depth
 * as a ratio to depth 1 of the same run. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_DEPTH = 256,
    ROUNDS = 3,
    MAX_LINE = 160
};

static void fail(const char *what)
{
    fprintf(stderr, "bench_socket: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* User and system time of a process, in seconds. */
static double cpu_seconds(pid_t pid)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        fail(path);
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';
    /* After the program's name in brackets: the state, then numbers; user and system time are the
     * 12th and 13th word. */
    char *at = strrchr(text, ')');
    for (int word = 0; at && word < 12; word++)
        at = strchr(at + 1, ' ');
    if (!at)
        fail("cannot read the daemon's CPU time");
    unsigned long user = strtoul(at, &at, 10);
    unsigned long system = strtoul(at, &at, 10);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    for (int tries = 0; tries < 500; tries++) {
        int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (client < 0)
            fail("socket");
        if (connect(client, (struct sockaddr *)&address, sizeof(address)) == 0)
            return client;
        close(client);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    fail("no daemon answers");
    return -1;
}

static void send_all(int client, const char *data, size_t length)
{
    while (length) {
        ssize_t sent = send(client, data, length, MSG_NOSIGNAL);
        if (sent < 0)
            fail("send");
        data += sent;
        length -= (size_t)sent;
    }
}

/* Reads until `count` lines have come; all must be results. */
static void read_answers(int client, unsigned count)
{
    static char buffer[65536];
    while (count) {
        ssize_t got = recv(client, buffer, sizeof(buffer), 0);
        if (got <= 0)
            fail("recv");
        for (const char *at = buffer, *end = buffer + got;
             (at = memchr(at, '\n', (size_t)(end - at))); at++)
            count--;
        if (memmem(buffer, (size_t)got, "\"error\"", 7))
            fail("an error came back");
    }
}

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
    double cpu = cpu_seconds(daemon_pid);
    double start = seconds_now();
    for (unsigned long done = 0; done < requests; done += in_batch) {
        if (depth == 1) {
            size_t first = (size_t)((char *)memchr(batch, '\n', length) - batch) + 1;
            send_all(client, batch, first);
            read_answers(client, 1);
            send_all(client, batch + first, length - first);
            read_answers(client, 1);
        } else {
            send_all(client, batch, length);
            read_answers(client, depth);
        }
    }
    double wall = seconds_now() - start;
    cpu = cpu_seconds(daemon_pid) - cpu;
    return (struct rate){(double)requests / wall, (double)requests / (cpu > 0 ? cpu : 1e-9)};
}

int main(void)
{
    static const unsigned depths[] = {1, 16, 64};
    static const unsigned long requests[] = {60000, 400000, 1200000};
    const char *build = getenv("WORSEGPU_BUILD");
    char folder[] = "/tmp/worsegpu-bench-XXXXXX";
    char path[64];
    char program[512];
    if (!mkdtemp(folder))
        fail("mkdtemp");
    snprintf(path, sizeof(path), "%s/s", folder);
    snprintf(program, sizeof(program), "%s/worsegpud", build && *build ? build : "build");
    pid_t pid = fork();
    if (pid == 0) {
        execl(program, program, "--socket", path, "--seed", "7", "--log-level", "warning",
              (char *)NULL);
        _exit(127);
    }
    int client = connect_to(path);
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
