/* The simulated world; see world.h. */
#include "tests/simulation/world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"

enum {
    CONFIG_SIZE = 8192,
    LOOK_EVERY = 16, /* steps */
    MOST_UNANSWERED = 80
};

/* ------------------------------------------------------------------------------- log and failure
 */

/* FNV-1a, 64 bits (Fowler, Noll and Vo). */
static void add_to_hash(struct world *world, const char *text, size_t length)
{
    for (size_t index = 0; index < length; index++)
        world->hash = (world->hash ^ (unsigned char)text[index]) * UINT64_C(0x100000001b3);
}

void world_log(struct world *world, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    size_t kept = (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1;
    add_to_hash(world, text, kept);
    if (world->verbose)
        printf("%6" PRIu64 "  %s\n", world->step, text);
}

/* How many hex digits of a secret stand here. */
static size_t secret_at(const char *text, size_t left)
{
    size_t length = 0;
    while (length < left && strchr("0123456789abcdef", text[length]) && text[length])
        length++;
    return length;
}

void world_log_line(struct world *world, const char *what, uint64_t number, const char *line,
                    size_t length)
{
    size_t start = 0;
    world_log(world, "%" PRIu64 " %s:", number, what);
    for (size_t index = 0; index < length; index++) {
        if (line[index] != '-')
            continue;
        size_t secret = secret_at(line + index + 1, length - index - 1);
        if (secret != 32)
            continue;
        add_to_hash(world, line + start, index + 1 - start);
        start = index + 1 + secret;
    }
    add_to_hash(world, line + start, length - start);
    if (world->verbose)
        printf("        %.*s\n", (int)length, line);
}

void world_fail(struct world *world, const char *format, ...)
{
    va_list arguments;
    fflush(stdout);
    fprintf(stderr, "seed %" PRIu64 ", step %" PRIu64 ": ", world->seed, world->step);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    fflush(stderr);
    _exit(1);
}

bool world_memory_failed(const struct world *world)
{
    return world->chaos.failures > world->failures_before;
}

/* -------------------------------------------------------------------------------- configuration
 */

/* A limit, or none. */
static uint64_t draw_limit(struct draw *draw, unsigned percent, uint64_t least, uint64_t most)
{
    bool given = draw_chance(draw, percent);
    uint64_t value = draw_between(draw, least, most);
    return given ? value : 0;
}

static void draw_limits(struct draw *draw, struct world_limits *limits)
{
    *limits = (struct world_limits){
        .client_gpu_bytes = draw_limit(draw, 30, 20000, 600000),
        .client_cpu_bytes = draw_limit(draw, 30, 20000, 600000),
        .client_allocations = draw_limit(draw, 30, 2, 40),
        .user_gpu_bytes = draw_limit(draw, 30, 20000, 1000000),
        .user_cpu_bytes = draw_limit(draw, 30, 20000, 1000000),
        .user_allocations = draw_limit(draw, 30, 5, 80),
        .rules = draw_between(draw, 0, 12),
        .allocators_per_connection = draw_between(draw, 0, 4),
        .unread_bytes = draw_size(draw, 16),
        .output_bytes = 131072 + draw_below(draw, 65536),
        .requests_per_turn = draw_size(draw, 6),
        .half_line_seconds = draw_between(draw, 1, 30),
        .trace_visible = draw_chance(draw, 30),
    };
}

static size_t append(char *text, size_t length, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static size_t append(char *text, size_t length, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(text + length, CONFIG_SIZE - length, format, arguments);
    va_end(arguments);
    if (more < 0 || length + (size_t)more >= CONFIG_SIZE)
        abort();
    return length + (size_t)more;
}

/* Writes the whole file anew; what only a reload changes of the GPUs is drawn again. */
static void write_config(struct world *world, const struct world_limits *limits)
{
    char text[CONFIG_SIZE];
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"max-client-gpu-bytes", limits->client_gpu_bytes},
        {"max-client-cpu-bytes", limits->client_cpu_bytes},
        {"max-client-allocations", limits->client_allocations},
        {"max-user-gpu-bytes", limits->user_gpu_bytes},
        {"max-user-cpu-bytes", limits->user_cpu_bytes},
        {"max-user-allocations", limits->user_allocations},
        {"max-rules", limits->rules},
        {"max-allocators-per-connection", limits->allocators_per_connection},
        {"max-unread-bytes", limits->unread_bytes},
        {"max-output-bytes", limits->output_bytes},
        {"max-requests-per-turn", limits->requests_per_turn},
        {"max-half-line-seconds", limits->half_line_seconds},
        {"max-line-bytes", world->fixed.line_bytes},
        {"max-live-allocations", world->fixed.live_allocations},
        {"max-connections", 64},
    };
    size_t length = 0;
    for (size_t index = 0; index < sizeof(numbers) / sizeof(numbers[0]); index++)
        length =
            append(text, length, "%s = %" PRIu64 "\n", numbers[index].key, numbers[index].value);
    length = append(text, length, "trace-visibility = %s\n", limits->trace_visible ? "all" : "own");
    for (size_t index = 0; index < world->gpu_count; index++) {
        const struct world_gpu *gpu = &world->gpus[index];
        length = append(text, length,
                        "[gpu%zu]\npolicy = %s\nseed = %" PRIu64 "\ncapacity = %" PRIu64
                        "\nhost-capacity = %" PRIu64 "\ntrace-limit = %" PRIu64
                        "\nfallback-on-oom = %s\nmax-request-bytes = %" PRIu64 "\n",
                        index, gpu->policy, gpu->seed, gpu->capacity, gpu->host_capacity,
                        gpu->trace_limit, gpu->fallback ? "true" : "false", gpu->max_request);
    }
    if (ftruncate(world->config, 0) != 0 ||
        pwrite(world->config, text, length, 0) != (ssize_t)length)
        world_fail(world, "the configuration cannot be written");
}

static void draw_changing(struct draw *draw, struct world_gpu *gpu)
{
    gpu->capacity = draw_between(draw, 65536, 1048576);
    gpu->host_capacity = draw_limit(draw, 30, 20000, 1000000);
}

static void draw_gpu(struct draw *draw, struct world_gpu *gpu)
{
    size_t policies = 0;
    while (worsegpu_policy_name(policies))
        policies++;
    gpu->policy = worsegpu_policy_name(draw_chance(draw, 30) ? 0 : draw_below(draw, policies));
    gpu->seed = draw_below(draw, 1000);
    gpu->trace_limit = draw_chance(draw, 80) ? draw_size(draw, 8) : 0;
    gpu->fallback = draw_chance(draw, 60);
    gpu->max_request = draw_chance(draw, 30) ? draw_between(draw, 1000, 200000) : 4194304;
    draw_changing(draw, gpu);
}

/* Takes what stands in the file into the model. */
static void take_config(struct world *world)
{
    struct model_allocator *allocator = world->model.allocators;
    for (size_t index = 0; index < world->gpu_count; index++, allocator = allocator->next) {
        allocator->capacity = world->gpus[index].capacity;
        allocator->host_capacity = world->gpus[index].host_capacity;
    }
}

static void make_model(struct world *world)
{
    struct hosted *hosted = TAILQ_FIRST(&world->daemon.server.shared);
    for (size_t index = 0; index < world->gpu_count; index++) {
        const struct world_gpu *gpu = &world->gpus[index];
        struct model_allocator *allocator = model_add_allocator(&world->model, hosted->name, 0);
        allocator->hosted = hosted;
        allocator->is_reference = strcmp(gpu->policy, "reference") == 0;
        allocator->is_worse = strcmp(gpu->policy, "worse") == 0;
        allocator->fallback = gpu->fallback;
        allocator->max_request = gpu->max_request;
        allocator->trace_limit = gpu->trace_limit;
        hosted = TAILQ_NEXT(hosted, link);
    }
    take_config(world);
}

static void reload_config(struct world *world)
{
    struct world_limits limits;
    struct world_gpu before[WORLD_MOST_GPUS];
    memcpy(before, world->gpus, sizeof(before));
    draw_limits(&world->draw, &limits);
    for (size_t index = 0; index < world->gpu_count; index++)
        draw_changing(&world->draw, &world->gpus[index]);
    write_config(world, &limits);
    world->failures_before = world->chaos.failures;
    bool taken = memory_daemon_reload(&world->daemon);
    world_log(world, "the configuration is read again: %s", taken ? "taken" : "left");
    if (!taken && !world_memory_failed(world))
        world_fail(world, "the configuration is not taken: %s", world->daemon.log_text);
    if (!taken) {
        memcpy(world->gpus, before, sizeof(before));
        return;
    }
    /* A limit that is lowered takes nothing away from anybody. */
    if (limits.output_bytes < world->limits.output_bytes)
        world->most_output_bytes = world->limits.output_bytes;
    world->limits = limits;
    take_config(world);
}

/* ------------------------------------------------------------------------------------- the steps
 */

static struct world_client *any_client(struct world *world)
{
    if (world->client_count == 0)
        return NULL;
    return world->clients[draw_below(&world->draw, world->client_count)];
}

static void release_gone(struct world *world)
{
    for (size_t index = world->client_count; index-- > 0;)
        if (client_is_gone(world->clients[index]))
            client_release(world, index);
}

static void flush(struct world *world, struct world_client *client)
{
    if (client->end->connection)
        client_flush(world, client);
    if (!client->sleepy)
        client_read(world, client, SIZE_MAX);
}

static void serve(struct world *world, struct world_client *client, size_t most)
{
    if (client->end->connection)
        client_take_in(world, client, most);
    flush(world, client);
}

static void reap(struct world *world)
{
    if (!memory_daemon_reap(&world->daemon))
        return;
    world_log(world, "the dead are reaped");
    model_reap(&world->model);
    judge_traces(world);
}

static void turn(struct world *world, size_t most)
{
    size_t first = (size_t)draw_below(&world->draw, world->client_count + 1);
    for (size_t index = 0; index < world->client_count; index++)
        serve(world, world->clients[(first + index) % world->client_count], most);
    reap(world);
    client_serve_events(world);
}

static void let_time_pass(struct world *world, uint64_t milliseconds)
{
    size_t lengths[WORLD_MOST_CLIENTS] = {0};
    world_log(world, "%" PRIu64 " ms go by", milliseconds);
    world->failures_before = world->chaos.failures;
    for (size_t index = 0; index < world->client_count; index++)
        if (world->clients[index]->end->connection)
            lengths[index] = world->clients[index]->end->connection->output.length;
    memory_daemon_wait(&world->daemon, milliseconds);
    for (size_t index = 0; index < world->client_count; index++)
        if (world->clients[index]->end->connection)
            client_expired(world, world->clients[index], lengths[index]);
}

static uint64_t draw_time(struct draw *draw)
{
    switch (draw_below(draw, 10)) {
    case 0:
        return draw_between(draw, 1000, 40000);
    case 1:
    case 2:
    case 3:
        return draw_between(draw, 100, 3000);
    default:
        return draw_between(draw, 1, 15);
    }
}

static void fail_memory(struct world *world)
{
    uint64_t at = draw_between(&world->draw, 1, 30);
    bool for_good = draw_chance(&world->draw, 30);
    world_log(world, "memory fails at request %" PRIu64 "%s", at, for_good ? " for good" : "");
    chaos_arm(&world->chaos, at, for_good);
    world->memory_fails = true;
    world->mends_at = world->step + draw_between(&world->draw, 1, 10);
}

static void mend_memory(struct world *world)
{
    world_log(world, "memory works again");
    chaos_arm(&world->chaos, 0, false);
    world->memory_fails = false;
}

static size_t draw_chunk(struct draw *draw)
{
    return (size_t)draw_size(draw, draw_chance(draw, 30) ? 16 : 9);
}

/* One thing that a client does, or that happens to it. */
static void step_client(struct world *world, struct world_client *client, uint64_t what)
{
    size_t unanswered = 0;
    const struct asked *asked;
    TAILQ_FOREACH(asked, &client->asked, link)
    {
        unanswered++;
    }
    bool talks = client->end->connection && !client->shut;
    if (what < 40)
        serve(world, client, draw_chunk(&world->draw));
    else if (what < 68 && talks && unanswered < MOST_UNANSWERED)
        client_send(world, client);
    else if (what < 76)
        client_read(world, client, (size_t)draw_size(&world->draw, 13));
    else if (what < 77 && talks)
        client_shut(world, client);
    else if (what < 78 && client->end->connection)
        client_hang_up(world, client);
    else
        flush(world, client);
}

static void step(struct world *world)
{
    struct draw *draw = &world->draw;
    uint64_t what = draw_below(draw, 100);
    struct world_client *client = any_client(world);
    world->failures_before = world->chaos.failures;
    if (world->memory_fails && world->step >= world->mends_at)
        mend_memory(world);
    if (!client || (what < 6 && world->client_count < world->most_clients)) {
        client_come(world);
    } else if (what < 84) {
        step_client(world, client, draw_below(draw, 80));
    } else if (what < 90) {
        turn(world, draw_chunk(draw));
    } else if (what < 93) {
        client_serve_events(world);
    } else if (what < 95) {
        reap(world);
    } else if (what < 98) {
        let_time_pass(world, draw_time(draw));
    } else if (draw_chance(draw, 40)) {
        reload_config(world);
    } else if (!world->memory_fails) {
        fail_memory(world);
    }
    release_gone(world);
    if (world->step % LOOK_EVERY == 0)
        look_at_all(world);
}

/* ---------------------------------------------------------------------------------------- the end
 */

/* Whether anything is still to come for somebody. */
static bool is_busy(const struct world *world, bool *delayed)
{
    bool busy = server_must_reap(&world->daemon.server) ||
                !TAILQ_EMPTY(&world->daemon.server.subscriptions.waiting);
    *delayed = false;
    for (size_t index = 0; index < world->client_count; index++) {
        const struct memory_client *end = world->clients[index]->end;
        if (!end->connection)
            continue;
        *delayed = *delayed || connection_is_delayed(end->connection);
        busy = busy || end->writing.data || end->connection->output.length > 0 ||
               connection_wants_turn(end->connection) ||
               (end->sent.length > end->sent.start && connection_wants_input(end->connection)) ||
               (end->shut && end->sent.length == end->sent.start && !end->connection->input_ended);
    }
    return busy;
}

static void tell_unrest(struct world *world)
{
    for (size_t index = 0; index < world->client_count; index++) {
        const struct memory_client *end = world->clients[index]->end;
        const struct connection *connection = end->connection;
        if (connection)
            fprintf(stderr,
                    "connection %" PRIu64 ": %zu bytes to send, %zu to tell, in flight %zu; waits "
                    "for %s%s%s, wants%s%s\n",
                    connection->number, end->sent.length - end->sent.start,
                    connection->output.length, connection->in_flight,
                    connection_is_delayed(connection) ? "a delay" : "nothing",
                    end->shut ? ", shut" : "", connection->input_ended ? ", ended" : "",
                    connection_wants_turn(connection) ? " a turn" : "",
                    connection_wants_input(connection) ? " input" : "");
    }
    world_fail(world, "it never comes to rest: %s waits",
               TAILQ_EMPTY(&world->daemon.server.subscriptions.waiting) ? "somebody"
                                                                        : "a subscriber");
}

/* Everybody reads, and all that was asked is carried out, delays and all. */
static void drain(struct world *world)
{
    bool delayed = true;
    bool busy = true;
    for (unsigned rounds = 0; busy || delayed; rounds++) {
        if (rounds > 100000)
            tell_unrest(world);
        turn(world, WORLD_MOST_CHUNK);
        release_gone(world);
        busy = is_busy(world, &delayed);
        if (!busy && delayed)
            let_time_pass(world, 1000);
    }
}

static void judge_drained(struct world *world)
{
    for (size_t index = 0; index < world->client_count; index++) {
        const struct world_client *client = world->clients[index];
        const struct asked *asked;
        TAILQ_FOREACH(asked, &client->asked, link)
        {
            if (asked->kind != ASKED_BLANK)
                world_fail(world, "client %" PRIu64 " never gets an answer to %s", client->number,
                           asked->id);
        }
        /* Who has shut its side gets none. */
        for (size_t at = 0; at < client->subscription_count && !client->shut; at++) {
            const struct world_subscription *subscription = &client->subscriptions[at];
            if (subscription->sent < subscription->allocator->events.count)
                world_fail(world,
                           "client %" PRIu64 " got the events of %s up to %" PRIu64 " of %zu",
                           client->number, subscription->allocator->name, subscription->sent,
                           subscription->allocator->events.count);
        }
    }
}

/* The daemon stops: it reads no more, and answers what it has read. */
static void stop(struct world *world)
{
    world_log(world, "the daemon stops");
    world->stopping = true;
    for (size_t index = 0; index < world->client_count; index++) {
        struct connection *connection = world->clients[index]->end->connection;
        if (!connection)
            continue;
        connection_end_input(connection);
        connection_hurry(connection);
        world->clients[index]->subscription_count = 0;
    }
    for (unsigned rounds = 0; world->client_count > 0; rounds++) {
        if (rounds > 100000)
            world_fail(world, "client %" PRIu64 " is never let go", world->clients[0]->number);
        turn(world, WORLD_MOST_CHUNK);
        release_gone(world);
    }
}

static void finish(struct world *world)
{
    if (world->memory_fails)
        mend_memory(world);
    for (size_t index = 0; index < world->client_count; index++) {
        world->clients[index]->sleepy = false;
        world->clients[index]->end->window = 0;
    }
    if (draw_chance(&world->draw, 25)) {
        stop(world);
    } else {
        drain(world);
        let_time_pass(world, SUBSCRIPTIONS_REST_MS); /* subscribers may rest so long */
        drain(world);
        judge_drained(world);
        look_at_all(world);
    }
    while (world->client_count > 0) {
        struct world_client *client = any_client(world);
        if (client->end->connection)
            client_hang_up(world, client);
        client_read(world, client, SIZE_MAX);
        release_gone(world);
    }
    reap(world);
    look_at_all(world);
}

static void start(struct world *world)
{
    char words[64];
    struct draw *draw = &world->draw;
    draw_limits(draw, &world->limits);
    world->fixed.line_bytes = draw_between(draw, 1024, 4096);
    world->fixed.live_allocations = draw_between(draw, 10, 300);
    world->most_clients = draw_between(draw, 2, WORLD_MOST_CLIENTS);
    world->gpu_count = (size_t)draw_between(draw, 1, WORLD_MOST_GPUS);
    for (size_t index = 0; index < world->gpu_count; index++)
        draw_gpu(draw, &world->gpus[index]);
    world->config = memfd_create("simulation", MFD_CLOEXEC);
    if (world->config < 0)
        world_fail(world, "no file without a name can be made");
    write_config(world, &world->limits);
    snprintf(words, sizeof(words), "--config=/proc/self/fd/%d", world->config);
    chaos_init(&world->chaos);
    memory_daemon_start(&world->daemon, &world->chaos, words);
    strict_json_init(&world->strict, memory_system());
    make_model(world);
}

static void end(struct world *world)
{
    memory_daemon_end(&world->daemon);
    chaos_hook_cjson(NULL);
    if (world->chaos.live_pieces > 0)
        world_fail(world, "%zu pieces of memory are left, %zu bytes", world->chaos.live_pieces,
                   world->chaos.live_bytes);
    strict_json_release(&world->strict);
    model_release(&world->model);
    close(world->config);
}

static void run_steps(struct world *world, uint64_t seed, uint64_t steps, bool verbose)
{
    memset(world, 0, sizeof(*world));
    world->seed = seed;
    world->steps = steps;
    world->verbose = verbose;
    world->hash = UINT64_C(0xcbf29ce484222325);
    draw_init(&world->draw, seed);
    start(world);
    while (world->step < steps) {
        world->step++;
        step(world);
    }
}

void world_run(struct world *world, uint64_t seed, uint64_t steps, bool verbose)
{
    run_steps(world, seed, steps, verbose);
    finish(world);
    end(world);
}

void world_run_wrong(struct world *world, uint64_t seed, uint64_t steps, bool verbose)
{
    run_steps(world, seed, steps, verbose);
    world_fail(world, "as was wanted (%016" PRIx64 ")", world->hash);
}
