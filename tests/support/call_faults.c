/* System calls that fail on purpose; see call_faults.h. */
#include "tests/support/call_faults.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/faults/interposer.h"

enum {
    CONTROL = 200,      /* the descriptor that the program gives its listener away with */
    FIRST_HANDED = 3,   /* sd_listen_fds(3) */
    CANNOT_CONFINE = 78 /* exit status of a child */
};

/* Asks for two system calls: the one that may fail, and the sign that main begins. The socket to
 * give the listener away with is left alone. The listener, or -1. */
static int confine(long number)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, INTERPOSER_SIGN, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CONTROL, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(steps) / sizeof(steps[0]), .filter = steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

bool call_faults_possible(void)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(confine(SYS_getpgid) >= 0 ? 0 : CANNOT_CONFINE);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

/* -------------------------------------------------------------------------------- descriptors */

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static int give_descriptor(int through, int descriptor)
{
    char byte = 'd';
    struct iovec content = {.iov_base = &byte, .iov_len = 1};
    union control control;
    struct msghdr message = {.msg_iov = &content,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    memset(&control, 0, sizeof(control));
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    memcpy(CMSG_DATA(&control.header), &descriptor, sizeof(int));
    return sendmsg(through, &message, 0) == 1 ? 0 : -1;
}

static int take_descriptor(int through)
{
    char byte;
    int descriptor;
    struct iovec content = {.iov_base = &byte, .iov_len = 1};
    union control control;
    struct msghdr message = {.msg_iov = &content,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    memset(&control, 0, sizeof(control));
    if (recvmsg(through, &message, MSG_CMSG_CLOEXEC) != 1 || control.header.cmsg_type != SCM_RIGHTS)
        return -1;
    memcpy(&descriptor, CMSG_DATA(&control.header), sizeof(int));
    return descriptor;
}

/* What a descriptor of another process is of, from the name that /proc has for it. */
static enum call_object object_of(uint32_t thread, uint64_t descriptor)
{
    static const struct {
        const char *begin;
        enum call_object object;
    } kinds[] = {{"socket:", CALL_OF_SOCKET},
                 {"pipe:", CALL_OF_PIPE},
                 {"anon_inode:", CALL_OF_EVENT},
                 {"/", CALL_OF_FILE}};
    char path[64];
    char name[64] = "";
    snprintf(path, sizeof(path), "/proc/%u/fd/%d", (unsigned)thread, (int)descriptor);
    if (readlink(path, name, sizeof(name) - 1) > 0)
        for (size_t index = 0; index < sizeof(kinds) / sizeof(kinds[0]); index++)
            if (strncmp(name, kinds[index].begin, strlen(kinds[index].begin)) == 0)
                return kinds[index].object;
    return CALL_OF_ANYTHING;
}

/* ------------------------------------------------------------------------------- the answers */

/* Whether the one that asks runs our program, and not what that has started. */
static bool is_program(const struct call_faults *faults, uint32_t thread)
{
    char path[64];
    char name[REAL_PATH_SIZE] = "";
    snprintf(path, sizeof(path), "/proc/%u/exe", (unsigned)thread);
    return readlink(path, name, sizeof(name) - 1) > 0 && strcmp(name, faults->program) == 0;
}

/* Whether this use must fail. */
static bool must_fail(struct call_faults *faults, const struct seccomp_notif *asked)
{
    const struct call_fault *fault = &faults->fault;
    if (!is_program(faults, asked->pid))
        return false;
    if (asked->data.nr == INTERPOSER_SIGN) {
        faults->begun = true;
        return false;
    }
    if (!faults->begun || (fault->object != CALL_OF_ANYTHING &&
                           object_of(asked->pid, asked->data.args[0]) != fault->object))
        return false;
    unsigned use = atomic_fetch_add(&faults->seen, 1) + 1;
    if (fault->nth == 0 || use < fault->nth || (use > fault->nth && !fault->for_good) ||
        atomic_load(&faults->right))
        return false;
    atomic_fetch_add(&faults->failed, 1);
    return true;
}

static void *answer(void *context)
{
    struct call_faults *faults = context;
    struct pollfd waits[] = {{.fd = faults->listener, .events = POLLIN},
                             {.fd = faults->ending, .events = POLLIN}};
    while (poll(waits, 2, -1) >= 0 && !waits[1].revents && !(waits[0].revents & POLLHUP)) {
        struct seccomp_notif asked;
        memset(&asked, 0, sizeof(asked));
        if (ioctl(faults->listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0)
            continue; /* it was interrupted, or has ended */
        struct seccomp_notif_resp told = {.id = asked.id};
        if (must_fail(faults, &asked))
            told.error = -faults->fault.error;
        else
            told.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        ioctl(faults->listener, SECCOMP_IOCTL_NOTIF_SEND, &told);
    }
    return NULL;
}

/* -------------------------------------------------------------------------------- the program */

struct begin {
    int control;
    int listening;
    long number;
    const char *const *arguments;
};

/* In the child, without cmocka. */
static int begin_program(void *context)
{
    const struct begin *begin = context;
    if (begin->listening >= 0) {
        char number[24];
        snprintf(number, sizeof(number), "%d", (int)getpid());
        setenv("LISTEN_PID", number, 1);
        setenv("LISTEN_FDS", "1", 1);
    }
    if (dup3(begin->control, CONTROL, O_CLOEXEC) < 0)
        return CANNOT_CONFINE;
    if (begin->listening >= 0 && begin->listening != FIRST_HANDED &&
        dup2(begin->listening, FIRST_HANDED) < 0)
        return CANNOT_CONFINE;
    if (begin->listening == FIRST_HANDED && fcntl(FIRST_HANDED, F_SETFD, 0) != 0)
        return CANNOT_CONFINE;
    int listener = confine(begin->number);
    if (listener < 0 || give_descriptor(CONTROL, listener) != 0)
        return CANNOT_CONFINE;
    execv(begin->arguments[0], (char *const *)begin->arguments);
    return CANNOT_CONFINE;
}

struct real_process *call_faults_start(struct call_faults *faults, struct call_fault fault,
                                       struct real_room *room, const struct real_setup *setup,
                                       int listening, const char *const *arguments)
{
    int pair[2];
    memset(faults, 0, sizeof(*faults));
    faults->fault = fault;
    faults->program = arguments[0];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct begin begin = {
        .control = pair[1], .listening = listening, .number = fault.number, .arguments = arguments};
    struct real_process *process = real_process_fork(room, setup, begin_program, &begin);
    close(pair[1]);
    faults->listener = take_descriptor(pair[0]);
    close(pair[0]);
    assert_true(faults->listener >= 0);
    faults->ending = eventfd(0, EFD_CLOEXEC);
    assert_true(faults->ending >= 0);
    assert_int_equal(pthread_create(&faults->thread, NULL, answer, faults), 0);
    return process;
}

void call_faults_put_right(struct call_faults *faults)
{
    atomic_store(&faults->right, true);
}

void call_faults_end(struct call_faults *faults)
{
    uint64_t one = 1;
    assert_int_equal(write(faults->ending, &one, sizeof(one)), (ssize_t)sizeof(one));
    pthread_join(faults->thread, NULL);
    close(faults->listener);
    close(faults->ending);
}
