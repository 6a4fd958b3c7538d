/* The load of the soak test; see soak_load.h. */
#include "tests/support/soak_load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "lib/worsegpu.h"
#include "proto/methods.h"

enum {
    TAGS = 64,          /* names of allocations, and of private allocators, one process uses */
    PRIVATE = 4,        /* private allocators of one connection */
    HANDLES = 64,       /* remembered from answers */
    HANDLE_SIZE = 96,   /* longer ones are not remembered */
    MOST_AT_ONCE = 32,  /* requests in flight of one that reads */
    BATCH_SIZE = 65536, /* bytes of requests sent at once */
    READ_SIZE = 1 << 18
};

struct load {
    const char *socket_path;
    uint64_t random;
    const char *const *allocators;
    unsigned allocator_count;
    struct soak_tally *tally;
    int socket;
    uint64_t next_id; /* of requests */
    uint64_t due_id;  /* of the answer that must come next */
    char handles[HANDLES][HANDLE_SIZE];
    char batch[BATCH_SIZE];
    size_t batch_length;
    char received[READ_SIZE + 1];
    size_t received_length;
};

uint64_t soak_draw(uint64_t *state)
{
    uint64_t value = (*state += UINT64_C(0x9e3779b97f4a7c15));
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

/* 0 to `below` - 1. */
static unsigned draw(struct load *load, unsigned below)
{
    return below == 0 ? 0 : (unsigned)(soak_draw(&load->random) % below);
}

static bool one_in(struct load *load, unsigned of)
{
    return draw(load, of) == 0;
}

static void rest(unsigned ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

static void count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* The first one is kept for the parent. */
_Noreturn static void complain(struct load *load, const char *what, const char *line)
{
    if (__atomic_exchange_n(&load->tally->complaining, 1, __ATOMIC_SEQ_CST) == 0)
        snprintf(load->tally->complaint, SOAK_COMPLAINT_SIZE, "%s: %.400s", what, line);
    _exit(1);
}

/* ----------------------------------------------------------------------------------- requests */

__attribute__((format(printf, 2, 3))) static void put(struct load *load, const char *format, ...)
{
    va_list arguments;
    size_t room = BATCH_SIZE - load->batch_length;
    va_start(arguments, format);
    int length = vsnprintf(load->batch + load->batch_length, room, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= room)
        complain(load, "the soak test made too long a request", load->batch);
    load->batch_length += (size_t)length;
}

static const char *some_policy(struct load *load)
{
    unsigned policies = 0;
    while (worsegpu_policy_name(policies))
        policies++;
    return worsegpu_policy_name(draw(load, policies));
}

static void put_allocator(struct load *load)
{
    if (one_in(load, 3))
        put(load, "\"p%u\"", draw(load, PRIVATE));
    else
        put(load, "\"%s\"", load->allocators[draw(load, load->allocator_count)]);
}

static void put_integer(struct load *load, enum parameter parameter)
{
    uint64_t minimum = parameter_info(parameter)->minimum;
    switch (parameter) {
    case PARAMETER_requested_bytes:
        put(load, "%u", 512 + draw(load, 1u << (9 + draw(load, 13))));
        break;
    case PARAMETER_gpu_capacity:
        put(load, "%u", (1 + draw(load, 8)) << 20);
        break;
    case PARAMETER_max_request_bytes:
        put(load, "%u", 1u << (20 + draw(load, 6)));
        break;
    case PARAMETER_alignment:
        put(load, "%u", 1u << draw(load, 13));
        break;
    case PARAMETER_delay_ms:
        put(load, "%u", 1 + draw(load, 20));
        break;
    case PARAMETER_process:
        put(load, "%d", (int)getpid());
        break;
    case PARAMETER_user:
        put(load, "%u", (unsigned)getuid());
        break;
    case PARAMETER_after:
        put(load, "%u", draw(load, 5000));
        break;
    default: /* few, so that what is asked for is there now and then */
        put(load, "%" PRIu64, minimum + draw(load, 8));
        break;
    }
}

/* A method that a rule may match: not what the parent tidies up with. */
static const char *some_method(struct load *load)
{
    static const enum method methods[] = {METHOD_allocate, METHOD_free,  METHOD_snapshot,
                                          METHOD_open,     METHOD_trace, METHOD_subscribe};
    return method_info(methods[draw(load, sizeof(methods) / sizeof(methods[0]))])->name;
}

static void put_text(struct load *load, enum parameter parameter)
{
    static const char *const actions[] = {"out_of_memory", "quota_exceeded",    "host_fallback",
                                          "forget",        "disconnect_before", "disconnect_after",
                                          "delay"};
    switch (parameter) {
    case PARAMETER_tag:
        put(load, "\"t%u\"", draw(load, TAGS));
        break;
    case PARAMETER_tag_prefix:
        put(load, "\"t%u\"", draw(load, 10));
        break;
    case PARAMETER_handle:
        put(load, "\"%s\"", load->handles[draw(load, HANDLES)]);
        break;
    case PARAMETER_policy:
        put(load, "\"%s\"", some_policy(load));
        break;
    case PARAMETER_knobs:
        put(load, "\"%s\"", one_in(load, 2) ? "alignment=256" : "");
        break;
    case PARAMETER_scan:
        put(load, "\"%s\"", one_in(load, 2) ? "walked" : "accounted");
        break;
    case PARAMETER_action:
        put(load, "\"%s\"", actions[draw(load, sizeof(actions) / sizeof(actions[0]))]);
        break;
    case PARAMETER_method:
        put(load, "\"%s\"", some_method(load));
        break;
    default:
        put(load, "\"word\"");
        break;
    }
}

static void put_value(struct load *load, enum parameter parameter)
{
    if (parameter == PARAMETER_allocator) {
        put_allocator(load);
        return;
    }
    switch (parameter_info(parameter)->type) {
    case PARAMETER_TYPE_INTEGER:
        put_integer(load, parameter);
        break;
    case PARAMETER_TYPE_PROBABILITY:
        put(load, "0.%u", draw(load, 10));
        break;
    case PARAMETER_TYPE_BOOLEAN:
        put(load, "%s", one_in(load, 4) ? "true" : "false");
        break;
    case PARAMETER_TYPE_NAME:
        put(load, "\"p%u\"", draw(load, PRIVATE));
        break;
    case PARAMETER_TYPE_SEED:
        put(load, "%u", draw(load, 1000));
        break;
    case PARAMETER_TYPE_TEXT:
    default:
        put_text(load, parameter);
        break;
    }
}

/* How often a parameter that need not be there is: one in so many. */
static unsigned how_seldom(enum method method, enum parameter parameter)
{
    switch (parameter) {
    case PARAMETER_allocator:
        return method == METHOD_inject ? 2 : 1;
    case PARAMETER_times:
        return 1; /* a rule without an end would spoil the rest of the test */
    case PARAMETER_detached:
        return 20;
    default:
        return 3;
    }
}

static void put_request(struct load *load, enum method method)
{
    static const enum parameter whens[] = {PARAMETER_nth, PARAMETER_every, PARAMETER_probability};
    enum parameter parameter;
    enum parameter when = whens[draw(load, 3)]; /* one of them goes with a rule */
    const char *before = "";
    put(load, "{\"id\":%" PRIu64 ",\"method\":\"%s\",\"params\":{", load->next_id++,
        method_info(method)->name);
    for (size_t i = 0; (parameter = method_parameter(method, i)) != PARAMETERS; i++) {
        bool required = (method_info(method)->required >> parameter & 1u) != 0;
        bool is_when = parameter == whens[0] || parameter == whens[1] || parameter == whens[2];
        if ((is_when && parameter != when) ||
            (!required && !one_in(load, how_seldom(method, parameter))))
            continue;
        put(load, "%s\"%s\":", before, parameter_info(parameter)->name);
        put_value(load, parameter);
        before = ",";
    }
    put(load, "}}\n");
}

/* Mostly what programs do; every method at times. */
static void put_some_request(struct load *load)
{
    unsigned which = draw(load, 100);
    enum method method;
    if (which < 40)
        method = METHOD_allocate;
    else if (which < 78)
        method = METHOD_free;
    else
        method = (enum method)draw(load, METHODS);
    /* Rules are few, or little else would be left; subscribers have a life of their own. */
    if ((method == METHOD_inject && !one_in(load, 3)) || method == METHOD_subscribe)
        method = METHOD_snapshot;
    put_request(load, method);
}

/* ----------------------------------------------------------------------------------- answers */

/* All that an answer has: `list` shows those of others as well, who may be dead by now. */
static void remember_handles(struct load *load, const char *line)
{
    static const char key[] = "\"handle\":\"";
    while ((line = strstr(line, key)) != NULL) {
        line += sizeof(key) - 1;
        size_t length = strcspn(line, "\"");
        if (length >= HANDLE_SIZE)
            continue;
        char *place = load->handles[draw(load, HANDLES)];
        memcpy(place, line, length);
        place[length] = '\0';
    }
}

/* One whole line from the daemon. */
static void take_line(struct load *load, const char *line)
{
    static const char start[] = "{\"jsonrpc\":\"2.0\",\"id\":";
    if (strncmp(line, "{\"jsonrpc\":\"2.0\",\"method\":", 26) == 0) {
        count(&load->tally->events);
        return;
    }
    if (strncmp(line, start, sizeof(start) - 1) != 0)
        complain(load, "an answer begins otherwise", line);
    const char *id = line + sizeof(start) - 1;
    bool refused = strstr(line, "\"error\":{\"code\":") != NULL;
    if (refused) {
        count(&load->tally->refusals);
        if (strstr(line, "\"invariant_violation\"") || strstr(line, "\"internal_error\""))
            complain(load, "this must never be", line);
        if (strncmp(id, "null", 4) == 0)
            return; /* about a line that was none */
    }
    if (strtoull(id, NULL, 10) != load->due_id)
        complain(load, "an answer is missing or out of order", line);
    load->due_id++;
    count(&load->tally->answers);
    remember_handles(load, line);
}

/* Takes what has come. false when the daemon has closed. */
static bool receive(struct load *load)
{
    ssize_t got = recv(load->socket, load->received + load->received_length,
                       READ_SIZE - load->received_length, 0);
    if (got <= 0)
        return false;
    load->received_length += (size_t)got;
    char *at = load->received;
    char *end = load->received + load->received_length;
    char *newline;
    while ((newline = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        *newline = '\0';
        take_line(load, at);
        at = newline + 1;
    }
    load->received_length = (size_t)(end - at);
    memmove(load->received, at, load->received_length);
    if (load->received_length == READ_SIZE)
        complain(load, "an answer is longer than all limits allow", load->received);
    return true;
}

/* Sends the batch. false when the daemon has closed. */
static bool send_batch(struct load *load, int flags)
{
    size_t sent = 0;
    while (sent < load->batch_length) {
        ssize_t done =
            send(load->socket, load->batch + sent, load->batch_length - sent, MSG_NOSIGNAL | flags);
        if (done < 0)
            return false;
        sent += (size_t)done;
    }
    load->batch_length = 0;
    return true;
}

/* ----------------------------------------------------------------------------------- lives */

/* Asks and reads, as programs do. */
static void live_well(struct load *load)
{
    for (unsigned rounds = draw(load, 200); rounds > 0; rounds--) {
        for (unsigned requests = 1 + draw(load, MOST_AT_ONCE); requests > 0; requests--)
            put_some_request(load);
        if (!send_batch(load, 0))
            return;
        while (load->due_id < load->next_id)
            if (!receive(load))
                return;
        if (one_in(load, 8))
            rest(draw(load, 5));
    }
}

/* Has private allocators, more than a few, of any policy. */
static void live_in_private(struct load *load)
{
    for (unsigned number = 0; number < PRIVATE; number++) {
        put(load,
            "{\"id\":%" PRIu64
            ",\"method\":\"open\",\"params\":{\"name\":\"p%u\",\"policy\":\"%s\","
            "\"trace_limit\":%u,\"gpu_capacity\":%u}}\n",
            load->next_id++, number, some_policy(load), draw(load, 200), (1 + draw(load, 8)) << 20);
        count(&load->tally->private);
    }
    live_well(load);
}

/* Asks and never reads, or late and little. */
static void live_slowly(struct load *load)
{
    for (unsigned rounds = draw(load, 100); rounds > 0; rounds--) {
        for (unsigned requests = MOST_AT_ONCE; requests > 0; requests--)
            put_some_request(load);
        if (!send_batch(load, MSG_DONTWAIT))
            break; /* the daemon has stopped reading from us, rightly */
        rest(draw(load, 3));
    }
    rest(draw(load, 200));
    for (unsigned reads = draw(load, 20); reads > 0; reads--) {
        if (!receive(load))
            return;
        if (load->due_id == load->next_id)
            return;
        rest(draw(load, 10));
    }
}

/* Watches some allocators, at times without reading. */
static void live_watching(struct load *load)
{
    for (unsigned number = 0; number < 3; number++)
        put_request(load, METHOD_subscribe);
    put_some_request(load);
    if (!send_batch(load, 0))
        return;
    bool reads = !one_in(load, 3);
    for (unsigned rounds = draw(load, 200); rounds > 0; rounds--) {
        if (!reads)
            rest(2);
        else if (!receive(load))
            return;
    }
}

/* Sends what is no request, and half of one. */
static void live_rudely(struct load *load)
{
    put(load, "this is no JSON\n{\"id\":null}\n[]\n");
    put_some_request(load);
    put(load, "{\"id\":1,\"method\":\"allo");
    send_batch(load, 0);
    rest(draw(load, 100));
}

static void connect_anew(struct load *load)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", load->socket_path);
    load->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (load->socket < 0 ||
        connect(load->socket, (const struct sockaddr *)&address, sizeof(address)) != 0)
        complain(load, "cannot connect", strerrordesc_np(errno));
    load->batch_length = load->received_length = 0;
    load->next_id = load->due_id = 1;
    count(&load->tally->connections);
}

void soak_load(const char *socket_path, uint64_t seed, const char *const *allocators,
               unsigned allocator_count, struct soak_tally *tally)
{
    static struct load load; /* as large as its buffers; there is one in a process */
    load.socket_path = socket_path;
    load.random = seed;
    load.allocators = allocators;
    load.allocator_count = allocator_count;
    load.tally = tally;
    for (;;) {
        connect_anew(&load);
        unsigned life = draw(&load, 20);
        if (life < 10)
            live_well(&load);
        else if (life < 15)
            live_in_private(&load);
        else if (life < 17)
            live_slowly(&load);
        else if (life < 19)
            live_watching(&load);
        else
            live_rudely(&load);
        close(load.socket);
    }
}
