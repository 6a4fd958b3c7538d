/* Events of a trace as requests that make them happen again: what `run` does with the lines that
 * `trace --json` prints.
 *
 * A free names its allocation by the id that it had when the trace was recorded. So the handles
 * that this run got are kept by those ids, from the allocation on until its free: memory is
 * explained by what is live at once. Lives for one run. */
#ifndef REPLAY_H
#define REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/worsegpu_memory.h"
#include "client/worsegpu_client.h"
#include "proto/json_document.h"
#include "proto/json_writer.h"

enum {
    REPLAY_MOST_SENT = 4096, /* requests that wait for their answers */
    REPLAY_PROBLEM_SIZE = 160
};

enum replay_verdict {
    REPLAY_NO_MEMORY = -1,
    REPLAY_PLAIN,      /* the line is no event: a request, or whatever else */
    REPLAY_SEND,       /* send the request that was written */
    REPLAY_SEND_FIRST, /* send the request that was written, then ask again */
    REPLAY_WAIT,       /* an answer must come first, then ask again */
    REPLAY_SKIP,       /* there is nothing to send */
    REPLAY_NOTE,       /* nothing to send, and `problem` says why; the trace is as it is */
    REPLAY_WRONG       /* the same, and the line is no event of ours */
};

struct replay_counts {
    uint64_t events;
    uint64_t allocations;   /* asked for */
    uint64_t refused;       /* of these; what the trace has as failed too is not among them */
    uint64_t given_instead; /* given where the trace has a failure */
    uint64_t frees;
    uint64_t others;  /* record_stream, event_done, empty_cache */
    uint64_t unknown; /* about an allocation that the trace does not have: skipped */
    uint64_t without; /* about one that was refused here: skipped */
    uint64_t faults;  /* what was made to fail on purpose is not made to fail again: skipped */
    uint64_t missed;  /* events that the trace lacks, as it says */
};

/* What is known of an allocation of the trace. */
struct replay_entry {
    uint64_t id; /* 0: an empty place */
    enum {
        REPLAY_ASKED,
        REPLAY_LIVE,
        REPLAY_REFUSED
    } state;
    char handle[WORSEGPU_CLIENT_HANDLE_SIZE];
};

/* A request that waits for its answer. */
struct replay_sent {
    uint64_t id; /* of the allocation that it makes; 0: it makes none */
    bool may_fail;
};

struct replay {
    const struct worsegpu_memory *memory;
    uint64_t key;                 /* of the table below: no choice of ids makes it slow */
    struct replay_entry *entries; /* open, with linear probing; at most half full */
    size_t capacity;              /* a power of two, or 0 */
    size_t used;
    struct replay_sent *sent; /* a ring of REPLAY_MOST_SENT */
    size_t first_sent;
    size_t sent_count;
    struct replay_sent next; /* what replay_note_sent enters */
    struct replay_counts counts;
};

/* 0, or -1 without memory. */
int replay_init(struct replay *replay, const struct worsegpu_memory *memory);
void replay_release(struct replay *replay);

/* Judges a line that has been read into `document`. A request is written into `out`, with the id
 * "line-N"; `allocator` (NULL: the first shared one) is where the events happen. */
enum replay_verdict replay_judge(struct replay *replay, const struct json_document *document,
                                 uint64_t line_number, const char *allocator,
                                 struct json_writer *out, char problem[REPLAY_PROBLEM_SIZE]);

/* To be called for every request that was sent, events or not, and every answer to one, in their
 * order. At most REPLAY_MOST_SENT may wait. replay_note_answer: whether an error is just what the
 * trace has. */
void replay_note_sent(struct replay *replay);
bool replay_note_answer(struct replay *replay, const cJSON *answer);

#endif
