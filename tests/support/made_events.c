/* What a shape or a public case asks for; see made_events.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tests/support/made_events.h"

struct making {
    const struct shape *shape;
    const uint64_t *values;
    const struct public_case *public_case;
    size_t variant;
};

/* NULL when there was not enough memory. */
static char *make(const struct making *making, const char *seed, enum generate_form form,
                  const struct worsegpu_memory *memory)
{
    struct scenario scenario;
    struct generate_writer writer;
    const struct log_sink sink = {.context = &writer, .record = generate_writer_record};
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    assert_non_null(to);
    int status = scenario_begin(&scenario, seed, memory, &sink);
    generate_writer_init(&writer, form, to, &scenario, memory);
    assert_int_equal(generate_writer_begin(&writer), 0);
    if (status == LOG_FINE && making->shape)
        making->shape->tell(&scenario, making->values);
    else if (status == LOG_FINE)
        making->public_case->tell(&scenario, making->variant);
    status = scenario.status;
    generate_writer_release(&writer);
    fclose(to);
    if (status == LOG_FINE)
        return text;
    free(text);
    assert_int_equal(status, LOG_NO_MEMORY);
    return NULL;
}

char *made_shape_text(const struct shape *shape, const uint64_t *values, const char *seed,
                      enum generate_form form, const struct worsegpu_memory *memory)
{
    const struct making making = {.shape = shape, .values = values};
    return make(&making, seed, form, memory);
}

char *made_case_text(const struct public_case *public_case, size_t variant, enum generate_form form,
                     const struct worsegpu_memory *memory)
{
    const struct making making = {.public_case = public_case, .variant = variant};
    return make(&making, "0", form, memory);
}

struct events *made_events(const char *text)
{
    struct log_source *source;
    struct log_problem problem = {""};
    struct events *events;
    assert_int_equal(log_source_open_bytes(text, strlen(text), memory_system(), &source, &problem),
                     LOG_FINE);
    int status = events_read(source, NULL, EVENTS_ANY_DEVICE, memory_system(), NULL, NULL, &events,
                             &problem);
    assert_string_equal(problem.text, "");
    assert_int_equal(status, LOG_FINE);
    log_source_close(source);
    return events;
}
