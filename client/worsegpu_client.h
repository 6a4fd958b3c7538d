/* libworsegpu-client: talk to a worsegpud over its Unix socket.
 *
 * A `worsegpu_client` is one connection. It lives from worsegpu_client_connect to
 * worsegpu_client_disconnect, and what it hands out (results, pages, texts) lives until the next
 * call with the same client, unless a comment says otherwise.
 *
 * Status: negative means that the exchange itself did not work, 0 is fine, positive means that the
 * daemon answered with an error. The struct worsegpu_client_error, which may be NULL everywhere,
 * says more. The library keeps no global state, touches no signal and starts no thread. One client
 * belongs to one thread at a time.
 *
 * The wire contract is in proto/PROTOCOL.md. Fault injection is in worsegpu_client_rules.h, which
 * this header includes. */
#ifndef WORSEGPU_CLIENT_H
#define WORSEGPU_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worsegpu_memory.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WORSEGPU_CLIENT_API __attribute__((visibility("default")))
#else
#define WORSEGPU_CLIENT_API
#endif

enum {
    WORSEGPU_CLIENT_KIND_SIZE = 64,     /* room for the kind of an error, NUL included */
    WORSEGPU_CLIENT_MESSAGE_SIZE = 768, /* ... its message */
    WORSEGPU_CLIENT_ECHO_SIZE = 264,    /* ... a name that the daemon repeats */
    WORSEGPU_CLIENT_HANDLE_SIZE = 64,   /* ... a handle */
    WORSEGPU_CLIENT_NAME_SIZE = 72,     /* ... a tag, an allocator's name, a policy's name */
    WORSEGPU_CLIENT_WORD_SIZE = 24      /* ... a word such as "allocate_failed" */
};

/* The longest answer line that is read, in bytes. */
#define WORSEGPU_CLIENT_MAX_REPLY_BYTES ((size_t)16 * 1024 * 1024)
/* Answers that wait to be received take at most about this much, in bytes. */
#define WORSEGPU_CLIENT_MAX_HELD_BYTES ((size_t)64 * 1024 * 1024)
/* Events that came while a call waited for its answer, and wait to be taken, take at most so much,
 * in bytes. Those after that are counted as missed. */
#define WORSEGPU_CLIENT_MAX_EVENT_BYTES ((size_t)8 * 1024 * 1024)

enum worsegpu_client_status {
    WORSEGPU_CLIENT_BUSY = -7,             /* too many answers wait: receive some, then go on */
    WORSEGPU_CLIENT_BAD_REPLY = -6,        /* the other side broke the contract */
    WORSEGPU_CLIENT_TIMEOUT = -5,          /* no answer in time */
    WORSEGPU_CLIENT_CLOSED = -4,           /* the connection has ended */
    WORSEGPU_CLIENT_NO_DAEMON = -3,        /* nothing answers at the socket */
    WORSEGPU_CLIENT_INVALID_ARGUMENT = -2, /* the caller's mistake; nothing was sent */
    WORSEGPU_CLIENT_NO_MEMORY = -1,        /* there is no memory on this side */
    WORSEGPU_CLIENT_OK = 0,
    WORSEGPU_CLIENT_REFUSED = 1 /* the daemon answered with an error */
};

/* What went wrong. After WORSEGPU_CLIENT_OK only `status` counts. */
struct worsegpu_client_error {
    int status;                           /* the same as was returned */
    int64_t code;                         /* of a refusal: the wire's code; else 0 */
    char kind[WORSEGPU_CLIENT_KIND_SIZE]; /* "out_of_memory", ..., or ours: "no_daemon", ... */
    char message[WORSEGPU_CLIENT_MESSAGE_SIZE]; /* a sentence, UTF-8 */
    bool limit_given;
    bool used_given;
    bool requested_bytes_given;
    bool left_given;
    bool rule_given;
    uint64_t limit;                         /* the limit that was met */
    uint64_t used;                          /* how much of it is taken */
    uint64_t left;                          /* how much of it is left */
    uint64_t requested_bytes;               /* what could not be had */
    uint64_t rule;                          /* the rule that made it fail on purpose */
    char which[WORSEGPU_CLIENT_NAME_SIZE];  /* the limit's name; empty when not given */
    char param[WORSEGPU_CLIENT_ECHO_SIZE];  /* the wrong parameter; empty when not given */
    char method[WORSEGPU_CLIENT_ECHO_SIZE]; /* the unknown method; empty when not given */
    char check[WORSEGPU_CLIENT_ECHO_SIZE];  /* the broken invariant; empty when not given */
};

typedef struct worsegpu_client worsegpu_client;

/* How to connect. Zero it, then fill in what you want. */
struct worsegpu_client_options {
    const char *path; /* the socket. NULL: $WORSEGPU_SOCKET alone when that is set, else the first
                         that answers of $XDG_RUNTIME_DIR/worsegpu/worsegpud.sock and
                         /run/worsegpu/worsegpud.sock */
    uint64_t timeout_ms; /* longest wait of each call, in milliseconds; 0: for ever */
    const struct worsegpu_memory *memory; /* NULL: malloc; must outlive the client */
};

/* Connects. `options` may be NULL. *client is NULL unless WORSEGPU_CLIENT_OK is returned. Otherwise
 * NO_DAEMON, TIMEOUT, NO_MEMORY, or INVALID_ARGUMENT for a path too long for a socket. */
WORSEGPU_CLIENT_API int worsegpu_client_connect(const struct worsegpu_client_options *options,
                                                worsegpu_client **client,
                                                struct worsegpu_client_error *error);

/* Makes a client of a stream socket that is already connected, and owns it from then on (not when
 * it fails). `options->path` is not used. OK or NO_MEMORY. */
WORSEGPU_CLIENT_API int worsegpu_client_adopt(int descriptor,
                                              const struct worsegpu_client_options *options,
                                              worsegpu_client **client,
                                              struct worsegpu_client_error *error);

/* Ends the connection, and with it all that belongs to it. NULL is fine. */
WORSEGPU_CLIENT_API void worsegpu_client_disconnect(worsegpu_client *client);

/* The version of the library, such as "0.1.0". */
WORSEGPU_CLIENT_API const char *worsegpu_client_version(void);

/* --------------------------------------------------------------------------------- one request */

/* Sends one request and waits for its answer. `params` is a JSON object as text, or NULL. On OK,
 * worsegpu_client_result gives the result. REFUSED: see `error`. Not while answers of queued
 * requests wait (INVALID_ARGUMENT). After TIMEOUT or NO_MEMORY the request may have been carried
 * out; its answer, when it comes, is thrown away. After CLOSED and BAD_REPLY the client is of no
 * more use. */
WORSEGPU_CLIENT_API int worsegpu_client_call(worsegpu_client *client, const char *method,
                                             const char *params,
                                             struct worsegpu_client_error *error);

/* The last result as JSON text, not NUL-terminated; NULL when the last answer was none. */
WORSEGPU_CLIENT_API const char *worsegpu_client_result(const worsegpu_client *client,
                                                       size_t *length);

/* ------------------------------------------------------------------------------ many requests */

/* Queues a request that will be answered. Nothing is sent yet. OK, NO_MEMORY or INVALID_ARGUMENT:
 * nothing is queued then. */
WORSEGPU_CLIENT_API int worsegpu_client_queue(worsegpu_client *client, const char *method,
                                              const char *params,
                                              struct worsegpu_client_error *error);

/* The same as a notification: the daemon carries it out and never answers, not even with an error.
 */
WORSEGPU_CLIENT_API int worsegpu_client_notify(worsegpu_client *client, const char *method,
                                               const char *params,
                                               struct worsegpu_client_error *error);

/* Sends all that is queued, and reads answers meanwhile, so that no side waits for the other. OK,
 * CLOSED (answers that came before can still be received), TIMEOUT, NO_MEMORY or BUSY (call it
 * again, nothing is lost). */
WORSEGPU_CLIENT_API int worsegpu_client_flush(worsegpu_client *client,
                                              struct worsegpu_client_error *error);

/* Waits for the answer to the oldest queued request that has none yet, sending what is still
 * queued. OK and REFUSED as worsegpu_client_call. TIMEOUT, NO_MEMORY: call it again, nothing is
 * lost. INVALID_ARGUMENT when no answer is due. */
WORSEGPU_CLIENT_API int worsegpu_client_receive(worsegpu_client *client,
                                                struct worsegpu_client_error *error);

/* How many answers are due, and how many bytes are queued and not sent. */
WORSEGPU_CLIENT_API uint64_t worsegpu_client_due(const worsegpu_client *client);
WORSEGPU_CLIENT_API size_t worsegpu_client_unsent(const worsegpu_client *client);

/* --------------------------------------------------------------------------------- raw lines */

/* For those who bring their own requests and their own event loop. Do not mix with the calls above
 * while answers are due.
 *
 * Queues one line, to which LF is added. It must hold no LF. */
WORSEGPU_CLIENT_API int worsegpu_client_queue_line(worsegpu_client *client, const char *line,
                                                   size_t length,
                                                   struct worsegpu_client_error *error);

/* Sends and reads as much as goes without waiting. OK, CLOSED once the other side has ended and no
 * byte was read, NO_MEMORY. Reads nothing while WORSEGPU_CLIENT_MAX_HELD_BYTES wait. */
WORSEGPU_CLIENT_API int worsegpu_client_advance(worsegpu_client *client,
                                                struct worsegpu_client_error *error);

/* The next whole line that has been read, without its LF; OK with *line NULL when there is none.
 * BAD_REPLY when it is longer than WORSEGPU_CLIENT_MAX_REPLY_BYTES. */
WORSEGPU_CLIENT_API int worsegpu_client_next_line(worsegpu_client *client, const char **line,
                                                  size_t *length,
                                                  struct worsegpu_client_error *error);

/* Whether the other side has ended, and whether it did so in the middle of a line. */
WORSEGPU_CLIENT_API bool worsegpu_client_has_ended(const worsegpu_client *client);
WORSEGPU_CLIENT_API bool worsegpu_client_ended_inside_line(const worsegpu_client *client);

/* Says that no more requests will come. All queued ones must be sent before (INVALID_ARGUMENT). The
 * daemon answers what it has and closes. */
WORSEGPU_CLIENT_API int worsegpu_client_finish(worsegpu_client *client,
                                               struct worsegpu_client_error *error);

/* The socket, to wait for: for reading always, for writing while worsegpu_client_unsent is not 0.
 */
WORSEGPU_CLIENT_API int worsegpu_client_descriptor(const worsegpu_client *client);

/* --------------------------------------------------------------------------------- each method */

/* Each sends its method and waits, as worsegpu_client_call. `allocator` NULL: the first shared one.
 * An answer that lacks what the contract promises is BAD_REPLY. Texts are UTF-8. */

/* A configuration, to ask for and as it stands. */
struct worsegpu_client_config {
    bool gpu_capacity_given; /* which of these to ask for; the others are the daemon's defaults */
    bool gpu_probability_given;
    bool forget_probability_given;
    bool fallback_on_oom_given;
    bool max_request_bytes_given;
    bool trace_limit_given;
    uint64_t gpu_capacity; /* bytes, 1 to 2^53 - 1 */
    double gpu_probability;
    double forget_probability;
    bool fallback_on_oom;
    uint64_t max_request_bytes; /* 1 to 2^53 - 1 */
    uint64_t trace_limit;       /* 0 to 1,000,000 events */
    const char *policy;         /* NULL: "worse" */
    const char *knobs; /* what is set on the policy, "NAME=VALUE NAME=VALUE"; NULL: nothing. As it
                          stands: valid until the next call */
    const char *seed;  /* decimal, -?[0-9]+; NULL: the daemon draws one. As it stands: valid
                          until the next call */
    const char *scan;  /* "accounted" or "walked"; NULL: "accounted" */
};

/* Makes a private allocator. `wanted` may be NULL for the defaults. *actual, which may be NULL, is
 * filled in as it now stands. */
WORSEGPU_CLIENT_API int worsegpu_client_open(worsegpu_client *client, const char *name,
                                             const struct worsegpu_client_config *wanted,
                                             struct worsegpu_client_config *actual,
                                             struct worsegpu_client_error *error);

/* Ends a private allocator. */
WORSEGPU_CLIENT_API int worsegpu_client_close(worsegpu_client *client, const char *allocator,
                                              struct worsegpu_client_error *error);

enum worsegpu_client_device {
    WORSEGPU_CLIENT_GPU,
    WORSEGPU_CLIENT_CPU
};

/* What to allocate. Zero it first. */
struct worsegpu_client_request {
    uint64_t requested_bytes; /* 1 to the allocator's max_request_bytes */
    const char *tag;          /* 1 to 64 bytes; NULL: none */
    bool stream_given;
    uint64_t stream;    /* 0 to 2^53 - 1 */
    bool detached;      /* it outlives the connection */
    bool upper;         /* from the upper end, where the policy has two ends */
    uint64_t alignment; /* of the offset: a power of two of at most 2^32; 0: as the policy does */
};

/* One allocation, from allocate and from list. */
struct worsegpu_client_allocation {
    uint64_t allocation_id;
    char handle[WORSEGPU_CLIENT_HANDLE_SIZE];
    uint64_t requested_bytes;
    uint64_t reserved_bytes;
    enum worsegpu_client_device device;
    int64_t block_index; /* -1 on the host */
    uint64_t offset;     /* bytes from the start of the fake GPU; 0 on the host */
    char reason[WORSEGPU_CLIENT_WORD_SIZE]; /* why the host; empty on the GPU */
    /* Filled in by list only. */
    char tag[WORSEGPU_CLIENT_NAME_SIZE]; /* empty: none */
    bool stream_given;
    uint64_t stream;
    bool client_given; /* false when its connection is gone */
    uint64_t client;   /* the number of the connection it belongs to */
    bool detached;
};

WORSEGPU_CLIENT_API int worsegpu_client_allocate(worsegpu_client *client, const char *allocator,
                                                 const struct worsegpu_client_request *request,
                                                 struct worsegpu_client_allocation *allocation,
                                                 struct worsegpu_client_error *error);

struct worsegpu_client_release {
    uint64_t allocation_id;
    enum worsegpu_client_device device;
    bool released; /* false: forgotten */
};

/* Frees by handle or by tag. *release may be NULL. */
WORSEGPU_CLIENT_API int worsegpu_client_free_handle(worsegpu_client *client, const char *allocator,
                                                    const char *handle,
                                                    struct worsegpu_client_release *release,
                                                    struct worsegpu_client_error *error);
WORSEGPU_CLIENT_API int worsegpu_client_free_tag(worsegpu_client *client, const char *allocator,
                                                 const char *tag,
                                                 struct worsegpu_client_release *release,
                                                 struct worsegpu_client_error *error);

/* Frees by handle on a stream, 0 to 2^53 - 1: some policies keep the block for that stream. */
WORSEGPU_CLIENT_API int worsegpu_client_free_on_stream(worsegpu_client *client,
                                                       const char *allocator, const char *handle,
                                                       uint64_t stream,
                                                       struct worsegpu_client_release *release,
                                                       struct worsegpu_client_error *error);

/* What a program tells the model of a caching allocator. *used, which may be NULL, is false where
 * the policy has no use for it.
 *
 * The allocation is used on another stream too: once freed, its block waits until that stream has
 * come so far. */
WORSEGPU_CLIENT_API int worsegpu_client_record_stream(worsegpu_client *client,
                                                      const char *allocator, const char *handle,
                                                      uint64_t stream, bool *used,
                                                      struct worsegpu_client_error *error);

/* The `count` oldest events of a stream that have not completed yet are completed, with `newest`
 * the newest ones; a count of 0: all. */
WORSEGPU_CLIENT_API int worsegpu_client_event_done(worsegpu_client *client, const char *allocator,
                                                   uint64_t stream, uint64_t count, bool newest,
                                                   bool *used, struct worsegpu_client_error *error);

/* Everything cached goes back to the fake device; *given_back, which may be NULL, is how many bytes
 * that were. */
WORSEGPU_CLIENT_API int worsegpu_client_empty_cache(worsegpu_client *client, const char *allocator,
                                                    uint64_t *given_back, bool *used,
                                                    struct worsegpu_client_error *error);

/* The policy's own figures. They are in worsegpu_client_result, as JSON: `policy` and the object
 * `statistics`, which is empty where the policy has none. */
WORSEGPU_CLIENT_API int worsegpu_client_statistics(worsegpu_client *client, const char *allocator,
                                                   struct worsegpu_client_error *error);

/* The reference's eleven metrics, and our detail. Bytes unless they are counts. */
struct worsegpu_client_snapshot {
    uint64_t gpu_capacity;
    uint64_t gpu_reserved;
    uint64_t gpu_unreserved;
    uint64_t gpu_used;
    uint64_t gpu_free;
    uint64_t gpu_forgotten;
    uint64_t gpu_blocks; /* count */
    uint64_t cpu_bytes;
    uint64_t active_allocations;                        /* count */
    uint64_t trace_events;                              /* count */
    double fragmentation;                               /* 0 to 1, 3 places */
    char fragmentation_text[WORSEGPU_CLIENT_WORD_SIZE]; /* as the daemon wrote it: "0.49" */
    struct {
        char policy[WORSEGPU_CLIENT_NAME_SIZE];
        char scan[WORSEGPU_CLIENT_NAME_SIZE];
        uint64_t blocks_scanned;
        uint64_t gpu_allocations;
        uint64_t cpu_allocations;
        uint64_t gpu_requested;
        uint64_t gpu_forgotten_blocks;
        uint64_t peak_gpu_used;
        uint64_t peak_cpu_bytes;
        uint64_t allocate_calls;
        uint64_t free_calls;
        uint64_t oom_fallbacks;
        uint64_t oom_failures;
        uint64_t faults; /* firings of rules */
        uint64_t last_sequence;
        bool gpu_largest_free_given; /* false where the policy has no such thing */
        uint64_t gpu_largest_free;
        uint64_t gpu_pending; /* freed, but waiting for events of streams */
        uint64_t gpu_segments;
        uint64_t device_calls;
        uint64_t device_retries;
    } detail;
};

WORSEGPU_CLIENT_API int worsegpu_client_snapshot(worsegpu_client *client, const char *allocator,
                                                 struct worsegpu_client_snapshot *snapshot,
                                                 struct worsegpu_client_error *error);

/* A part of a fake GPU's address range: how much of it is what, and whose allocation has most of it
 * (the number of the connection; 0: nobody's that this client may see). The rest is not reserved.
 */
struct worsegpu_client_cell {
    uint64_t used;
    uint64_t free; /* without what is pending */
    uint64_t forgotten;
    uint64_t pending;
    uint64_t client;
};

/* A map; `cells` belongs to the client. The last cell may be shorter than the others. */
struct worsegpu_client_map {
    uint64_t from;
    uint64_t bytes;
    uint64_t cell_bytes;
    const struct worsegpu_client_cell *cells;
    size_t count;
};

/* `bytes` (0: up to the end) from `from` on, in at most `cells` (1 to 1,000) cells. */
WORSEGPU_CLIENT_API int worsegpu_client_map(worsegpu_client *client, const char *allocator,
                                            uint64_t from, uint64_t bytes, uint64_t cells,
                                            struct worsegpu_client_map *map,
                                            struct worsegpu_client_error *error);

/* What the daemon knows of itself, for Prometheus; *text belongs to the client. `format`:
 * "openmetrics", "prometheus", or NULL for the first. */
WORSEGPU_CLIENT_API int worsegpu_client_metrics(worsegpu_client *client, const char *format,
                                                const char **text,
                                                struct worsegpu_client_error *error);

/* Reads the answer just received (worsegpu_client_receive) as what the named method gives. */
WORSEGPU_CLIENT_API int
worsegpu_client_read_allocation(worsegpu_client *client,
                                struct worsegpu_client_allocation *allocation,
                                struct worsegpu_client_error *error);
WORSEGPU_CLIENT_API int worsegpu_client_read_release(worsegpu_client *client,
                                                     struct worsegpu_client_release *release,
                                                     struct worsegpu_client_error *error);
WORSEGPU_CLIENT_API int worsegpu_client_read_snapshot(worsegpu_client *client,
                                                      struct worsegpu_client_snapshot *snapshot,
                                                      struct worsegpu_client_error *error);

/* One event of the trace. What it does not have is 0, false or empty. */
struct worsegpu_client_event {
    uint64_t sequence;
    char operation[WORSEGPU_CLIENT_WORD_SIZE]; /* "allocate", "allocate_failed", "free", "fault",
                                                  "record_stream", "event_done", "empty_cache" */
    char reason[WORSEGPU_CLIENT_WORD_SIZE];    /* "probability", "gpu_oom", "forgotten" */
    char action[WORSEGPU_CLIENT_WORD_SIZE];    /* of a fault: what the rule did */
    uint64_t rule;                             /* of a fault: which rule */
    enum worsegpu_client_device device;        /* GPU where it has none */
    bool released;                             /* of a free */
    uint64_t allocation_id;
    uint64_t requested_bytes;
    uint64_t reserved_bytes;
    bool time_given;
    uint64_t time_us; /* microseconds since the epoch */
    bool client_given;
    uint64_t client; /* the number of the connection */
    bool stream_given;
    uint64_t stream;
    uint64_t alignment; /* 0: none was given */
    bool upper;
    uint64_t count; /* of an event_done; 0: all */
    bool newest;
    char tag[WORSEGPU_CLIENT_NAME_SIZE];  /* empty also when it is another user's */
    char name[WORSEGPU_CLIENT_NAME_SIZE]; /* the connection's own name, as `tag` */
};

/* A page of events; `events` belongs to the client. */
struct worsegpu_client_trace {
    const struct worsegpu_client_event *events;
    size_t count;
    uint64_t next; /* the `after` of the next page */
    bool more;
    uint64_t dropped; /* events after `after` that are no longer retained */
};

/* Events with a sequence above `after`, at most `limit` (1 to 1,000). */
WORSEGPU_CLIENT_API int worsegpu_client_trace(worsegpu_client *client, const char *allocator,
                                              uint64_t after, uint64_t limit,
                                              struct worsegpu_client_trace *page,
                                              struct worsegpu_client_error *error);

/* Forgets the retained events; *cleared, which may be NULL, is how many there were. */
WORSEGPU_CLIENT_API int worsegpu_client_trace_clear(worsegpu_client *client, const char *allocator,
                                                    uint64_t *cleared,
                                                    struct worsegpu_client_error *error);

/* Recomputes every account. OK with *checks (may be NULL) made; REFUSED with error->check when one
 * is broken. */
WORSEGPU_CLIENT_API int worsegpu_client_validate(worsegpu_client *client, const char *allocator,
                                                 uint64_t *checks,
                                                 struct worsegpu_client_error *error);

/* A page of allocations; `allocations` belongs to the client. */
struct worsegpu_client_list {
    const struct worsegpu_client_allocation *allocations;
    size_t count;
    uint64_t next;
    bool more;
};

/* Live allocations that this client may see, with an id above `after`, at most `limit` (1 to
 * 1,000). */
WORSEGPU_CLIENT_API int worsegpu_client_list(worsegpu_client *client, const char *allocator,
                                             uint64_t after, uint64_t limit,
                                             struct worsegpu_client_list *page,
                                             struct worsegpu_client_error *error);

/* The same for those only whose connection has ended. */
WORSEGPU_CLIENT_API int worsegpu_client_list_orphans(worsegpu_client *client, const char *allocator,
                                                     uint64_t after, uint64_t limit,
                                                     struct worsegpu_client_list *page,
                                                     struct worsegpu_client_error *error);

/* Gives an allocator's GPU another capacity, in bytes, 1 to 2^53 - 1; what is reserved stays
 * reserved. Shared ones: for admins only. *actual, which may be NULL, is the whole configuration as
 * it now stands. */
WORSEGPU_CLIENT_API int worsegpu_client_resize(worsegpu_client *client, const char *allocator,
                                               uint64_t gpu_capacity,
                                               struct worsegpu_client_config *actual,
                                               struct worsegpu_client_error *error);

/* Who the daemon is. Policies and allocators are in worsegpu_client_result, as JSON. */
struct worsegpu_client_info {
    char server[WORSEGPU_CLIENT_NAME_SIZE];
    char version[WORSEGPU_CLIENT_NAME_SIZE];
    uint64_t protocol;
    uint64_t pid;
    uint64_t uptime_seconds;
    uint64_t max_line_bytes; /* of a request with its CR and LF */
    uint64_t max_json_depth;
    uint64_t max_connections;
    uint64_t max_connections_per_user;
    uint64_t max_allocators_per_connection;
    uint64_t max_live_allocations;
    uint64_t max_output_bytes;
    uint64_t max_trace_limit;
};

WORSEGPU_CLIENT_API int worsegpu_client_info(worsegpu_client *client,
                                             struct worsegpu_client_info *info,
                                             struct worsegpu_client_error *error);

/* --------------------------------------------------------------------------------- who is there */

/* Gives this connection a name, for display only: 1 to 64 of A-Z a-z 0-9 . _ -, beginning with a
 * letter or digit. *number, which may be NULL, is the connection's number. */
WORSEGPU_CLIENT_API int worsegpu_client_hello(worsegpu_client *client, const char *name,
                                              uint64_t *number,
                                              struct worsegpu_client_error *error);

/* One connection to the daemon, and what it holds in all allocators. */
struct worsegpu_client_peer {
    uint64_t client;                      /* its number */
    char name[WORSEGPU_CLIENT_NAME_SIZE]; /* as it gave itself; empty: none */
    uint64_t user;                        /* as the system knows it */
    uint64_t group;
    int64_t process; /* as it was when it connected */
    bool you;
    uint64_t connected_us; /* since when, in microseconds since the epoch */
    uint64_t connected_seconds;
    uint64_t allocations; /* live ones */
    uint64_t gpu_bytes;   /* reserved on the fake GPUs */
    uint64_t cpu_bytes;
    uint64_t detached; /* how many of the allocations are */
    uint64_t private_allocators;
    uint64_t requests;
    uint64_t errors; /* answers that were errors */
    uint64_t bytes_in;
    uint64_t bytes_out;
};

/* A page of connections; `peers` belongs to the client. */
struct worsegpu_client_peers {
    const struct worsegpu_client_peer *peers;
    size_t count;
    uint64_t next;
    bool more;
};

/* Connections that this client may see, with a number above `after`, at most `limit` (1 to 1000).
 */
WORSEGPU_CLIENT_API int worsegpu_client_clients(worsegpu_client *client, uint64_t after,
                                                uint64_t limit, struct worsegpu_client_peers *page,
                                                struct worsegpu_client_error *error);

/* ---------------------------------------------------------------------- events as they happen */

/* Has the events of an allocator with a sequence above *after (NULL: those from now on) sent to
 * this client, the retained ones first, until unsubscribe or the end of the connection. They come
 * in between answers; calls keep those that they meet. *next, which may be NULL, is the sequence
 * that sending goes on from.
 */
WORSEGPU_CLIENT_API int worsegpu_client_subscribe(worsegpu_client *client, const char *allocator,
                                                  const uint64_t *after, uint64_t *next,
                                                  struct worsegpu_client_error *error);

/* Has them sent no longer. Those that came before can still be taken. */
WORSEGPU_CLIENT_API int worsegpu_client_unsubscribe(worsegpu_client *client, const char *allocator,
                                                    struct worsegpu_client_error *error);

/* What a subscription brings: an event, or that some were missed. */
struct worsegpu_client_notice {
    char allocator[WORSEGPU_CLIENT_NAME_SIZE]; /* empty when events of several were missed */
    uint64_t missed; /* 0: `event` is one. Else so many were missed here: the daemon did not retain
                        them, or there was no room for them on this side
                        (WORSEGPU_CLIENT_MAX_EVENT_BYTES) */
    struct worsegpu_client_event event;
};

/* Waits for the next event or missed ones, in the order in which they came. OK:
 * worsegpu_client_result gives the event as JSON too (NULL for missed ones). TIMEOUT, NO_MEMORY:
 * call it again, nothing is lost. CLOSED, BAD_REPLY as worsegpu_client_call. Not while answers of
 * queued requests wait (INVALID_ARGUMENT). */
WORSEGPU_CLIENT_API int worsegpu_client_next_event(worsegpu_client *client,
                                                   struct worsegpu_client_notice *notice,
                                                   struct worsegpu_client_error *error);

/* The same without waiting: *taken says whether there was one. Before you wait for the descriptor,
 * take all there are. */
WORSEGPU_CLIENT_API int worsegpu_client_take_event(worsegpu_client *client,
                                                   struct worsegpu_client_notice *notice,
                                                   bool *taken,
                                                   struct worsegpu_client_error *error);

#ifdef __cplusplus
}
#endif

#include "worsegpu_client_rules.h"

#endif
