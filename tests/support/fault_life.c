/* A daemon's life with one fault; see fault_life.h. */
#include "tests/support/fault_life.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/faults/interposer.h"
#include "tests/support/real_daemon.h"

enum {
    SOON_MS = 250,       /* what stays away longer waits for what fails for good */
    PATIENCE_MS = 10000, /* ... and longer than this it hangs */
    MOST_FAILURES = 2000,
    FLOOD = 24, /* requests whose answers are more than a socket's buffer holds */
    LINE_SIZE = 65536,
    LOOKERS_BYTES = 65536, /* how much its own buffers can differ while the client looks */
    MOST_ARGUMENTS = 16
};

struct world {
    struct fault_life *life;
    struct real_room *room;
    struct call_faults faults;
    struct real_process *process;
    const char *socket_path;
    const char *config_path;
    const char *metrics_path;
    const char *folder; /* for temporary files of --run */
    int listening;      /* handed over, or -1 */
    int manager;        /* hears what a service manager is told */
    const char *arguments[MOST_ARGUMENTS];
    const char *environment[8];
    struct real_setup setup;
};

struct talk {
    struct world *world;
    int descriptor; /* -1: not connected */
    size_t length;
    char received[LINE_SIZE];
};

__attribute__((format(printf, 2, 3))) static bool complain(struct world *world, const char *format,
                                                           ...)
{
    char *place = world->life->complaint;
    va_list arguments;
    if (*place)
        return false;
    va_start(arguments, format);
    vsnprintf(place, FAULT_LIFE_COMPLAINT, format, arguments);
    va_end(arguments);
    return false;
}

static bool content(const struct world *world)
{
    return world->life->complaint[0] == '\0';
}

static unsigned failures(struct world *world)
{
    return atomic_load(&world->faults.failed);
}

/* Waiting for something: false when it hangs. What fails for good is put right after a while. */
static bool wait_more(struct world *world, uint64_t since_ms, const char *what)
{
    struct timespec rest = {.tv_nsec = 300000};
    uint64_t waited = real_now_ms() - since_ms;
    if (waited > SOON_MS && failures(world) > 0)
        call_faults_put_right(&world->faults);
    if (waited > PATIENCE_MS)
        return complain(world, "hangs: %s", what);
    nanosleep(&rest, NULL);
    return true;
}

/* Forgets what the service manager was told so far. Whether `word` was in it. */
static bool manager_heard(const struct world *world, const char *word)
{
    char words[512];
    ssize_t length;
    bool heard = false;
    while ((length = recv(world->manager, words, sizeof(words) - 1, MSG_DONTWAIT)) > 0) {
        words[length] = '\0';
        heard = heard || strstr(words, word) != NULL;
    }
    return heard;
}

/* ---------------------------------------------------------------------------------- talking */

static bool talk_open(struct talk *talk, struct world *world)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", world->socket_path);
    talk->world = world;
    talk->length = 0;
    talk->descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(talk->descriptor >= 0);
    if (connect(talk->descriptor, (struct sockaddr *)&address, sizeof(address)) == 0)
        return true;
    close(talk->descriptor);
    talk->descriptor = -1;
    return false;
}

static void talk_close(struct talk *talk)
{
    if (talk->descriptor >= 0)
        close(talk->descriptor);
    talk->descriptor = -1;
}

/* The daemon has closed it, which it may do when a call has failed that is not to be repeated. */
static bool ended(struct talk *talk)
{
    struct world *world = talk->world;
    int error = world->life->fault.error;
    talk_close(talk);
    /* With the daemon itself it is judged elsewhere; its end is known a moment later. */
    for (unsigned patience = 0; patience < 20; patience++) {
        if (real_process_has_ended(world->process))
            return false;
        usleep(200);
    }
    if (failures(world) == 0)
        return complain(world, "disconnected without a fault");
    if (error == EINTR || error == EAGAIN)
        return complain(world, "disconnected although nothing was wrong");
    return false;
}

/* Sends lines. false when the connection has ended. */
static bool talk_send(struct talk *talk, const char *lines)
{
    size_t length = strlen(lines);
    if (talk->descriptor < 0)
        return false;
    if (send(talk->descriptor, lines, length, MSG_NOSIGNAL) == (ssize_t)length)
        return true;
    return ended(talk);
}

/* The next line that has `part`, without its end, which is forgotten with the next call. NULL when
 * the connection has ended, or nothing comes. */
static const char *talk_hear(struct talk *talk, const char *part)
{
    static const char nothing[] = "no answer";
    uint64_t since_ms = real_now_ms();
    while (talk->descriptor >= 0) {
        char *end = memchr(talk->received, '\n', talk->length);
        if (end) {
            static char line[LINE_SIZE];
            size_t length = (size_t)(end - talk->received);
            memcpy(line, talk->received, length);
            line[length] = '\0';
            talk->length -= length + 1;
            memmove(talk->received, end + 1, talk->length);
            if (strstr(line, part))
                return line;
            continue;
        }
        struct pollfd waits[] = {{.fd = talk->descriptor, .events = POLLIN},
                                 {.fd = talk->world->manager, .events = POLLIN}};
        poll(waits, 2, 20);
        if (waits[1].revents)
            manager_heard(talk->world, ""); /* one that does not listen is another test's */
        if (!waits[0].revents) {
            if (real_process_has_ended(talk->world->process)) {
                talk_close(talk);
                return NULL;
            }
            if (!wait_more(talk->world, since_ms, nothing))
                return NULL;
            continue;
        }
        ssize_t count =
            recv(talk->descriptor, talk->received + talk->length, LINE_SIZE - talk->length, 0);
        if (count <= 0) {
            ended(talk);
            return NULL;
        }
        talk->length += (size_t)count;
    }
    return NULL;
}

/* Asks, and returns the answer as talk_hear does. */
static const char *talk_ask(struct talk *talk, const char *method, const char *parameters)
{
    char line[512];
    snprintf(line, sizeof(line), "{\"id\":7,\"method\":\"%s\",\"params\":{%s}}\n", method,
             parameters);
    return talk_send(talk, line) ? talk_hear(talk, "\"id\":7") : NULL;
}

/* -------------------------------------------------------------------------------- the world */

static void write_config(const struct world *world, unsigned rules)
{
    char text[128];
    snprintf(text, sizeof(text), "seed = 7\ncapacity = 1MiB\nmax-rules = %u\nadmin-group = root\n",
             rules);
    real_room_write(world->room, world->config_path, text);
}

static int bind_in(const struct world *world, const char *path, int type)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)world;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int descriptor = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    assert_true(descriptor >= 0);
    assert_int_equal(bind(descriptor, (struct sockaddr *)&address, sizeof(address)), 0);
    return descriptor;
}

static void set_arguments(struct world *world)
{
    size_t count = 0;
    const char **list = world->arguments;
    list[count++] = real_program(world->room, "worsegpud");
    if (world->life->kind == FAULT_LIFE_ALONE) {
        list[count++] = "--socket";
        list[count++] = world->socket_path;
    }
    list[count++] = "--config";
    list[count++] = world->config_path;
    list[count++] = "--metrics-file";
    list[count++] = world->metrics_path;
    if (world->life->kind == FAULT_LIFE_RUN) {
        list[count++] = "--run";
        list[count++] = real_program(world->room, "worsegpu-cli");
        list[count++] = "validate";
    }
    list[count] = NULL;
    assert_true(count < MOST_ARGUMENTS);
}

static void set_environment(struct world *world)
{
    size_t count = 0;
    const char *asan = getenv("ASAN_OPTIONS");
    const char **list = world->environment;
    list[count++] = real_room_text(world->room, "LD_PRELOAD=%s",
                                   real_program(world->room, "tests/faults/interposer.so"));
    list[count++] =
        real_room_text(world->room, "ASAN_OPTIONS=%s:verify_asan_link_order=0", asan ? asan : "");
    list[count++] = real_room_text(world->room, "NOTIFY_SOCKET=%s/n", world->room->folder);
    list[count++] = "WATCHDOG_USEC=20000";
    list[count++] = real_room_text(world->room, "TMPDIR=%s", world->folder);
    list[count++] = real_room_text(world->room, "XDG_RUNTIME_DIR=%s", world->folder);
    list[count] = NULL;
    world->setup.environment = list;
}

static void make_world(struct world *world, struct fault_life *life, struct real_room *room)
{
    memset(world, 0, sizeof(*world));
    world->life = life;
    world->room = room;
    world->socket_path = real_room_path(room, "s");
    world->config_path = real_room_path(room, "c");
    world->metrics_path = real_room_path(room, "m");
    world->folder = real_room_path(room, "t");
    world->listening = -1;
    assert_int_equal(mkdir(world->folder, 0700), 0);
    world->manager = bind_in(world, real_room_path(room, "n"), SOCK_DGRAM);
    if (life->kind == FAULT_LIFE_HANDED) {
        world->listening = bind_in(world, world->socket_path, SOCK_STREAM);
        assert_int_equal(listen(world->listening, 16), 0);
    }
    write_config(world, 1000);
    set_arguments(world);
    set_environment(world);
}

static void start(struct world *world, struct call_fault fault)
{
    world->process = call_faults_start(&world->faults, fault, world->room, &world->setup,
                                       world->listening, world->arguments);
}

/* --------------------------------------------------------------------------------- the life */

/* It did not come up: it must say why. */
static bool judge_failed_start(struct world *world)
{
    const char *log = real_daemon_log(&(struct real_daemon){world->room, world->process, NULL});
    bool mute = world->life->fault.number == SYS_write;
    int status = world->process->status;
    if (failures(world) == 0)
        return complain(world, "ended with %d without a fault: %.300s", status, log);
    if (status == 0 || status > 2)
        return complain(world, "ended at the start with %d: %.300s", status, log);
    if (!mute && real_lines_with(log, "worsegpud: ") < 1)
        return complain(world, "ended at the start with %d and no sentence", status);
    return false;
}

/* Whether it lives; if not, it is judged. */
static bool alive(struct world *world)
{
    if (!real_process_has_ended(world->process))
        return true;
    if (world->life->may_abort && world->process->status == 128 + SIGABRT)
        return false;
    return complain(world, "ended with %d while it served: %.300s", world->process->status,
                    real_daemon_log(&(struct real_daemon){world->room, world->process, NULL}));
}

/* Until it answers. false when it does not. */
static bool come_up(struct world *world, struct talk *talk)
{
    uint64_t since_ms = real_now_ms();
    for (;;) {
        if (real_process_has_ended(world->process)) {
            if (!world->life->may_abort || world->process->status != 128 + SIGABRT)
                judge_failed_start(world);
            return false;
        }
        if (talk_open(talk, world)) {
            const char *answer = talk_ask(talk, "info", "");
            if (answer && strstr(answer, "\"result\""))
                return true;
            talk_close(talk);
        }
        if (!content(world) || !wait_more(world, since_ms, "no answer after the start"))
            return false;
    }
}

static void have_read_again(struct world *world)
{
    uint64_t since_ms = real_now_ms();
    write_config(world, 900);
    manager_heard(world, "");
    real_process_signal(world->process, SIGHUP);
    while (!manager_heard(world, "READY=1") && real_now_ms() - since_ms < SOON_MS &&
           !real_process_has_ended(world->process))
        usleep(300);
}

static void await_metrics(const struct world *world)
{
    uint64_t since_ms = real_now_ms();
    while (access(world->metrics_path, F_OK) != 0 && real_now_ms() - since_ms < SOON_MS)
        usleep(300);
}

/* Asks for more than it reads at first. */
static void flood(struct talk *talk)
{
    for (unsigned count = 0; count < FLOOD; count++)
        if (!talk_send(talk, "{\"id\":8,\"method\":\"metrics\"}\n"))
            return;
    for (unsigned count = 0; count < FLOOD; count++)
        if (!talk_hear(talk, "\"id\":8"))
            return;
}

/* What clients do. Any of it may be cut off by the fault. */
static void serve(struct world *world, struct talk *first, struct talk *second)
{
    talk_ask(first, "allocate", "\"requested_bytes\":1000,\"tag\":\"a\"");
    talk_ask(first, "subscribe", "\"after\":0");
    if (talk_open(second, world)) {
        talk_ask(second, "allocate", "\"requested_bytes\":500,\"tag\":\"b\"");
        talk_ask(second, "open", "\"name\":\"mine\"");
        talk_ask(second, "allocate", "\"requested_bytes\":500,\"allocator\":\"mine\"");
        flood(second);
    }
    talk_ask(first, "free", "\"tag\":\"a\"");
    talk_ask(first, "allocate", "\"requested_bytes\":2000");
    if (alive(world))
        have_read_again(world);
    await_metrics(world);
    talk_ask(first, "allocate", "\"requested_bytes\":3000");
}

static uint64_t number_after(const char *text, const char *name)
{
    const char *place = strstr(text, name);
    return place ? strtoull(place + strlen(name), NULL, 10) : UINT64_MAX;
}

/* Waits for what the daemon does in its next turns. */
static bool come_to_rest(struct world *world, struct talk *talk)
{
    uint64_t since_ms = real_now_ms();
    const struct fault_life_normal *end = &world->life->end;
    unsigned lost = world->life->fault.number == SYS_close ? failures(world) : 0;
    for (;;) {
        const char *answer = talk_ask(talk, "snapshot", "");
        if (!answer)
            return false;
        uint64_t left = number_after(answer, "\"active_allocations\":");
        unsigned descriptors = real_process_descriptors(world->process);
        if (left == 0 && (end->descriptors == 0 || descriptors <= end->descriptors + lost)) {
            world->life->end.descriptors = descriptors;
            return true;
        }
        if (real_now_ms() - since_ms > PATIENCE_MS / 2)
            return complain(world, "%llu allocations are left, and %u descriptors instead of %u",
                            (unsigned long long)left, descriptors, end->descriptors);
        manager_heard(world, "");
        usleep(300);
    }
}

/* All clients have gone: a new one looks at what is left. */
static bool look(struct world *world, uint64_t most_memory)
{
    static struct talk talk;
    if (!talk_open(&talk, world))
        return complain(world, "a new client cannot connect: %s", strerror(errno));
    bool well = come_to_rest(world, &talk);
    const char *answer = well ? talk_ask(&talk, "validate", "") : NULL;
    if (answer && !strstr(answer, "\"valid\":true"))
        complain(world, "not valid: %.300s", answer);
    answer = answer ? talk_ask(&talk, "metrics", "") : NULL;
    if (answer) {
        world->life->end.memory_bytes = number_after(answer, "\\nworsegpu_memory_used_bytes ");
        if (world->life->end.memory_bytes > most_memory)
            complain(world, "%llu bytes are in use instead of %llu",
                     (unsigned long long)world->life->end.memory_bytes,
                     (unsigned long long)most_memory);
    }
    talk_close(&talk);
    return answer != NULL;
}

/* The fault may happen to the one who looks as well: then another one does, undisturbed. */
static void look_undisturbed(struct world *world, const struct fault_life_normal *normal)
{
    uint64_t most_memory = normal ? normal->memory_bytes + LOOKERS_BYTES : UINT64_MAX;
    unsigned before = failures(world);
    if (before > 0)
        call_faults_put_right(&world->faults);
    if (look(world, most_memory) || !content(world) || !alive(world))
        return;
    call_faults_put_right(&world->faults);
    if (before == failures(world))
        complain(world, "a new client was disconnected");
    else if (!look(world, most_memory) && alive(world))
        complain(world, "a new client was disconnected once more");
}

static bool await_end(struct world *world, const char *what)
{
    uint64_t since_ms = real_now_ms();
    while (!real_process_has_ended(world->process)) {
        manager_heard(world, "");
        if (!wait_more(world, since_ms, what))
            return false;
    }
    return true;
}

static void stop(struct world *world)
{
    real_process_signal(world->process, SIGTERM);
    if (!await_end(world, "it was told to stop"))
        return;
    int status = world->process->status;
    if (world->life->may_abort && status == 128 + SIGABRT)
        return;
    if (status != 0 && (failures(world) == 0 || status > 2))
        complain(world, "stopped with %d: %.300s", status,
                 real_daemon_log(&(struct real_daemon){world->room, world->process, NULL}));
}

/* Whether the daemon has left a file behind. */
static bool left_files(const struct world *world)
{
    static const char *const names[] = {"s", "s.lock", "m", "m.tmp"};
    for (size_t index = 0; index < sizeof(names) / sizeof(names[0]); index++) {
        bool theirs = index == 0 && world->listening >= 0;
        if (!theirs && access(real_room_path(world->room, names[index]), F_OK) == 0)
            return true;
    }
    return false;
}

/* The next one, without a fault, starts where the last one has left off, and leaves nothing. */
static void start_again(struct world *world)
{
    static struct talk talk;
    struct call_fault none = {.number = world->life->fault.number};
    call_faults_end(&world->faults);
    start(world, none);
    if (come_up(world, &talk)) {
        talk_close(&talk);
        stop(world);
        if (content(world) && left_files(world))
            complain(world, "the next one leaves files behind");
    }
}

static void live_as_server(struct world *world, const struct fault_life_normal *normal)
{
    static struct talk first;
    static struct talk second;
    first.descriptor = second.descriptor = -1;
    start(world, world->life->fault);
    if (come_up(world, &first)) {
        serve(world, &first, &second);
        talk_close(&first);
        talk_close(&second);
        if (content(world) && alive(world))
            look_undisturbed(world, normal);
        if (content(world) && alive(world))
            stop(world);
    }
    talk_close(&first);
}

static bool is_empty(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    unsigned count = 0;
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count == 0;
}

static void live_around_command(struct world *world)
{
    start(world, world->life->fault);
    if (!await_end(world, "the command"))
        return;
    int status = world->process->status;
    const char *log = real_daemon_log(&(struct real_daemon){world->room, world->process, NULL});
    long number = world->life->fault.number;
    bool may_leave = number == SYS_unlink || number == SYS_rmdir;
    if (world->life->may_abort && status == 128 + SIGABRT)
        return;
    if (status >= 128 || (status != 0 && failures(world) == 0))
        complain(world, "ended with %d: %.300s", status, log);
    else if (status != 0 && number != SYS_write && !*log)
        complain(world, "ended with %d and no sentence", status);
    else if (!may_leave && !is_empty(world->folder))
        complain(world, "ended with %d and left files behind: %.300s", status, log);
}

/* Errors that do not last: only a test can make them come again and again. */
static bool says_try_again(int error)
{
    return error == EINTR || error == EAGAIN || error == ECONNABORTED;
}

void fault_life_live(struct fault_life *life, const struct fault_life_normal *normal)
{
    static struct world world;
    void *state;
    assert_int_equal(real_room_set_up(&state), 0);
    make_world(&world, life, state);
    life->complaint[0] = '\0';
    life->end = normal ? *normal : (struct fault_life_normal){0};
    if (life->kind == FAULT_LIFE_RUN)
        live_around_command(&world);
    else
        live_as_server(&world, normal);
    life->seen = atomic_load(&world.faults.seen);
    life->failed = failures(&world);
    if (life->failed > MOST_FAILURES && !says_try_again(life->fault.error))
        complain(&world, "tried %u times without a rest", life->failed);
    if (!content(&world) && !real_process_has_ended(world.process))
        real_process_signal(world.process, SIGKILL);
    real_process_wait(world.process);
    if (content(&world) && life->kind != FAULT_LIFE_RUN && left_files(&world)) {
        if (life->failed == 0)
            complain(&world, "files are left without a fault");
        start_again(&world);
    } else if (content(&world) && life->failed > 0 && world.process->status != 0 &&
               life->kind != FAULT_LIFE_RUN) {
        start_again(&world);
    }
    call_faults_end(&world.faults);
    close(world.manager);
    if (world.listening >= 0)
        close(world.listening);
    real_room_tear_down(&state);
}
