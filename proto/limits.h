/* The limits of the wire that both sides must know. The daemon's own limits are in its options
 * table. */
#ifndef LIMITS_H
#define LIMITS_H

enum {
    PROTO_MAX_LINE_BYTES = 65536, /* default of max_line_bytes: a request with its CR and LF */
    PROTO_MAX_JSON_DEPTH = 16,    /* containers within containers; the request itself is level 1 */
    PROTO_MAX_ID_BYTES = 64,      /* a string id, of its decoded UTF-8 */
    PROTO_MAX_ECHO_BYTES = 256,   /* how much of a client's wrong name an error repeats */
    PROTO_MAX_PAGE = 1000,        /* events or allocations in one answer */
    PROTO_MAX_ERROR_TEXT = 384    /* longest message of an error, NUL included */
};

#define PROTO_MAX_SAFE_INTEGER INT64_C(9007199254740991) /* 2^53 - 1 */

#endif
