/* Where the daemon is found when nobody says: one rule for both sides. */
#ifndef SOCKET_PATH_H
#define SOCKET_PATH_H

#include <stddef.h>

/* The places in their order. */
enum socket_path_source {
    SOCKET_PATH_FROM_VARIABLE, /* $WORSEGPU_SOCKET: only this one then */
    SOCKET_PATH_OF_SESSION,    /* $XDG_RUNTIME_DIR/worsegpu/worsegpud.sock */
    SOCKET_PATH_OF_SYSTEM      /* /run/worsegpu/worsegpud.sock */
};

/* Writes the path of one place, cut at `size` bytes when it is longer (a path that long is no
 * socket's anyway). Returns its whole length, 0 when that place is not there (the variable is unset
 * or empty). */
size_t socket_path_at(enum socket_path_source source, char *path, size_t size);

/* Writes the first place that is there, and says which it is. */
enum socket_path_source socket_path_default(char *path, size_t size);

#endif
