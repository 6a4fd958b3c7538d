/* What the benches over the socket share: a blocking client as thin as can be, clocks, an end with
 * a word.
 *
 * Everything here ends the program when it fails: a bench has nobody to report to. */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <stddef.h>
#include <sys/types.h>

/* Says what went wrong, with errno, and exits with 1. */
__attribute__((noreturn)) void bench_fail(const char *what);

double bench_seconds_now(void);

/* CPU time of a process in seconds, as exact as the scheduler counts it. */
double bench_cpu_seconds(pid_t pid);

/* Starts $WORSEGPU_BUILD/worsegpud (default build) with seed 7 on a socket at `path`. */
pid_t bench_start_daemon(const char *path);

/* Connects, waiting up to 5 s for a daemon that is starting. */
int bench_connect(const char *path);

void bench_send(int client, const char *data, size_t length);

/* Reads until `count` lines have come; all must be results. */
void bench_read_answers(int client, unsigned count);

#endif
