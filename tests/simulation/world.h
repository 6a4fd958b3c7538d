/* The simulated world: a daemon in memory, its clients, and the model that knows what must be.
 *
 * Everything that happens is drawn from one seed, in steps: a client comes, sends, reads or dies, a
 * connection takes in some bytes, time goes on, the configuration is read again, memory fails. Each
 * answer is judged at the moment when it is made, before it is written anywhere: so the model sees
 * all requests in the order in which the daemon carried them out.
 *
 * What does not hold ends the program, with the step and the way to see it again. */
#ifndef WORLD_H
#define WORLD_H

#include <stdarg.h>
#include <stdio.h>

#include "tests/simulation/asked.h"
#include "tests/simulation/draw.h"
#include "tests/simulation/model.h"
#include "tests/support/memory_daemon.h"

enum {
    WORLD_MOST_CLIENTS = 48, /* at once */
    WORLD_MOST_SUBSCRIPTIONS = 12,
    WORLD_MOST_GPUS = 3,
    WORLD_MOST_CHUNK = 65536, /* that a connection takes at once */
    WORLD_STEPS = 400         /* of a run, when nobody says otherwise */
};

/* What the model knows of a subscription. */
struct world_subscription {
    struct model_allocator *allocator;
    uint64_t sent;
};

struct world_client {
    struct memory_client *end; /* its end of the pipe */
    uint64_t number;           /* of its connection */
    struct peer peer;
    struct asked_list asked;   /* sent and not answered */
    struct world_bytes tapped; /* what the daemon said and the client has not read */
    uint64_t sent_bytes;       /* so many in all */
    uint64_t fed_bytes;        /* so many of them has the connection taken */
    uint64_t whole_bytes;      /* of those, the ones up to the last line end */
    uint64_t half_since_ms;    /* when its line now half there began */
    bool in_half;
    bool excused;      /* since then it could not be read on for a while */
    bool shut;         /* it sends nothing more */
    bool goodbye;      /* the daemon may end the connection: it said so, or a rule did */
    uint64_t executed; /* requests that were carried out in this turn ... */
    uint64_t judged;   /* ... and that were judged */
    bool sleepy;       /* it seldom reads */
    bool unruly;       /* it sends what is wrong */
    uint64_t next_id;
    uint64_t next_tag;
    struct world_subscription subscriptions[WORLD_MOST_SUBSCRIPTIONS];
    size_t subscription_count;
};

/* The limits that a reload may change, as they now are. */
struct world_limits {
    uint64_t client_gpu_bytes;
    uint64_t client_cpu_bytes;
    uint64_t client_allocations;
    uint64_t user_gpu_bytes;
    uint64_t user_cpu_bytes;
    uint64_t user_allocations;
    uint64_t rules;
    uint64_t allocators_per_connection;
    uint64_t unread_bytes;
    uint64_t output_bytes;
    uint64_t requests_per_turn;
    uint64_t half_line_seconds;
    bool trace_visible;
};

/* And those that may not. */
struct world_fixed {
    uint64_t line_bytes;
    uint64_t live_allocations;
};

/* A shared allocator, as the configuration has it. */
struct world_gpu {
    const char *policy;
    uint64_t seed;
    uint64_t capacity;
    uint64_t host_capacity;
    uint64_t trace_limit;
    uint64_t max_request;
    bool fallback;
};

struct world {
    uint64_t seed;
    uint64_t step;
    uint64_t steps;
    bool verbose;
    uint64_t hash; /* of all that was logged */
    struct draw draw;
    int config; /* a file without a name that holds the daemon's configuration */
    struct chaos chaos;
    struct memory_daemon daemon;
    struct strict_json strict;
    struct model model;
    struct world_limits limits;
    uint64_t most_output_bytes; /* that were allowed, before a reload */
    struct world_fixed fixed;
    struct world_gpu gpus[WORLD_MOST_GPUS];
    size_t gpu_count;
    uint64_t most_clients;
    struct world_client *clients[WORLD_MOST_CLIENTS];
    size_t client_count;
    uint64_t came;            /* clients in all */
    uint64_t answers;         /* that were judged */
    uint64_t events;          /* that subscribers got */
    uint64_t peak_bytes;      /* the most memory that the daemon had */
    bool stopping;            /* the daemon is: it reads no more */
    bool memory_fails;        /* it is armed to fail */
    uint64_t mends_at;        /* the step at which it works again */
    uint64_t failures_before; /* of memory, when the connection's turn began */
};

/* One whole run. */
void world_run(struct world *world, uint64_t seed, uint64_t steps, bool verbose);

/* The same, but its last step is said to be wrong: to see what happens then. */
void world_run_wrong(struct world *world, uint64_t seed, uint64_t steps, bool verbose);

/* A line of the log: it counts for the hash, and is printed when that was asked for. */
__attribute__((format(printf, 2, 3))) void world_log(struct world *world, const char *format, ...);

/* The same for one line of JSON, whose secrets are left out. */
void world_log_line(struct world *world, const char *what, uint64_t number, const char *line,
                    size_t length);

/* Something does not hold. */
__attribute__((format(printf, 2, 3), noreturn)) void world_fail(struct world *world,
                                                                const char *format, ...);

/* Whether some memory failed in the connection's turn. */
bool world_memory_failed(const struct world *world);

/* The steps of clients, in clients.c. */
void client_come(struct world *world);
void client_send(struct world *world, struct world_client *client);
void client_take_in(struct world *world, struct world_client *client, size_t most);
void client_flush(struct world *world, struct world_client *client);
void client_read(struct world *world, struct world_client *client, size_t most);
void client_shut(struct world *world, struct world_client *client);
void client_hang_up(struct world *world, struct world_client *client);
void client_expired(struct world *world, struct world_client *client, size_t output_before);
void client_serve_events(struct world *world);
bool client_is_gone(const struct world_client *client);
void client_release(struct world *world, size_t index);

/* Judges, in judge.c and judge_memory.c. */
void judge_line(struct world *world, struct world_client *client, const char *line, size_t length);
void judge_rest(struct world *world, struct world_client *client);
void judge_event(struct world *world, struct world_client *client, const char *line);
void judge_traces(struct world *world);

/* Looks after a step, in look.c. */
void look_at_client(struct world *world, const struct world_client *client);
void look_at_all(struct world *world);

#endif
