/* Who holds what; see leases.h. */
#include "daemon/leases.h"

#include <string.h>

static int compare_tags(const struct lease *left, const struct lease *right)
{
    if (left->tag_bytes != right->tag_bytes)
        return left->tag_bytes < right->tag_bytes ? -1 : 1;
    return memcmp(left->tag, right->tag, left->tag_bytes);
}

RB_GENERATE_INTERNAL(lease_tags, lease, by_tag, compare_tags, __attribute__((unused)) static)

void holding_init(struct holding *holding, struct hosted *hosted, uint64_t client,
                  struct account *account)
{
    memset(holding, 0, sizeof(*holding));
    holding->hosted = hosted;
    holding->client = client;
    holding->account = account;
    TAILQ_INIT(&holding->leases);
    RB_INIT(&holding->tags);
}

void holding_orphan(struct holding *holding)
{
    account_subtract(holding->account, &holding->held);
    holding->account = NULL;
}

void lease_enter(struct lease *lease, struct holding *holding,
                 const struct worsegpu_allocation *allocation, struct user *user, bool detached)
{
    lease->holding = holding;
    lease->handle = allocation->handle;
    lease->tag = allocation->tag;
    lease->tag_bytes = allocation->tag_bytes;
    lease->client = holding->client;
    lease->uid = user->uid;
    lease->detached = detached;
    charge_make(&lease->charge, user, allocation->reserved_bytes,
                allocation->device == WORSEGPU_GPU, detached);
    struct account part = charge_part(&lease->charge);
    account_add(holding->account, &part);
    account_add(&holding->held, &part);
    TAILQ_INSERT_TAIL(&holding->leases, lease, link);
    if (lease->tag)
        RB_INSERT(lease_tags, &holding->tags, lease);
}

void lease_leave(struct lease *lease)
{
    if (!lease->holding)
        return;
    if (lease->tag)
        RB_REMOVE(lease_tags, &lease->holding->tags, lease);
    TAILQ_REMOVE(&lease->holding->leases, lease, link);
    struct account part = charge_part(&lease->charge);
    account_subtract(&lease->holding->held, &part);
    if (lease->holding->account)
        account_subtract(lease->holding->account, &part);
    lease->holding = NULL;
    lease->tag = NULL;
}

struct lease *holding_find_tag(struct holding *holding, const char *tag, size_t tag_bytes)
{
    struct lease wanted = {.tag = tag, .tag_bytes = tag_bytes};
    return RB_FIND(lease_tags, &holding->tags, &wanted);
}
