/* One bound for all the memory that clients can make the daemon take: beyond it, requests are
 * answered with internal_error and nothing has changed. Lives as long as the daemon. */
#ifndef MEMORY_BUDGET_H
#define MEMORY_BUDGET_H

#include <stdint.h>

#include "base/worsegpu_memory.h"

struct memory_budget {
    struct worsegpu_memory memory; /* hand out &budget.memory */
    const struct worsegpu_memory *source;
    uint64_t limit_bytes;
    uint64_t used_bytes;
};

void memory_budget_init(struct memory_budget *budget, const struct worsegpu_memory *source,
                        uint64_t limit_bytes);

#endif
