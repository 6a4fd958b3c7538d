/* Who is at the other end of a socket; see peers.h. */
#include "daemon/peers.h"

#include <sys/socket.h>

#include "daemon/groups.h"

struct peer peer_of(int descriptor)
{
    struct ucred credentials = {.pid = 0, .uid = (uid_t)-1, .gid = (gid_t)-1};
    socklen_t length = sizeof(credentials);
    getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &length);
    return (struct peer){.uid = credentials.uid, .gid = credentials.gid, .pid = credentials.pid};
}

int peer_find_rights(struct peer *peer, int descriptor, const struct server *server)
{
    const struct option_group *group = &server->options->admin_group;
    peer->admin =
        peer->uid == 0 || peer->uid == server->uid || (*group->name && peer->gid == group->gid);
    if (peer->admin || !*group->name)
        return 0;
    return groups_has_peer(server->memory, descriptor, group->gid, &peer->admin);
}
