/* A thin client for the benches; see bench_client.h. */
#include "tests/support/bench_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

void bench_fail(const char *what)
{
    fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double seconds_of(clockid_t clock)
{
    struct timespec time;
    if (clock_gettime(clock, &time) != 0)
        bench_fail("cannot read a clock");
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

double bench_seconds_now(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

double bench_cpu_seconds(pid_t pid)
{
    clockid_t clock;
    if (clock_getcpuclockid(pid, &clock) != 0)
        bench_fail("the daemon's CPU time");
    return seconds_of(clock);
}

pid_t bench_start_daemon(const char *path)
{
    const char *build = getenv("WORSEGPU_BUILD");
    char program[512];
    snprintf(program, sizeof(program), "%s/worsegpud", build && *build ? build : "build");
    pid_t pid = fork();
    if (pid < 0)
        bench_fail("fork");
    if (pid > 0)
        return pid;
    execl(program, program, "--socket", path, "--seed", "7", "--log-level", "warning",
          (char *)NULL);
    _exit(127);
}

int bench_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    for (int tries = 0; tries < 500; tries++) {
        int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (client < 0)
            bench_fail("socket");
        if (connect(client, (struct sockaddr *)&address, sizeof(address)) == 0)
            return client;
        close(client);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    bench_fail("no daemon answers");
}

void bench_send(int client, const char *data, size_t length)
{
    while (length) {
        ssize_t sent = send(client, data, length, MSG_NOSIGNAL);
        if (sent < 0)
            bench_fail("send");
        data += sent;
        length -= (size_t)sent;
    }
}

void bench_read_answers(int client, unsigned count)
{
    static char buffer[65536];
    while (count) {
        ssize_t got = recv(client, buffer, sizeof(buffer), 0);
        if (got <= 0)
            bench_fail("recv");
        for (const char *at = buffer, *end = buffer + got;
             (at = memchr(at, '\n', (size_t)(end - at))); at++)
            count--;
        if (memmem(buffer, (size_t)got, "\"error\"", 7))
            bench_fail("an error came back");
    }
}
