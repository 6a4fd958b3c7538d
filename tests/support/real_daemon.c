/* A real worsegpud for integration tests; see real_daemon.h. */
#include "tests/support/real_daemon.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <signal.h>
#include <unistd.h>

enum {
    MOST_OPTIONS = 60
};

static struct real_daemon start(struct real_room *room, const struct real_setup *setup,
                                enum real_daemon_path how, const char *socket_path,
                                const char *const *options)
{
    const char *arguments[MOST_OPTIONS + 4];
    size_t count = 0;
    arguments[count++] = real_program(room, "worsegpud");
    if (how == REAL_DAEMON_TOLD) {
        arguments[count++] = "--socket";
        arguments[count++] = socket_path;
    }
    do {
        assert_true(count < sizeof(arguments) / sizeof(arguments[0]));
        arguments[count] = *options++;
    } while (arguments[count++]);
    struct real_daemon daemon = {.room = room,
                                 .process = real_process_start_list(room, setup, arguments),
                                 .socket_path = socket_path};
    struct real_wait wait = {0};
    while (!real_client_probe(socket_path)) {
        if (real_process_has_ended(daemon.process))
            fail_msg("the daemon ended with %d: %s", daemon.process->status,
                     real_daemon_log(&daemon));
        real_wait_more(&wait);
    }
    return daemon;
}

/* The options of a call as a list. */
static void gather(const char *options[MOST_OPTIONS], va_list rest)
{
    size_t count = 0;
    do {
        assert_true(count < MOST_OPTIONS);
        options[count] = va_arg(rest, const char *);
    } while (options[count++]);
}

struct real_daemon real_daemon_start(struct real_room *room, ...)
{
    const char *options[MOST_OPTIONS];
    va_list rest;
    va_start(rest, room);
    gather(options, rest);
    va_end(rest);
    return real_daemon_start_list(room, options);
}

struct real_daemon real_daemon_start_list(struct real_room *room, const char *const *options)
{
    return start(room, NULL, REAL_DAEMON_TOLD, real_room_path(room, "s"), options);
}

struct real_daemon real_daemon_start_at(struct real_room *room, const struct real_setup *setup,
                                        enum real_daemon_path how, const char *socket_path, ...)
{
    const char *options[MOST_OPTIONS];
    va_list rest;
    va_start(rest, socket_path);
    gather(options, rest);
    va_end(rest);
    return start(room, setup, how, socket_path, options);
}

struct real_client *real_daemon_connect(const struct real_daemon *daemon)
{
    return real_client_connect(daemon->room, daemon->socket_path);
}

const char *real_daemon_log(const struct real_daemon *daemon)
{
    return real_process_errors(daemon->room, daemon->process);
}

void real_daemon_stop(struct real_daemon *daemon)
{
    real_process_signal(daemon->process, SIGTERM);
    int status = real_process_wait(daemon->process);
    if (status != 0)
        fail_msg("the daemon ended with %d: %s", status, real_daemon_log(daemon));
    assert_int_not_equal(access(daemon->socket_path, F_OK), 0);
}

/* gcc says it with a macro, clang with a question. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

bool real_daemon_is_sanitized(void)
{
    return SANITIZED;
}
