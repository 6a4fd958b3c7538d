/* Who has events sent as they happen; see subscriptions.h. */
#include "daemon/subscriptions.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "daemon/handlers.h"
#include "proto/json_pieces.h"

enum {
    EVENTS_AT_ONCE = 16,  /* taken from the engine at a time */
    SHORTEST_LINE = 128,  /* an event is never shorter, with all around it */
    LONGEST_MISSED = 256, /* the line that tells how many were missed */
    LINES_IN_PAGE = SUBSCRIPTIONS_PAGE_BYTES / SHORTEST_LINE
};

enum subscription_state {
    SUBSCRIPTION_IDLE,    /* in its topic's list: it has everything */
    SUBSCRIPTION_WAITING, /* in the queue */
    SUBSCRIPTION_PARKED   /* in no list: its connection has no room */
};

struct subscription {
    TAILQ_ENTRY(subscription) link; /* in its connection's */
    TAILQ_ENTRY(subscription) turn; /* in the queue, or in its topic's */
    struct connection *connection;
    struct subscription_topic *topic;
    uint64_t sent; /* the sequence up to which it has been sent or told of everything */
    enum subscription_state state;
};

/* An allocator with subscribers. One for each shared one that has any; that of a private one has
 * its owner alone. */
struct subscription_topic {
    TAILQ_ENTRY(subscription_topic) link; /* of a shared one */
    struct hosted *hosted;
    struct subscription_list idle;
    size_t subscribers;
    uint64_t known;          /* the newest sequence when they were last woken */
    bool news;               /* there is more now, for when they have rested */
    uint64_t rests_until_ms; /* of a shared one */
};

/* Lines of consecutive events of one allocator, as one user may see them. */
struct subscription_page {
    const struct hosted *hosted; /* NULL: the page is empty */
    uid_t uid;
    bool visible_to_all; /* as it was when they were written */
    uint64_t first;      /* sequence of the first line */
    size_t count;
    uint64_t used; /* when, by the clock of all pages */
    uint32_t ends[LINES_IN_PAGE];
    char lines[SUBSCRIPTIONS_PAGE_BYTES];
};

void subscriptions_init(struct subscriptions *subscriptions, const struct worsegpu_memory *memory)
{
    memset(subscriptions, 0, sizeof(*subscriptions));
    subscriptions->memory = memory;
    TAILQ_INIT(&subscriptions->topics);
    TAILQ_INIT(&subscriptions->waiting);
}

/* --------------------------------------------------------------------------------------- pages */

void subscriptions_release(struct subscriptions *subscriptions)
{
    for (size_t index = 0; index < SUBSCRIPTIONS_PAGES; index++) {
        memory_release_array(subscriptions->memory, subscriptions->pages[index], 1,
                             sizeof(*subscriptions->pages[index]));
        subscriptions->pages[index] = NULL;
    }
}

static struct subscription_page *new_page(struct subscriptions *subscriptions, size_t index)
{
    struct subscription_page *page = memory_allocate_array(subscriptions->memory, 1, sizeof(*page));
    if (!page)
        return NULL;
    page->hosted = NULL;
    page->used = 0;
    subscriptions->pages[index] = page;
    return page;
}

static size_t page_length(const struct subscription_page *page)
{
    return page->count ? page->ends[page->count - 1] : 0;
}

static bool page_has_room(const struct subscription_page *page)
{
    return page->count < LINES_IN_PAGE &&
           SUBSCRIPTIONS_PAGE_BYTES - page_length(page) >= SUBSCRIPTIONS_LONGEST_LINE;
}

/* The page that has the event, or else the one that it comes next on, or else the least recently
 * used one, empty. There is always one: the first is taken with the first subscription. */
static struct subscription_page *page_for(struct server *server, const struct hosted *hosted,
                                          uid_t uid, uint64_t sequence)
{
    struct subscriptions *subscriptions = &server->subscriptions;
    struct subscription_page *oldest = NULL;
    struct subscription_page *next = NULL;
    size_t index = 0;
    for (; index < SUBSCRIPTIONS_PAGES && subscriptions->pages[index]; index++) {
        struct subscription_page *page = subscriptions->pages[index];
        if (!oldest || page->used < oldest->used)
            oldest = page;
        if (page->hosted != hosted || page->uid != uid || sequence < page->first ||
            page->visible_to_all != server->trace_visible_to_all)
            continue;
        if (sequence - page->first < page->count)
            return page;
        if (sequence - page->first == page->count && page_has_room(page))
            next = page;
    }
    if (next)
        return next;
    struct subscription_page *page =
        index < SUBSCRIPTIONS_PAGES ? new_page(subscriptions, index) : NULL;
    if (!page)
        page = oldest; /* also when there is no memory for another */
    assert(page != NULL);
    page->hosted = hosted;
    page->uid = uid;
    page->visible_to_all = server->trace_visible_to_all;
    page->first = sequence;
    page->count = 0;
    return page;
}

static void begin_line(struct json_writer *out, const struct hosted *hosted)
{
    static const char head[] =
        "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"allocator\":";
    char *at = json_writer_room(out, sizeof(head) - 1);
    if (at)
        json_writer_wrote(out, JSON_PIECE(at, head), false);
    json_writer_text(out, hosted->name);
}

static void end_line(struct json_writer *out)
{
    json_writer_end_object(out);
    json_writer_end_object(out);
    json_writer_newline(out);
}

/* Writes the events from `sequence` on, which comes next on the page, as far as they fit. */
static void fill_page(struct server *server, struct subscription_page *page,
                      const struct subscription *subscription, uint64_t sequence)
{
    struct hosted *hosted = subscription->topic->hosted;
    struct worsegpu_event events[EVENTS_AT_ONCE];
    bool more = true;
    struct json_writer out;
    json_writer_init(&out, server->memory, sizeof(page->lines));
    out.data = page->lines;
    out.capacity = sizeof(page->lines);
    out.length = page_length(page);
    while (more && page_has_room(page)) {
        size_t count;
        worsegpu_trace(hosted->engine, sequence - 1, events, EVENTS_AT_ONCE, &count, &more, NULL);
        for (size_t index = 0; index < count && page_has_room(page); index++) {
            begin_line(&out, hosted);
            json_writer_key(&out, "event");
            write_event(server, &subscription->connection->peer, &events[index], &out);
            end_line(&out);
            assert(out.failure == JSON_WRITER_FINE);
            page->ends[page->count++] = (uint32_t)out.length;
            sequence++;
        }
    }
}

/* The lines of consecutive events, the first of which is `sequence` and retained, as many as are on
 * one page and fit into `room`. How many; their bytes. */
static size_t lines_from(struct server *server, const struct subscription *subscription,
                         uint64_t sequence, size_t room, const char **lines, size_t *length)
{
    uid_t uid = subscription->connection->peer.uid;
    struct subscription_page *page = page_for(server, subscription->topic->hosted, uid, sequence);
    size_t from = (size_t)(sequence - page->first);
    if (from == page->count)
        fill_page(server, page, subscription, sequence);
    page->used = ++server->subscriptions.page_clock;
    size_t start = from ? page->ends[from - 1] : 0;
    size_t end = page->count;
    while (end > from && page->ends[end - 1] - start > room)
        end--;
    *lines = page->lines + start;
    *length = end > from ? page->ends[end - 1] - start : 0;
    return end - from;
}

/* -------------------------------------------------------------------------- beginning and end */

static void leave_list(struct subscriptions *subscriptions, struct subscription *subscription)
{
    if (subscription->state == SUBSCRIPTION_WAITING)
        TAILQ_REMOVE(&subscriptions->waiting, subscription, turn);
    else if (subscription->state == SUBSCRIPTION_IDLE)
        TAILQ_REMOVE(&subscription->topic->idle, subscription, turn);
    subscription->state = SUBSCRIPTION_PARKED;
}

static void enter_queue(struct subscriptions *subscriptions, struct subscription *subscription)
{
    leave_list(subscriptions, subscription);
    subscription->state = SUBSCRIPTION_WAITING;
    TAILQ_INSERT_TAIL(&subscriptions->waiting, subscription, turn);
}

static struct subscription *find(const struct connection *connection, const struct hosted *hosted)
{
    struct subscription *subscription;
    TAILQ_FOREACH(subscription, &connection->subscriptions, link)
    {
        if (subscription->topic->hosted == hosted)
            return subscription;
    }
    return NULL;
}

static struct subscription_topic *hold_topic(struct subscriptions *subscriptions,
                                             struct hosted *hosted)
{
    struct subscription_topic *topic;
    TAILQ_FOREACH(topic, &subscriptions->topics, link)
    {
        if (topic->hosted == hosted)
            break;
    }
    if (!topic) {
        topic = memory_allocate_zeroed(subscriptions->memory, 1, sizeof(*topic));
        if (!topic)
            return NULL;
        topic->hosted = hosted;
        TAILQ_INIT(&topic->idle);
        if (hosted->shared)
            TAILQ_INSERT_TAIL(&subscriptions->topics, topic, link);
    }
    topic->subscribers++;
    return topic;
}

static void drop_topic(struct subscriptions *subscriptions, struct subscription_topic *topic)
{
    if (--topic->subscribers > 0)
        return;
    for (size_t index = 0; index < SUBSCRIPTIONS_PAGES && subscriptions->pages[index]; index++) {
        if (subscriptions->pages[index]->hosted != topic->hosted)
            continue;
        subscriptions->pages[index]->hosted = NULL;
        subscriptions->pages[index]->used = 0;
    }
    if (topic->hosted->shared)
        TAILQ_REMOVE(&subscriptions->topics, topic, link);
    memory_release_array(subscriptions->memory, topic, 1, sizeof(*topic));
}

int subscriptions_add(struct connection *connection, struct hosted *hosted, uint64_t after)
{
    struct subscriptions *subscriptions = &connection->server->subscriptions;
    struct subscription *subscription = find(connection, hosted);
    if (!subscription) {
        if (!subscriptions->pages[0] && !new_page(subscriptions, 0))
            return -1;
        subscription = memory_allocate_zeroed(subscriptions->memory, 1, sizeof(*subscription));
        struct subscription_topic *topic = subscription ? hold_topic(subscriptions, hosted) : NULL;
        if (!topic) {
            memory_release_array(subscriptions->memory, subscription, 1, sizeof(*subscription));
            return -1;
        }
        subscription->connection = connection;
        subscription->topic = topic;
        subscription->state = SUBSCRIPTION_PARKED;
        TAILQ_INSERT_TAIL(&connection->subscriptions, subscription, link);
        subscriptions->count++;
    }
    subscription->sent = after;
    enter_queue(subscriptions, subscription);
    return 0;
}

static void end_one(struct subscription *subscription)
{
    struct connection *connection = subscription->connection;
    struct subscriptions *subscriptions = &connection->server->subscriptions;
    leave_list(subscriptions, subscription);
    TAILQ_REMOVE(&connection->subscriptions, subscription, link);
    drop_topic(subscriptions, subscription->topic);
    memory_release_array(subscriptions->memory, subscription, 1, sizeof(*subscription));
    if (--subscriptions->count == 0)
        subscriptions_release(subscriptions);
}

bool subscriptions_remove(struct connection *connection, const struct hosted *hosted)
{
    struct subscription *subscription = find(connection, hosted);
    if (!subscription)
        return false;
    end_one(subscription);
    return true;
}

void subscriptions_end(struct connection *connection)
{
    struct subscription *subscription;
    while ((subscription = TAILQ_FIRST(&connection->subscriptions)) != NULL)
        end_one(subscription);
}

/* ---------------------------------------------------------------------------------------- turns */

/* Has the idle subscribers of an allocator served if something has happened there. */
static void look(struct subscriptions *subscriptions, struct subscription_topic *topic,
                 uint64_t now_ms)
{
    struct subscription *subscription;
    struct worsegpu_snapshot snapshot;
    uint64_t dropped;
    topic->news = false;
    if (TAILQ_EMPTY(&topic->idle))
        return;
    worsegpu_trace(topic->hosted->engine, topic->known, NULL, 0, NULL, &topic->news, &dropped);
    topic->news = topic->news || dropped > 0; /* cleared before anybody got them: that is told */
    if (!topic->news || now_ms < topic->rests_until_ms)
        return;
    worsegpu_snapshot(topic->hosted->engine, &snapshot);
    topic->known = snapshot.last_sequence;
    topic->news = false;
    topic->rests_until_ms = now_ms + SUBSCRIPTIONS_REST_MS;
    while ((subscription = TAILQ_FIRST(&topic->idle)) != NULL)
        enter_queue(subscriptions, subscription);
}

void subscriptions_look_at_private(struct connection *connection)
{
    struct subscription *subscription;
    TAILQ_FOREACH(subscription, &connection->subscriptions, link)
    {
        if (!subscription->topic->hosted->shared)
            look(&connection->server->subscriptions, subscription->topic, UINT64_MAX);
    }
}

void subscriptions_drained(struct connection *connection)
{
    struct subscription *subscription;
    TAILQ_FOREACH(subscription, &connection->subscriptions, link)
    {
        if (subscription->state == SUBSCRIPTION_PARKED)
            enter_queue(&connection->server->subscriptions, subscription);
    }
}

bool subscriptions_begin_turn(struct server *server, uint64_t now_ms)
{
    struct subscriptions *subscriptions = &server->subscriptions;
    struct subscription_topic *topic;
    subscriptions->poor = false;
    TAILQ_FOREACH(topic, &subscriptions->topics, link)
    {
        look(subscriptions, topic, now_ms);
    }
    return !TAILQ_EMPTY(&subscriptions->waiting);
}

uint64_t subscriptions_rest_ms(const struct server *server, uint64_t now_ms)
{
    const struct subscriptions *subscriptions = &server->subscriptions;
    const struct subscription_topic *topic;
    uint64_t rest_ms = UINT64_MAX;
    if (!TAILQ_EMPTY(&subscriptions->waiting))
        return 1;
    TAILQ_FOREACH(topic, &subscriptions->topics, link)
    {
        uint64_t until_ms = topic->rests_until_ms > now_ms ? topic->rests_until_ms : now_ms + 1;
        if (topic->news && until_ms - now_ms < rest_ms)
            rest_ms = until_ms - now_ms;
    }
    return rest_ms;
}

/* --------------------------------------------------------------------------------------- sending
 */

/* Tells a subscriber how many events it will never get. What connection_append_events answers. */
static int tell_missed(struct subscription *subscription, uint64_t missed)
{
    char line[LONGEST_MISSED];
    struct json_writer out;
    json_writer_init(&out, NULL, sizeof(line));
    out.data = line;
    out.capacity = sizeof(line);
    begin_line(&out, subscription->topic->hosted);
    json_writer_member_u64(&out, "missed", missed);
    end_line(&out);
    assert(out.failure == JSON_WRITER_FINE);
    int status = connection_append_events(subscription->connection, line, out.length);
    if (status == 0) {
        subscription->sent += missed;
        subscription->connection->server->counts.events_missed += missed;
    }
    return status;
}

/* Appends the next lines for a subscriber: 0, CONNECTION_FULL or CONNECTION_POOR; and whether there
 * is more after them. */
static int send_some(struct server *server, struct subscription *subscription, bool *more)
{
    const char *lines;
    size_t length;
    uint64_t dropped;
    worsegpu_trace(subscription->topic->hosted->engine, subscription->sent, NULL, 0, NULL, more,
                   &dropped);
    if (dropped > 0)
        return tell_missed(subscription, dropped);
    if (!*more)
        return 0;
    size_t room = connection_room_for_events(subscription->connection);
    if (room == 0)
        return CONNECTION_FULL;
    size_t count = lines_from(server, subscription, subscription->sent + 1, room, &lines, &length);
    if (count == 0)
        return CONNECTION_FULL;
    int status = connection_append_events(subscription->connection, lines, length);
    if (status == 0) {
        subscription->sent += count;
        server->counts.events_sent += count;
    }
    return status;
}

/* One subscriber's turn; whether something has been appended. Afterwards it is in the list where it
 * belongs. */
static bool serve(struct server *server, struct subscription *subscription)
{
    struct subscriptions *subscriptions = &server->subscriptions;
    size_t before = subscription->connection->output.length;
    size_t appended = 0;
    bool more = true;
    int status = 0;
    while (more && status == 0 && appended < SUBSCRIPTIONS_MOST_AT_ONCE) {
        status = send_some(server, subscription, &more);
        appended = subscription->connection->output.length - before;
    }
    leave_list(subscriptions, subscription);
    if (status == CONNECTION_POOR)
        subscriptions->poor = true;
    if (status == 0 && !more) {
        subscription->state = SUBSCRIPTION_IDLE;
        TAILQ_INSERT_TAIL(&subscription->topic->idle, subscription, turn);
    } else if (status != CONNECTION_FULL) {
        enter_queue(subscriptions, subscription);
    }
    return appended > 0;
}

struct connection *subscriptions_serve(struct server *server)
{
    struct subscriptions *subscriptions = &server->subscriptions;
    struct subscription *subscription;
    while (!subscriptions->poor && (subscription = TAILQ_FIRST(&subscriptions->waiting)) != NULL) {
        struct connection *connection = subscription->connection;
        if (serve(server, subscription))
            return connection;
    }
    return NULL;
}
