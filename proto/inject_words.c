/* The words that people write for a rule; see inject_words.h. */
#include "proto/inject_words.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes_text.h"
#include "base/memory.h"
#include "proto/json_text.h"
#include "proto/methods.h"

enum form {
    FORM_COUNT,
    FORM_SIZE,
    FORM_RATIO,
    FORM_METHOD,
    FORM_TEXT
};

static const struct inject_action actions[] = {
    {"oom", "out_of_memory", "allocate answers out_of_memory"},
    {"quota", "quota_exceeded", "allocate answers quota_exceeded"},
    {"host", "host_fallback", "allocate places it on the host, as if the GPU were full"},
    {"forget", "forget", "free forgets the block for certain"},
    {"delay", "delay", "the connection waits --delay-ms, then the request is carried out"},
    {"disconnect-before", "disconnect_before",
     "the connection ends, the request is not carried out"},
    {"disconnect-after", "disconnect_after",
     "the request is carried out, the connection ends without an answer"},
};

enum {
    ACTIONS = sizeof(actions) / sizeof(actions[0])
};

static const struct {
    struct inject_option shown;
    enum parameter parameter;
    enum form form;
} options[] = {
    {{"--nth", "N", "fire from the Nth match on, counted from now (1)"}, PARAMETER_nth, FORM_COUNT},
    {{"--every", "N", "fire at every Nth match"}, PARAMETER_every, FORM_COUNT},
    {{"--probability", "P", "fire with this probability, 0 to 1"},
     PARAMETER_probability,
     FORM_RATIO},
    {{"--seed", "N", "seed of the rule's own random stream (0)"}, PARAMETER_rule_seed, FORM_COUNT},
    {{"--times", "N", "fire at most N times (1 with --nth, else no end)"},
     PARAMETER_times,
     FORM_COUNT},
    {{"--method", "METHOD", "only this method"}, PARAMETER_method, FORM_METHOD},
    {{"--min-size", "SIZE", "only requested bytes of at least this"},
     PARAMETER_min_size,
     FORM_SIZE},
    {{"--max-size", "SIZE", "only requested bytes of at most this"}, PARAMETER_max_size, FORM_SIZE},
    {{"--stream", "N", "only this stream"}, PARAMETER_stream, FORM_COUNT},
    {{"--tag-prefix", "TEXT", "only tags that begin so"}, PARAMETER_tag_prefix, FORM_TEXT},
    {{"--process", "PID", "only connections of this process"}, PARAMETER_process, FORM_COUNT},
    {{"--user", "UID", "only connections of this user"}, PARAMETER_user, FORM_COUNT},
    {{"--client", "N", "only the connection of this number"}, PARAMETER_client, FORM_COUNT},
    {{"--allocator", "NAME", "only this allocator (all of them)"}, PARAMETER_allocator, FORM_TEXT},
    {{"--delay-ms", "N", "how long a delay is, in milliseconds"}, PARAMETER_delay_ms, FORM_COUNT},
};

enum {
    OPTIONS = sizeof(options) / sizeof(options[0]),
    MOST_WORDS = 1 + 2 * OPTIONS, /* each option once */
    SHOWN = 72                    /* of a wrong word in a message */
};

const struct inject_action *inject_words_action(size_t index)
{
    return index < ACTIONS ? &actions[index] : NULL;
}

const struct inject_option *inject_words_option(size_t index)
{
    return index < OPTIONS ? &options[index].shown : NULL;
}

static bool is_utf8(const char *text)
{
    size_t left = strlen(text);
    while (left) {
        size_t length = json_text_utf8_length(text, left);
        if (length == 0)
            return false;
        text += length;
        left -= length;
    }
    return true;
}

/* A word as it may stand in a message: printable ASCII, cut where it is long. */
static const char *shown(const char *word, char text[SHOWN])
{
    if (is_utf8(word))
        json_text_printable(word, strlen(word), text, SHOWN);
    else
        snprintf(text, SHOWN, "(bytes that are not UTF-8)");
    return text;
}

__attribute__((format(printf, 2, 3))) static enum inject_words_result
wrong(char message[INJECT_WORDS_MESSAGE_SIZE], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, INJECT_WORDS_MESSAGE_SIZE, format, arguments);
    va_end(arguments);
    return INJECT_WORDS_WRONG;
}

/* ------------------------------------------------------------------------------- values */

static enum inject_words_result write_number(size_t index, const char *value,
                                             struct json_writer *out,
                                             char message[INJECT_WORDS_MESSAGE_SIZE])
{
    const struct parameter_info *info = parameter_info(options[index].parameter);
    bool is_size = options[index].form == FORM_SIZE;
    char text[SHOWN];
    uint64_t number;
    if (!(is_size ? bytes_from_text(value, &number) : count_from_text(value, &number)) ||
        number < info->minimum || number > info->maximum)
        return wrong(message, "%s must be %s from %" PRIu64 " to %" PRIu64 ", not '%s'",
                     options[index].shown.word,
                     is_size ? "a size such as 4096 or 1MiB," : "a number", info->minimum,
                     info->maximum, shown(value, text));
    json_writer_member_u64(out, info->name, number);
    return INJECT_WORDS_FINE;
}

static enum inject_words_result write_ratio(size_t index, const char *value,
                                            struct json_writer *out,
                                            char message[INJECT_WORDS_MESSAGE_SIZE])
{
    char text[SHOWN];
    double number;
    if (!number_from_text(value, &number) || !(number >= 0.0 && number <= 1.0))
        return wrong(message, "%s must be a number from 0 to 1, not '%s'",
                     options[index].shown.word, shown(value, text));
    json_writer_member_double(out, parameter_info(options[index].parameter)->name, number);
    return INJECT_WORDS_FINE;
}

static enum inject_words_result write_text(size_t index, const char *value, struct json_writer *out,
                                           char message[INJECT_WORDS_MESSAGE_SIZE])
{
    const struct parameter_info *info = parameter_info(options[index].parameter);
    size_t length = strlen(value);
    char text[SHOWN];
    if (!is_utf8(value) || length < info->minimum || length > info->maximum)
        return wrong(message, "%s must be %" PRIu64 " to %" PRIu64 " bytes of UTF-8, not '%s'",
                     options[index].shown.word, info->minimum, info->maximum, shown(value, text));
    if (options[index].form == FORM_METHOD && method_from_name(value, length) == METHODS)
        return wrong(message, "%s: there is no method '%s'", options[index].shown.word,
                     shown(value, text));
    json_writer_member_text(out, info->name, value);
    return INJECT_WORDS_FINE;
}

static enum inject_words_result write_value(size_t index, const char *value,
                                            struct json_writer *out,
                                            char message[INJECT_WORDS_MESSAGE_SIZE])
{
    switch (options[index].form) {
    case FORM_COUNT:
    case FORM_SIZE:
        return write_number(index, value, out, message);
    case FORM_RATIO:
        return write_ratio(index, value, out, message);
    case FORM_METHOD:
    case FORM_TEXT:
        break;
    }
    return write_text(index, value, out, message);
}

/* ------------------------------------------------------------------------------- words */

static enum inject_words_result write_action(const char *word, struct json_writer *out,
                                             char message[INJECT_WORDS_MESSAGE_SIZE])
{
    for (size_t index = 0; index < ACTIONS; index++) {
        if (strcmp(word, actions[index].word) == 0 || strcmp(word, actions[index].action) == 0) {
            json_writer_member_text(out, "action", actions[index].action);
            return INJECT_WORDS_FINE;
        }
    }
    char text[SHOWN];
    return wrong(message,
                 "there is no action '%s'; there are oom, quota, host, forget, delay, "
                 "disconnect-before and disconnect-after",
                 shown(word, text));
}

/* The option that a word begins; `*value` is what stands after a '=' in it, NULL without one. */
static size_t find_option(const char *word, const char **value)
{
    size_t length = strcspn(word, "=");
    *value = word[length] ? word + length + 1 : NULL;
    for (size_t index = 0; index < OPTIONS; index++) {
        const char *known = options[index].shown.word;
        if (strlen(known) == length && memcmp(known, word, length) == 0)
            return index;
    }
    return OPTIONS;
}

static enum inject_words_result write_options(size_t count, char *const *words,
                                              struct json_writer *out,
                                              char message[INJECT_WORDS_MESSAGE_SIZE])
{
    bool given[OPTIONS] = {false};
    char text[SHOWN];
    for (size_t place = 0; place < count; place++) {
        const char *value;
        size_t index = find_option(words[place], &value);
        if (index == OPTIONS)
            return wrong(message, "there is no option '%s' of a rule", shown(words[place], text));
        if (given[index])
            return wrong(message, "%s is given twice", options[index].shown.word);
        given[index] = true;
        if (!value && ++place == count)
            return wrong(message, "a value is missing after %s", options[index].shown.word);
        enum inject_words_result result =
            write_value(index, value ? value : words[place], out, message);
        if (result != INJECT_WORDS_FINE)
            return result;
    }
    return INJECT_WORDS_FINE;
}

enum inject_words_result inject_words_write(size_t count, char *const *words,
                                            struct json_writer *out,
                                            char message[INJECT_WORDS_MESSAGE_SIZE])
{
    size_t start = out->length;
    if (count == 0)
        return wrong(message, "a rule begins with an action: oom, quota, host, forget, delay, "
                              "disconnect-before or disconnect-after");
    json_writer_begin_object(out);
    enum inject_words_result result = write_action(words[0], out, message);
    if (result == INJECT_WORDS_FINE)
        result = write_options(count - 1, words + 1, out, message);
    json_writer_end_object(out);
    if (result == INJECT_WORDS_FINE && out->failure != JSON_WRITER_FINE)
        result = INJECT_WORDS_NO_MEMORY;
    if (result != INJECT_WORDS_FINE)
        json_writer_cut(out, start);
    return result;
}

/* ------------------------------------------------------------------------------- one text */

/* Takes the next word out of `*rest`, in place: its quotes go, and it ends with a NUL. `*word` is
 * NULL when there is none. false when a quote is not closed. */
static bool next_word(char **rest, char **word)
{
    char *from = *rest;
    while (json_text_is_blank(*from))
        from++;
    char *to = from;
    *word = *from ? from : NULL;
    char quote = '\0';
    for (; *from && (quote || !json_text_is_blank(*from)); from++) {
        if (quote ? *from == quote : *from == '\'' || *from == '"')
            quote = quote ? '\0' : *from;
        else
            *to++ = *from;
    }
    *rest = *from ? from + 1 : from;
    *to = '\0';
    return quote == '\0';
}

static enum inject_words_result write_copy(char *text, struct json_writer *out,
                                           char message[INJECT_WORDS_MESSAGE_SIZE])
{
    char *words[MOST_WORDS];
    size_t count = 0;
    char *word;
    while (true) {
        if (!next_word(&text, &word))
            return wrong(message, "a quote is not closed");
        if (!word)
            return inject_words_write(count, words, out, message);
        if (count == MOST_WORDS)
            return wrong(message, "more than %d words: an option is given twice", MOST_WORDS);
        words[count++] = word;
    }
}

enum inject_words_result inject_words_write_text(const char *text, struct json_writer *out,
                                                 char message[INJECT_WORDS_MESSAGE_SIZE])
{
    size_t size = strlen(text) + 1;
    char *copy = memory_allocate_array(out->memory, size, 1);
    if (!copy)
        return INJECT_WORDS_NO_MEMORY;
    memcpy(copy, text, size);
    enum inject_words_result result = write_copy(copy, out, message);
    memory_release_array(out->memory, copy, size, 1);
    return result;
}
