/* A witness of what clients send to a daemon in memory and what they are told, who knows by
 * himself what must come: for each request one answer, under its id, in order, each line strict
 * JSON; none for a notification or an empty line. For fuzz targets; whatever does not hold fails.
 *
 * He cuts lines naively and has the long way read them. Fewer answers are right only for a client
 * whose connection has ended. He lets the daemon have only so much memory; once that was used up,
 * he counts answers no more.
 *
 * A '@' and a digit in what is sent become one of the last handles that were given out, so that
 * input that knows no handle can free. */
#ifndef SESSION_WITNESS_H
#define SESSION_WITNESS_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/support/memory_daemon.h"

enum {
    WITNESS_CLIENTS = 8,
    WITNESS_HANDLES = 10,
    WITNESS_HANDLE_SIZE = 128,
    WITNESS_MEMORY_BYTES = 8 << 20
};

struct witnessed_client {
    struct memory_client *client;
    struct memory_bytes sent; /* all of it */
    size_t read;              /* up to here lines were read, and their answers came */
    bool skipping;            /* a line that is too long was answered, its rest is to come */
    bool shut;
};

struct session_witness {
    struct memory_daemon daemon;
    struct chaos chaos;
    struct worsegpu_memory unlimited; /* that of the chaos */
    bool refused;                     /* memory was used up */
    struct witnessed_client clients[WITNESS_CLIENTS];
    size_t client_count;
    char handles[WITNESS_HANDLES][WITNESS_HANDLE_SIZE];
    size_t handle_count;
    struct request_decoder decoder; /* his own */
};

/* Starts the daemon with these options. */
void session_witness_begin(struct session_witness *witness, const char *options);

/* A new client of this user, with the next number; false when there are too many, or no memory for
 * one more. */
bool session_witness_connect(struct session_witness *witness, uid_t uid);

/* Sends bytes; nothing if the client has shut its side, or its connection has ended. */
void session_witness_send(struct session_witness *witness, size_t number, const char *bytes,
                          size_t length);
void session_witness_shut(struct session_witness *witness, size_t number);
void session_witness_hang_up(struct session_witness *witness, size_t number);

/* Looks at all that was told since he last did. */
void session_witness_look(struct session_witness *witness);

/* Lets everything come to rest, delayed requests and deaf clients too, and looks: all answers must
 * have come, and all allocators must be valid. */
void session_witness_settle(struct session_witness *witness);

/* Settles and ends: nothing may be left. */
void session_witness_end(struct session_witness *witness);

#endif
