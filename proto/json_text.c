/* Small things about the text of JSON; see json_text.h. */
#include "proto/json_text.h"

#include <stdio.h>
#include <string.h>

long json_text_hex4(const char *digits)
{
    long value = 0;
    for (int i = 0; i < 4; i++) {
        char digit = digits[i];
        if (digit >= '0' && digit <= '9')
            value = value * 16 + (digit - '0');
        else if (digit >= 'a' && digit <= 'f')
            value = value * 16 + (digit - 'a' + 10);
        else if (digit >= 'A' && digit <= 'F')
            value = value * 16 + (digit - 'A' + 10);
        else
            return -1;
    }
    return value;
}

size_t json_text_utf8_length(const char *bytes, size_t length)
{
    const unsigned char *byte = (const unsigned char *)bytes;
    size_t whole;
    unsigned char least = 0x80; /* what the second byte may be */
    unsigned char most = 0xbf;
    if (length == 0)
        return 0;
    if (byte[0] < 0x80)
        return 1;
    if (byte[0] >= 0xc2 && byte[0] <= 0xdf) {
        whole = 2;
    } else if (byte[0] >= 0xe0 && byte[0] <= 0xef) {
        whole = 3;
        least = byte[0] == 0xe0 ? 0xa0 : 0x80;
        most = byte[0] == 0xed ? 0x9f : 0xbf;
    } else if (byte[0] >= 0xf0 && byte[0] <= 0xf4) {
        whole = 4;
        least = byte[0] == 0xf0 ? 0x90 : 0x80;
        most = byte[0] == 0xf4 ? 0x8f : 0xbf;
    } else {
        return 0;
    }
    if (length < whole || byte[1] < least || byte[1] > most)
        return 0;
    for (size_t i = 2; i < whole; i++)
        if (byte[i] < 0x80 || byte[i] > 0xbf)
            return 0;
    return whole;
}

size_t json_text_cut(const char *bytes, size_t length, size_t most)
{
    if (length <= most)
        return length;
    while (most > 0 && ((unsigned char)bytes[most] & 0xc0) == 0x80)
        most--;
    return most;
}

static size_t utf8_write(unsigned long character, unsigned char bytes[4])
{
    if (character < 0x80) {
        bytes[0] = (unsigned char)character;
        return 1;
    }
    size_t length = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        bytes[i] = (unsigned char)(0x80 | (character & 0x3f));
        character >>= 6;
    }
    static const unsigned char LEAD[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    bytes[0] = (unsigned char)(LEAD[length] | character);
    return length;
}

/* The bytes of a valid JSON string one by one, unescaped. */
struct unescaper {
    const char *next;
    const char *end;
    unsigned char pending[4]; /* of an escape that is more than one byte */
    size_t pending_at;
    size_t pending_end;
};

static int unescape_byte(struct unescaper *unescaper)
{
    if (unescaper->pending_at < unescaper->pending_end)
        return unescaper->pending[unescaper->pending_at++];
    if (unescaper->next == unescaper->end)
        return -1;
    unsigned char byte = (unsigned char)*unescaper->next++;
    if (byte != '\\')
        return byte;
    byte = (unsigned char)*unescaper->next++;
    if (byte != 'u') {
        static const char NAMES[] = "bfnrt";
        const char *escape = memchr(NAMES, byte, 5);
        return escape ? "\b\f\n\r\t"[escape - NAMES] : byte;
    }
    unsigned long character = (unsigned long)json_text_hex4(unescaper->next);
    unescaper->next += 4;
    if (character >= 0xd800 && character <= 0xdbff) {
        unsigned long low = (unsigned long)json_text_hex4(unescaper->next + 2);
        character = 0x10000 + ((character - 0xd800) << 10) + (low - 0xdc00);
        unescaper->next += 6;
    }
    unescaper->pending_end = utf8_write(character, unescaper->pending);
    unescaper->pending_at = 1;
    return unescaper->pending[0];
}

int json_text_compare_unescaped(const char *a, size_t a_length, const char *b, size_t b_length)
{
    struct unescaper left = {.next = a, .end = a + a_length};
    struct unescaper right = {.next = b, .end = b + b_length};
    for (;;) {
        int left_byte = unescape_byte(&left);
        int right_byte = unescape_byte(&right);
        if (left_byte != right_byte)
            return left_byte - right_byte;
        if (left_byte == -1)
            return 0;
    }
}

size_t json_text_unescape(const char *bytes, size_t length, char *out, size_t room)
{
    struct unescaper unescaper = {.next = bytes, .end = bytes + length};
    size_t written = 0;
    for (int byte; (byte = unescape_byte(&unescaper)) != -1; written++)
        if (written < room)
            out[written] = (char)byte;
    return written;
}

static unsigned long utf8_character(const unsigned char *bytes, size_t length)
{
    static const unsigned char MASK[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    unsigned long character = bytes[0] & MASK[length];
    for (size_t i = 1; i < length; i++)
        character = character << 6 | (bytes[i] & 0x3fu);
    return character;
}

void json_text_printable(const char *bytes, size_t length, char *out, size_t room)
{
    static const char MORE[] = "...";
    size_t used = 0;
    size_t fits = 0; /* so much of `out` leaves room for MORE */
    for (size_t at = 0; at < length;) {
        char piece[16];
        size_t whole = json_text_utf8_length(bytes + at, length - at);
        if (whole == 0)
            whole = 1;
        unsigned long character = utf8_character((const unsigned char *)bytes + at, whole);
        if (character >= 0x20 && character < 0x7f)
            snprintf(piece, sizeof(piece), "%c", (char)character);
        else
            snprintf(piece, sizeof(piece), character < 0x10000 ? "\\u%04lx" : "\\U%08lx",
                     character);
        size_t piece_length = strlen(piece);
        if (used + piece_length >= room) {
            memcpy(out + fits, MORE, sizeof(MORE));
            return;
        }
        memcpy(out + used, piece, piece_length);
        used += piece_length;
        at += whole;
        if (used + sizeof(MORE) <= room)
            fits = used;
    }
    out[used] = '\0';
}
