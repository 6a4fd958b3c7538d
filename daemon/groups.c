/* Groups of this system; see groups.h. */
#include "daemon/groups.h"

#include <errno.h>
#include <grp.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/memory.h"

enum {
    FIRST_ENTRY_BYTES = 1024,   /* room for a group with its members; doubled while too small */
    MOST_ENTRY_BYTES = 1 << 26, /* more than any system has */
    FEW_GROUPS = 32             /* what most peers have at most */
};

static enum groups_result find_with_room(const struct worsegpu_memory *memory, const char *name,
                                         size_t room, gid_t *gid, bool *too_small)
{
    char *texts = memory_allocate_array(memory, room, 1);
    if (!texts)
        return GROUPS_NO_MEMORY;
    struct group entry;
    struct group *found = NULL;
    int error;
    do
        error = getgrnam_r(name, &entry, texts, room, &found);
    while (error == EINTR);
    *too_small = error == ERANGE;
    bool known = error == 0 && found;
    if (known)
        *gid = entry.gr_gid;
    memory_release_array(memory, texts, room, 1);
    if (error == ENOMEM)
        return GROUPS_NO_MEMORY;
    return known ? GROUPS_FINE : GROUPS_UNKNOWN;
}

enum groups_result groups_find(const struct worsegpu_memory *memory, const char *name, gid_t *gid)
{
    enum groups_result result = GROUPS_UNKNOWN;
    bool too_small = true;
    for (size_t room = FIRST_ENTRY_BYTES; too_small && room <= MOST_ENTRY_BYTES; room *= 2) {
        too_small = false;
        result = find_with_room(memory, name, room, gid, &too_small);
    }
    return result;
}

static bool contains(const gid_t *groups, size_t count, gid_t gid)
{
    for (size_t index = 0; index < count; index++)
        if (groups[index] == gid)
            return true;
    return false;
}

enum groups_result groups_has_peer(const struct worsegpu_memory *memory, int descriptor, gid_t gid,
                                   bool *member)
{
    gid_t few[FEW_GROUPS];
    socklen_t bytes = sizeof(few);
    *member = false;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERGROUPS, few, &bytes) == 0) {
        *member = contains(few, bytes / sizeof(few[0]), gid);
        return GROUPS_FINE;
    }
    if (errno != ERANGE)
        return GROUPS_FINE;
    /* The kernel has said how many there are; they do not change any more. */
    size_t count = bytes / sizeof(few[0]);
    gid_t *all = memory_allocate_array(memory, count, sizeof(*all));
    if (!all)
        return GROUPS_NO_MEMORY;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERGROUPS, all, &bytes) == 0)
        *member = contains(all, bytes / sizeof(*all), gid);
    memory_release_array(memory, all, count, sizeof(*all));
    return GROUPS_FINE;
}
