/* A made-up run of a program: shapes and cases say what it asks for, a sink gets that as log
 * records.
 *
 * Allocations are numbered from 1 in their order, the keys of their records; each event takes one
 * millisecond. After the first failure nothing more is handed on, so that whoever tells the story
 * need not look after each word; the status says it at the end. The random stream is Python's
 * (lib/python_random.h): the same seed gives the same run on every machine. */
#ifndef LAB_SCENARIO_H
#define LAB_SCENARIO_H

#include "lab/logs/log.h"
#include "lib/python_random.h"

struct scenario {
    const struct worsegpu_memory *memory;
    const struct log_sink *sink;
    struct python_random random;
    uint64_t allocations; /* so far */
    uint64_t events;
    uint64_t process; /* who is speaking, from 1: for whoever writes it down */
    int status;       /* log_status */
};

/* `seed` is -?[0-9]+. The sink must outlive the scenario. LOG_FINE or LOG_NO_MEMORY. */
int scenario_begin(struct scenario *scenario, const char *seed,
                   const struct worsegpu_memory *memory, const struct log_sink *sink);

/* They return the number of the allocation; 0 after a failure. */
uint64_t scenario_allocate(struct scenario *scenario, uint64_t bytes);
uint64_t scenario_allocate_on(struct scenario *scenario, uint64_t bytes, uint64_t stream);
/* On the allocation's own stream, or on another one. 0 frees nothing. */
void scenario_free(struct scenario *scenario, uint64_t id);
void scenario_free_on(struct scenario *scenario, uint64_t id, uint64_t stream);
void scenario_record_stream(struct scenario *scenario, uint64_t id, uint64_t stream);
/* The `count` oldest events of a stream are done; UINT64_MAX: all. */
void scenario_event_done(struct scenario *scenario, uint64_t stream, uint64_t count);

static inline bool scenario_goes_on(const struct scenario *scenario)
{
    return scenario->status == LOG_FINE;
}

/* A random number of `least` to `most`, each as likely. */
uint64_t scenario_draw(struct scenario *scenario, uint64_t least, uint64_t most);

/* Room for `count` numbers, all 0. NULL makes the scenario fail. */
uint64_t *scenario_numbers(struct scenario *scenario, uint64_t count);
void scenario_numbers_release(struct scenario *scenario, uint64_t *numbers, uint64_t count);

#endif
