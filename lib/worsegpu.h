/* libworsegpu: a fake GPU's memory allocator that misbehaves on purpose.
 *
 * An *allocator* is one fake GPU with its host pool, its placement policy, its random stream and
 * its event trace. Nothing here touches a real GPU. Given equal seeds and equal calls, every
 * decision is the same on every machine, and with the policy "worse" the same as those of the
 * Python reference.
 *
 * Sizes are bytes, as uint64_t. Errors: negative means that worsegpu itself could not work (no
 * memory, no randomness) and nothing has changed; 0 is fine; positive is an answer that the caller
 * must handle.
 *
 * Threads: one allocator may be used by several threads at once, unless its configuration said
 * `single_threaded`. Creating and destroying is for one thread. */
#ifndef WORSEGPU_H
#define WORSEGPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worsegpu_memory.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WORSEGPU_API __attribute__((visibility("default")))
#else
#define WORSEGPU_API
#endif

/* Limits of the engine. WORSEGPU_MAX_BYTES is 2^53 - 1: every byte count is exact as a double, so
 * in every JSON reader. The other ones are the reference's. */
#define WORSEGPU_MAX_BYTES UINT64_C(9007199254740991)
#define WORSEGPU_MAX_TRACE_LIMIT UINT64_C(1000000)
#define WORSEGPU_MAX_SEED_DIGITS 4300
#define WORSEGPU_MAX_TAG_BYTES 64
#define WORSEGPU_MAX_LIVE_LIMIT UINT64_C(1000000000)
#define WORSEGPU_MAX_KNOBS_BYTES 4096
#define WORSEGPU_MAX_ALIGNMENT (UINT64_C(1) << 32)

enum worsegpu_status {
    WORSEGPU_NO_ENTROPY = -2, /* the system gave no random bytes */
    WORSEGPU_NO_MEMORY = -1,  /* worsegpu ran out of its own memory */
    WORSEGPU_OK = 0,
    WORSEGPU_OUT_OF_MEMORY = 1,    /* the fake GPU is full and fallback_on_oom is false */
    WORSEGPU_UNKNOWN_HANDLE = 2,   /* never given out here, already freed, or forged */
    WORSEGPU_INVALID_ARGUMENT = 3, /* a value out of its range */
    WORSEGPU_LIMIT_EXCEEDED = 4, /* max_live_allocations, or host bytes that would pass 2^64 - 1 */
    WORSEGPU_INVARIANT_VIOLATION = 5, /* validate found broken accounting */
    WORSEGPU_NOT_ADMITTED = 6,        /* the request's own `admit` said no */
};

enum worsegpu_device {
    WORSEGPU_GPU,
    WORSEGPU_CPU
};

/* What was made to happen on purpose, for the trace: worsegpu_record_fault. The library itself does
 * none of it. */
enum worsegpu_fault_action {
    WORSEGPU_FAULT_OUT_OF_MEMORY,
    WORSEGPU_FAULT_QUOTA_EXCEEDED,
    WORSEGPU_FAULT_HOST_FALLBACK,
    WORSEGPU_FAULT_FORGET,
    WORSEGPU_FAULT_DELAY,
    WORSEGPU_FAULT_DISCONNECT_BEFORE,
    WORSEGPU_FAULT_DISCONNECT_AFTER,
    WORSEGPU_FAULT_ACTIONS /* how many there are */
};

enum worsegpu_operation {
    WORSEGPU_ALLOCATE,
    WORSEGPU_ALLOCATE_FAILED,
    WORSEGPU_FREE,
    WORSEGPU_FAULT, /* something was made to fail on purpose: worsegpu_record_fault */
    WORSEGPU_RECORD_STREAM,
    WORSEGPU_EVENT_DONE,
    WORSEGPU_EMPTY_CACHE,
    WORSEGPU_OPERATIONS /* how many there are */
};

enum worsegpu_reason {
    WORSEGPU_NO_REASON,
    WORSEGPU_PROBABILITY, /* the policy felt like the host */
    WORSEGPU_GPU_OOM,     /* the fake GPU was full */
    WORSEGPU_FORGOTTEN,   /* freed by the client, lost by the allocator */
};

/* How the list of blocks is searched for a free one of the right size. */
enum worsegpu_scan {
    WORSEGPU_SCAN_ACCOUNTED, /* an index answers; blocks_scanned counts what a scan would have
                                looked at */
    WORSEGPU_SCAN_WALKED,    /* the list is really walked */
};

/* The words used for them on the wire and everywhere else: "gpu", "allocate_failed", "gpu_oom", ...
 * NULL for WORSEGPU_NO_REASON and for values out of range. */
WORSEGPU_API const char *worsegpu_device_name(enum worsegpu_device device);
WORSEGPU_API const char *worsegpu_operation_name(enum worsegpu_operation operation);
WORSEGPU_API const char *worsegpu_reason_name(enum worsegpu_reason reason);
WORSEGPU_API const char *worsegpu_fault_action_name(enum worsegpu_fault_action action);
WORSEGPU_API const char *worsegpu_scan_name(enum worsegpu_scan scan);
WORSEGPU_API bool worsegpu_scan_from_name(const char *name, enum worsegpu_scan *scan);

/* The library's version, such as "0.1.0". */
WORSEGPU_API const char *worsegpu_version(void);

/* The policies there are: their names for index 0, 1, ...; NULL after the last. */
WORSEGPU_API const char *worsegpu_policy_name(size_t index);
/* One sentence about a policy; NULL when there is none of that name. */
WORSEGPU_API const char *worsegpu_policy_summary(const char *name);

/* What can be set on a policy. All texts are static. */
struct worsegpu_knob {
    const char *name;
    const char *type; /* "bytes", "count", "number" (0 to 1), "yesno" (true or false), "choice"
                         or "text" */
    const char *default_text; /* "none": not set, which can be written too */
    uint64_t minimum;         /* of a bytes or count; of a text its longest in `maximum` */
    uint64_t maximum;
    const char *choices; /* the words of a choice, separated by blanks; NULL for other types */
    const char *meaning; /* one line */
};

/* The knob of a policy with index 0, 1, ...; false after the last, and when there is no policy of
 * that name. */
WORSEGPU_API bool worsegpu_policy_knob(const char *policy, size_t index,
                                       struct worsegpu_knob *knob);

/* ------------------------------------------------------------------------------ configuration */

/* All that can be chosen. Checked and copied by worsegpu_create; fixed from then on, but for
 * gpu_capacity: worsegpu_resize. */
struct worsegpu_config {
    const char *policy;         /* worsegpu_policy_name; default "worse" */
    const char *knobs;          /* the policy's, "NAME=VALUE NAME=VALUE" of printable ASCII, at most
                                   WORSEGPU_MAX_KNOBS_BYTES; NULL or empty: all have their defaults */
    uint64_t gpu_capacity;      /* bytes, 1 to WORSEGPU_MAX_BYTES; default 64 MiB */
    double gpu_probability;     /* of trying the GPU at all, 0 to 1; default 0.65 */
    double forget_probability;  /* of a GPU free being lost, 0 to 1; default 0.20 */
    bool fallback_on_oom;       /* use the host when the GPU is full; default true */
    uint64_t max_request_bytes; /* 1 to WORSEGPU_MAX_BYTES; default 2^40 */
    uint64_t trace_limit;       /* events kept, 0 to WORSEGPU_MAX_TRACE_LIMIT; default 0 */
    const char *seed;           /* -?[0-9]+ of at most WORSEGPU_MAX_SEED_DIGITS digits; NULL: drawn
                                   from the system, as a number within 0 to 2^53 - 1 */
    enum worsegpu_scan scan;    /* default accounted */
    uint64_t max_live_allocations; /* 1 to WORSEGPU_MAX_LIVE_LIMIT; default 1,000,000 */
    bool single_threaded; /* the caller promises to use one thread: no lock; default false */
    const struct worsegpu_memory *memory; /* NULL: malloc; must outlive the allocator */
};

/* Fills in the defaults above. */
WORSEGPU_API void worsegpu_config_default(struct worsegpu_config *config);

/* Checks a configuration without making anything. WORSEGPU_OK, or WORSEGPU_INVALID_ARGUMENT with
 * *field (may be NULL) naming the first bad member and *expected (may be NULL) saying what it must
 * be, both static texts. Checked in the order above, `knobs` last: worsegpu_knobs_check says more
 * of them. */
WORSEGPU_API int worsegpu_config_check(const struct worsegpu_config *config, const char **field,
                                       const char **expected);

enum {
    WORSEGPU_PROBLEM_SIZE = 320 /* room for a sentence about knobs, NUL included */
};

/* Checks the knobs of a configuration whose other members are fine. WORSEGPU_OK, or
 * WORSEGPU_INVALID_ARGUMENT with a sentence in `problem` that names the knob and says what it must
 * be. */
WORSEGPU_API int worsegpu_knobs_check(const struct worsegpu_config *config,
                                      char problem[WORSEGPU_PROBLEM_SIZE]);

typedef struct worsegpu_allocator worsegpu_allocator;

/* Makes an allocator. WORSEGPU_OK, WORSEGPU_INVALID_ARGUMENT (see worsegpu_config_check),
 * WORSEGPU_NO_MEMORY or WORSEGPU_NO_ENTROPY; *allocator is NULL unless all went well. */
WORSEGPU_API int worsegpu_create(const struct worsegpu_config *config,
                                 worsegpu_allocator **allocator);

/* Ends it with all that it holds. NULL is fine. */
WORSEGPU_API void worsegpu_destroy(worsegpu_allocator *allocator);

/* Its configuration as it stands: all texts belong to the allocator; `knobs` is never NULL; `seed`
 * is the one in force, as it was given or as it was drawn. Where another thread may resize it,
 * gpu_capacity is to be read from a snapshot instead. */
WORSEGPU_API const struct worsegpu_config *
worsegpu_configuration(const worsegpu_allocator *allocator);

/* ------------------------------------------------------------------------------ allocations */

/* The right to free one allocation: its number and 128 bits from the system's random source. */
struct worsegpu_handle {
    uint64_t allocation_id;
    uint8_t secret[16];
};

/* A handle as text is "ID-" and 32 lowercase hex digits. */
#define WORSEGPU_HANDLE_TEXT_SIZE 54 /* longest text with its NUL: 20 + 1 + 32 + 1 */
/* Returns the length, without the NUL. */
WORSEGPU_API size_t worsegpu_handle_to_text(const struct worsegpu_handle *handle,
                                            char text[WORSEGPU_HANDLE_TEXT_SIZE]);
/* false unless the `length` bytes are exactly such a text (no sign, no leading zero, id below
 * 2^64). */
WORSEGPU_API bool worsegpu_handle_from_text(const char *text, size_t length,
                                            struct worsegpu_handle *handle);

/* Whether an allocation may be made, asked once it is known where it would go and what it would
 * really take there; for limits of the caller's own. true: it is then certainly made, so that what
 * it takes may be charged here. false: WORSEGPU_NOT_ADMITTED, and nothing has changed. Asked at
 * most once for a request; not asked when it fails for another reason. `context` is the request's
 * admit_context. The allocator is locked meanwhile: it must not be used. */
typedef bool (*worsegpu_admit)(void *context, enum worsegpu_device device, uint64_t reserved_bytes);

/* What is asked for. Zero it first. */
struct worsegpu_request {
    uint64_t requested_bytes; /* 1 to max_request_bytes */
    uint64_t stream;          /* the stream it is for; the policies of real allocators use it */
    bool stream_given;        /* whether the event shall show it */
    bool upper;               /* from the upper end, where the policy has two ends */
    uint64_t alignment; /* of the offset: a power of two of at most WORSEGPU_MAX_ALIGNMENT, or 0;
                           for the policies that take one from a request */
    const char *tag;  /* the caller's own name for it, NULL for none; copied, not NUL-terminated */
    size_t tag_bytes; /* 1 to WORSEGPU_MAX_TAG_BYTES with a tag */
    uint64_t client;  /* who asks, for the event */
    uint32_t user;    /* whose it is, for its events */
    uint64_t time_us; /* when, since the epoch, for the event; never part of a decision */
    void *owner;      /* kept with the allocation for the caller; never touched */
    bool force_host;  /* the host, as if the GPU were full, even with fallback_on_oom false; no
                         draw is spent and no block looked at */
    worsegpu_admit admit; /* NULL: nobody is asked */
    void *admit_context;
};

/* One live allocation. */
struct worsegpu_allocation {
    struct worsegpu_handle handle;
    uint64_t requested_bytes;
    uint64_t reserved_bytes; /* what it really takes */
    enum worsegpu_device device;
    enum worsegpu_reason reason; /* why the host: WORSEGPU_PROBABILITY or WORSEGPU_GPU_OOM */
    int64_t block_index;         /* -1 on the host */
    uint64_t offset;             /* where in the GPU's range; 0 on the host */
    uint64_t stream;
    bool stream_given;
    const char *tag; /* belongs to the allocator, valid while the allocation lives; NULL for none */
    size_t tag_bytes;
    void *owner;
};

/* Allocates. WORSEGPU_OK with *allocation filled in; WORSEGPU_OUT_OF_MEMORY (random draws are spent
 * and an event is recorded, as in the reference); WORSEGPU_INVALID_ARGUMENT,
 * WORSEGPU_LIMIT_EXCEEDED, WORSEGPU_NOT_ADMITTED, WORSEGPU_NO_MEMORY, WORSEGPU_NO_ENTROPY: nothing
 * has changed, no draw is spent. */
WORSEGPU_API int worsegpu_allocate(worsegpu_allocator *allocator,
                                   const struct worsegpu_request *request,
                                   struct worsegpu_allocation *allocation);

/* Looks a handle up without freeing. WORSEGPU_OK or WORSEGPU_UNKNOWN_HANDLE. The secret is compared
 * in constant time. */
WORSEGPU_API int worsegpu_find(worsegpu_allocator *allocator, const struct worsegpu_handle *handle,
                               struct worsegpu_allocation *allocation);

/* What became of a freed allocation. */
struct worsegpu_release {
    uint64_t allocation_id;
    enum worsegpu_device device;
    bool released; /* false: forgotten. The handle is dead all the same */
    void *owner;   /* as given to worsegpu_allocate */
};

/* Frees. WORSEGPU_OK, or WORSEGPU_UNKNOWN_HANDLE: nothing has changed. Never runs out of memory.
 * `client` and `time_us` are for the event. `release` may be NULL. */
WORSEGPU_API int worsegpu_free(worsegpu_allocator *allocator, const struct worsegpu_handle *handle,
                               uint64_t client, uint64_t time_us, struct worsegpu_release *release);

/* How to free. Zero it first. */
struct worsegpu_freeing {
    uint64_t stream;   /* on which it is freed: some policies keep its block for that stream */
    bool stream_given; /* false: on the one it was allocated for */
    bool forget;       /* as worsegpu_forget */
    uint64_t client;   /* these two are for the event, as with worsegpu_free */
    uint64_t time_us;
};

/* Frees as worsegpu_free, on a stream. */
WORSEGPU_API int worsegpu_free_on(worsegpu_allocator *allocator,
                                  const struct worsegpu_handle *handle,
                                  const struct worsegpu_freeing *how,
                                  struct worsegpu_release *release);

/* Frees as worsegpu_free, but with any policy the block is forgotten for certain, and no draw is
 * spent. On the host there is nothing to forget: it is released. */
WORSEGPU_API int worsegpu_forget(worsegpu_allocator *allocator,
                                 const struct worsegpu_handle *handle, uint64_t client,
                                 uint64_t time_us, struct worsegpu_release *release);

/* ------------------------------------------------------------------------------ streams, cache */

/* What a program tells an allocator besides. With a policy that has no use for it nothing happens,
 * and *used (may be NULL) is false; the event is recorded all the same, so that a trace is of use
 * with every policy. */

/* Who tells it, for the event. */
struct worsegpu_teller {
    uint64_t client;
    uint32_t user;
    uint64_t time_us;
};

/* The allocation is used on another stream too: once freed, its block waits until that stream has
 * come so far. WORSEGPU_OK; WORSEGPU_UNKNOWN_HANDLE, WORSEGPU_NO_MEMORY: nothing has changed. On
 * the host it is of no use. */
WORSEGPU_API int worsegpu_record_stream(worsegpu_allocator *allocator,
                                        const struct worsegpu_handle *handle, uint64_t stream,
                                        const struct worsegpu_teller *teller, bool *used);

#define WORSEGPU_ALL_EVENTS UINT64_MAX

/* The `count` oldest events of a stream that the device has not completed yet are completed; with
 * `newest` the newest ones. WORSEGPU_ALL_EVENTS: all. The policy notices when it would. */
WORSEGPU_API void worsegpu_event_done(worsegpu_allocator *allocator, uint64_t stream,
                                      uint64_t count, bool newest,
                                      const struct worsegpu_teller *teller, bool *used);

/* Everything cached goes back to the device. *given_back (may be NULL): how many bytes that are. */
WORSEGPU_API void worsegpu_empty_cache(worsegpu_allocator *allocator,
                                       const struct worsegpu_teller *teller, uint64_t *given_back,
                                       bool *used);

/* ------------------------------------------------------------------------------ resize, faults */

/* Gives the fake GPU another capacity, 1 to WORSEGPU_MAX_BYTES bytes. What is reserved stays
 * reserved, even if it is more than that: then free blocks are still used again, but nothing new
 * fits until the capacity goes up or enough is given back. WORSEGPU_OK, or
 * WORSEGPU_INVALID_ARGUMENT: nothing has changed. */
WORSEGPU_API int worsegpu_resize(worsegpu_allocator *allocator, uint64_t gpu_capacity);

/* What to record of a fault. Zero it first. */
struct worsegpu_fault {
    enum worsegpu_fault_action action;
    uint64_t rule;            /* the number of the rule that fired */
    uint64_t allocation_id;   /* the allocation it is about, 0 for none */
    uint64_t requested_bytes; /* of the request it is about, 0 for none */
    uint64_t stream;          /* this and the rest as in a request */
    bool stream_given;
    const char *tag;
    size_t tag_bytes;
    uint64_t client;
    uint32_t user; /* who met it */
    uint64_t time_us;
};

/* Records a fault as an event, and counts it; no decision depends on it. WORSEGPU_OK, or
 * WORSEGPU_INVALID_ARGUMENT for an action or a tag that is none: nothing has changed. Never runs
 * out of memory. */
WORSEGPU_API int worsegpu_record_fault(worsegpu_allocator *allocator,
                                       const struct worsegpu_fault *fault);

/* The live allocations with an id above `after`, lowest first, at most `limit` of them into the
 * array; *count how many there are, *more whether others follow. O(log live + limit), amortised. */
WORSEGPU_API void worsegpu_list(worsegpu_allocator *allocator, uint64_t after,
                                struct worsegpu_allocation *allocations, size_t limit,
                                size_t *count, bool *more);

/* ------------------------------------------------------------------------------ looking at it */

/* The accounts. The first eleven are the reference's, under its names. O(1): nothing is walked. */
struct worsegpu_snapshot {
    uint64_t gpu_capacity;
    uint64_t gpu_reserved;   /* sizes of all blocks: used, free and forgotten */
    uint64_t gpu_unreserved; /* capacity less reserved; 0 also where a resize left it below that */
    uint64_t gpu_used;       /* blocks that hold a live allocation, at their reserved size */
    uint64_t gpu_free;       /* empty blocks that can be used again */
    uint64_t gpu_forgotten;  /* blocks lost by a forgetful free */
    uint64_t gpu_blocks;     /* all kinds */
    uint64_t cpu_bytes;      /* requested bytes of live allocations on the host */
    uint64_t active_allocations;
    uint64_t trace_events; /* retained now */
    double fragmentation; /* 1 - free / reserved, rounded to 3 places; 0 when nothing is reserved */
    /* Ours. */
    uint64_t blocks_scanned;  /* blocks that the reference's linear scan has looked at, in all */
    uint64_t gpu_allocations; /* live ones on the GPU */
    uint64_t cpu_allocations; /* live ones on the host */
    uint64_t gpu_requested;   /* requested bytes of the live ones on the GPU */
    uint64_t gpu_forgotten_blocks; /* how many blocks are forgotten */
    uint64_t peak_gpu_used;        /* the highest gpu_used so far */
    uint64_t peak_cpu_bytes;       /* the highest cpu_bytes so far */
    uint64_t allocate_calls;       /* allocations that were given, in all */
    uint64_t free_calls;           /* frees that were done, in all */
    uint64_t oom_fallbacks;        /* allocations sent to the host because the GPU was full */
    uint64_t oom_failures;         /* allocations refused for that */
    uint64_t faults;               /* calls of worsegpu_record_fault, in all */
    uint64_t last_sequence;        /* of the newest event recorded */
    uint64_t gpu_pending;          /* part of gpu_free: freed, but waiting for events of streams */
    uint64_t gpu_segments;   /* pieces that the policy holds of the device; 0 where it takes none */
    uint64_t device_calls;   /* pieces taken from the device and given back, in all */
    uint64_t device_retries; /* flushes of the cache before another try, in all */
};

WORSEGPU_API void worsegpu_snapshot(worsegpu_allocator *allocator,
                                    struct worsegpu_snapshot *snapshot);

/* The largest free block: with gpu_free it says how far free memory is in pieces. false where the
 * policy has no such thing (*bytes is 0). Mostly O(1) or O(log n); "worse" goes through the sizes
 * of its blocks, or with WORSEGPU_SCAN_WALKED through the blocks, when the largest one was taken
 * since it was asked last. */
WORSEGPU_API bool worsegpu_largest_free(worsegpu_allocator *allocator, uint64_t *bytes);

/* One cell of a map: how much of it is what. What is left is not reserved. */
struct worsegpu_cell {
    uint64_t used_bytes;
    uint64_t free_bytes; /* reserved and empty; without the pending ones */
    uint64_t forgotten_bytes;
    uint64_t pending_bytes;    /* freed, but waiting for events of streams */
    uint64_t allocation_id;    /* the live allocation that has most of the cell; 0: none is there */
    uint64_t allocation_bytes; /* how much it has */
    void *owner;               /* as given to worsegpu_allocate for it */
};

/* What a map shows: `bytes` from `from` on, in so many cells; the last one may be shorter. */
struct worsegpu_map {
    uint64_t from;
    uint64_t bytes;
    uint64_t cell_bytes;
    size_t cells;
};

#define WORSEGPU_MAX_CELLS 4096

/* Draws the fake GPU's address range from `from` on, `bytes` of it (0: to its end, which is the
 * capacity, or the end of the last block where that is further), in at most `count` equal cells, 1
 * to WORSEGPU_MAX_CELLS: fewer where the range does not go into so many. WORSEGPU_OK, or
 * WORSEGPU_INVALID_ARGUMENT for a count or a range that is none; it cannot run out of memory.
 * O(blocks log blocks + live + count). The policy "reference" has no places: there the allocations
 * stand in a row by their ids. */
WORSEGPU_API int worsegpu_map(worsegpu_allocator *allocator, uint64_t from, uint64_t bytes,
                              struct worsegpu_cell *cells, size_t count, struct worsegpu_map *map);

/* A policy's own figures, under the names of the allocator that it models: told one by one, in an
 * order that does not change. Names are static texts. None of the functions may be NULL; the
 * allocator is locked meanwhile: it must not be used. */
struct worsegpu_figures {
    void *context;
    void (*count)(void *context, const char *name, uint64_t value);
    void (*number)(void *context, const char *name, double value);
    void (*none)(void *context, const char *name); /* there is no such figure now */
    void (*values)(void *context, const char *name, const uint64_t *values, size_t count);
};

/* false: the policy has none, and nothing was told. */
WORSEGPU_API bool worsegpu_statistics(worsegpu_allocator *allocator,
                                      const struct worsegpu_figures *figures);

/* Writes a fragmentation as the reference prints it in JSON: the shortest text that reads back,
 * always with a point ("0.0", "0.49", "1.0"). `text` has room for 8 bytes. */
WORSEGPU_API void worsegpu_fragmentation_to_text(double fragmentation, char text[8]);

/* One event of the trace. */
struct worsegpu_event {
    uint64_t sequence; /* 1, 2, ... without a gap, also over events that were dropped */
    enum worsegpu_operation operation;
    enum worsegpu_device device; /* WORSEGPU_GPU where it says nothing: in a fault, an event_done
                                    and an empty_cache */
    enum worsegpu_reason reason;
    bool released; /* of a free */
    bool stream_given;
    bool upper;               /* of an allocate or allocate_failed */
    bool newest;              /* of an event_done */
    uint64_t allocation_id;   /* 0 in an allocate_failed, and in what is about none */
    uint64_t requested_bytes; /* of an allocate, allocate_failed or fault */
    uint64_t reserved_bytes;  /* of an allocate */
    uint64_t alignment;       /* of an allocate or allocate_failed; 0: none given */
    uint64_t count;           /* of an event_done */
    uint64_t stream;          /* of a free: the one it was freed on */
    uint64_t client;
    uint32_t user; /* whose the allocation is, as worsegpu_allocate was told */
    uint64_t time_us;
    uint64_t rule;                     /* of a fault */
    enum worsegpu_fault_action action; /* of a fault */
    size_t tag_bytes;                  /* 0: none */
    char tag[WORSEGPU_MAX_TAG_BYTES];
};

/* The retained events with a sequence above `after`, oldest first, at most `limit` into the array.
 * *count how many, *more whether others follow, *dropped how many events after `after` are no
 * longer retained, cleared ones included. Each of the three may be NULL. O(limit). */
WORSEGPU_API void worsegpu_trace(worsegpu_allocator *allocator, uint64_t after,
                                 struct worsegpu_event *events, size_t limit, size_t *count,
                                 bool *more, uint64_t *dropped);

/* Forgets the retained events; how many there were. The sequence goes on. */
WORSEGPU_API uint64_t worsegpu_trace_clear(worsegpu_allocator *allocator);

/* Recomputes every account from the blocks, the live allocations and the trace, and compares.
 * WORSEGPU_OK with *checks made, or WORSEGPU_INVARIANT_VIOLATION with *broken naming the invariant
 * (a static text such as "gpu_used_sum"), or WORSEGPU_NO_MEMORY. O((blocks + live) log n + events).
 * Both may be NULL. */
WORSEGPU_API int worsegpu_validate(worsegpu_allocator *allocator, uint64_t *checks,
                                   const char **broken);

#ifdef __cplusplus
}
#endif

#endif
