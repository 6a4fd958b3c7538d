/* Chaos: a source of memory that fails at its k-th request, and counts what was not given back.
 *
 * CHAOS_LOOP runs a piece of work with the 1st request failing, then the 2nd, ... until one whole
 * run sees no failure. There is no list of points to keep: new allocations are tried by themselves.
 */
#ifndef CHAOS_H
#define CHAOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/worsegpu_memory.h"

struct chaos {
    struct worsegpu_memory memory; /* hand out &chaos.memory */
    uint64_t fail_at;              /* which request fails, from 1; 0: none */
    bool for_good;                 /* all later ones fail too */
    uint64_t requests;             /* made so far (new pieces and growing ones) */
    bool failed;                   /* whether one has failed */
    uint64_t failures;             /* how many have failed, in all */
    size_t live_bytes;             /* not given back */
    size_t live_pieces;
};

void chaos_init(struct chaos *chaos);

/* Starts counting anew: the k-th request from now fails (0: none). */
void chaos_arm(struct chaos *chaos, uint64_t fail_at, bool for_good);

/* Makes cJSON take its memory through `chaos` (sizes are kept in a header of its own); NULL: malloc
 * again. */
void chaos_hook_cjson(struct chaos *chaos);

/* The work: do it with `memory`; return true when it went through, false when it ended in an error
 * that says so. It must itself check that nothing changed on failure. */
typedef bool (*chaos_work)(struct chaos *chaos, void *context);

/* Runs `work` with the 1st, 2nd, ... request failing, once and then for good, until it goes through
 * with no failure. After each run nothing must be live. A run that meets a failure may still return
 * true only if it could do without (it then must have done its whole work). Fails the cmocka test
 * otherwise. Returns how many points were tried. */
uint64_t chaos_loop(chaos_work work, void *context);

#endif
