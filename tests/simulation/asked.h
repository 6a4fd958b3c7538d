/* One line that a client sends, and what must be remembered to judge its answer. */
#ifndef ASKED_H
#define ASKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/allocators.h"
#include "lib/worsegpu.h"
#include "proto/errors.h"
#include "tests/simulation/model.h"

struct world;
struct world_client;

enum {
    ASKED_ID_SIZE = 40
};

enum asked_kind {
    ASKED_ALLOCATE,
    ASKED_FREE,
    ASKED_RECORD_STREAM,
    ASKED_EVENT_DONE,
    ASKED_EMPTY_CACHE,
    ASKED_SNAPSHOT,
    ASKED_VALIDATE,
    ASKED_LIST,
    ASKED_CLIENTS,
    ASKED_TRACE,
    ASKED_TRACE_CLEAR,
    ASKED_MAP,
    ASKED_STATISTICS,
    ASKED_INFO,
    ASKED_HELLO,
    ASKED_OPEN,
    ASKED_CLOSE,
    ASKED_RESIZE,
    ASKED_SUBSCRIBE,
    ASKED_UNSUBSCRIBE,
    ASKED_INJECT,
    ASKED_RULES,
    ASKED_RULES_CLEAR,
    ASKED_WRONG,    /* whatever the daemon's state is, it is refused */
    ASKED_TOO_LONG, /* the same, and it counts as no request */
    ASKED_BLANK     /* it has no answer, and counts as no request */
};

struct asked {
    TAILQ_ENTRY(asked) link;
    enum asked_kind kind;
    bool silent;                         /* without id: never answered */
    uint64_t start;                      /* the client's bytes before this line */
    uint64_t end;                        /* the client's bytes up to the end of this line */
    char id[ASKED_ID_SIZE];              /* as the answer must show it */
    enum error_kind wrong;               /* of ASKED_WRONG */
    char allocator[ALLOCATOR_NAME_SIZE]; /* empty: left out */
    char name[ALLOCATOR_NAME_SIZE];      /* of open: the new one */
    char handle[80];                     /* empty: by tag */
    char tag[MODEL_TAG_SIZE];            /* empty: none */
    char policy[32];
    uint64_t bytes; /* requested_bytes or gpu_capacity */
    uint64_t max_request;
    uint64_t trace_limit;
    bool fallback;
    bool detached;
    bool orphans;
    bool after_given;
    uint64_t after;
    uint64_t limit; /* 0: none given */
    uint64_t rule;  /* 0: all */
    uint64_t times;
    enum worsegpu_fault_action action;
};

TAILQ_HEAD(asked_list, asked);

/* Bytes that grow. */
struct world_bytes {
    char *data;
    size_t length;
    size_t capacity;
};
void world_bytes_add(struct world_bytes *bytes, const char *more, size_t length);
void world_bytes_drop(struct world_bytes *bytes, size_t length); /* the first ones */

/* Draws the next line of a client, with its LF, and appends it to `line`. The caller frees what it
 * gets. */
struct asked *asked_draw(struct world *world, struct world_client *client,
                         struct world_bytes *line);

#endif
