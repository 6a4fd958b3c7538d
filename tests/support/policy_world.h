/* One policy alone, under the eyes of a slow and simple witness: no façade, no handles, no host.
 *
 * The world keeps what is live, and after each step compares the policy with it: no overlap, inside
 * the capacity, offsets aligned, at least as much as was asked for, measures that agree with sums
 * of its own, `check` with nothing broken. Whatever does not hold fails the cmocka test, and says
 * what it was. What holds only for some policies is asked only of them: see struct policy_rules. */
#ifndef POLICY_WORLD_H
#define POLICY_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/blocks/device.h"
#include "lib/policy.h"
#include "tests/support/chaos.h"

/* What else may be expected of a policy; all false or 0 is right for each honest one. */
struct policy_rules {
    uint64_t alignment;    /* every offset is a multiple of it; 0: of nothing */
    uint64_t header_bytes; /* a placement's memory begins so far below its offset */
    bool beyond_capacity;  /* offsets may lie above it: addresses do not run out */
    bool no_places;        /* offsets say nothing, and forgotten bytes are no blocks (reference) */
};

/* A live allocation. */
struct world_allocation {
    struct policy_placement placement;
    uint64_t requested_bytes;
    uint64_t stream;
};

struct policy_world {
    const struct policy_operations *operations;
    struct policy *policy;
    struct policy_rules rules;
    struct chaos chaos; /* where the policy's memory comes from */
    struct worsegpu_config config;
    struct python_random random;
    struct knob_value knobs[KNOBS_MAX];
    uint64_t number; /* state of the workloads' own generator */

    struct world_allocation *live; /* `live_count` of them, in no order that matters */
    size_t live_count;
    size_t live_capacity;
    struct world_allocation *forgotten; /* `forgotten_blocks` of them */
    size_t forgotten_capacity;
    uint64_t used_bytes; /* sums over live and forgotten ones */
    uint64_t forgotten_bytes;
    uint64_t forgotten_blocks;
    uint64_t largest_capacity_bytes;

    uint64_t placed; /* how often each was answered */
    uint64_t refused;
    bool look_closely; /* after each step: O(n) and `check`; true until changed. Without it only
                          what one step shows */

    struct device_watch watch;
    uint64_t told[DEVICE_UNMAP + 1]; /* how often the policy's device told of each event */
    uint64_t told_bytes;             /* memory taken, less given back, as told */
};

/* Makes the policy with this name, knobs ("" or NULL: the defaults) and capacity. The test fails
 * when that fails. */
void policy_world_open(struct policy_world *world, const char *name, const char *knobs,
                       uint64_t capacity_bytes, const struct policy_rules *rules);
/* The same with the memory request number `fail_at` failing (0: none), as chaos_arm has it.
 * WORSEGPU_OK, or WORSEGPU_NO_MEMORY: there is no policy then, but it is to be closed all the same.
 */
int policy_world_try_open(struct policy_world *world, const char *name, const char *knobs,
                          uint64_t capacity_bytes, const struct policy_rules *rules,
                          uint64_t fail_at, bool for_good);
/* Ends it; nothing of the policy's memory must be left. */
void policy_world_close(struct policy_world *world);

/* One request. POLICY_PLACED, and its place in world->live is world->live_count - 1; or
 * POLICY_FULL, POLICY_HOST; or POLICY_NOT_ADMITTED (only where `admitted` is false: that answer is
 * given when the policy asks); or WORSEGPU_NO_MEMORY (after chaos_arm). Its `admit` is not looked
 * at. */
int policy_world_ask(struct policy_world *world, const struct policy_request *request,
                     bool admitted);
/* The same with so many bytes, on stream 0. */
int policy_world_allocate(struct policy_world *world, uint64_t requested_bytes);
/* So many bytes, which must be placed. The offset. */
uint64_t policy_world_offset(struct policy_world *world, uint64_t requested_bytes);

/* Takes over what the test itself has let the policy place: it is live from now on. */
void policy_world_keep(struct policy_world *world, const struct policy_placement *placement,
                       const struct policy_request *request);

/* Frees the live allocation in this place (the last one takes its place), on its own stream. */
void policy_world_free(struct policy_world *world, size_t place);
void policy_world_forget(struct policy_world *world, size_t place);
void policy_world_free_on(struct policy_world *world, size_t place, uint64_t stream, bool forget);
/* Frees the live allocation with this offset, which there must be. */
void policy_world_free_offset(struct policy_world *world, uint64_t offset);
/* Changes the capacity, as worsegpu_resize does. */
void policy_world_resize(struct policy_world *world, uint64_t capacity_bytes);

/* All checks now, whatever look_closely says. */
void policy_world_check(struct policy_world *world);

/* The live placements, for `check`. */
struct policy_live policy_world_live(const struct policy_world *world);

/* A number of the workloads' own generator, below `bound` (at least 1). */
uint64_t policy_world_below(struct policy_world *world, uint64_t bound);

enum world_shape {
    WORLD_UNIFORM_SMALL, /* sizes of 1 to 4,096 */
    WORLD_LOG_UNIFORM,   /* every power of two up to a quarter of the capacity is as likely */
    WORLD_SAW_TOOTH,     /* up with pins between, down in reverse, again */
    WORLD_NEAR_FULL,     /* until a refusal, then a few are freed, again */
    WORLD_SHAPES
};
/* `steps` operations of this shape; the same ones for the same seed. Streams 0 to `streams` - 1 are
 * used (1: only 0). One free in `forget_one_in` is forgotten; 0: none is. */
void policy_world_run(struct policy_world *world, enum world_shape shape, uint64_t seed,
                      size_t steps, uint64_t streams, uint64_t forget_one_in);

/* All shapes with a few seeds each, and an empty policy at the end, for one set of knobs: what each
 * policy's test begins with. */
void policy_world_run_all(const char *name, const char *knobs, uint64_t capacity_bytes,
                          const struct policy_rules *rules);

/* Each memory request of the policy fails once, then all from it on: creating must then say so,
 * place must answer WORSEGPU_NO_MEMORY with measures, statistics and blocks as they were, and go
 * on as if nothing had been when there is memory again. */
void policy_world_chaos(const char *name, const char *knobs, uint64_t capacity_bytes,
                        const struct policy_rules *rules);

/* All that statistics tells, as text, "name value\n" each; rows as "name: a b c\n". The caller
 * frees it with free(). */
char *policy_world_statistics(const struct policy_world *world);
/* The same with measures and all blocks, to be compared. */
char *policy_world_picture(struct policy_world *world);

#endif
