/* Sorting by time, in memory and in runs; see sort.h. */
#include "lab/logs/sort.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "lab/events_pack.h"

void log_sort_init(struct log_sort *sort, size_t most_items, const struct worsegpu_memory *memory)
{
    *sort = (struct log_sort){.memory = memory, .most_items = most_items, .file = -1};
}

void log_sort_release(struct log_sort *sort)
{
    for (size_t i = 0; i < sort->run_count; i++)
        memory_release_array(sort->memory, sort->runs[i].items, LOG_SORT_READ_ITEMS,
                             sizeof(*sort->items));
    memory_release_array(sort->memory, sort->runs, sort->run_capacity, sizeof(*sort->runs));
    memory_release_array(sort->memory, sort->items, sort->capacity, sizeof(*sort->items));
    if (sort->file >= 0)
        close(sort->file);
    log_sort_init(sort, sort->most_items, sort->memory);
}

static int no_file(struct log_problem *problem, const char *what)
{
    int why = errno;
    char text[128];
    snprintf(problem->text, sizeof(problem->text),
             "%s a temporary file ($TMPDIR, else /var/tmp): %s", what,
             strerror_r(why, text, sizeof(text)));
    return LOG_NO_FILE;
}

static bool comes_before(const struct log_sort_item *a, const struct log_sort_item *b)
{
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns;
    if (a->order != b->order)
        return a->order < b->order;
    return a->place < b->place;
}

/* ------------------------------------------------------------------------------ one run */

/* Lets the item at `at` sink to its place in a heap with the last one in front. */
static void sink_item(struct log_sort_item *items, size_t at, size_t count)
{
    struct log_sort_item sinking = items[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && comes_before(&items[child], &items[child + 1]))
            child++;
        if (!comes_before(&sinking, &items[child]))
            break;
        items[at] = items[child];
    }
    items[at] = sinking;
}

/* Heap sort: in place, and no order of a hostile log makes it slow. */
static void sort_items(struct log_sort_item *items, size_t count)
{
    size_t sorted = 1;
    while (sorted < count && !comes_before(&items[sorted], &items[sorted - 1]))
        sorted++;
    if (sorted >= count)
        return;
    for (size_t i = count / 2; i > 0; i--)
        sink_item(items, i - 1, count);
    for (size_t left = count - 1; left > 0; left--) {
        struct log_sort_item last = items[0];
        items[0] = items[left];
        items[left] = last;
        sink_item(items, 0, left);
    }
}

static int write_run(struct log_sort *sort, struct log_problem *problem)
{
    if (memory_grow(sort->memory, &sort->runs, &sort->run_capacity, sort->run_count + 1,
                    sizeof(*sort->runs)) != 0)
        return LOG_NO_MEMORY;
    if (sort->file < 0) {
        sort->file = events_pack_nameless_file();
        if (sort->file < 0)
            return no_file(problem, "cannot make");
    }
    sort_items(sort->items, sort->count);
    const char *bytes = (const char *)sort->items;
    size_t left = sort->count * sizeof(*sort->items);
    while (left > 0) {
        ssize_t written = write(sort->file, bytes, left);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return no_file(problem, "cannot write");
        bytes += written;
        left -= (size_t)written;
    }
    sort->runs[sort->run_count++] =
        (struct log_sort_run){.next = sort->file_items, .end = sort->file_items + sort->count};
    sort->file_items += sort->count;
    sort->count = 0;
    return LOG_FINE;
}

int log_sort_add(struct log_sort *sort, const struct log_sort_item *item,
                 struct log_problem *problem)
{
    if (sort->count == sort->most_items) {
        int status = write_run(sort, problem);
        if (status != LOG_FINE)
            return status;
    }
    if (memory_grow(sort->memory, &sort->items, &sort->capacity, sort->count + 1,
                    sizeof(*sort->items)) != 0)
        return LOG_NO_MEMORY;
    sort->items[sort->count++] = *item;
    return LOG_FINE;
}

/* ------------------------------------------------------------------------------ merging runs */

/* The run's next items; count 0 at its end. */
static int read_run(struct log_sort *sort, struct log_sort_run *run, struct log_problem *problem)
{
    uint64_t left = run->end - run->next;
    run->at = 0;
    run->count = left < LOG_SORT_READ_ITEMS ? (size_t)left : LOG_SORT_READ_ITEMS;
    size_t wanted = run->count * sizeof(*run->items);
    for (size_t done = 0; done < wanted;) {
        ssize_t got = pread(sort->file, (char *)run->items + done, wanted - done,
                            (off_t)(run->next * sizeof(*run->items) + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = EIO;
        if (got <= 0)
            return no_file(problem, "cannot read");
        done += (size_t)got;
    }
    run->next += run->count;
    return LOG_FINE;
}

static const struct log_sort_item *first_of(const struct log_sort_run *run)
{
    return &run->items[run->at];
}

/* Lets the run at `at` sink in the heap of those that have items. */
static void sink_run(struct log_sort *sort, size_t at, size_t count)
{
    struct log_sort_run sinking = sort->runs[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count &&
            comes_before(first_of(&sort->runs[child + 1]), first_of(&sort->runs[child])))
            child++;
        if (!comes_before(first_of(&sort->runs[child]), first_of(&sinking)))
            break;
        sort->runs[at] = sort->runs[child];
    }
    sort->runs[at] = sinking;
}

int log_sort_finish(struct log_sort *sort, struct log_problem *problem)
{
    if (sort->run_count == 0) {
        sort_items(sort->items, sort->count);
        return LOG_FINE;
    }
    int status = write_run(sort, problem);
    memory_release_array(sort->memory, sort->items, sort->capacity, sizeof(*sort->items));
    sort->items = NULL;
    sort->capacity = 0;
    for (size_t i = 0; i < sort->run_count && status == LOG_FINE; i++) {
        struct log_sort_run *run = &sort->runs[i];
        run->items = memory_allocate_array(sort->memory, LOG_SORT_READ_ITEMS, sizeof(*run->items));
        status = run->items ? read_run(sort, run, problem) : LOG_NO_MEMORY;
    }
    if (status != LOG_FINE)
        return status;
    for (size_t i = sort->run_count / 2; i > 0; i--)
        sink_run(sort, i - 1, sort->run_count);
    return LOG_FINE;
}

int log_sort_next(struct log_sort *sort, struct log_sort_item *item, struct log_problem *problem)
{
    if (sort->file < 0) {
        if (sort->given == sort->count)
            return LOG_STOPPED;
        *item = sort->items[sort->given++];
        return LOG_FINE;
    }
    if (sort->run_count == 0)
        return LOG_STOPPED;
    struct log_sort_run *run = &sort->runs[0];
    *item = run->items[run->at++];
    if (run->at == run->count) {
        int status = read_run(sort, run, problem);
        if (status != LOG_FINE)
            return status;
        if (run->count == 0) {
            memory_release_array(sort->memory, run->items, LOG_SORT_READ_ITEMS,
                                 sizeof(*run->items));
            *run = sort->runs[--sort->run_count];
            if (sort->run_count == 0)
                return LOG_FINE;
        }
    }
    sink_run(sort, 0, sort->run_count);
    return LOG_FINE;
}

int log_sort_give(struct log_sort *sort, struct log_filter *filter, struct log_problem *problem)
{
    struct log_clock clock = {0};
    int status = log_sort_finish(sort, problem);
    while (status == LOG_FINE) {
        struct log_sort_item item;
        status = log_sort_next(sort, &item, problem);
        if (status == LOG_STOPPED)
            return LOG_FINE;
        if (status != LOG_FINE)
            break;
        struct log_record record = {.operation = (enum log_operation)item.operation,
                                    .device = item.device,
                                    .key = item.key,
                                    .address = item.address,
                                    .bytes = item.bytes,
                                    .stream = item.stream,
                                    .time_us = log_clock_us(&clock, item.time_ns),
                                    .place = item.place};
        status = log_filter_record(filter, &record);
    }
    return status;
}
