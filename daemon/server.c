/* What all connections share; see server.h. */
#include "daemon/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "daemon/rule_request.h"

/* Whether a seed on the command line is shown as a number: written as JSON writes one, and exact in
 * every reader. */
static bool seed_is_plain(const char *seed)
{
    size_t length = strlen(seed);
    if (length > 17 || !strict_json_is_integer(seed, length))
        return false;
    long long value = strtoll(seed, NULL, 10);
    return value >= -PROTO_MAX_SAFE_INTEGER && value <= PROTO_MAX_SAFE_INTEGER;
}

void server_config(const struct server *server, struct worsegpu_config *config)
{
    worsegpu_config_default(config);
    config->max_live_allocations = server->options->max_live_allocations;
    config->single_threaded = true;
    config->memory = server->memory;
}

int server_check_config(const struct worsegpu_config *config, const char **field, char *message,
                        size_t message_size)
{
    char problem[WORSEGPU_PROBLEM_SIZE];
    const char *expected;
    int status = worsegpu_config_check(config, field, &expected);
    if (status == WORSEGPU_OK)
        return status;
    if (strcmp(*field, "knobs") == 0) {
        worsegpu_knobs_check(config, problem);
        snprintf(message, message_size, "%s", problem);
        return status;
    }
    if (strcmp(*field, "policy") != 0) {
        snprintf(message, message_size, "%s must be %s", *field, expected);
        return status;
    }
    size_t length = (size_t)snprintf(message, message_size, "policy must be one of:");
    for (size_t index = 0; worsegpu_policy_name(index) && length < message_size; index++)
        length += (size_t)snprintf(message + length, message_size - length, "%s %s",
                                   index ? "," : "", worsegpu_policy_name(index));
    return status;
}

/* One shared allocator, as its options describe it. */
static int make_shared(struct server *server, const struct gpu_options *options, char *message,
                       size_t message_size)
{
    _Static_assert(sizeof(options->name) == ALLOCATOR_NAME_SIZE, "a GPU's name names an allocator");
    struct worsegpu_config config;
    server_config(server, &config);
    config.policy = options->policy;
    config.knobs = options->knobs;
    config.gpu_capacity = options->gpu_capacity;
    config.gpu_probability = options->gpu_probability;
    config.forget_probability = options->forget_probability;
    config.fallback_on_oom = options->fallback_on_oom;
    config.max_request_bytes = options->max_request_bytes;
    config.trace_limit = options->trace_limit;
    config.seed = *options->seed ? options->seed : NULL;
    worsegpu_scan_from_name(options->scan, &config.scan);
    const char *field;
    size_t name = (size_t)snprintf(message, message_size, "%s: ", options->name);
    int status = server_check_config(&config, &field, message + name, message_size - name);
    if (status != WORSEGPU_OK)
        return status;
    struct hosted *hosted;
    status = hosted_create(server->memory, options->name, strlen(options->name), 0, NULL, &config,
                           &hosted);
    if (status != WORSEGPU_OK) {
        if (status == WORSEGPU_NO_ENTROPY)
            snprintf(message, message_size, "the system gives no random bytes");
        else
            snprintf(message, message_size,
                     "not enough memory for %s: lower --trace-limit or raise --max-memory-bytes",
                     options->name);
        return status;
    }
    hosted->host_capacity = options->host_capacity;
    hosted->seed_is_text = config.seed && !seed_is_plain(config.seed);
    TAILQ_INSERT_TAIL(&server->shared, hosted, link);
    return WORSEGPU_OK;
}

static int make_all_shared(struct server *server, char *message, size_t message_size)
{
    const struct options *options = server->options;
    int status = WORSEGPU_OK;
    for (size_t index = 0; index < options->gpu_count && status == WORSEGPU_OK; index++)
        status = make_shared(server, &options->gpus[index], message, message_size);
    return status;
}

void server_follow_options(struct server *server)
{
    server->trace_visible_to_all = strcmp(server->options->trace_visibility, "all") == 0;
}

int server_init(struct server *server, const struct options *options,
                const struct worsegpu_memory *memory, struct log *log, struct moment now,
                char *message, size_t message_size)
{
    memset(server, 0, sizeof(*server));
    server->options = options;
    server->memory = memory;
    server->log = log;
    server->started = now;
    server->max_connections = options->max_connections;
    request_decoder_init(&server->decoder, memory);
    users_init(&server->users, memory);
    lease_pool_init(&server->leases, &server->users, memory);
    rules_init(&server->rules);
    subscriptions_init(&server->subscriptions, memory);
    RB_INIT(&server->clients);
    TAILQ_INIT(&server->shared);
    TAILQ_INIT(&server->graveyard);
    TAILQ_INIT(&server->endings);
    server_follow_options(server);
    int status = WORSEGPU_NO_MEMORY;
    if (spare_buffers_init(&server->spares, memory) == 0)
        status = make_all_shared(server, message, message_size);
    else
        snprintf(message, message_size, "not enough memory");
    for (size_t index = 0; status == WORSEGPU_OK && index < options->inject_count; index++)
        status = rule_request_add_text(server, options->inject[index], message, message_size);
    if (status != WORSEGPU_OK)
        server_release(server);
    return status;
}

static void destroy_all(struct server *server, struct hosted_list *list)
{
    struct hosted *hosted;
    while ((hosted = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, hosted, link);
        hosted_destroy(server->memory, &server->leases, hosted);
    }
}

void server_release(struct server *server)
{
    struct holding *holding;
    while ((holding = TAILQ_FIRST(&server->endings)) != NULL) {
        TAILQ_REMOVE(&server->endings, holding, link);
        memory_release_array(server->memory, holding, 1, sizeof(*holding));
    }
    destroy_all(server, &server->graveyard);
    destroy_all(server, &server->shared);
    rules_release(&server->rules, server->memory);
    subscriptions_release(&server->subscriptions);
    lease_pool_release(&server->leases);
    request_decoder_release(&server->decoder);
    spare_buffers_release(&server->spares);
}

/* Frees what an ended connection held in a shared allocator, through the policy's own free. */
static size_t reap_holding(struct server *server, struct holding *holding, size_t budget,
                           struct moment now)
{
    size_t done = 0;
    struct lease *lease;
    while (done < budget && (lease = TAILQ_FIRST(&holding->leases)) != NULL) {
        struct worsegpu_handle handle = lease->handle;
        bool detached = lease->detached;
        lease_leave(lease);
        if (!detached) {
            lease_pool_give(&server->leases, lease);
            worsegpu_free(holding->hosted->engine, &handle, holding->client, now.wall_us, NULL);
        }
        done++;
    }
    return done;
}

bool server_reap(struct server *server, struct moment now)
{
    size_t budget = REAP_PER_TURN;
    struct holding *holding;
    while (budget && (holding = TAILQ_FIRST(&server->endings)) != NULL) {
        budget -= reap_holding(server, holding, budget, now);
        if (!TAILQ_EMPTY(&holding->leases))
            return true;
        TAILQ_REMOVE(&server->endings, holding, link);
        memory_release_array(server->memory, holding, 1, sizeof(*holding));
    }
    struct hosted *hosted;
    while (budget && (hosted = TAILQ_FIRST(&server->graveyard)) != NULL) {
        budget -= hosted_drain(&server->leases, hosted, budget);
        if (!TAILQ_EMPTY(&hosted->holding.leases))
            return true;
        TAILQ_REMOVE(&server->graveyard, hosted, link);
        hosted_destroy(server->memory, &server->leases, hosted);
    }
    return server_must_reap(server);
}

bool server_must_reap(const struct server *server)
{
    return !TAILQ_EMPTY(&server->endings) || !TAILQ_EMPTY(&server->graveyard);
}
