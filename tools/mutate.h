/* What a file rewritten by tools/mutate_rewrite.py is compiled with: which mutant is switched on,
 * and notes of those that a run came by. Never part of a product.
 *
 * MUTANT in the environment is the number of the one that is on (0, or unset: none). MUTANT_MARKS
 * names a file with one byte for each number, in which a run sets MUTANT_REACHED when it comes by,
 * and MUTANT_DIFFERS when the mutant would have computed something else there. Children that a test
 * forks share the file. MUTANT_MILLISECONDS is how much processor time the program may take: a
 * mutant that never ends is ended by SIGPROF. All is weak, so that any number of such files make
 * one program. */
#ifndef MUTATE_H
#define MUTATE_H

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    MUTANT_REACHED = 1,
    MUTANT_DIFFERS = 2
};

__attribute__((weak)) unsigned mutant_on;
__attribute__((weak)) unsigned char *mutant_marks;

__attribute__((weak, constructor(101))) void mutant_begin(void)
{
    const char *number = getenv("MUTANT");
    const char *path = getenv("MUTANT_MARKS");
    const char *limit = getenv("MUTANT_MILLISECONDS");
    struct stat status;
    int descriptor;
    if (number)
        mutant_on = (unsigned)atoi(number);
    if (limit) {
        long time = atol(limit);
        struct itimerval end = {.it_value = {time / 1000, time % 1000 * 1000}};
        setitimer(ITIMER_PROF, &end, 0);
    }
    if (!path || mutant_marks || (descriptor = open(path, O_RDWR | O_CLOEXEC)) < 0)
        return;
    if (fstat(descriptor, &status) == 0) {
        void *map =
            mmap(0, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        if (map != MAP_FAILED)
            mutant_marks = map;
    }
    close(descriptor);
}

/* Which of the `count` mutants from number `first` on is on: 1 for the first; 0 for none. */
static inline unsigned mutant_which(unsigned first, unsigned count)
{
    unsigned which = mutant_on - first;
    return which < count ? which + 1 : 0;
}

static inline void mutant_note(unsigned number, int differs)
{
    mutant_marks[number] |= (unsigned char)(MUTANT_REACHED | (differs ? MUTANT_DIFFERS : 0));
}

/* The same where each of them would change something for certain. */
static inline unsigned mutant_at(unsigned first, unsigned count)
{
    if (__builtin_expect(mutant_marks != 0, 0)) {
        for (unsigned i = 0; i < count; i++)
            mutant_note(first + i, 1);
    }
    return mutant_which(first, count);
}

/* An operator with one or two others in its place; both sides are computed once. */
#define MUTANT_SWAP1(number, l, r, was, one)                                                       \
    __extension__({                                                                                \
        if (__builtin_expect(mutant_marks != 0, 0))                                                \
            mutant_note(number, (l was r) != (l one r));                                           \
        mutant_which(number, 1) ? (l one r) : (l was r);                                           \
    })
#define MUTANT_SWAP2(number, l, r, was, one, two)                                                  \
    __extension__({                                                                                \
        if (__builtin_expect(mutant_marks != 0, 0)) {                                              \
            mutant_note(number, (l was r) != (l one r));                                           \
            mutant_note(number + 1, (l was r) != (l two r));                                       \
        }                                                                                          \
        unsigned which_ = mutant_which(number, 2);                                                 \
        which_ == 0 ? (l was r) : which_ == 1 ? (l one r) : (l two r);                             \
    })
/* Where trying the other operator could trap: nothing is tried. */
#define MUTANT_TRAP1(number, l, r, was, one) (mutant_at(number, 1) ? (l one r) : (l was r))

#endif
