/* What it costs the others that 50 clients watch and 100 rules are there.
 *
 * One client allocates and frees with `depth` requests in flight, first alone, then beside 50
 * subscribers that read everything, 50 that read nothing, 100 rules that do not match, and 50
 * subscribers with 100 rules. The subscribers are read by one process of their own. Each case has
 * its rounds in turn with the case alone, so that a slow moment of the machine meets both. Prints
 * the rate on the wall clock, the daemon's CPU time for each request, and both as ratios to the
 * case alone of the same run; and how much of what happened reached the subscribers. */
#include <errno.h>
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
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

static void fail(const char *what)
{
    fprintf(stderr, "bench_sharing: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* CPU time of a process in seconds, as exact as the scheduler counts it. */
static double cpu_seconds(pid_t pid)
{
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        fail("the daemon's CPU time");
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
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

static void ask(int client, const char *line)
{
    send_all(client, line, strlen(line));
    read_answers(client, 1);
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
    const char *build = getenv("WORSEGPU_BUILD");
    char program[512];
    snprintf(program, sizeof(program), "%s/worsegpud", build && *build ? build : "build");
    snprintf(side->path, sizeof(side->path), "%s/%s", folder, name);
    side->reader = 0;
    side->pid = fork();
    if (side->pid == 0) {
        execl(program, program, "--socket", side->path, "--seed", "7", "--log-level", "warning",
              (char *)NULL);
        _exit(127);
    }
    side->client = connect_to(side->path);
    side->bytes =
        mmap(NULL, sizeof(*side->bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (side->bytes == MAP_FAILED)
        fail("mmap");
    for (int rule = 0; rules && rule < RULES; rule++) {
        char line[MAX_LINE];
        snprintf(line, sizeof(line),
                 "{\"id\":1,\"method\":\"inject\",\"params\":{\"action\":\"out_of_memory\","
                 "\"min_size\":%d}}\n",
                 1000000 + rule);
        ask(side->client, line);
    }
    for (int index = 0; watching != NOBODY && index < SUBSCRIBERS; index++) {
        side->sockets[index] = connect_to(side->path);
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
        fail("the daemon did not end well");
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
    double cpu = cpu_seconds(side->pid);
    double start = seconds_now();
    for (unsigned long done = 0; done < requests; done += depth < 2 ? 2 : depth) {
        if (depth == 1) {
            send_all(side->client, batch, first);
            read_answers(side->client, 1);
            send_all(side->client, batch + first, length - first);
            read_answers(side->client, 1);
        } else {
            send_all(side->client, batch, length);
            read_answers(side->client, depth);
        }
    }
    return (struct rate){(seconds_now() - start) / (double)requests,
                         (cpu_seconds(side->pid) - cpu) / (double)requests};
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
        fail("mkdtemp");
    puts("allocate and free over one connection beside others, tracing on (10,000 events):");
    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++)
        compare(folder, cases[index].name, 64, 64000, cases[index].watching, cases[index].rules);
    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++)
        compare(folder, cases[index].name, 1, 8000, cases[index].watching, cases[index].rules);
    rmdir(folder);
    return 0;
}
