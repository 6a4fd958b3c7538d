/* A torch policy alone, for its tests: a policy world with the words of PyTorch. */
#ifndef TORCH_WORLD_H
#define TORCH_WORLD_H

#include "tests/support/policy_world.h"

#define KIB(count) ((uint64_t)(count) << 10)
#define MIB(count) ((uint64_t)(count) << 20)

/* Offsets are multiples of 512, and addresses do not run out. */
extern const struct policy_rules torch_rules;

/* "torch" with these knobs; a text of PYTORCH_CUDA_ALLOC_CONF is written alloc_conf=TEXT. */
void torch_open(struct policy_world *world, const char *knobs, uint64_t capacity_bytes);

/* A request on a stream: the offset, or UINT64_MAX when it was refused. */
uint64_t torch_ask(struct policy_world *world, uint64_t bytes, uint64_t stream);

/* Each of those must be there. */
void torch_record(struct policy_world *world, uint64_t offset, uint64_t stream);
void torch_done(struct policy_world *world, uint64_t stream, uint64_t count, bool newest);
void torch_empty(struct policy_world *world);

/* A figure of the statistics. */
uint64_t torch_figure(const struct policy_world *world, const char *name);

/* The free blocks of a pool ("small", "large") must be these: "stream offset size" each, with ", "
 * between them, in the order of the pool; sizes and offsets in units of `unit` bytes. */
void torch_assert_pool(const struct policy_world *world, const char *pool, uint64_t unit,
                       const char *expected);

#endif
