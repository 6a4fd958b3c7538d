/* A JSON document too large to be held, walked from the outside in: the members of its outermost
 * object, and the elements of an array in it one at a time.
 *
 * Checks brackets, strings and what stands between values, not what is inside: whoever is given a
 * value reads it strictly. Places are bytes. */
#ifndef LOGS_JSON_SCAN_H
#define LOGS_JSON_SCAN_H

#include "lab/logs/text.h"

enum {
    JSON_SCAN_MOST_DEPTH = 64,
    JSON_SCAN_MOST_BYTES = 1 << 20, /* of a value that is handed out */
    JSON_SCAN_NAME_BYTES = 64       /* of a name that are kept */
};

struct json_scan {
    struct log_source *source;
    struct log_problem *problem;
    bool first; /* no member or element has come yet */
    char name[JSON_SCAN_NAME_BYTES];
};

/* At the beginning of a document: passes blanks, and tells which bracket opens it, '{' or '['; the
 * scan is inside then. LOG_BAD where it is neither. */
int json_scan_begin(struct json_scan *scan, struct log_source *source, char *bracket,
                    struct log_problem *problem);

/* Inside an object: the next member's name as it is written, without its quotes, cut to
 * JSON_SCAN_NAME_BYTES, valid until the next call; the scan stands before its value. *end after the
 * last one: the scan is outside. */
int json_scan_member(struct json_scan *scan, struct log_piece *name, bool *end);

/* Before a value: its first byte. */
int json_scan_look(struct json_scan *scan, char *byte);
/* Passes a value of any size. */
int json_scan_pass(struct json_scan *scan);
/* The text of a value of at most JSON_SCAN_MOST_BYTES, and the byte that it begins at, from 1;
 * valid until the next call. */
int json_scan_value(struct json_scan *scan, struct log_piece *text, uint64_t *place);

/* Before an array: goes into it. Then its elements, as json_scan_value. *end after the last one:
 * the scan is behind the array, and goes on with the members of what is around it. */
int json_scan_into(struct json_scan *scan);
int json_scan_element(struct json_scan *scan, struct log_piece *text, uint64_t *place, bool *end);

/* Behind the document there must be nothing but blanks. */
int json_scan_end(struct json_scan *scan);

/* For telling formats apart: whether the text begins with an object (or, with `inside_array`, an
 * array whose first element is one) that has a member of this name, as far as it can be seen. */
bool json_scan_has(const unsigned char *head, size_t bytes, bool inside_array, const char *name);

#endif
