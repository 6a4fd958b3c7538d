/* What the commands of worsegpu-lab share: errors, progress, reading the log, JSON and numbers; see
 * lab.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/suggest.h"
#include "lab/lab.h"
#include "proto/json_text.h"

enum {
    PROGRESS_AFTER_MS = 1000,
    PROGRESS_EVERY_MS = 200,
    MOST_FORMATS = 32,
    FOREIGN_SIZE = 8192,
    PROBLEM_SIZE = LOG_PROBLEM_SIZE + 256
};

/* ------------------------------------------------------------------------------ errors */

static void print_error_json(struct lab *lab, const char *kind, const char *problem)
{
    struct json_writer writer;
    lab_begin_json(lab, &writer);
    json_writer_begin_object(&writer);
    json_writer_key(&writer, "error");
    json_writer_begin_object(&writer);
    lab_member_foreign(&writer, "message", problem);
    json_writer_key(&writer, "data");
    json_writer_begin_object(&writer);
    json_writer_member_text(&writer, "kind", kind);
    json_writer_end_object(&writer);
    json_writer_end_object(&writer);
    json_writer_end_object(&writer);
    if (writer.failure == JSON_WRITER_FINE)
        output_bytes(&lab->output, writer.data, writer.length);
    else
        output_text(&lab->output, "{\"error\":{\"message\":\"there is not enough memory\",\"data\":"
                                  "{\"kind\":\"no_memory\"}}}");
    output_text(&lab->output, "\n");
    json_writer_release(&writer);
}

int lab_error(struct lab *lab, enum lab_exit exit, const char *kind, const char *problem)
{
    lab_hide_progress(lab);
    if (lab->output.json)
        print_error_json(lab, kind, problem);
    output_complaint(&lab->output, lab_table()->program, "%s", problem);
    return (int)exit;
}

int lab_usage(struct lab *lab, const char *problem, const char *advice)
{
    int status = lab_error(lab, LAB_USAGE, "usage", problem);
    if (advice && advice[0] != '\0')
        output_advice(&lab->output, "%s", advice);
    return status;
}

int lab_no_memory(struct lab *lab)
{
    return lab_error(lab, LAB_MEMORY, "no_memory", "there is not enough memory");
}

int lab_not_written(struct lab *lab, const char *name, int failure)
{
    char problem[PROBLEM_SIZE];
    if (failure == EPIPE && !name)
        return LAB_BAD;
    snprintf(problem, sizeof(problem), "cannot write %.300s: %s", name ? name : "standard output",
             strerrordesc_np(failure));
    return lab_error(lab, LAB_FILE, "no_file", problem);
}

enum lab_exit lab_log_exit(int status)
{
    switch (status) {
    case LOG_FINE:
        return LAB_FINE;
    case LOG_NO_MEMORY:
        return LAB_MEMORY;
    case LOG_NO_FILE:
        return LAB_FILE;
    default:
        return LAB_BAD;
    }
}

int lab_log_error(struct lab *lab, const char *name, int status, const struct log_problem *problem)
{
    char sentence[PROBLEM_SIZE];
    if (status == LOG_NO_MEMORY)
        return lab_no_memory(lab);
    snprintf(sentence, sizeof(sentence), "%.200s: %s", name, problem->text);
    return lab_error(lab, lab_log_exit(status), status == LOG_NO_FILE ? "no_file" : "bad_log",
                     sentence);
}

/* ------------------------------------------------------------------------------ progress */

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void lab_hide_progress(struct lab *lab)
{
    if (lab->progress.shown)
        fputs("\r\033[K", lab->output.errors);
    lab->progress.shown = false;
}

void lab_show_progress(struct lab *lab, double done)
{
    struct lab_progress *progress = &lab->progress;
    uint64_t now = now_ms();
    if (progress->started_ms == 0) {
        int descriptor = fileno(lab->output.errors);
        progress->started_ms = now;
        progress->wanted = descriptor >= 0 && isatty(descriptor) == 1;
    }
    if (!progress->wanted || now - progress->started_ms < PROGRESS_AFTER_MS ||
        now - progress->shown_ms < PROGRESS_EVERY_MS)
        return;
    char doing[128];
    output_make_harmless(lab->doing, doing, sizeof(doing));
    if (done >= 0)
        fprintf(lab->output.errors, "\r\033[K%s: %d%%", doing, (int)(done * 100));
    else
        fprintf(lab->output.errors, "\r\033[K%s", doing);
    fflush(lab->output.errors);
    progress->shown = true;
    progress->shown_ms = now;
}

/* ------------------------------------------------------------------------------ the log */

int lab_format(struct lab *lab, const struct log_format **format)
{
    const char *names[MOST_FORMATS];
    size_t count = 0;
    *format = NULL;
    if (!lab_has(lab, LAB_OPTION_format))
        return LAB_FINE;
    const char *name = lab->line.values[LAB_OPTION_format].text;
    *format = log_format_find(name);
    if (*format)
        return LAB_FINE;
    for (const struct log_format *known; count < MOST_FORMATS && (known = log_format_at(count));)
        names[count++] = known->name;
    const char *nearest = suggest_nearest(name, names, count);
    char problem[256];
    char advice[256];
    snprintf(problem, sizeof(problem), "there is no format \"%.100s\"", name);
    snprintf(advice, sizeof(advice), "%s%s%s", nearest ? "did you mean --format " : "",
             nearest ? nearest : "all there are: worsegpu-lab list formats", nearest ? "?" : "");
    return lab_usage(lab, problem, advice);
}

static void on_progress(void *context, double done)
{
    lab_show_progress(context, done);
}

int lab_read_log(struct lab *lab, struct events **events)
{
    const char *name = lab->line.operands[0];
    const struct log_format *format;
    struct log_problem problem = {""};
    struct log_source *source;
    uint32_t device = EVENTS_ANY_DEVICE;
    *events = NULL;
    if (lab_has(lab, LAB_OPTION_device)) {
        uint64_t number = lab->line.values[LAB_OPTION_device].number;
        if (number >= EVENTS_ANY_DEVICE)
            return lab_usage(lab, "--device is a small number: GPUs are counted from 0", NULL);
        device = (uint32_t)number;
    }
    int status = lab_format(lab, &format);
    if (status != LAB_FINE)
        return status;
    status = log_source_open(name, lab->memory, &source, &problem);
    if (status != LOG_FINE)
        return lab_log_error(lab, name, status, &problem);
    lab->doing = "reading";
    lab_show_progress(lab, 0);
    status = events_read(source, format, device, lab->memory, on_progress, lab, events, &problem);
    log_source_close(source);
    return status == LOG_FINE ? LAB_FINE : lab_log_error(lab, name, status, &problem);
}

/* ------------------------------------------------------------------------------ printing */

void lab_begin_json(struct lab *lab, struct json_writer *writer)
{
    json_writer_init(writer, lab->memory, SIZE_MAX / 2);
}

int lab_print_json(struct lab *lab, struct json_writer *writer)
{
    int status = LAB_FINE;
    lab_hide_progress(lab);
    if (writer->failure == JSON_WRITER_FINE) {
        output_bytes(&lab->output, writer->data, writer->length);
        output_bytes(&lab->output, "\n", 1);
    } else {
        status = lab_no_memory(lab);
    }
    json_writer_release(writer);
    return status;
}

void lab_member_foreign(struct json_writer *writer, const char *name, const char *text)
{
    char plain[FOREIGN_SIZE];
    size_t left = strlen(text);
    size_t length = 0;
    while (left > 0 && length + 4 <= sizeof(plain)) {
        size_t bytes = json_text_utf8_length(text, left);
        if (bytes > 0)
            memcpy(plain + length, text, bytes);
        else
            plain[length] = '?';
        bytes += bytes == 0;
        length += bytes;
        text += bytes;
        left -= bytes;
    }
    json_writer_member_string(writer, name, plain, length);
}

const char *lab_number(uint64_t number, char text[LAB_NUMBER_SIZE])
{
    char digits[24];
    size_t count = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, number);
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            text[length++] = ',';
        text[length++] = digits[i];
    }
    text[length] = '\0';
    return text;
}
