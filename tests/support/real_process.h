/* Real programs for integration tests: a room to run them in, and the processes themselves.
 *
 * A room is a fresh temporary folder with all that a test starts in it. It is the cmocka state of
 * one test: set up before it, torn down after it, also when the test failed. Nothing outlives it:
 * processes are killed, descriptors closed, files removed. What the functions here hand out belongs
 * to the room.
 *
 * All of them end the test with a failure when something does not go as it must; none waits for
 * ever. */
#ifndef REAL_PROCESS_H
#define REAL_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    REAL_PATH_SIZE = 512,
    REAL_PATIENCE_MS =
        60000 /* longer than anything takes that works: only a hanging test meets it */
};

struct real_process {
    struct real_process *next;
    pid_t pid;
    bool ended;
    int status; /* once ended, as a shell says it: 128 + N when signal N ended it */
    char output[REAL_PATH_SIZE]; /* files with what it wrote to stdout and stderr */
    char errors[REAL_PATH_SIZE];
};

struct real_client;

struct real_room {
    char folder[REAL_PATH_SIZE];
    struct real_process *processes;
    struct real_client *clients; /* see real_client.h */
    struct real_text *texts;
    unsigned process_count;
};

/* How a process differs from the test. All zero: not at all. */
struct real_setup {
    const char *const *environment; /* "NAME=value" sets, "NAME" removes; ends with NULL */
    const char *folder;             /* where it runs */
    uint64_t open_files;            /* RLIMIT_NOFILE, soft and hard */
    uid_t user;                     /* becomes this user and group, with no other groups */
};

/* cmocka's fixture of one test. */
int real_room_set_up(void **state);
int real_room_tear_down(void **state);
#define IN_ROOM(test) cmocka_unit_test_setup_teardown(test, real_room_set_up, real_room_tear_down)

/* A path in the room's folder. */
const char *real_room_path(struct real_room *room, const char *name);

/* Text made as printf does. */
__attribute__((format(printf, 2, 3))) const char *real_room_text(struct real_room *room,
                                                                 const char *format, ...);

/* Writes a file, and reads a whole one; the text may be changed. */
void real_room_write(struct real_room *room, const char *path, const char *content);
char *real_room_read(struct real_room *room, const char *path);

/* A program of the build under test ($WORSEGPU_BUILD, else build). */
const char *real_program(struct real_room *room, const char *name);

/* Starts a program with arguments, the last one NULL; stdin is empty. `setup` may be NULL. */
__attribute__((sentinel)) struct real_process *real_process_start(struct real_room *room,
                                                                  const struct real_setup *setup,
                                                                  const char *program, ...);
struct real_process *real_process_start_list(struct real_room *room, const struct real_setup *setup,
                                             const char *const *arguments);

/* A process that runs a piece of this test program and ends with what it returns. It must not use
 * cmocka. */
struct real_process *real_process_fork(struct real_room *room, const struct real_setup *setup,
                                       int (*work)(void *context), void *context);

void real_process_signal(const struct real_process *process, int signal);
bool real_process_has_ended(struct real_process *process);
int real_process_wait(struct real_process *process); /* its status */

/* Runs a program to its end. */
__attribute__((sentinel)) struct real_process *
real_process_run(struct real_room *room, const struct real_setup *setup, const char *program, ...);

/* What it has written so far. */
const char *real_process_output(struct real_room *room, const struct real_process *process);
const char *real_process_errors(struct real_room *room, const struct real_process *process);

/* What /proc says of a living process. */
uint64_t real_process_resident_bytes(const struct real_process *process);
uint64_t real_process_cpu_ms(const struct real_process *process);
unsigned real_process_descriptors(const struct real_process *process);

/* For loops that wait for another process: true after a millisecond's rest; fails the test when
 * patience is at its end. Start with all zero. */
struct real_wait {
    uint64_t until_ms;
};
bool real_wait_more(struct real_wait *wait);
bool real_wait_is_over(const struct real_wait *wait); /* for a test that has more to say of it */
uint64_t real_now_ms(void);                           /* monotonic */

/* How many lines a text has, and how many of them hold `part`. */
unsigned real_lines(const char *text);
unsigned real_lines_with(const char *text, const char *part);

#endif
