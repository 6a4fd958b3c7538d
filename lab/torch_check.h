/* Checking a torch snapshot: what the files of it share.
 *
 *   verify_torch.c   the walk through the trace, and what is compared
 *   torch_device.c   the device as the record has it: where segments lie, when it said no
 *   torch_rebuild.c  what was there when the trace began
 *   torch_model.c    the settings of the record as knobs of the policy
 *
 * Lives for one device of one snapshot. */
#ifndef LAB_TORCH_CHECK_H
#define LAB_TORCH_CHECK_H

#include "lab/logs/torch_start.h"
#include "lab/number_map.h"
#include "lab/replay.h"
#include "lab/verify.h"
#include "lib/blocks/block_order.h"

/* A recorded device call that the model has not made yet. */
struct torch_call {
    struct torch_event event;
    uint64_t number; /* of the event in its trace, from 1 */
    bool done;
};

/* A segment that the model holds. */
struct torch_present {
    uint64_t bytes;
    uint32_t next; /* of the unused ones */
};

struct torch_check {
    const struct worsegpu_memory *memory;
    const struct torch_snapshot *snapshot;
    uint32_t device;
    struct torch_start start;
    struct verify_result *result;
    struct log_problem *problem;
    struct keyed_hash hash;

    struct replay *replay;
    struct policy *policy;
    const struct policy_operations *operations;
    struct device_source source;

    uint64_t number; /* of the event under way, from 1 */
    struct torch_event event;

    /* The device. */
    struct torch_call *calls; /* since the last request, in their order */
    size_t calls_capacity;
    size_t call_count;
    size_t call_next;               /* all before it are done */
    struct number_map call_returns; /* address -> call that gives memory back */
    unsigned int asked;             /* how often by the model, for the request under way */
    bool progress;                  /* something was given back since it was asked */
    struct torch_present *present;
    size_t present_capacity;
    size_t present_length;
    uint32_t present_spare;
    struct block_nodes present_nodes;
    struct block_order present_order;

    /* Allocations by their recorded address. */
    struct number_map live;
    struct policy_placement *placed;
    uint32_t *spare;
    size_t placed_capacity;
    size_t spare_capacity;
    size_t placed_length;
    size_t spares;
};

/* Notes that something was not equal; the first one is told with its event and the free blocks. */
__attribute__((format(printf, 2, 3))) void torch_mismatch(struct torch_check *check,
                                                          const char *format, ...);

static inline void torch_count(struct torch_check *check, const char *name, bool equal)
{
    struct verify_count *count = verify_count(check->result, name);
    count->all++;
    count->equal += equal;
}

/* ---- torch_device.c */

void torch_device_begin(struct torch_check *check);
void torch_device_end(struct torch_check *check);
/* The next recorded call, to be made by the model in its own time. log_status. */
int torch_device_expect(struct torch_check *check);
/* Room for what a request may need. log_status. */
int torch_device_reserve(struct torch_check *check);
/* A segment that is there from the beginning; false: it lies on another. After
 * torch_device_reserve. */
bool torch_device_add(struct torch_check *check, uint64_t address, uint64_t bytes);
/* Whether the next recorded call gives memory back. */
bool torch_device_returns(const struct torch_check *check);
/* The request is over: what the record did and the model did not is told. */
void torch_device_settle(struct torch_check *check);

/* ---- torch_model.c */

/* The policy with its knobs, as for `compare --policy`. */
void torch_model_write(const struct torch_snapshot *snapshot, bool expandable,
                       char text[VERIFY_MODEL_SIZE]);

/* ---- torch_rebuild.c */

/* Puts the state at the start of the trace into the new policy. log_status. */
int torch_rebuild(struct torch_check *check);

/* ---- verify_torch.c */

/* The allocation at this recorded address is that placement. log_status. */
int torch_check_place(struct torch_check *check, uint64_t address,
                      const struct policy_placement *placement);
/* Takes it out again; false: there is none. */
bool torch_check_take(struct torch_check *check, uint64_t address,
                      struct policy_placement *placement);

#endif
