/* The daemon's words on stderr; see log.h. */
#include "daemon/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include <systemd/sd-daemon.h>

static const char *const level_names[] = {"error", "warning", "info"};
static const char *const priorities[] = {SD_ERR, SD_WARNING, SD_INFO};

void log_init(struct log *log, FILE *stream, enum log_level level)
{
    memset(log, 0, sizeof(*log));
    log->stream = stream;
    log->level = level;
}

bool log_is_journal(int descriptor, const char *journal_stream)
{
    struct stat status;
    char ours[64];
    if (!journal_stream || fstat(descriptor, &status) != 0)
        return false;
    snprintf(ours, sizeof(ours), "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
    return strcmp(ours, journal_stream) == 0;
}

const char *log_level_name(size_t number)
{
    return number <= LOG_LEVEL_INFO ? level_names[number] : NULL;
}

bool log_level_from_name(const char *name, enum log_level *level)
{
    for (int index = LOG_LEVEL_ERROR; index <= LOG_LEVEL_INFO; index++)
        if (strcmp(name, level_names[index]) == 0) {
            *level = (enum log_level)index;
            return true;
        }
    return false;
}

/* Writes one line; whatever could move a terminal's cursor or forge a second line becomes \xNN. */
static void write_line(struct log *log, enum log_level level, const char *text)
{
    char line[LOG_LINE_SIZE * 4];
    size_t length = 0;
    for (; *text && length + 5 < sizeof(line); text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte >= 0x20 && byte < 0x7f)
            line[length++] = (char)byte;
        else
            length += (size_t)snprintf(line + length, 5, "\\x%02x", byte);
    }
    line[length] = '\0';
    if (log->journal)
        fprintf(log->stream, "%s%s\n", priorities[level], line);
    else
        fprintf(log->stream, "worsegpud: %s%s%s\n",
                level == LOG_LEVEL_INFO ? "" : level_names[level],
                level == LOG_LEVEL_INFO ? "" : ": ", line);
    fflush(log->stream);
}

void log_write(struct log *log, enum log_level level, const char *format, ...)
{
    char text[LOG_LINE_SIZE];
    if (level > log->level)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    write_line(log, level, text);
}

void log_client(struct log *log, uint64_t now_ms, const char *format, ...)
{
    char text[LOG_LINE_SIZE];
    if (log->level < LOG_LEVEL_WARNING)
        return;
    if (now_ms - log->window_start_ms >= LOG_WINDOW_MS) {
        if (log->suppressed)
            log_write(log, LOG_LEVEL_WARNING, "%" PRIu64 " more lines about clients were left out",
                      log->suppressed);
        log->window_start_ms = now_ms;
        log->lines_in_window = 0;
        log->suppressed = 0;
    }
    if (log->lines_in_window >= LOG_LINES_PER_WINDOW) {
        log->suppressed++;
        return;
    }
    log->lines_in_window++;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    write_line(log, LOG_LEVEL_WARNING, text);
}
