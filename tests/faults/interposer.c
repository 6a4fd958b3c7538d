/* A library that tests load into a program (LD_PRELOAD) to change how the system looks to it; see
 * interposer.h. It stands before the C library for all that the program and its other libraries
 * call by name. */
#include "tests/faults/interposer.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

/* Set before main and never again. */
static bool bytewise;
static const volatile struct interposer_clock *clocks;

static const volatile struct interposer_clock *open_clock(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        abort();
    void *content = mmap(NULL, sizeof(struct interposer_clock), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (content == MAP_FAILED)
        abort();
    return content;
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv(INTERPOSER_CLOCK);
    if (path)
        clocks = open_clock(path);
    bytewise = getenv(INTERPOSER_BYTEWISE) != NULL;
    syscall(INTERPOSER_SIGN, 0);
}

/* ------------------------------------------------------------------------------ byte by byte */

/* Events and pipes of signals are read whole or not at all. */
static size_t shorten(int descriptor, size_t length)
{
    struct stat status;
    if (!bytewise || length <= 1 || fstat(descriptor, &status) != 0)
        return length;
    return S_ISSOCK(status.st_mode) || S_ISREG(status.st_mode) ? 1 : length;
}

/* The first byte of a list, if it must be short. */
static struct iovec first_byte(const struct iovec *list, int count)
{
    int index = 0;
    while (index < count - 1 && list[index].iov_len == 0)
        index++;
    return (struct iovec){.iov_base = list[index].iov_base, .iov_len = 1};
}

static size_t sum(const struct iovec *list, int count)
{
    size_t length = 0;
    for (int index = 0; index < count; index++)
        length += list[index].iov_len;
    return length;
}

SHOWN ssize_t read(int descriptor, void *buffer, size_t length)
{
    return syscall(SYS_read, descriptor, buffer, shorten(descriptor, length));
}

SHOWN ssize_t write(int descriptor, const void *buffer, size_t length)
{
    return syscall(SYS_write, descriptor, buffer, shorten(descriptor, length));
}

SHOWN ssize_t readv(int descriptor, const struct iovec *list, int count)
{
    struct iovec one = first_byte(list, count);
    if (shorten(descriptor, sum(list, count)) == 1)
        return syscall(SYS_readv, descriptor, &one, 1);
    return syscall(SYS_readv, descriptor, list, count);
}

SHOWN ssize_t writev(int descriptor, const struct iovec *list, int count)
{
    struct iovec one = first_byte(list, count);
    if (shorten(descriptor, sum(list, count)) == 1)
        return syscall(SYS_writev, descriptor, &one, 1);
    return syscall(SYS_writev, descriptor, list, count);
}

SHOWN ssize_t recv(int descriptor, void *buffer, size_t length, int flags)
{
    return syscall(SYS_recvfrom, descriptor, buffer, shorten(descriptor, length), flags, NULL,
                   NULL);
}

SHOWN ssize_t send(int descriptor, const void *buffer, size_t length, int flags)
{
    return syscall(SYS_sendto, descriptor, buffer, shorten(descriptor, length), flags, NULL, 0);
}

/* ------------------------------------------------------------------------------------- clocks */

static int64_t later(clockid_t clock)
{
    if (!clocks)
        return 0;
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        return clocks->wall_seconds;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_BOOTTIME:
        return clocks->monotonic_seconds;
    default:
        return 0; /* processor time */
    }
}

SHOWN int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (status == 0)
        now->tv_sec += later(clock);
    return status;
}

SHOWN int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int status = (int)syscall(SYS_gettimeofday, now, zone);
    if (status == 0)
        now->tv_sec += later(CLOCK_REALTIME);
    return status;
}

SHOWN time_t time(time_t *place)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place)
        *place = now.tv_sec;
    return now.tv_sec;
}
