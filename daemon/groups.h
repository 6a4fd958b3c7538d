/* Groups of this system: which number a name has, and whether the peer of a socket is a member.
 *
 * A peer's groups are those that the kernel noted when it connected, never what anybody says. */
#ifndef GROUPS_H
#define GROUPS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/worsegpu_memory.h"

enum groups_result {
    GROUPS_NO_MEMORY = -1,
    GROUPS_FINE = 0,
    GROUPS_UNKNOWN = 1 /* there is no such group, or none that can be looked up */
};

/* The number of a group. *gid is left alone unless all is fine. */
enum groups_result groups_find(const struct worsegpu_memory *memory, const char *name, gid_t *gid);

/* Whether the peer of a connected Unix socket has `gid` among its supplementary groups. A socket
 * that does not say has none. GROUPS_FINE, or GROUPS_NO_MEMORY with *member false. */
enum groups_result groups_has_peer(const struct worsegpu_memory *memory, int descriptor, gid_t gid,
                                   bool *member);

#endif
