/* A source of memory with a bound; see memory_budget.h. */
#include "daemon/memory_budget.h"

static void *budget_resize(void *context, void *pointer, size_t old_bytes, size_t new_bytes)
{
    struct memory_budget *budget = context;
    const struct worsegpu_memory *source = budget->source;
    if (new_bytes > old_bytes && new_bytes - old_bytes > budget->limit_bytes - budget->used_bytes)
        return NULL;
    void *piece = source->resize(source->context, pointer, old_bytes, new_bytes);
    if (piece || new_bytes == 0)
        budget->used_bytes = budget->used_bytes - old_bytes + new_bytes;
    return piece;
}

void memory_budget_init(struct memory_budget *budget, const struct worsegpu_memory *source,
                        uint64_t limit_bytes)
{
    budget->memory.resize = budget_resize;
    budget->memory.context = budget;
    budget->source = source;
    budget->limit_bytes = limit_bytes;
    budget->used_bytes = 0;
}
