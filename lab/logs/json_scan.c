/* Walking a large JSON document; see json_scan.h. */
#include "lab/logs/json_scan.h"

#include <string.h>

#include "proto/json_text.h"

static int cut_off(struct json_scan *scan)
{
    return log_bad(scan->problem, true, log_source_place(scan->source) + 1,
                   "the JSON is cut off here");
}

static int unexpected(struct json_scan *scan, const char *wanted)
{
    return log_bad(scan->problem, true, log_source_place(scan->source) + 1,
                   "this is no JSON: %s should stand here", wanted);
}

/* ------------------------------------------------------------------------------ the end of a value
 */

/* What has been seen of a value so far. */
struct walk {
    uint64_t braces; /* a bit a level: whether it is an object */
    unsigned int depth;
    bool string;
    bool escaped;
    bool plain; /* a number, true, false or null */
};

enum walked {
    WALK_MORE,  /* the value goes on behind these bytes */
    WALK_ENDED, /* it ended */
    WALK_WRONG
};

static bool ends_plain(char byte)
{
    return byte == ',' || byte == ']' || byte == '}' || json_text_is_blank(byte);
}

/* Inside a string: how far it goes in these bytes. */
static size_t walk_string(struct walk *walk, const char *bytes, size_t length)
{
    size_t i = 0;
    for (; i < length && walk->string; i++) {
        if (walk->escaped)
            walk->escaped = false;
        else if (bytes[i] == '\\')
            walk->escaped = true;
        else if (bytes[i] == '"')
            walk->string = false;
    }
    return i;
}

/* Follows a value through some more bytes: *used is how many of them belong to it (where it ended
 * or went wrong). */
static enum walked walk_on(struct walk *walk, const char *bytes, size_t length, size_t *used)
{
    for (size_t i = 0; i < length;) {
        if (walk->string) {
            i += walk_string(walk, bytes + i, length - i);
            *used = i;
            if (!walk->string && walk->depth == 0)
                return WALK_ENDED;
            continue;
        }
        char byte = bytes[i];
        *used = i;
        if (walk->plain) {
            if (ends_plain(byte))
                return WALK_ENDED;
        } else if (byte == '"') {
            walk->string = true;
        } else if (byte == '{' || byte == '[') {
            if (walk->depth == JSON_SCAN_MOST_DEPTH)
                return WALK_WRONG;
            walk->braces = walk->braces << 1 | (byte == '{' ? 1 : 0);
            walk->depth++;
        } else if (byte == '}' || byte == ']') {
            if (walk->depth == 0 || (walk->braces & 1) != (byte == '}' ? 1 : 0))
                return WALK_WRONG;
            walk->braces >>= 1;
            walk->depth--;
            *used = i + 1;
            if (walk->depth == 0)
                return WALK_ENDED;
        } else if (walk->depth == 0) {
            if (byte == ',' || byte == ':' || json_text_is_blank(byte))
                return WALK_WRONG;
            walk->plain = true;
        }
        i++;
    }
    *used = length;
    return WALK_MORE;
}

/* ------------------------------------------------------------------------------ steps */

/* Passes blanks; *byte is what comes then, 0 at the end. */
static int pass_blanks(struct json_scan *scan, char *byte)
{
    for (;;) {
        const unsigned char *bytes;
        size_t length;
        int status = log_source_peek(scan->source, 1, &bytes, &length, scan->problem);
        if (status != LOG_FINE)
            return status;
        size_t blanks = 0;
        while (blanks < length && json_text_is_blank((char)bytes[blanks]))
            blanks++;
        *byte = blanks < length ? (char)bytes[blanks] : 0;
        bool found = blanks < length || length == 0;
        log_source_skip(scan->source, blanks);
        if (found)
            return LOG_FINE;
    }
}

/* Finds the end of the value at the reading place and passes it; `text` NULL: it is only passed. */
static int take(struct json_scan *scan, struct log_piece *text)
{
    struct walk walk = {0};
    size_t seen = 0;
    for (;;) {
        const unsigned char *bytes;
        size_t length, used;
        int status = log_source_peek(scan->source, seen + 1, &bytes, &length, scan->problem);
        if (status != LOG_FINE)
            return status;
        if (length == seen) {
            log_source_skip(scan->source, seen);
            return cut_off(scan);
        }
        enum walked walked = walk_on(&walk, (const char *)bytes + seen, length - seen, &used);
        seen += used;
        if (walked == WALK_WRONG) {
            log_source_skip(scan->source, seen);
            return unexpected(scan, "something else");
        }
        if (text && seen > JSON_SCAN_MOST_BYTES)
            return log_bad(scan->problem, true, log_source_place(scan->source) + 1,
                           "the value that begins here is longer than 1 MiB");
        if (text)
            *text = (struct log_piece){(const char *)bytes, seen};
        if (walked == WALK_ENDED || !text)
            log_source_skip(scan->source, seen);
        if (walked == WALK_ENDED)
            return LOG_FINE;
        if (!text)
            seen = 0;
    }
}

/* Before the next member or element: *end where there is none and `closing` has been passed. */
static int step(struct json_scan *scan, char closing, char *byte, bool *end)
{
    int status = pass_blanks(scan, byte);
    if (status != LOG_FINE)
        return status;
    if (*byte == 0)
        return cut_off(scan);
    *end = *byte == closing;
    if (*end) {
        log_source_skip(scan->source, 1);
        scan->first = false; /* of what is around it, this was a member */
        return LOG_FINE;
    }
    if (!scan->first) {
        if (*byte != ',')
            return unexpected(scan, "a comma");
        log_source_skip(scan->source, 1);
        status = pass_blanks(scan, byte);
        if (status != LOG_FINE)
            return status;
        if (*byte == 0)
            return cut_off(scan);
    }
    scan->first = false;
    return LOG_FINE;
}

int json_scan_begin(struct json_scan *scan, struct log_source *source, char *bracket,
                    struct log_problem *problem)
{
    *scan = (struct json_scan){.source = source, .problem = problem, .first = true};
    int status = pass_blanks(scan, bracket);
    if (status != LOG_FINE)
        return status;
    if (*bracket != '{' && *bracket != '[')
        return *bracket == 0 ? cut_off(scan) : unexpected(scan, "'{' or '['");
    log_source_skip(source, 1);
    return LOG_FINE;
}

int json_scan_member(struct json_scan *scan, struct log_piece *name, bool *end)
{
    char byte;
    int status = step(scan, '}', &byte, end);
    if (status != LOG_FINE || *end)
        return status;
    if (byte != '"')
        return unexpected(scan, "a name in quotes");
    status = take(scan, name);
    if (status != LOG_FINE)
        return status;
    size_t kept = name->length - 2;
    if (kept > sizeof(scan->name))
        kept = sizeof(scan->name);
    memcpy(scan->name, name->bytes + 1, kept);
    *name = (struct log_piece){scan->name, kept};
    status = pass_blanks(scan, &byte);
    if (status != LOG_FINE)
        return status;
    if (byte != ':')
        return byte == 0 ? cut_off(scan) : unexpected(scan, "a colon");
    log_source_skip(scan->source, 1);
    return LOG_FINE;
}

int json_scan_look(struct json_scan *scan, char *byte)
{
    int status = pass_blanks(scan, byte);
    return status == LOG_FINE && *byte == 0 ? cut_off(scan) : status;
}

int json_scan_pass(struct json_scan *scan)
{
    char byte;
    int status = json_scan_look(scan, &byte);
    return status == LOG_FINE ? take(scan, NULL) : status;
}

int json_scan_value(struct json_scan *scan, struct log_piece *text, uint64_t *place)
{
    char byte;
    int status = json_scan_look(scan, &byte);
    *place = log_source_place(scan->source) + 1;
    return status == LOG_FINE ? take(scan, text) : status;
}

int json_scan_into(struct json_scan *scan)
{
    char byte;
    int status = json_scan_look(scan, &byte);
    if (status != LOG_FINE)
        return status;
    if (byte != '[')
        return unexpected(scan, "an array");
    log_source_skip(scan->source, 1);
    scan->first = true;
    return LOG_FINE;
}

int json_scan_element(struct json_scan *scan, struct log_piece *text, uint64_t *place, bool *end)
{
    char byte;
    int status = step(scan, ']', &byte, end);
    if (status != LOG_FINE || *end)
        return status;
    *place = log_source_place(scan->source) + 1;
    return take(scan, text);
}

int json_scan_end(struct json_scan *scan)
{
    char byte;
    int status = pass_blanks(scan, &byte);
    if (status != LOG_FINE || byte == 0) {
        /* A NUL is no blank: only the end of the log is. */
        const unsigned char *bytes;
        size_t length = 0;
        if (status == LOG_FINE)
            status = log_source_peek(scan->source, 1, &bytes, &length, scan->problem);
        return status == LOG_FINE && length > 0 ? unexpected(scan, "the end") : status;
    }
    return unexpected(scan, "the end");
}

/* ------------------------------------------------------------------------------ telling formats
 * apart */

static void pass(struct log_piece *text, size_t bytes)
{
    text->bytes += bytes;
    text->length -= bytes;
}

static char first_of(struct log_piece *text)
{
    while (text->length > 0 && json_text_is_blank(text->bytes[0]))
        pass(text, 1);
    return text->length > 0 ? text->bytes[0] : 0;
}

/* Passes one value; false where its end cannot be seen. */
static bool pass_value(struct log_piece *text)
{
    struct walk walk = {0};
    size_t used = 0;
    if (first_of(text) == 0 || walk_on(&walk, text->bytes, text->length, &used) != WALK_ENDED)
        return false;
    pass(text, used);
    return true;
}

bool json_scan_has(const unsigned char *head, size_t bytes, bool inside_array, const char *name)
{
    struct log_piece text = {(const char *)head, bytes};
    if (inside_array) {
        if (first_of(&text) != '[')
            return false;
        pass(&text, 1);
    }
    if (first_of(&text) != '{')
        return false;
    do {
        pass(&text, 1);
        if (first_of(&text) != '"')
            return false;
        struct log_piece member = text;
        if (!pass_value(&text))
            return false;
        member.length = (size_t)(text.bytes - member.bytes);
        if (first_of(&text) != ':')
            return false;
        pass(&text, 1);
        pass(&member, 1);
        member.length--;
        if (log_piece_is(member, name))
            return true;
    } while (pass_value(&text) && first_of(&text) == ',');
    return false;
}
