/* One policy under a stream of events: a policy of lib/policies with its own small world, without
 * façade, handles and trace.
 *
 * For compare, verify and the benches. Nothing here reads files or prints. */
#ifndef LAB_REPLAY_H
#define LAB_REPLAY_H

#include "lab/events.h"
#include "lib/blocks/device.h"
#include "lib/policy.h"
#include "lib/statistics.h"

/* A policy with its knobs, as written: "torch memory_fraction=0.9". */
struct replay_choice {
    const char *text; /* the name, a blank, knobs; as the user wrote it */
    uint64_t capacity_bytes;
    const char *seed;                   /* of its random stream; NULL: "0" */
    const struct device_source *source; /* NULL: simulated */
    const struct device_watch *watch;
};

struct replay;

enum {
    REPLAY_PROBLEM_SIZE = 400
};

/* 0, WORSEGPU_NO_MEMORY, or WORSEGPU_INVALID_ARGUMENT with a sentence (naming the nearest policy or
 * knob where one is near). */
int replay_create(const struct replay_choice *choice, const struct worsegpu_memory *memory,
                  struct replay **replay, char problem[REPLAY_PROBLEM_SIZE]);
void replay_destroy(struct replay *replay);

enum replay_result {
    REPLAY_PLACED,  /* on the GPU: the placement is filled in */
    REPLAY_HOST,    /* the policy preferred the host */
    REPLAY_REFUSED, /* out of memory: frees of this slot are passed over */
    REPLAY_OTHER    /* no allocation */
};
/* Carries one event out. 0 with *result, or WORSEGPU_NO_MEMORY. Segment events are passed over. */
int replay_event(struct replay *replay, const struct event *event, enum replay_result *result,
                 struct policy_placement *placement, uint64_t *scanned);

struct policy *replay_policy(struct replay *replay);
const struct policy_operations *replay_operations(const struct replay *replay);

/* The audit of the policy against what is live. 0 with *broken (NULL: all holds), or
 * WORSEGPU_NO_MEMORY. */
int replay_check(const struct replay *replay, const char **broken);

#endif
