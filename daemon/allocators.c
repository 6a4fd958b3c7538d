/* Which allocators there are; see allocators.h. */
#include "daemon/allocators.h"

#include <string.h>

#include "base/memory.h"

int hosted_create(const struct worsegpu_memory *memory, const char *name, size_t name_bytes,
                  uint64_t client, struct account *account, const struct worsegpu_config *config,
                  struct hosted **hosted)
{
    *hosted = NULL;
    struct hosted *made = memory_allocate_zeroed(memory, 1, sizeof(*made));
    if (!made)
        return WORSEGPU_NO_MEMORY;
    int status = worsegpu_create(config, &made->engine);
    if (status != WORSEGPU_OK) {
        memory_release_array(memory, made, 1, sizeof(*made));
        return status;
    }
    holding_init(&made->holding, made, client, account);
    made->shared = account == NULL;
    memcpy(made->name, name, name_bytes);
    *hosted = made;
    return WORSEGPU_OK;
}

/* The leases of a shared one: some are in holdings, detached ones in none. */
static void destroy_leases(struct lease_pool *leases, struct hosted *hosted)
{
    struct worsegpu_allocation page[32];
    size_t count;
    bool more = true;
    for (uint64_t after = 0; more; after = count ? page[count - 1].handle.allocation_id : after) {
        worsegpu_list(hosted->engine, after, page, sizeof(page) / sizeof(page[0]), &count, &more);
        for (size_t index = 0; index < count; index++)
            lease_pool_give(leases, page[index].owner);
    }
}

void hosted_destroy(const struct worsegpu_memory *memory, struct lease_pool *leases,
                    struct hosted *hosted)
{
    if (!hosted)
        return;
    if (hosted->shared)
        destroy_leases(leases, hosted);
    else
        hosted_drain(leases, hosted, SIZE_MAX);
    worsegpu_destroy(hosted->engine);
    memory_release_array(memory, hosted, 1, sizeof(*hosted));
}

size_t hosted_drain(struct lease_pool *leases, struct hosted *hosted, size_t budget)
{
    size_t done = 0;
    struct lease *lease;
    /* Nobody can name this allocator any more: neither its tags nor its engine need to be told. */
    while (done < budget && (lease = TAILQ_FIRST(&hosted->holding.leases)) != NULL) {
        TAILQ_REMOVE(&hosted->holding.leases, lease, link);
        lease_pool_give(leases, lease);
        done++;
    }
    return done;
}

struct hosted *hosted_find(struct hosted_list *list, const char *name, size_t name_bytes)
{
    struct hosted *hosted;
    TAILQ_FOREACH(hosted, list, link)
    {
        if (strncmp(hosted->name, name, name_bytes) == 0 && hosted->name[name_bytes] == '\0')
            return hosted;
    }
    return NULL;
}

void hosted_write(const struct hosted *hosted, struct json_writer *out)
{
    const struct worsegpu_config *config = worsegpu_configuration(hosted->engine);
    json_writer_member_text(out, "name", hosted->name);
    json_writer_member_text(out, "policy", config->policy);
    json_writer_member_text(out, "knobs", config->knobs);
    json_writer_member_bool(out, "shared", hosted->shared);
    json_writer_member_u64(out, "gpu_capacity", config->gpu_capacity);
    json_writer_member_double(out, "gpu_probability", config->gpu_probability);
    json_writer_member_double(out, "forget_probability", config->forget_probability);
    json_writer_member_bool(out, "fallback_on_oom", config->fallback_on_oom);
    json_writer_member_u64(out, "max_request_bytes", config->max_request_bytes);
    json_writer_member_u64(out, "trace_limit", config->trace_limit);
    json_writer_key(out, "seed");
    if (hosted->seed_is_text)
        json_writer_text(out, config->seed);
    else
        json_writer_raw_value(out, config->seed, strlen(config->seed));
    json_writer_member_text(out, "scan", worsegpu_scan_name(config->scan));
    json_writer_member_u64(out, "max_live_allocations", config->max_live_allocations);
    if (hosted->host_capacity)
        json_writer_member_u64(out, "host_capacity", hosted->host_capacity);
}
