/* Reading the members of an answer. A reader walks over those it needs and remembers the first that
 * is missing or of the wrong form; one look at the end decides. Lives for one answer. Inside this
 * folder only. */
#ifndef READER_H
#define READER_H

#include "client/client_state.h"

struct reader {
    const struct json_document *document;
    const cJSON *object; /* whose members are read; the caller may move it on */
    const char *missing; /* name of the first member that is not as promised */
};

struct reader reader_start(const worsegpu_client *client, const cJSON *object);

/* Says that a member is not as promised. */
void reader_miss(struct reader *reader, const char *name);

/* Members that must be there. A text must fit. */
uint64_t reader_u64(struct reader *reader, const char *name);
bool reader_bool(struct reader *reader, const char *name);
double reader_double(struct reader *reader, const char *name);
void reader_text(struct reader *reader, const char *name, char *field, size_t size);
enum worsegpu_client_device reader_device(struct reader *reader);

/* Members that may be left out or null: the field is empty or 0 then. */
void reader_text_if_given(struct reader *reader, const char *name, char *field, size_t size);
bool reader_u64_if_given(struct reader *reader, const char *name, uint64_t *value);

/* Room for the items of the named array of the last result. *items is NULL when it is empty. OK or
 * NO_MEMORY. */
int reader_page(worsegpu_client *client, struct reader *reader, const char *name, size_t item_bytes,
                void **items, size_t *count, struct worsegpu_client_error *error);

/* The end of a page. `next` must move on when there is more, or a reader of pages would never end.
 */
void reader_page_end(struct reader *reader, uint64_t after, uint64_t *next, bool *more);

/* OK, or BAD_REPLY when something was missing: the client is of no more use then. */
int reader_end(worsegpu_client *client, const struct reader *reader,
               struct worsegpu_client_error *error);

#endif
