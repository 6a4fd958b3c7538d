/* The policy "rmm_pool": RMM's pool_memory_resource. */
#ifndef RMM_POOL_H
#define RMM_POOL_H

#include "lib/blocks/device.h"
#include "lib/policies/rmm_streams.h"
#include "lib/policy.h"

/* Open to the tests that break it. */
struct rmm_pool {
    struct policy policy; /* first */
    const struct worsegpu_memory *memory;
    struct device device;
    struct blocks blocks; /* `group`: the list of a free one, `segment`: which upstream block */
    struct block_nodes nodes;
    struct rmm_streams streams;
    bool has_maximum;
    uint64_t maximum_bytes;
    uint64_t pool_bytes;      /* taken from the device so far */
    uint32_t upstream_blocks; /* how many pieces that were */
};

extern const struct policy_operations policy_rmm_pool;

/* ---- Between the files of this policy. */

/* A free block that was found. */
struct rmm_find {
    uint32_t block; /* BLOCK_NONE: there is none */
    uint32_t turn;  /* whose list it is in */
};

/* These three leave the tree over the turns to rmm_streams_note. `merge_in` puts a free block into
 * a list, merged with its neighbours of the same list. */
void rmm_list_insert(struct rmm_pool *pool, struct rmm_list *list, uint32_t block);
void rmm_list_remove(struct rmm_pool *pool, struct rmm_list *list, uint32_t block);
void rmm_list_merge_in(struct rmm_pool *pool, struct rmm_list *list, uint32_t block);

/* Whether a neighbour (may be BLOCK_NONE) lies in this list. */
bool rmm_is_in(const struct rmm_pool *pool, const struct rmm_list *list, uint32_t block);

/* In the list of the request's stream, then in each other list in turn. */
struct rmm_find rmm_search_lists(const struct rmm_pool *pool, uint32_t turn, uint64_t bytes,
                                 uint64_t *scanned);
/* Merges one other list after the other into that of the request's stream, until it fits. */
struct rmm_find rmm_search_merging(struct rmm_pool *pool, uint32_t turn, uint64_t bytes,
                                   uint64_t *scanned);

int rmm_pool_check(const struct policy *policy, const struct policy_live *live,
                   struct audit *audit);

#endif
