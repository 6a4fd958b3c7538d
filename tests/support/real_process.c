/* Real programs for integration tests; see real_process.h. */
#include "tests/support/real_process.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/real_client.h"

enum {
    MOST_ARGUMENTS = 64,
    CANNOT_RUN = 125
};

/* Texts handed out, freed with the room. */
struct real_text {
    struct real_text *next;
    char bytes[];
};

/* ------------------------------------------------------------------------------------------ time
 */

uint64_t real_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

bool real_wait_is_over(const struct real_wait *wait)
{
    return wait->until_ms != 0 && real_now_ms() >= wait->until_ms;
}

bool real_wait_more(struct real_wait *wait)
{
    struct timespec rest = {.tv_nsec = 1000000};
    uint64_t now = real_now_ms();
    if (wait->until_ms == 0)
        wait->until_ms = now + REAL_PATIENCE_MS;
    if (now >= wait->until_ms)
        fail_msg("waited %d s in vain", REAL_PATIENCE_MS / 1000);
    nanosleep(&rest, NULL);
    return true;
}

/* ------------------------------------------------------------------------------------------ room
 */

int real_room_set_up(void **state)
{
    struct real_room *room = calloc(1, sizeof(*room));
    const char *parent = getenv("TMPDIR");
    if (!room)
        return -1;
    snprintf(room->folder, sizeof(room->folder), "%s/room-XXXXXX",
             parent && *parent ? parent : "/tmp");
    if (!mkdtemp(room->folder) ||
        chmod(room->folder, 0755) != 0) { /* other users enter it as well */
        fprintf(stderr, "cannot make %s: %s\n", room->folder, strerror(errno));
        free(room);
        return -1;
    }
    *state = room;
    return 0;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

int real_room_tear_down(void **state)
{
    struct real_room *room = *state;
    real_clients_release(room);
    for (struct real_process *process = room->processes; process; process = process->next)
        if (!process->ended)
            kill(process->pid, SIGKILL);
    while (room->processes) {
        struct real_process *process = room->processes;
        room->processes = process->next;
        if (!process->ended)
            waitpid(process->pid, NULL, 0);
        free(process);
    }
    while (room->texts) {
        struct real_text *text = room->texts;
        room->texts = text->next;
        free(text);
    }
    int status = nftw(room->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(room);
    return status;
}

static char *new_text(struct real_room *room, size_t length)
{
    struct real_text *text = malloc(sizeof(*text) + length + 1);
    assert_non_null(text);
    text->next = room->texts;
    room->texts = text;
    text->bytes[length] = '\0';
    return text->bytes;
}

const char *real_room_text(struct real_room *room, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    assert_true(length >= 0);
    char *text = new_text(room, (size_t)length);
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

const char *real_room_path(struct real_room *room, const char *name)
{
    return real_room_text(room, "%s/%s", room->folder, name);
}

void real_room_write(struct real_room *room, const char *path, const char *content)
{
    (void)room;
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

char *real_room_read(struct real_room *room, const char *path)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) != 0) {
        fail_msg("cannot read %s: %s", path, strerror(errno));
        return NULL; /* never: it has jumped away */
    }
    char *text = new_text(room, (size_t)status.st_size);
    size_t length = 0;
    ssize_t count;
    while (length < (size_t)status.st_size &&
           (count = read(file, text + length, (size_t)status.st_size - length)) > 0)
        length += (size_t)count;
    text[length] = '\0';
    close(file);
    return text;
}

const char *real_program(struct real_room *room, const char *name)
{
    const char *build = getenv("WORSEGPU_BUILD");
    char path[4096];
    if (!realpath(build && *build ? build : "build", path))
        fail_msg("there is no folder %s: build first", build ? build : "build");
    return real_room_text(room, "%s/%s", path, name);
}

/* ------------------------------------------------------------------------------------- processes
 */

static void redirect(int descriptor, const char *path, int flags)
{
    int file = open(path, flags, 0666);
    if (file < 0 || dup2(file, descriptor) < 0)
        _exit(CANNOT_RUN);
    if (file != descriptor)
        close(file);
}

static void apply_setup(const struct real_setup *setup)
{
    for (const char *const *entry = setup->environment; entry && *entry; entry++) {
        const char *equal = strchr(*entry, '=');
        char name[128];
        if (!equal) {
            unsetenv(*entry);
            continue;
        }
        snprintf(name, sizeof(name), "%.*s", (int)(equal - *entry), *entry);
        setenv(name, equal + 1, 1);
    }
    if (setup->open_files) {
        struct rlimit limit = {.rlim_cur = setup->open_files, .rlim_max = setup->open_files};
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            _exit(CANNOT_RUN);
    }
    if (setup->folder && chdir(setup->folder) != 0)
        _exit(CANNOT_RUN);
    if (setup->user &&
        (setgroups(0, NULL) != 0 || setgid(setup->user) != 0 || setuid(setup->user) != 0))
        _exit(CANNOT_RUN);
}

/* Forks. In the child: its streams and setup are in place and NULL is returned. */
static struct real_process *begin(struct real_room *room, const struct real_setup *setup)
{
    struct real_process *process = calloc(1, sizeof(*process));
    assert_non_null(process);
    unsigned number = room->process_count++;
    snprintf(process->output, sizeof(process->output), "%.480s/output-%u", room->folder, number);
    snprintf(process->errors, sizeof(process->errors), "%.480s/errors-%u", room->folder, number);
    real_room_write(room, process->output, ""); /* there from the start, for those who look */
    real_room_write(room, process->errors, "");
    pid_t parent = getpid();
    fflush(NULL);
    process->pid = fork();
    if (process->pid == 0) {
        /* It must not outlive a test that was killed. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(CANNOT_RUN);
        real_clients_close(room); /* else connections would outlive their clients */
        redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
        redirect(STDOUT_FILENO, process->output, O_WRONLY | O_CREAT | O_TRUNC);
        redirect(STDERR_FILENO, process->errors, O_WRONLY | O_CREAT | O_TRUNC);
        if (setup)
            apply_setup(setup);
        return NULL;
    }
    if (process->pid < 0) {
        int why = errno;
        free(process);
        fail_msg("cannot fork: %s", strerror(why));
        return NULL; /* never: it has jumped away */
    }
    process->next = room->processes;
    room->processes = process;
    return process;
}

struct real_process *real_process_start_list(struct real_room *room, const struct real_setup *setup,
                                             const char *const *arguments)
{
    struct real_process *process = begin(room, setup);
    if (process)
        return process;
    execvp(arguments[0], (char *const *)arguments);
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", arguments[0], strerror(errno));
    _exit(CANNOT_RUN);
}

/* Gathers the arguments of a call into a list. */
static void gather(const char *arguments[MOST_ARGUMENTS], const char *program, va_list rest)
{
    size_t count = 0;
    arguments[count++] = program;
    do {
        assert_true(count < MOST_ARGUMENTS);
        arguments[count] = va_arg(rest, const char *);
    } while (arguments[count++]);
}

struct real_process *real_process_start(struct real_room *room, const struct real_setup *setup,
                                        const char *program, ...)
{
    const char *arguments[MOST_ARGUMENTS];
    va_list rest;
    va_start(rest, program);
    gather(arguments, program, rest);
    va_end(rest);
    return real_process_start_list(room, setup, arguments);
}

struct real_process *real_process_run(struct real_room *room, const struct real_setup *setup,
                                      const char *program, ...)
{
    const char *arguments[MOST_ARGUMENTS];
    va_list rest;
    va_start(rest, program);
    gather(arguments, program, rest);
    va_end(rest);
    struct real_process *process = real_process_start_list(room, setup, arguments);
    real_process_wait(process);
    return process;
}

struct real_process *real_process_fork(struct real_room *room, const struct real_setup *setup,
                                       int (*work)(void *context), void *context)
{
    struct real_process *process = begin(room, setup);
    if (!process)
        _exit(work(context));
    return process;
}

void real_process_signal(const struct real_process *process, int signal)
{
    assert_false(process->ended);
    assert_int_equal(kill(process->pid, signal), 0);
}

bool real_process_has_ended(struct real_process *process)
{
    int status;
    if (process->ended || waitpid(process->pid, &status, WNOHANG) != process->pid)
        return process->ended;
    process->ended = true;
    process->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return true;
}

int real_process_wait(struct real_process *process)
{
    struct real_wait wait = {0};
    while (!real_process_has_ended(process))
        real_wait_more(&wait);
    return process->status;
}

const char *real_process_output(struct real_room *room, const struct real_process *process)
{
    return real_room_read(room, process->output);
}

const char *real_process_errors(struct real_room *room, const struct real_process *process)
{
    return real_room_read(room, process->errors);
}

/* ----------------------------------------------------------------------------------------- /proc
 */

/* Reads a small file of /proc; they have no size. */
static void read_facts(const struct real_process *process, const char *name, char *text,
                       size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)process->pid, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = file < 0 ? -1 : read(file, text, size - 1);
    if (file >= 0)
        close(file);
    if (count <= 0)
        fail_msg("cannot read %s: has it ended?", path);
    text[count] = '\0';
}

uint64_t real_process_resident_bytes(const struct real_process *process)
{
    char text[256];
    read_facts(process, "statm", text, sizeof(text));
    const char *second = strchr(text, ' ');
    assert_non_null(second);
    return strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t real_process_cpu_ms(const struct real_process *process)
{
    char text[1024];
    read_facts(process, "stat", text, sizeof(text));
    char *field = strrchr(text, ')'); /* the name before it may hold anything */
    assert_non_null(field);
    for (int number = 2; number < 14; number++) {
        field = strchr(field + 1, ' ');
        assert_non_null(field);
    }
    uint64_t ticks = strtoull(field, &field, 10); /* fields 14 and 15 of proc(5): utime, stime */
    ticks += strtoull(field, NULL, 10);
    return ticks * 1000u / (uint64_t)sysconf(_SC_CLK_TCK);
}

unsigned real_process_descriptors(const struct real_process *process)
{
    char path[64];
    unsigned count = 0;
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)process->pid);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* ----------------------------------------------------------------------------------------- lines
 */

unsigned real_lines(const char *text)
{
    unsigned count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

unsigned real_lines_with(const char *text, const char *part)
{
    unsigned count = 0;
    while ((text = strstr(text, part)) != NULL) {
        count++;
        text = strchr(text, '\n');
        if (!text)
            break;
    }
    return count;
}
