/* The daemon's socket in the file system: made by us, or refused; never taken from a living daemon.
 *
 * A lock file beside it (PATH.lock, held with flock as long as the daemon lives) says who owns the
 * path. Only under that lock is a socket that a dead daemon left removed. Mode 0660, set before
 * bind. */
#ifndef SOCKET_FILE_H
#define SOCKET_FILE_H

#include <stddef.h>
#include <stdint.h>

enum {
    SOCKET_PATH_SIZE = 108,       /* sizeof sun_path: a path this long or longer cannot be bound */
    SOCKET_WISH_SIZE = 4096 + 64, /* room for any path that is asked for, fitting or not */
    SOCKET_BACKLOG = 1024,
    SOCKET_MESSAGE_SIZE = 512
};

struct socket_file {
    int descriptor; /* listening; -1 when there is none */
    int lock;       /* -1 when there is none */
    char path[SOCKET_PATH_SIZE];
};

/* Binds and listens. 0, or 1 with `message` saying in one line what is wrong and what to do. */
int socket_file_open(struct socket_file *file, const char *path, char message[SOCKET_MESSAGE_SIZE]);

/* Removes the socket and gives up the lock. The descriptor stays open: whoever took it closes it.
 */
void socket_file_remove(struct socket_file *file);

/* The path to serve on when none was given: $WORSEGPU_SOCKET, else
 * $XDG_RUNTIME_DIR/worsegpu/worsegpud.sock, else /run/worsegpu/worsegpud.sock. In the latter two,
 * makes the folder worsegpu when it is not there. 0, or 1 with `message`. */
int socket_file_default(char path[SOCKET_WISH_SIZE], char message[SOCKET_MESSAGE_SIZE]);

#endif
