/* Descriptors for connections; see descriptors.h. */
#include "daemon/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

uint64_t descriptors_reserve(uint64_t wanted)
{
    struct rlimit limit;
    uint64_t needed = wanted + DESCRIPTORS_RESERVED;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 1;
    if (limit.rlim_cur < needed) {
        struct rlimit raised = limit;
        raised.rlim_cur = limit.rlim_max < needed ? limit.rlim_max : needed;
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            limit.rlim_cur = raised.rlim_cur;
    }
    if (limit.rlim_cur >= needed)
        return wanted;
    return limit.rlim_cur > DESCRIPTORS_RESERVED ? limit.rlim_cur - DESCRIPTORS_RESERVED : 1;
}

int descriptors_probe(void)
{
    int pipes[DESCRIPTORS_OF_LOOP / 2][2];
    int count = 0;
    int why = 0;
    while (count < DESCRIPTORS_OF_LOOP / 2 && why == 0)
        if (pipe2(pipes[count], O_CLOEXEC) == 0)
            count++;
        else
            why = errno;
    while (count-- > 0) {
        close(pipes[count][0]);
        close(pipes[count][1]);
    }
    return why;
}
