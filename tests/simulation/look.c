/* What must hold after every step, whatever was asked: accounts, limits, memory. */
#include <inttypes.h>
#include <string.h>

#include "daemon/reply.h"
#include "tests/simulation/world.h"

static bool same_account(const struct account *left, const struct account *right)
{
    return left->gpu_bytes == right->gpu_bytes && left->cpu_bytes == right->cpu_bytes &&
           left->allocations == right->allocations && left->detached == right->detached;
}

static void look_at_account(struct world *world, const char *whose, uint64_t number,
                            const struct account *found, const struct account *wanted)
{
    if (!same_account(found, wanted))
        world_fail(
            world,
            "%s %" PRIu64 " has %" PRIu64 " allocations, %" PRIu64 " + %" PRIu64 " bytes, %" PRIu64
            " detached; not %" PRIu64 ", %" PRIu64 " + %" PRIu64 ", %" PRIu64,
            whose, number, found->allocations, found->gpu_bytes, found->cpu_bytes, found->detached,
            wanted->allocations, wanted->gpu_bytes, wanted->cpu_bytes, wanted->detached);
}

static void look_at_user(struct world *world, uid_t uid)
{
    const struct user *user = users_find(&world->daemon.server.users, uid);
    const struct account nothing = {0};
    struct account wanted = model_account_of_user(&world->model, (uint32_t)uid);
    uint64_t connections = 0;
    for (size_t index = 0; index < world->client_count; index++)
        connections +=
            world->clients[index]->end->connection && world->clients[index]->peer.uid == uid;
    look_at_account(world, "user", uid, user ? &user->account : &nothing, &wanted);
    if ((user ? user->connections : 0) != connections)
        world_fail(world, "user %u has %" PRIu64 " connections, not %" PRIu64, (unsigned)uid,
                   user ? user->connections : 0, connections);
    if (user && user->references != connections + wanted.allocations)
        world_fail(world, "user %u is held %" PRIu64 " times", (unsigned)uid, user->references);
}

static void look_at_allocator(struct world *world, const struct model_allocator *allocator)
{
    struct worsegpu_snapshot snapshot;
    worsegpu_snapshot(allocator->hosted->engine, &snapshot);
    struct account wanted = model_account_of_allocator(allocator);
    struct account found = {.gpu_bytes = snapshot.gpu_used,
                            .cpu_bytes = snapshot.cpu_bytes,
                            .allocations = snapshot.active_allocations,
                            .detached = wanted.detached};
    look_at_account(world, allocator->name, allocator->owner, &found, &wanted);
    if (snapshot.allocate_calls != allocator->count || snapshot.free_calls != allocator->frees ||
        snapshot.oom_failures != allocator->failures)
        world_fail(world,
                   "%s of %" PRIu64 " counts %" PRIu64 " allocations, %" PRIu64 " frees, %" PRIu64
                   " failures; not %zu, %" PRIu64 ", %" PRIu64,
                   allocator->name, allocator->owner, snapshot.allocate_calls, snapshot.free_calls,
                   snapshot.oom_failures, allocator->count, allocator->frees, allocator->failures);
    if (snapshot.gpu_capacity != allocator->capacity)
        world_fail(world, "%s has a capacity of %" PRIu64 ", not %" PRIu64, allocator->name,
                   snapshot.gpu_capacity, allocator->capacity);
}

void look_at_client(struct world *world, const struct world_client *client)
{
    const struct connection *connection = client->end->connection;
    if (connection) {
        struct account wanted = model_account_of_client(&world->model, client->number);
        look_at_account(world, "client", client->number, &connection->account, &wanted);
        size_t unread = connection->output.length + connection->in_flight;
        if (unread > world->limits.output_bytes && unread > world->most_output_bytes)
            world_fail(world, "connection %" PRIu64 " keeps %zu unread bytes", client->number,
                       unread);
    }
    look_at_user(world, client->peer.uid);
    for (const struct model_allocator *allocator = world->model.allocators; allocator;
         allocator = allocator->next)
        if (!allocator->ended && (allocator->owner == 0 || allocator->owner == client->number))
            look_at_allocator(world, allocator);
}

/* The most memory that the daemon may have, from its limits: for each connection its buffers, twice
 * since they double and are copied, for each allocator its trace and what is live and reserved. */
static uint64_t memory_bound(const struct world *world)
{
    uint64_t bound =
        UINT64_C(512) * 1024 + SPARE_BUFFERS_MOST_BYTES + world->model.rule_count * 512;
    for (size_t index = 0; index < world->client_count; index++) {
        const struct connection *connection = world->clients[index]->end->connection;
        if (connection)
            bound += 4096 + 2 * (131072 + 65536 + REPLY_ROOM) +
                     2 * (world->fixed.line_bytes + WORLD_MOST_CHUNK);
    }
    for (const struct model_allocator *allocator = world->model.allocators; allocator;
         allocator = allocator->next)
        bound += 16384 + 256 * allocator->trace_limit + 2048 * allocator->count;
    return bound;
}

void look_at_all(struct world *world)
{
    static const uid_t users[] = {0, 1000, 1001, 1002};
    const struct server *server = &world->daemon.server;
    uint64_t connections = 0;
    size_t subscriptions = 0;
    for (size_t index = 0; index < world->client_count; index++) {
        const struct world_client *client = world->clients[index];
        if (!client->end->connection)
            continue;
        connections++;
        subscriptions += client->subscription_count;
        look_at_client(world, client);
    }
    if (server->connections != connections)
        world_fail(world, "the daemon counts %" PRIu64 " connections, not %" PRIu64,
                   server->connections, connections);
    if (server->subscriptions.count != subscriptions)
        world_fail(world, "the daemon counts %zu subscriptions, not %zu",
                   server->subscriptions.count, subscriptions);
    if (server->rules.count != model_live_rules(&world->model))
        world_fail(world, "the daemon has %zu rules, not %" PRIu64, server->rules.count,
                   model_live_rules(&world->model));
    for (size_t index = 0; index < sizeof(users) / sizeof(users[0]); index++)
        look_at_user(world, users[index]);
    for (struct model_allocator *allocator = world->model.allocators; allocator;
         allocator = allocator->next) {
        const char *broken = NULL;
        if (allocator->ended)
            continue;
        look_at_allocator(world, allocator);
        /* Its own memory is not to fail here. */
        int status = worsegpu_validate(allocator->hosted->engine, NULL, &broken);
        if (status == WORSEGPU_INVARIANT_VIOLATION)
            world_fail(world, "%s of %" PRIu64 " is broken: %s", allocator->name, allocator->owner,
                       broken);
    }
    if (world->chaos.live_bytes > world->peak_bytes)
        world->peak_bytes = world->chaos.live_bytes;
    if (world->chaos.live_bytes > memory_bound(world))
        world_fail(world, "the daemon has %zu bytes of memory, more than %" PRIu64,
                   world->chaos.live_bytes, memory_bound(world));
}
