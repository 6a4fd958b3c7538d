/* A whole daemon in memory: server, connections, clients, simulated time; no socket, no clock, no
 * loop.
 *
 * All memory of the daemon comes from a chaos, so that a test can let any of it fail; when it ends,
 * nothing may be left. A client is what sits at the other end of a socket: what it sends waits
 * until the connection wants it, what it is told waits until it looks. One turn does for each
 * client what a turn of the loop does.
 *
 *     struct memory_daemon daemon;
 *     memory_daemon_start(&daemon, NULL, "--trace-limit=100");
 *     struct memory_client *client = memory_daemon_connect(&daemon, 1000);
 *     const char *answer = memory_client_ask(client, "{\"id\":1,\"method\":\"snapshot\"}");
 *     assert_int_equal(answer_u64(answer, "gpu_used"), 0);
 *     memory_daemon_end(&daemon);
 *
 * Everything here fails the test when it cannot do its work. */
#ifndef MEMORY_DAEMON_H
#define MEMORY_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "daemon/connection.h"
#include "daemon/server.h"
#include "tests/support/chaos.h"

struct memory_client;

enum {
    MEMORY_DAEMON_WORDS_SIZE = 1024,
    MEMORY_DAEMON_MOST_WORDS = 32
};

struct memory_daemon {
    struct chaos own_chaos;
    struct chaos *chaos;                  /* where its memory comes from */
    char words[MEMORY_DAEMON_WORDS_SIZE]; /* its command line, which options may point into */
    char *argv[MEMORY_DAEMON_MOST_WORDS + 1];
    int argc;
    struct options options;
    struct log log;
    char *log_text; /* all that was logged, NUL-terminated */
    size_t log_length;
    struct server server;
    struct moment now; /* the test moves it on */
    struct memory_client *clients;
    bool left_alone; /* nobody reaps: for tests that do it themselves */
};

/* Bytes that grow; malloc's, not the daemon's. */
struct memory_bytes {
    char *data;
    size_t length;
    size_t start; /* those before it have been taken */
    size_t capacity;
};

/* Output that the connection has handed out, as for a write that the socket did not take whole. */
struct memory_writing {
    char *data; /* NULL when there is none */
    size_t length;
    size_t done;
    size_t capacity;
};

struct memory_client {
    struct memory_daemon *daemon;
    struct memory_client *next;
    struct connection *connection; /* NULL once it has ended */
    struct memory_bytes sent;      /* on its way to the daemon */
    struct memory_bytes told;      /* answers not looked at yet */
    size_t window; /* how much of `told` may wait, as in a socket's buffer; 0: no limit */
    struct memory_writing writing;
    char *line; /* the last one that was looked at */
    bool shut;  /* no more will be sent */
    bool deaf;  /* takes nothing of what it is told */
};

/* Starts one. `words` is a command line of options, split at blanks ("" for none); gpu0's seed is 7
 * unless they say otherwise. `chaos` NULL: one of its own. cJSON is hooked to the chaos until the
 * end, so two at once must share theirs. */
void memory_daemon_start(struct memory_daemon *daemon, struct chaos *chaos, const char *words);

/* Ends all clients, frees everything; with a chaos of its own, nothing may be live then. */
void memory_daemon_end(struct memory_daemon *daemon);

/* One turn of the loop; whether something moved. */
bool memory_daemon_turn(struct memory_daemon *daemon);

/* Turns until nothing moves. */
void memory_daemon_settle(struct memory_daemon *daemon);

/* The parts of a turn, for tests that put them in an order of their own. Each says whether
 * something moved.
 *
 * The connection takes in at most `most` bytes of what was sent, or else goes on with the lines
 * that wait, or else learns that no more will come. */
bool memory_client_take_in(struct memory_client *client, size_t most);

/* What it has to say goes out, as far as the client's window lets it; then it ends, if it is
 * done. */
bool memory_client_flush(struct memory_client *client);

/* The subscribers are served. */
bool memory_daemon_serve_events(struct memory_daemon *daemon);

/* What ended connections have left is freed. */
bool memory_daemon_reap(struct memory_daemon *daemon);

/* A SIGHUP: the file of --config and the command line are read again. */
bool memory_daemon_reload(struct memory_daemon *daemon);

/* Time goes on. Lines that were half there for too long end their connections. */
void memory_daemon_wait(struct memory_daemon *daemon, uint64_t milliseconds);

/* The shared allocator. */
struct hosted *memory_daemon_gpu0(const struct memory_daemon *daemon);

/* A new client of this user, an admin if that is root. It lives until memory_daemon_end. */
struct memory_client *memory_daemon_connect(struct memory_daemon *daemon, uid_t uid);

/* The same with everything that the kernel and the groups say of it. */
struct memory_client *memory_daemon_connect_peer(struct memory_daemon *daemon, struct peer peer);

/* The same; NULL when the daemon has no memory for it. */
struct memory_client *memory_daemon_let_in(struct memory_daemon *daemon, struct peer peer);

/* The end of a client whose connection has ended. */
void memory_client_forget(struct memory_client *client);

/* Sends bytes; nothing moves before the next turn. */
void memory_client_send(struct memory_client *client, const char *bytes, size_t length);

/* The same with text; a LF is added by the second. */
void memory_client_send_text(struct memory_client *client, const char *text);
void memory_client_send_line(struct memory_client *client, const char *line);

/* No more will be sent; answers are still taken. */
void memory_client_shut(struct memory_client *client);

/* Goes away at once, with its answers unread. */
void memory_client_hang_up(struct memory_client *client);

/* Takes at most `most` bytes of what it was told, whole lines or not; how many. */
size_t memory_client_read(struct memory_client *client, char *bytes, size_t most);

/* The next line it was told, without its LF; NULL when there is none (yet). Valid until the next
 * call. */
const char *memory_client_line(struct memory_client *client);

/* Sends a line, settles, and returns its one answer; the test fails when there is not exactly one.
 */
const char *memory_client_ask(struct memory_client *client, const char *line);

/* The same for a request with id 1: `params` are the members of its params, "" for none. */
const char *memory_client_call(struct memory_client *client, const char *method,
                               const char *params);

/* The value of the first member of that name, up to the end of the answer; NULL when there is none.
 */
const char *answer_member(const char *answer, const char *name);

/* That value as a number, as a copied text (which must fit), and compared with how JSON writes it.
 */
uint64_t answer_u64(const char *answer, const char *name);
void answer_text(const char *answer, const char *name, char *text, size_t size);
bool answer_is(const char *answer, const char *name, const char *json);

/* "result", or the kind of its error. The copy is in `kind`. */
enum {
    ANSWER_KIND_SIZE = 32
};
const char *answer_kind(const char *answer, char kind[ANSWER_KIND_SIZE]);

/* The test fails unless this is the answer's kind. */
void assert_kind(const char *answer, const char *kind);

/* How often a text occurs. */
size_t answer_count(const char *answer, const char *text);

/* Writes zeros over what no two runs have in common: the secrets in handles. */
void answer_scrub(char *answer);

#endif
