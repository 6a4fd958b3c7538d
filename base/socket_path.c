/* Where the daemon is found; see socket_path.h. */
#include "base/socket_path.h"

#include <stdio.h>
#include <stdlib.h>

static const char below[] = "/worsegpu/worsegpud.sock";

size_t socket_path_at(enum socket_path_source source, char *path, size_t size)
{
    const char *start = "/run";
    const char *rest = below;
    if (source == SOCKET_PATH_FROM_VARIABLE) {
        start = getenv("WORSEGPU_SOCKET");
        rest = "";
    } else if (source == SOCKET_PATH_OF_SESSION) {
        start = getenv("XDG_RUNTIME_DIR");
    }
    if (!start || !*start)
        return 0;
    int length = snprintf(path, size, "%s%s", start, rest);
    return length < 0 ? 0 : (size_t)length;
}

enum socket_path_source socket_path_default(char *path, size_t size)
{
    enum socket_path_source source = SOCKET_PATH_FROM_VARIABLE;
    while (source != SOCKET_PATH_OF_SYSTEM && socket_path_at(source, path, size) == 0)
        source++;
    if (source == SOCKET_PATH_OF_SYSTEM)
        socket_path_at(source, path, size);
    return source;
}
