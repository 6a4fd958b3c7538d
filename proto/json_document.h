/* A strict JSON text as a cJSON tree, with the exact spelling of each number.
 *
 * The text is judged by strict_json, then read by cJSON; afterwards `valueint` of every number item
 * (which we need for nothing else) is its place among the numbers of the text, so that integers up
 * to 2^64 - 1 can be read exactly and 4096.0 can be told from 4096. Used for requests and for
 * replies. */
#ifndef JSON_DOCUMENT_H
#define JSON_DOCUMENT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/strict_json.h"

struct json_document {
    struct strict_json strict;
    const char *text; /* borrowed from the caller while the tree lives */
    cJSON *root;      /* NULL when there is none */
};

void json_document_init(struct json_document *document, const struct worsegpu_memory *memory);
void json_document_release(struct json_document *document);

/* Reads a text. The tree before it is gone in any case; there is a new one only after
 * STRICT_JSON_FINE. STRICT_JSON_REFUSED and why: as strict_json_check. */
enum strict_json_result json_document_read(struct json_document *document, const char *text,
                                           size_t length);

/* The spelling of a number item; not NUL-terminated. */
const char *json_document_spelling(const struct json_document *document, const cJSON *number,
                                   size_t *length);

/* An integer written as one (-0 is 0). false when the item is NULL or anything else, or out of
 * range. */
bool json_document_u64(const struct json_document *document, const cJSON *item, uint64_t *value);
bool json_document_i64(const struct json_document *document, const cJSON *item, int64_t *value);

/* The member of an object, case-sensitive; NULL when there is none or `object` is no object. */
cJSON *json_document_member(const cJSON *object, const char *name);

#endif
