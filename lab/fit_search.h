/* The smallest device on which a policy serves a whole recording: the one search behind fit,
 * explain and compare.
 *
 * What the answer is worth: the policy was tried on the device of the answer, where it refused
 * nothing, and on one that is a byte smaller, where it refused something. In between nothing is
 * taken on trust but where success begins and ends: a policy may serve a log on some device and
 * refuse on a larger one, since what it does depends on what is free. So a few devices below the
 * answer are tried, and a row of larger ones where that is asked for; see fit_search. */
#ifndef LAB_FIT_SEARCH_H
#define LAB_FIT_SEARCH_H

#include "lab/events.h"
#include "lab/replay.h"

struct fit_subject {
    const struct worsegpu_memory *memory;
    const struct events *events;
    const char *policy;          /* with its knobs */
    const char *seed;            /* NULL: "0" */
    void (*tick)(void *context); /* before each run; may be NULL */
    void *tick_context;
};

/* What one run came to, which ends at the first refusal. */
struct fit_run {
    bool served; /* nothing was refused */
    uint64_t peak_reserved;
    uint64_t host; /* allocations that the policy put on the host */
    uint64_t device_calls;
    uint64_t retries;
    uint64_t reserved_bits; /* all that it ever had reserved, OR-ed */
    bool counts_only;       /* it has no blocks: any device of the floor will do */
    uint64_t refused_event; /* number of the event that was refused, from 1 */
};

/* One run on a device of so many bytes. A device that the policy cannot have serves nothing.
 * log_status. */
int fit_try(const struct fit_subject *subject, uint64_t capacity_bytes, struct fit_run *run);

struct fit_answer {
    uint64_t smallest; /* 0: there is none, or the log allocates nothing */
    struct fit_run at; /* the run there */
    uint64_t failed;   /* the largest smaller device that was tried; 0: the floor itself serves */
    uint64_t step;     /* of the search, bytes: a power of two; then to the byte */
    uint64_t runs;
    uint64_t fails_again; /* the least larger device that refused something; 0: none did */
    uint64_t sure;        /* from here on no device that was tried refused anything */
    uint64_t largest_tried;
};

/* `unlimited_bytes`: the largest device that the policy can have. With `above`, larger devices are
 * tried too: one step more, two, four, ... up to twice the answer, and the eighths in between.
 * log_status. */
int fit_search(const struct fit_subject *subject, uint64_t unlimited_bytes, bool above,
               struct fit_answer *answer);

#endif
