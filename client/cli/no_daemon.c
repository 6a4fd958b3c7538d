/* Advice where no daemon answers; see no_daemon.h. */
#include "client/cli/no_daemon.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_SOCKET "/run/worsegpu/worsegpud.sock"

enum {
    PLACE_SIZE = 512
};

static bool is_there(const char *root, const char *path)
{
    char place[PLACE_SIZE];
    int length = snprintf(place, sizeof(place), "%s%s", root, path);
    return length > 0 && (size_t)length < sizeof(place) && access(place, F_OK) == 0;
}

/* Whether this machine was started by systemd, and has our unit. */
static bool has_unit(const char *root)
{
    static const char *const units[] = {
        "/etc/systemd/system/worsegpud.socket", "/usr/local/lib/systemd/system/worsegpud.socket",
        "/usr/lib/systemd/system/worsegpud.socket", "/lib/systemd/system/worsegpud.socket"};
    if (!is_there(root, "/run/systemd/system"))
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (is_there(root, units[i]))
            return true;
    }
    return false;
}

/* Whether the socket is there, but not for us. */
static bool is_closed_to_us(const char *path, struct stat *status)
{
    return stat(path, status) == 0 && S_ISSOCK(status->st_mode) && access(path, W_OK) != 0 &&
           errno == EACCES;
}

static void advise_joining(const struct stat *status, char advice[NO_DAEMON_ADVICE_SIZE])
{
    char room[4096];
    struct group entry;
    struct group *found = NULL;
    if (getgrgid_r(status->st_gid, &entry, room, sizeof(room), &found) == 0 && found)
        snprintf(advice, NO_DAEMON_ADVICE_SIZE,
                 "join the group that may use it, then log in again: sudo adduser \"$USER\" %.64s",
                 found->gr_name);
    else
        snprintf(advice, NO_DAEMON_ADVICE_SIZE, "it belongs to group %u, which you are not in",
                 (unsigned)status->st_gid);
}

void no_daemon_advice(const char *given, bool by_option, const char *root,
                      char advice[NO_DAEMON_ADVICE_SIZE])
{
    char place[PLACE_SIZE];
    struct stat status;
    int length =
        snprintf(place, sizeof(place), "%s%s", given ? "" : root, given ? given : SYSTEM_SOCKET);
    bool system = !given || strcmp(given, SYSTEM_SOCKET) == 0;
    if (length > 0 && (size_t)length < sizeof(place) && is_closed_to_us(place, &status))
        advise_joining(&status, advice);
    else if (system && has_unit(root))
        snprintf(
            advice, NO_DAEMON_ADVICE_SIZE,
            "start it: sudo systemctl start worsegpud.socket; or one of your own: worsegpud &");
    else if (by_option)
        snprintf(advice, NO_DAEMON_ADVICE_SIZE, "start one: worsegpud --socket %.256s &", given);
    else
        snprintf(advice, NO_DAEMON_ADVICE_SIZE, "start one: worsegpud &");
}
