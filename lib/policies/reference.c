/* The honest counter; see reference.h. */
#include "lib/policies/reference.h"

#include "base/memory.h"

static struct reference_policy *mine(struct policy *policy)
{
    return (struct reference_policy *)policy;
}

static uint64_t reserved_bytes(const struct reference_policy *reference)
{
    return reference->used_bytes + reference->forgotten_bytes;
}

/* Whether so much more fits; what is reserved may be above the capacity after a resize. */
static bool fits(const struct reference_policy *reference, uint64_t bytes)
{
    uint64_t capacity = reference->config->gpu_capacity;
    uint64_t reserved = reserved_bytes(reference);
    return reserved <= capacity && bytes <= capacity - reserved;
}

static int reference_create(const struct policy_setup *setup, struct policy **policy)
{
    struct reference_policy *reference =
        memory_allocate_zeroed(setup->memory, 1, sizeof(*reference));
    if (!reference)
        return WORSEGPU_NO_MEMORY;
    reference->policy.operations = &policy_reference;
    reference->memory = setup->memory;
    reference->config = setup->config;
    *policy = &reference->policy;
    return WORSEGPU_OK;
}

static void reference_destroy(struct policy *policy)
{
    memory_release_array(mine(policy)->memory, policy, 1, sizeof(struct reference_policy));
}

static int reference_place(struct policy *policy, const struct policy_request *request,
                           struct policy_outcome *outcome)
{
    struct reference_policy *reference = mine(policy);
    outcome->blocks_scanned = 0;
    if (!fits(reference, request->requested_bytes))
        return POLICY_FULL;
    if (!policy_admits(request, request->requested_bytes))
        return POLICY_NOT_ADMITTED;
    outcome->placement = (struct policy_placement){
        .reserved_bytes = request->requested_bytes,
        .offset = reserved_bytes(reference),
        .block_index = 0,
    };
    reference->used_bytes += request->requested_bytes;
    return POLICY_PLACED;
}

static bool reference_release(struct policy *policy, const struct policy_placement *placement,
                              const struct policy_free *how)
{
    struct reference_policy *reference = mine(policy);
    reference->used_bytes -= placement->reserved_bytes;
    if (how->forget)
        reference->forgotten_bytes += placement->reserved_bytes;
    return !how->forget;
}

static void reference_measure(const struct policy *policy, struct policy_measures *measures)
{
    const struct reference_policy *reference = (const struct reference_policy *)policy;
    uint64_t used_blocks = reference->used_bytes > 0;
    uint64_t forgotten_blocks = reference->forgotten_bytes > 0;
    *measures = (struct policy_measures){
        .reserved_bytes = reserved_bytes(reference),
        .used_bytes = reference->used_bytes,
        .forgotten_bytes = reference->forgotten_bytes,
        .blocks = used_blocks + forgotten_blocks,
        .forgotten_blocks = forgotten_blocks,
        .cannot_fragment = true,
    };
}

static void add_reserved(void *context, const struct policy_placement *placement)
{
    uint64_t *sum = context;
    *sum += placement->reserved_bytes;
}

static int reference_check(const struct policy *policy, const struct policy_live *live,
                           struct audit *audit)
{
    const struct reference_policy *reference = (const struct reference_policy *)policy;
    uint64_t sum = 0;
    live->each(live, add_reserved, &sum);
    audit_check(audit, INVARIANT_gpu_reserved_sum, sum == reference->used_bytes);
    audit_check(audit, INVARIANT_gpu_capacity_bound,
                reserved_bytes(reference) <= live->largest_capacity_bytes);
    return WORSEGPU_OK;
}

/* As `measure` counts them: what is used is one block, what is forgotten another. */
static void reference_each_block(const struct policy *policy, policy_see see, void *context)
{
    const struct reference_policy *reference = (const struct reference_policy *)policy;
    const struct policy_block used = {
        .bytes = reference->used_bytes,
        .state = POLICY_BLOCK_USED,
    };
    const struct policy_block forgotten = {
        .offset = reference->used_bytes,
        .bytes = reference->forgotten_bytes,
        .state = POLICY_BLOCK_FORGOTTEN,
    };
    if (used.bytes > 0)
        see(context, &used);
    if (forgotten.bytes > 0)
        see(context, &forgotten);
}

const struct policy_operations policy_reference = {
    .name = "reference",
    .summary =
        "An honest counter: every request takes what it asks for and gives it back when freed.",
    .create = reference_create,
    .destroy = reference_destroy,
    .place = reference_place,
    .release = reference_release,
    .measure = reference_measure,
    .check = reference_check,
    .each_block = reference_each_block,
};
