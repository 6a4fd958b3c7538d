/* Who is at the other end of a socket, and whether it may change what is shared: as the kernel
 * noted when it connected. */
#ifndef PEERS_H
#define PEERS_H

#include "daemon/connection.h"

/* The peer of a connected Unix socket, its rights not looked at yet. One that the kernel does not
 * know has no user: neither root nor anybody. */
struct peer peer_of(int descriptor);

/* Looks at its rights: root, the daemon's own user and members of the admin group may change what
 * is shared. 0, or -1 without memory: then it may not. */
int peer_find_rights(struct peer *peer, int descriptor, const struct server *server);

#endif
