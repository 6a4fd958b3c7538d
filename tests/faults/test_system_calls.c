/* Every system call of the daemon fails once, and for good, at its first use, its second, ... with
 * each error that it can have, until a whole life of the daemon has passed without the fault. What
 * must hold then is said in tests/support/fault_life.h.
 *
 * WORSEGPU_FAULTS=all tries every use; left out, only the first of each and fewer errors.
 * WORSEGPU_FAULTS=NAME tries every use of one call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/fault_life.h"
#include "tests/support/real_daemon.h"

enum {
    MOST_ERRORS = 12,
    FEW_USES = 1,
    FEWEST_DESCRIPTORS = 5, /* with which the loader can open libraries */
    MOST_DESCRIPTORS = 24
};

enum how {
    ONCE = 1,
    FOR_GOOD = 2,
    BOTH = ONCE | FOR_GOOD
};

/* Whom the failure may end, and whom the test itself would end. */
enum mark {
    PLAIN,
    ABORTS,      /* libuv ends the process: the next start must be unhindered */
    OF_ALLOCATOR /* the C library's own: a sanitizer's allocator ends the program instead */
};

/* The one table. Not in it are calls that cannot fail when they are called rightly, as umask,
 * getpid, rt_sigaction, rt_sigprocmask, futex, madvise, munmap and exit; and what cannot happen:
 * EAGAIN of an event or a pipe of signals, which would mean that a wake-up is on its way already.
 */
static const struct row {
    const char *name;
    long number;
    enum call_object object;
    enum fault_life_kind kind;
    enum how how;
    enum mark mark;
    int errors[MOST_ERRORS]; /* up to the first 0 */
} rows[] = {
#define CALL(name) #name, SYS_##name
    {CALL(accept4),
     CALL_OF_SOCKET,
     FAULT_LIFE_ALONE,
     BOTH,
     PLAIN,
     {EINTR, EAGAIN, EMFILE, ENFILE, ENOMEM, ENOBUFS, ECONNABORTED, EPERM}},
    {CALL(read),
     CALL_OF_SOCKET,
     FAULT_LIFE_ALONE,
     BOTH,
     PLAIN,
     {EINTR, EAGAIN, ECONNRESET, ENOMEM, ETIMEDOUT}},
    {CALL(recvfrom),
     CALL_OF_SOCKET,
     FAULT_LIFE_ALONE,
     BOTH,
     PLAIN,
     {EINTR, EAGAIN, ECONNRESET, ENOMEM, ETIMEDOUT}},
    {CALL(read), CALL_OF_FILE, FAULT_LIFE_ALONE, BOTH, PLAIN, {EINTR, EIO, ENOMEM, EISDIR}},
    {CALL(read), CALL_OF_PIPE, FAULT_LIFE_ALONE, ONCE, PLAIN, {EINTR}},
    {CALL(read), CALL_OF_EVENT, FAULT_LIFE_ALONE, ONCE, PLAIN, {EINTR}},
    {CALL(write),
     CALL_OF_SOCKET,
     FAULT_LIFE_ALONE,
     BOTH,
     PLAIN,
     {EINTR, EAGAIN, EPIPE, ECONNRESET, ENOMEM}},
    {CALL(write), CALL_OF_SOCKET, FAULT_LIFE_ALONE, ONCE, PLAIN, {ENOBUFS}}, /* EAGAIN for libuv */
    {CALL(writev),
     CALL_OF_SOCKET,
     FAULT_LIFE_ALONE,
     BOTH,
     PLAIN,
     {EINTR, EAGAIN, EPIPE, ECONNRESET, ENOBUFS, ENOMEM}},
    {CALL(sendto),
     CALL_OF_SOCKET,
     FAULT_LIFE_ALONE,
     BOTH,
     PLAIN,
     {EINTR, EAGAIN, EPIPE, ECONNRESET, ENOBUFS, ENOMEM}},
    {CALL(sendmsg),
     CALL_OF_SOCKET,
     FAULT_LIFE_ALONE,
     BOTH,
     PLAIN,
     {EINTR, EAGAIN, EPIPE, ECONNREFUSED, ENOBUFS, ENOMEM}},
    {CALL(write),
     CALL_OF_FILE,
     FAULT_LIFE_ALONE,
     BOTH,
     PLAIN,
     {EINTR, ENOSPC, EIO, EDQUOT, EFBIG, EPERM}},
    {CALL(write), CALL_OF_PIPE, FAULT_LIFE_ALONE, ONCE, PLAIN, {EINTR}},
    {CALL(write), CALL_OF_EVENT, FAULT_LIFE_ALONE, ONCE, PLAIN, {EINTR}},
    {CALL(openat),
     CALL_OF_ANYTHING,
     FAULT_LIFE_ALONE,
     BOTH,
     PLAIN,
     {EINTR, EMFILE, ENFILE, ENOMEM, EACCES, ENOENT, ENOSPC, EROFS, EIO}},
    {CALL(close), CALL_OF_FILE, FAULT_LIFE_ALONE, ONCE, PLAIN, {EINTR, EIO, ENOSPC, EDQUOT}},
    {CALL(newfstatat), CALL_OF_ANYTHING, FAULT_LIFE_ALONE, BOTH, PLAIN, {ENOMEM, EACCES, EIO}},
    {CALL(fstat), CALL_OF_ANYTHING, FAULT_LIFE_ALONE, BOTH, PLAIN, {ENOMEM, EIO}},
    {CALL(lseek), CALL_OF_FILE, FAULT_LIFE_ALONE, BOTH, PLAIN, {ESPIPE, EIO}},
    {CALL(flock), CALL_OF_FILE, FAULT_LIFE_ALONE, BOTH, PLAIN, {EINTR, ENOLCK, EWOULDBLOCK}},
    {CALL(unlink), CALL_OF_ANYTHING, FAULT_LIFE_ALONE, BOTH, PLAIN, {EACCES, EBUSY, EIO, EROFS}},
    {CALL(rename),
     CALL_OF_ANYTHING,
     FAULT_LIFE_ALONE,
     BOTH,
     PLAIN,
     {EACCES, ENOSPC, EIO, EROFS, EDQUOT}},
    {CALL(fchmod), CALL_OF_FILE, FAULT_LIFE_ALONE, BOTH, PLAIN, {EPERM, EIO, EROFS}},
    {CALL(socket),
     CALL_OF_ANYTHING,
     FAULT_LIFE_ALONE,
     BOTH,
     PLAIN,
     {EMFILE, ENFILE, ENOMEM, ENOBUFS, EACCES}},
    {CALL(bind),
     CALL_OF_SOCKET,
     FAULT_LIFE_ALONE,
     BOTH,
     PLAIN,
     {EACCES, EADDRINUSE, ENOMEM, ENOSPC, EROFS}},
    {CALL(listen), CALL_OF_SOCKET, FAULT_LIFE_ALONE, BOTH, PLAIN, {EADDRINUSE, ENOMEM}},
    {CALL(connect),
     CALL_OF_SOCKET,
     FAULT_LIFE_ALONE,
     BOTH,
     PLAIN,
     {EINTR, EAGAIN, ECONNREFUSED, ENOMEM}},
    {CALL(getsockopt), CALL_OF_SOCKET, FAULT_LIFE_ALONE, BOTH, PLAIN, {ENOMEM, ENOBUFS}},
    {CALL(setsockopt), CALL_OF_SOCKET, FAULT_LIFE_ALONE, BOTH, PLAIN, {ENOMEM, EPERM}},
    {CALL(ioctl), CALL_OF_ANYTHING, FAULT_LIFE_ALONE, BOTH, PLAIN, {ENOMEM, EIO}},
    {CALL(fcntl), CALL_OF_ANYTHING, FAULT_LIFE_ALONE, BOTH, PLAIN, {EMFILE, ENOMEM}},
    {CALL(getrandom), CALL_OF_ANYTHING, FAULT_LIFE_ALONE, BOTH, PLAIN, {EINTR, ENOSYS, EIO}},
    {CALL(pipe2), CALL_OF_ANYTHING, FAULT_LIFE_ALONE, ONCE, ABORTS, {EMFILE, ENFILE}},
    {CALL(eventfd2), CALL_OF_ANYTHING, FAULT_LIFE_ALONE, BOTH, PLAIN, {EMFILE, ENFILE, ENOMEM}},
    {CALL(epoll_create1),
     CALL_OF_ANYTHING,
     FAULT_LIFE_ALONE,
     BOTH,
     PLAIN,
     {EMFILE, ENFILE, ENOMEM}},
    {CALL(epoll_ctl), CALL_OF_ANYTHING, FAULT_LIFE_ALONE, BOTH, ABORTS, {ENOMEM, ENOSPC}},
    {CALL(epoll_wait), CALL_OF_ANYTHING, FAULT_LIFE_ALONE, ONCE, PLAIN, {EINTR}},
    {CALL(epoll_pwait), CALL_OF_ANYTHING, FAULT_LIFE_ALONE, ONCE, PLAIN, {EINTR}},
    {CALL(clone3), CALL_OF_ANYTHING, FAULT_LIFE_ALONE, BOTH, PLAIN, {EAGAIN, ENOMEM}},
    {CALL(mmap), CALL_OF_ANYTHING, FAULT_LIFE_ALONE, BOTH, OF_ALLOCATOR, {ENOMEM, EAGAIN}},
    {CALL(mprotect), CALL_OF_ANYTHING, FAULT_LIFE_ALONE, BOTH, OF_ALLOCATOR, {ENOMEM}},
    /* What comes with a socket that was handed over. */
    {CALL(fcntl), CALL_OF_ANYTHING, FAULT_LIFE_HANDED, BOTH, PLAIN, {ENOMEM}},
    {CALL(getsockname), CALL_OF_SOCKET, FAULT_LIFE_HANDED, BOTH, PLAIN, {ENOBUFS, ENOMEM}},
    {CALL(getsockopt), CALL_OF_SOCKET, FAULT_LIFE_HANDED, BOTH, PLAIN, {ENOBUFS, ENOMEM}},
    {CALL(newfstatat), CALL_OF_ANYTHING, FAULT_LIFE_HANDED, BOTH, PLAIN, {ENOMEM, EIO}},
    {CALL(accept4), CALL_OF_SOCKET, FAULT_LIFE_HANDED, BOTH, PLAIN, {EMFILE, ECONNABORTED}},
    {CALL(listen), CALL_OF_SOCKET, FAULT_LIFE_HANDED, BOTH, PLAIN, {EADDRINUSE}},
    /* What a command around which it runs needs. */
    {CALL(mkdir),
     CALL_OF_ANYTHING,
     FAULT_LIFE_RUN,
     BOTH,
     PLAIN,
     {EACCES, ENOSPC, EROFS, EMLINK, ENOMEM}},
    {CALL(rmdir), CALL_OF_ANYTHING, FAULT_LIFE_RUN, BOTH, PLAIN, {EACCES, EIO, ENOTEMPTY}},
    {CALL(unlink), CALL_OF_ANYTHING, FAULT_LIFE_RUN, BOTH, PLAIN, {EACCES, EIO}},
    {CALL(access), CALL_OF_ANYTHING, FAULT_LIFE_RUN, BOTH, PLAIN, {EACCES, EIO, ENOMEM}},
    {CALL(faccessat2), CALL_OF_ANYTHING, FAULT_LIFE_RUN, BOTH, PLAIN, {EACCES, EIO, ENOMEM}},
    {CALL(getrandom), CALL_OF_ANYTHING, FAULT_LIFE_RUN, BOTH, PLAIN, {EINTR, ENOSYS}},
    {CALL(pipe2), CALL_OF_ANYTHING, FAULT_LIFE_RUN, ONCE, ABORTS, {EMFILE, ENFILE}},
    {CALL(clone), CALL_OF_ANYTHING, FAULT_LIFE_RUN, BOTH, PLAIN, {EAGAIN, ENOMEM}},
    {CALL(clone3), CALL_OF_ANYTHING, FAULT_LIFE_RUN, BOTH, PLAIN, {EAGAIN, ENOMEM}},
    {CALL(execve),
     CALL_OF_ANYTHING,
     FAULT_LIFE_RUN,
     BOTH,
     PLAIN,
     {EACCES, ENOMEM, ENOENT, ETXTBSY, E2BIG, EIO}},
    {CALL(dup2), CALL_OF_ANYTHING, FAULT_LIFE_RUN, BOTH, PLAIN, {EINTR, EBUSY}},
    {CALL(fcntl), CALL_OF_ANYTHING, FAULT_LIFE_RUN, BOTH, PLAIN, {EMFILE, ENOMEM}},
    {CALL(wait4), CALL_OF_ANYTHING, FAULT_LIFE_RUN, ONCE, PLAIN, {EINTR}},
#undef CALL
};

struct tally {
    unsigned cases;
    unsigned complaints;
};

/* One life. false when the fault was not reached. */
static bool try_use(const struct row *row, int error, unsigned nth, bool for_good,
                    const struct fault_life_normal *normal, struct tally *tally)
{
    struct fault_life life = {
        .kind = row->kind,
        .fault = {row->number, row->object, error, nth, for_good},
        .may_abort = row->mark == ABORTS,
    };
    fault_life_live(&life, normal);
    if (life.failed > 0)
        tally->cases++;
    if (*life.complaint) {
        tally->complaints++;
        print_error("%s, %s, use %u, %s (life %d, object %d): %s\n", row->name,
                    strerrorname_np(error), nth, for_good ? "for good" : "once", (int)row->kind,
                    (int)row->object, life.complaint);
    }
    return life.failed > 0;
}

/* Unless every use is asked for, only one error lasts for good, and a sanitizer, which is slow,
 * gets one error of each call. */
static void try_row(const struct row *row, const struct fault_life_normal *normal, unsigned most,
                    struct tally *tally)
{
    for (int how = ONCE; how <= FOR_GOOD; how <<= 1) {
        if (!(row->how & (unsigned)how))
            continue;
        bool one = most == FEW_USES && (how == FOR_GOOD || real_daemon_is_sanitized());
        for (size_t index = 0; index < (one ? 1 : MOST_ERRORS) && row->errors[index]; index++)
            for (unsigned nth = 1; nth <= most; nth++)
                if (!try_use(row, row->errors[index], nth, how == FOR_GOOD, normal, tally))
                    break;
    }
}

/* Memory and descriptors without a fault. */
static struct fault_life_normal learn(enum fault_life_kind kind)
{
    struct fault_life life = {.kind = kind, .fault = {.number = SYS_umask}};
    fault_life_live(&life, NULL);
    if (*life.complaint)
        fail_msg("without a fault: %s", life.complaint);
    return life.end;
}

static void try_kind(enum fault_life_kind kind)
{
    const char *wish = getenv("WORSEGPU_FAULTS");
    bool all = wish && strcmp(wish, "all") == 0;
    struct tally sum = {0};
    if (!call_faults_possible()) {
        print_message("skipped: the kernel lets nobody decide about system calls here\n");
        skip();
    }
    struct fault_life_normal normal = learn(kind);
    for (size_t index = 0; index < sizeof(rows) / sizeof(rows[0]); index++) {
        const struct row *row = &rows[index];
        struct tally tally = {0};
        if (row->kind != kind || (wish && !all && strcmp(wish, row->name) != 0) ||
            (row->mark == OF_ALLOCATOR && real_daemon_is_sanitized()))
            continue;
        uint64_t begun_ms = real_now_ms();
        try_row(row, &normal, wish ? UINT32_MAX : FEW_USES, &tally);
        if (wish)
            print_message("%s: %u cases, %u complaints, %llu ms\n", row->name, tally.cases,
                          tally.complaints, (unsigned long long)(real_now_ms() - begun_ms));
        sum.cases += tally.cases;
        sum.complaints += tally.complaints;
    }
    print_message("%u cases\n", sum.cases);
    if (sum.complaints > 0)
        fail_msg("%u of %u cases went wrong", sum.complaints, sum.cases);
}

static void test_a_daemon_alone_outlives_each_failing_call(void **state)
{
    (void)state;
    try_kind(FAULT_LIFE_ALONE);
}

static void test_a_daemon_with_a_socket_from_a_manager_outlives_each_failing_call(void **state)
{
    (void)state;
    try_kind(FAULT_LIFE_HANDED);
}

static void test_a_daemon_around_a_command_ends_in_order_at_each_failing_call(void **state)
{
    (void)state;
    try_kind(FAULT_LIFE_RUN);
}

/* Whether a daemon that may open so many descriptors serves; if not, it must say why. */
static bool serves_with(struct real_room *room, uint64_t limit)
{
    const struct real_setup setup = {.open_files = limit};
    const char *path = real_room_path(room, "s");
    struct real_daemon daemon = {
        room,
        real_process_start(room, &setup, real_program(room, "worsegpud"), "--socket", path, NULL),
        path};
    struct real_wait wait = {0};
    /* Twice: one that is about to end closes the first as well as one that serves. */
    while (!real_process_has_ended(daemon.process) &&
           !(real_client_probe(path) && real_client_probe(path)))
        real_wait_more(&wait);
    if (!daemon.process->ended) {
        real_client_call(real_daemon_connect(&daemon), "{\"id\":1,\"method\":\"info\"}");
        real_daemon_stop(&daemon);
        return true;
    }
    if (daemon.process->status != 1 ||
        real_lines_with(real_daemon_log(&daemon), "worsegpud: error: ") != 1)
        fail_msg("with %u descriptors it ended with %d: %.300s", (unsigned)limit,
                 daemon.process->status, real_daemon_log(&daemon));
    return false;
}

static void test_with_any_number_of_descriptors_it_serves_or_says_why(void **state)
{
    bool served = false;
    for (uint64_t limit = FEWEST_DESCRIPTORS; limit <= MOST_DESCRIPTORS; limit++) {
        bool serves = serves_with(*state, limit);
        assert_true(serves || !served); /* more are never worse */
        served = served || serves;
    }
    assert_true(served);
    assert_false(serves_with(*state, FEWEST_DESCRIPTORS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_with_any_number_of_descriptors_it_serves_or_says_why),
        cmocka_unit_test(test_a_daemon_alone_outlives_each_failing_call),
        cmocka_unit_test(test_a_daemon_with_a_socket_from_a_manager_outlives_each_failing_call),
        cmocka_unit_test(test_a_daemon_around_a_command_ends_in_order_at_each_failing_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
