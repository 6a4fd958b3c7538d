/* The daemon's socket in the file system; see socket_file.h. */
#include "daemon/socket_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/socket_path.h"

static const char lock_suffix[] = ".lock";

static void lock_path(const struct socket_file *file,
                      char path[SOCKET_PATH_SIZE + sizeof(lock_suffix)])
{
    snprintf(path, SOCKET_PATH_SIZE + sizeof(lock_suffix), "%s%s", file->path, lock_suffix);
}

/* Takes the lock. The one before us removes the lock file while it holds it, so the file that we
 * have locked must still be the one at that path. */
static int take_lock(struct socket_file *file, char message[SOCKET_MESSAGE_SIZE])
{
    char path[SOCKET_PATH_SIZE + sizeof(lock_suffix)];
    lock_path(file, path);
    for (;;) {
        struct stat ours;
        struct stat theirs;
        int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (lock < 0) {
            snprintf(message, SOCKET_MESSAGE_SIZE, "cannot make the lock file %s: %s%s", path,
                     strerror(errno), errno == ENOENT ? "; make its folder first" : "");
            return 1;
        }
        if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
            snprintf(message, SOCKET_MESSAGE_SIZE,
                     errno == EWOULDBLOCK
                         ? "another worsegpud is serving on %s already; stop it or choose "
                           "another path with --socket"
                         : "cannot lock the socket's lock file beside %s",
                     file->path);
            close(lock);
            return 1;
        }
        bool known = fstat(lock, &ours) == 0;
        bool there = known && stat(path, &theirs) == 0;
        if (there && ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino) {
            file->lock = lock;
            return 0;
        }
        if (!known || (!there && errno != ENOENT)) {
            snprintf(message, SOCKET_MESSAGE_SIZE, "cannot look at the lock file %s: %s", path,
                     strerror(errno));
            close(lock);
            return 1;
        }
        close(lock); /* it was removed, or is another one by now */
    }
}

/* Whether somebody answers on a socket that is in the way: a daemon that holds no lock of ours. */
static int somebody_answers(const struct sockaddr_un *address)
{
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return 0;
    int answers =
        connect(probe, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN;
    close(probe);
    return answers;
}

/* Removes what a dead daemon left; never anything but a socket. */
static int clear_path(const struct sockaddr_un *address, char message[SOCKET_MESSAGE_SIZE])
{
    struct stat status;
    if (lstat(address->sun_path, &status) != 0)
        return 0;
    if (!S_ISSOCK(status.st_mode)) {
        snprintf(message, SOCKET_MESSAGE_SIZE,
                 "%s is in the way and is no socket; remove it or choose another path",
                 address->sun_path);
        return 1;
    }
    if (somebody_answers(address)) {
        snprintf(message, SOCKET_MESSAGE_SIZE,
                 "somebody is serving on %s already; choose another path with --socket",
                 address->sun_path);
        return 1;
    }
    if (unlink(address->sun_path) != 0 && errno != ENOENT) {
        snprintf(message, SOCKET_MESSAGE_SIZE, "cannot remove the old socket %s: %s",
                 address->sun_path, strerror(errno));
        return 1;
    }
    return 0;
}

static int bind_and_listen(struct socket_file *file, const struct sockaddr_un *address,
                           char message[SOCKET_MESSAGE_SIZE])
{
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) {
        snprintf(message, SOCKET_MESSAGE_SIZE, "cannot make a socket: %s", strerror(errno));
        return 1;
    }
    /* The mode comes from the umask at bind: setting it afterwards would leave a moment in between.
     */
    mode_t before = umask(0117);
    int bound = bind(descriptor, (const struct sockaddr *)address, sizeof(*address));
    int why = errno;
    umask(before);
    if (bound == 0 && listen(descriptor, SOCKET_BACKLOG) == 0) {
        file->descriptor = descriptor;
        return 0;
    }
    if (bound == 0) {
        why = errno;
        unlink(address->sun_path);
    }
    snprintf(message, SOCKET_MESSAGE_SIZE, "cannot serve on %s: %s", address->sun_path,
             strerror(why));
    close(descriptor);
    return 1;
}

static void drop_lock(struct socket_file *file)
{
    char path[SOCKET_PATH_SIZE + sizeof(lock_suffix)];
    lock_path(file, path);
    unlink(path); /* while it is held, see take_lock */
    close(file->lock);
    file->lock = -1;
}

int socket_file_open(struct socket_file *file, const char *path, char message[SOCKET_MESSAGE_SIZE])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    file->descriptor = -1;
    file->lock = -1;
    if (length == 0 || length >= sizeof(address.sun_path)) {
        snprintf(message, SOCKET_MESSAGE_SIZE,
                 "the socket's path has %zu bytes, a socket takes 1 to %zu; choose a shorter one",
                 length, sizeof(address.sun_path) - 1);
        return 1;
    }
    memcpy(address.sun_path, path, length);
    memcpy(file->path, path, length + 1);
    if (take_lock(file, message) != 0)
        return 1;
    if (clear_path(&address, message) != 0 || bind_and_listen(file, &address, message) != 0) {
        drop_lock(file);
        return 1;
    }
    return 0;
}

void socket_file_remove(struct socket_file *file)
{
    if (file->lock < 0)
        return;
    unlink(file->path);
    drop_lock(file);
}

int socket_file_default(char path[SOCKET_WISH_SIZE], char message[SOCKET_MESSAGE_SIZE])
{
    enum socket_path_source source = socket_path_default(path, SOCKET_WISH_SIZE);
    if (source == SOCKET_PATH_FROM_VARIABLE || strlen(path) >= SOCKET_PATH_SIZE)
        return 0; /* one that is too long is socket_file_open's to refuse */
    /* The folder is worsegpu's own; the one above it must be there. */
    char folder[SOCKET_PATH_SIZE];
    size_t length = (size_t)(strrchr(path, '/') - path);
    memcpy(folder, path, length);
    folder[length] = '\0';
    if (mkdir(folder, source == SOCKET_PATH_OF_SESSION ? 0700 : 0755) == 0 || errno == EEXIST)
        return 0;
    snprintf(message, SOCKET_MESSAGE_SIZE,
             "cannot make the folder %s: %s; choose a path with --socket", folder, strerror(errno));
    return 1;
}
