/* Printing; see output.h. */
#include "console/output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LONGEST_LINE = 4096 /* of a complaint, NUL included */
};

static bool wants_colour(FILE *stream)
{
    const char *refused = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    if (refused && refused[0] != '\0')
        return false;
    if (!terminal || terminal[0] == '\0' || strcmp(terminal, "dumb") == 0)
        return false;
    int descriptor = fileno(stream);
    return descriptor >= 0 && isatty(descriptor) == 1;
}

void output_init(struct output *output, FILE *out, FILE *errors)
{
    *output = (struct output){.out = out, .errors = errors};
    output->out_colour = wants_colour(out);
    output->errors_colour = wants_colour(errors);
}

static void note_failure(struct output *output)
{
    if (output->failure == 0)
        output->failure = errno != 0 ? errno : EIO;
}

void output_bytes(struct output *output, const char *bytes, size_t length)
{
    if (length == 0 || output->failure != 0)
        return;
    errno = 0;
    if (fwrite(bytes, 1, length, output->out) != length)
        note_failure(output);
}

void output_text(struct output *output, const char *format, ...)
{
    if (output->failure != 0)
        return;
    va_list arguments;
    errno = 0;
    va_start(arguments, format);
    int length = vfprintf(output->out, format, arguments);
    va_end(arguments);
    if (length < 0)
        note_failure(output);
}

static const char *style_code(enum output_style style)
{
    switch (style) {
    case OUTPUT_BOLD:
        return "\033[1m";
    case OUTPUT_GOOD:
        return "\033[32m";
    case OUTPUT_WARNING:
        return "\033[33m";
    case OUTPUT_BAD:
        return "\033[31m";
    case OUTPUT_PLAIN:
    default:
        return "";
    }
}

void output_styled(struct output *output, enum output_style style, const char *text)
{
    if (output->out_colour && style != OUTPUT_PLAIN)
        output_text(output, "%s%s\033[0m", style_code(style), text);
    else
        output_bytes(output, text, strlen(text));
}

/* U+0080 to U+009F are control characters too: C2 80 to C2 9F in UTF-8. */
static size_t control_bytes(const unsigned char *text)
{
    if (text[0] < 0x20 || text[0] == 0x7f)
        return 1;
    return text[0] == 0xc2 && text[1] >= 0x80 && text[1] <= 0x9f ? 2 : 0;
}

void output_make_harmless(const char *text, char *harmless, size_t size)
{
    static const char HEX[] = "0123456789abcdef";
    size_t length = 0;
    const unsigned char *from = (const unsigned char *)text;
    while (*from != '\0') {
        size_t bytes = control_bytes(from);
        if (length + (bytes > 0 ? 4 : 1) >= size)
            break;
        if (bytes > 0) {
            unsigned char code = from[bytes - 1];
            harmless[length++] = '\\';
            harmless[length++] = 'x';
            harmless[length++] = HEX[code >> 4];
            harmless[length++] = HEX[code & 15];
            from += bytes;
        } else {
            harmless[length++] = (char)*from++;
        }
    }
    /* Not half a character at the end of what was cut. */
    if (*from != '\0' && (*from & 0xc0u) == 0x80u) {
        while (length > 0 && ((unsigned char)harmless[length - 1] & 0xc0u) == 0x80u)
            length--;
        if (length > 0)
            length--;
    }
    harmless[length] = '\0';
}

void output_foreign(struct output *output, const char *text)
{
    char harmless[LONGEST_LINE];
    output_make_harmless(text, harmless, sizeof(harmless));
    output_bytes(output, harmless, strlen(harmless));
}

static void write_error_line(struct output *output, const char *program, const char *format,
                             va_list arguments)
{
    char line[LONGEST_LINE];
    char harmless[LONGEST_LINE];
    vsnprintf(line, sizeof(line), format, arguments);
    output_make_harmless(line, harmless, sizeof(harmless));
    fflush(output->out); /* so that the two streams come in order on a terminal */
    if (program)
        fprintf(output->errors, "%s%s:%s ", output->errors_colour ? style_code(OUTPUT_BAD) : "",
                program, output->errors_colour ? "\033[0m" : "");
    fprintf(output->errors, "%s\n", harmless);
}

void output_complaint(struct output *output, const char *program, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_error_line(output, program, format, arguments);
    va_end(arguments);
}

void output_advice(struct output *output, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_error_line(output, NULL, format, arguments);
    va_end(arguments);
}

int output_flush(struct output *output)
{
    errno = 0;
    if (fflush(output->out) != 0 || ferror(output->out))
        note_failure(output);
    return output->failure;
}
