/* A second judge of JSON texts; see naive_json.h. */
#include "tests/support/naive_json.h"

#include <stdint.h>
#include <string.h>

enum {
    DEEPEST = 16,
    WRONG = -1 /* no character */
};

struct judge {
    const unsigned char *text;
    size_t length;
    size_t at;
    int depth;
    naive_json_number told;
    void *context;
};

/* A key of an object that is still open, and those before it. */
struct key {
    const struct key *earlier;
    size_t start; /* after its quote */
};

static bool value(struct judge *judge);

static int byte(const struct judge *judge)
{
    return judge->at < judge->length ? judge->text[judge->at] : WRONG;
}

static bool take(struct judge *judge, int wanted)
{
    if (byte(judge) != wanted)
        return false;
    judge->at++;
    return true;
}

static void blanks(struct judge *judge)
{
    while (take(judge, ' ') || take(judge, '\t') || take(judge, '\n') || take(judge, '\r'))
        ;
}

static bool word(struct judge *judge, const char *letters)
{
    while (*letters)
        if (!take(judge, *letters++))
            return false;
    return true;
}

static bool digits(struct judge *judge)
{
    size_t start = judge->at;
    while (byte(judge) >= '0' && byte(judge) <= '9')
        judge->at++;
    return judge->at > start;
}

static bool number(struct judge *judge)
{
    size_t start = judge->at;
    take(judge, '-');
    if (!take(judge, '0') && !digits(judge))
        return false;
    if (take(judge, '.') && !digits(judge))
        return false;
    if (take(judge, 'e') || take(judge, 'E')) {
        if (!take(judge, '+'))
            take(judge, '-');
        if (!digits(judge))
            return false;
    }
    if (judge->told)
        judge->told(judge->context, start, judge->at - start);
    return true;
}

static int32_t hex(struct judge *judge)
{
    int32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        const char *all = "0123456789abcdef0123456789ABCDEF";
        const char *found = byte(judge) > 0 ? strchr(all, byte(judge)) : NULL;
        if (!found)
            return WRONG;
        unit = unit * 16 + (int32_t)((found - all) % 16);
        judge->at++;
    }
    return unit;
}

/* What stands after a backslash. */
static int32_t escape(struct judge *judge)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    const char *found = byte(judge) > 0 ? strchr(letters, byte(judge)) : NULL;
    if (found) {
        judge->at++;
        return meanings[found - letters];
    }
    if (!take(judge, 'u'))
        return WRONG;
    int32_t high = hex(judge);
    if (high < 0xd800 || high > 0xdfff)
        return high > 0 ? high : WRONG;
    if (high > 0xdbff || !take(judge, '\\') || !take(judge, 'u'))
        return WRONG;
    int32_t low = hex(judge);
    if (low < 0xdc00 || low > 0xdfff)
        return WRONG;
    return 0x10000 + (high - 0xd800) * 0x400 + (low - 0xdc00);
}

/* One character of a string, by its number. */
static int32_t character(struct judge *judge)
{
    static const struct {
        int first;      /* a first byte from here on ... */
        int last;       /* ... to here */
        int more;       /* has so many bytes after it */
        int32_t lowest; /* and is no lower: each character has one spelling */
    } forms[] = {{0x20, 0x7f, 0, 0x20},
                 {0xc0, 0xdf, 1, 0x80},
                 {0xe0, 0xef, 2, 0x800},
                 {0xf0, 0xf7, 3, 0x10000}};
    int first = byte(judge);
    judge->at++;
    if (first == '\\')
        return escape(judge);
    for (size_t form = 0; form < sizeof(forms) / sizeof(forms[0]); form++) {
        if (first < forms[form].first || first > forms[form].last)
            continue;
        int32_t code = first - (forms[form].more ? forms[form].first : 0);
        for (int i = 0; i < forms[form].more; i++) {
            if (byte(judge) < 0x80 || byte(judge) > 0xbf)
                return WRONG;
            code = code * 64 + (byte(judge) - 0x80);
            judge->at++;
        }
        bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
        return code < forms[form].lowest || code > 0x10ffff || is_surrogate ? WRONG : code;
    }
    return WRONG;
}

/* The rest of a string, after its first quote. */
static bool string(struct judge *judge)
{
    while (!take(judge, '"'))
        if (character(judge) == WRONG)
            return false;
    return true;
}

/* Whether two strings, both right, have the same characters. */
static bool same_string(const struct judge *judge, size_t left_start, size_t right_start)
{
    struct judge left = *judge;
    struct judge right = *judge;
    left.at = left_start;
    right.at = right_start;
    for (;;) {
        bool left_ends = byte(&left) == '"';
        bool right_ends = byte(&right) == '"';
        if (left_ends || right_ends)
            return left_ends && right_ends;
        if (character(&left) != character(&right))
            return false;
    }
}

/* The members from here on; one level of recursion each, so that the keys need no memory. */
static bool members(struct judge *judge, const struct key *earlier)
{
    blanks(judge);
    const struct key key = {.earlier = earlier, .start = judge->at + 1};
    if (!take(judge, '"') || !string(judge))
        return false;
    for (const struct key *other = earlier; other; other = other->earlier)
        if (same_string(judge, key.start, other->start))
            return false;
    blanks(judge);
    if (!take(judge, ':') || !value(judge))
        return false;
    blanks(judge);
    return take(judge, ',') ? members(judge, &key) : take(judge, '}');
}

static bool items(struct judge *judge)
{
    do {
        if (!value(judge))
            return false;
        blanks(judge);
    } while (take(judge, ','));
    return take(judge, ']');
}

static bool container(struct judge *judge)
{
    if (judge->depth == DEEPEST)
        return false;
    judge->depth++;
    bool fine;
    if (take(judge, '{')) {
        blanks(judge);
        fine = take(judge, '}') || members(judge, NULL);
    } else {
        judge->at++;
        blanks(judge);
        fine = take(judge, ']') || items(judge);
    }
    judge->depth--;
    return fine;
}

static bool value(struct judge *judge)
{
    blanks(judge);
    switch (byte(judge)) {
    case '{':
    case '[':
        return container(judge);
    case '"':
        judge->at++;
        return string(judge);
    case 't':
        return word(judge, "true");
    case 'f':
        return word(judge, "false");
    case 'n':
        return word(judge, "null");
    default:
        return number(judge);
    }
}

bool naive_json_is_strict(const char *text, size_t length, naive_json_number told, void *context)
{
    struct judge judge = {
        .text = (const unsigned char *)text, .length = length, .told = told, .context = context};
    if (!value(&judge))
        return false;
    blanks(&judge);
    return judge.at == length;
}
