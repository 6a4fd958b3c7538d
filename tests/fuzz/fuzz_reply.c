/* Fuzz target: the client library's reading of what a hostile daemon says. Cut in any way, and with
 * memory that runs out on the way, it gives the answers that the same bytes give at once; results
 * are strict JSON; whoever breaks the contract is told so for ever.
 *
 * The input: which call is made (or a pipeline of them, or none: a program that reads lines for
 * itself), which request for memory fails, the cuts, what the daemon says. */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/client_state.h"
#include "client/worsegpu_client.h"
#include "client/worsegpu_client_rules.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/chaos.h"
#include "tests/support/naive_json.h"

enum {
    QUEUED = 5,            /* requests that wait for an answer when the daemon speaks */
    MOST_SAID = 64 * 1024, /* so that all fits into the socket */
    MOST_PIECES = 64,      /* the rest comes at once: reading takes time */
    MOST_EVENTS = 10000    /* more than can be said */
};

/* Results of a call; nobody reads them but the sanitizers. */
union results {
    struct worsegpu_client_config config;
    struct worsegpu_client_allocation allocation;
    struct worsegpu_client_release release;
    struct worsegpu_client_snapshot snapshot;
    struct worsegpu_client_map map;
    struct worsegpu_client_trace trace;
    struct worsegpu_client_list list;
    struct worsegpu_client_info info;
    struct worsegpu_client_peers peers;
    struct worsegpu_client_rule rule;
    struct worsegpu_client_rules rules;
    const char *text;
    uint64_t number;
    bool yes;
};

static int call(worsegpu_client *client, unsigned which, union results *results,
                struct worsegpu_client_error *error)
{
    static const struct worsegpu_client_request request = {.requested_bytes = 1};
    static const struct worsegpu_client_wish wish = {.action = "forget"};
    switch (which) {
    case 0:
        return worsegpu_client_open(client, "p", NULL, &results->config, error);
    case 1:
        return worsegpu_client_allocate(client, NULL, &request, &results->allocation, error);
    case 2:
        return worsegpu_client_free_tag(client, NULL, "t", &results->release, error);
    case 3:
        return worsegpu_client_snapshot(client, NULL, &results->snapshot, error);
    case 4:
        return worsegpu_client_map(client, NULL, 0, 0, 4, &results->map, error);
    case 5:
        return worsegpu_client_trace(client, NULL, 0, 0, &results->trace, error);
    case 6:
        return worsegpu_client_list(client, NULL, 0, 0, &results->list, error);
    case 7:
        return worsegpu_client_info(client, &results->info, error);
    case 8:
        return worsegpu_client_clients(client, 0, 0, &results->peers, error);
    case 9:
        return worsegpu_client_inject(client, &wish, &results->rule, error);
    case 10:
        return worsegpu_client_rules(client, 0, 0, &results->rules, error);
    case 11:
        return worsegpu_client_metrics(client, NULL, &results->text, error);
    case 12:
        return worsegpu_client_subscribe(client, NULL, NULL, &results->number, error);
    case 13:
        return worsegpu_client_record_stream(client, NULL, "h", 1, &results->yes, error);
    case 14:
        return worsegpu_client_statistics(client, NULL, error);
    default:
        return worsegpu_client_validate(client, NULL, &results->number, error);
    }
}
enum {
    CALLS = 16
};

static void say(int descriptor, const uint8_t *bytes, size_t length)
{
    insist(length == 0 ||
           send(descriptor, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)length);
}

/* Says everything in pieces, the last one as long as it may be; the client reads each and looks for
 * a line. */
static void say_in_pieces(worsegpu_client *client, int descriptor, const uint8_t *bytes,
                          size_t length, struct fuzz_cuts *cuts)
{
    for (int pieces = 1; length > 0; pieces++) {
        const char *line;
        size_t line_length;
        size_t piece = pieces < MOST_PIECES ? fuzz_cut(cuts, length) : length;
        say(descriptor, bytes, piece);
        bytes += piece;
        length -= piece;
        if (worsegpu_client_advance(client, NULL) == WORSEGPU_CLIENT_OK)
            client_stream_peek(client, &line, &line_length, NULL);
    }
}

static void note(FILE *transcript, const worsegpu_client *client, int status,
                 const struct worsegpu_client_error *error)
{
    size_t length;
    const char *result = worsegpu_client_result(client, &length);
    insist(status == error->status);
    insist(status != WORSEGPU_CLIENT_TIMEOUT && status != WORSEGPU_CLIENT_INVALID_ARGUMENT);
    fprintf(transcript, "%d", status);
    if (status != WORSEGPU_CLIENT_OK)
        fprintf(transcript, " %s %s", error->message, error->kind);
    if (result) {
        insist(naive_json_is_strict(result, length, NULL, NULL));
        fprintf(transcript, " %.*s", (int)length, result);
    }
    fprintf(transcript, "\n");
    if (client->broken) {
        struct worsegpu_client_error again;
        insist(worsegpu_client_flush((worsegpu_client *)client, &again) == client->broken);
    }
}

/* The answers to what is queued. Without memory nothing is lost: it is asked again. */
static void receive_all(worsegpu_client *client, struct chaos *chaos, FILE *transcript)
{
    struct worsegpu_client_error error;
    int status = WORSEGPU_CLIENT_OK;
    while (worsegpu_client_due(client) > 0 && status >= 0) {
        status = worsegpu_client_receive(client, &error);
        if (status == WORSEGPU_CLIENT_NO_MEMORY) {
            insist(chaos->failed);
            status = worsegpu_client_receive(client, &error);
        }
        note(transcript, client, status, &error);
    }
}

static void take_events(worsegpu_client *client, FILE *transcript)
{
    struct worsegpu_client_error error;
    struct worsegpu_client_notice notice;
    int status = WORSEGPU_CLIENT_OK;
    for (int taken = 0; status == WORSEGPU_CLIENT_OK; taken++) {
        insist(taken < MOST_EVENTS);
        status = worsegpu_client_next_event(client, &notice, &error);
        note(transcript, client, status, &error);
        if (status == WORSEGPU_CLIENT_OK)
            fprintf(transcript, "%s %llu %llu\n", notice.allocator,
                    (unsigned long long)notice.missed, (unsigned long long)notice.event.sequence);
    }
}

/* Reads what is there; without memory it is asked again. Whether there may be more. */
static bool advance(worsegpu_client *client)
{
    int status = worsegpu_client_advance(client, NULL);
    if (status == WORSEGPU_CLIENT_NO_MEMORY)
        status = worsegpu_client_advance(client, NULL);
    return status == WORSEGPU_CLIENT_OK;
}

static void take_lines(worsegpu_client *client, FILE *transcript)
{
    struct worsegpu_client_error error;
    const char *line;
    size_t length;
    int status;
    while ((status = worsegpu_client_next_line(client, &line, &length, &error)) ==
               WORSEGPU_CLIENT_OK &&
           line) {
        fwrite(line, 1, length, transcript);
        fputc('\n', transcript);
    }
    insist(status == WORSEGPU_CLIENT_OK || client->broken == status);
}

/* A program with requests and a loop of its own: it takes each line as soon as it is whole. */
static void read_lines(worsegpu_client *client, int descriptor, struct fuzz_input said,
                       struct fuzz_cuts *cuts, FILE *transcript)
{
    for (int pieces = 1; said.left > 0; pieces++) {
        size_t piece = cuts && pieces < MOST_PIECES ? fuzz_cut(cuts, said.left) : said.left;
        say(descriptor, said.at, piece);
        said.at += piece;
        said.left -= piece;
        advance(client);
        take_lines(client, transcript);
    }
    shutdown(descriptor, SHUT_WR);
    while (advance(client))
        take_lines(client, transcript);
    fprintf(transcript, "%d\n", worsegpu_client_ended_inside_line(client));
}

/* All that a client makes of these bytes, as text of that length; free() it. */
static char *run(unsigned what, struct fuzz_input said, struct fuzz_cuts *cuts, uint8_t fail_at,
                 size_t *length)
{
    static union results results;
    char *text = NULL;
    int pair[2];
    struct chaos chaos;
    worsegpu_client *client;
    struct worsegpu_client_error error;
    const struct worsegpu_client_options options = {.timeout_ms = 0, .memory = &chaos.memory};
    FILE *transcript = open_memstream(&text, length);
    insist(transcript != NULL);
    chaos_init(&chaos);
    insist(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    insist(worsegpu_client_adopt(pair[1], &options, &client, NULL) == WORSEGPU_CLIENT_OK);
    bool typed = what < CALLS;
    bool raw = what >= 2 * CALLS;
    for (int i = 0; i < QUEUED && !typed && !raw; i++)
        insist(worsegpu_client_queue(client, "info", NULL, NULL) == WORSEGPU_CLIENT_OK);
    insist(worsegpu_client_flush(client, NULL) == WORSEGPU_CLIENT_OK);
    chaos_arm(&chaos, typed ? 0 : fail_at, false);
    if (raw)
        read_lines(client, pair[0], said, cuts, transcript);
    else if (cuts)
        say_in_pieces(client, pair[0], said.at, said.left, cuts);
    else
        say(pair[0], said.at, said.left);
    shutdown(pair[0], SHUT_WR);
    if (raw)
        insist(worsegpu_client_has_ended(client));
    else if (typed)
        note(transcript, client, call(client, what, &results, &error), &error);
    else
        receive_all(client, &chaos, transcript);
    chaos_arm(&chaos, 0, false);
    if (!raw && worsegpu_client_due(client) == 0 && !client->broken)
        take_events(client, transcript);
    worsegpu_client_disconnect(client);
    close(pair[0]);
    insist(chaos.live_pieces == 0 && chaos.live_bytes == 0);
    insist(fclose(transcript) == 0);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    unsigned what = fuzz_byte(&input) % (3u * CALLS); /* a third of them a call */
    uint8_t fail_at = fuzz_byte(&input);
    struct fuzz_cuts cuts = fuzz_take_cuts(&input);
    if (input.left > MOST_SAID)
        input.left = MOST_SAID;
    size_t lengths[2];
    char *at_once = run(what, input, NULL, 0, &lengths[0]);
    char *in_pieces = run(what, input, &cuts, fail_at, &lengths[1]);
    insist(lengths[0] == lengths[1] && memcmp(at_once, in_pieces, lengths[0]) == 0);
    free(at_once);
    free(in_pieces);
    return 0;
}
