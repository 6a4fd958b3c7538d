/* Descriptors for connections; see descriptors.h. */
#include "daemon/descriptors.h"

#include <sys/resource.h>

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
