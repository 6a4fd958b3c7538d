/* One JSON object of a log; see json_line.h. */
#include "lab/logs/json_line.h"

#include <string.h>

void json_line_init(struct json_line *line, const struct worsegpu_memory *memory,
                    struct log_problem *problem)
{
    *line = (struct json_line){.problem = problem};
    json_document_init(&line->document, memory);
}

void json_line_release(struct json_line *line)
{
    json_document_release(&line->document);
}

int json_line_read(struct json_line *line, struct log_piece text, bool binary, uint64_t place)
{
    line->binary = binary;
    line->place = place;
    switch (json_document_read(&line->document, text.bytes, text.length)) {
    case STRICT_JSON_NO_MEMORY:
        return LOG_NO_MEMORY;
    case STRICT_JSON_REFUSED:
        return log_bad(line->problem, binary, place,
                       "the JSON is damaged or cut off: %s (byte %zu)", line->document.strict.why,
                       line->document.strict.where + 1);
    case STRICT_JSON_FINE:
        break;
    }
    if (!cJSON_IsObject(line->document.root))
        return log_bad(line->problem, binary, place, "this is no JSON object");
    return LOG_FINE;
}

int json_line_next(struct json_line *line, struct log_source *source, bool comments, bool *end)
{
    for (;;) {
        struct log_piece text;
        int status = log_source_line(source, &text.bytes, &text.length, line->problem);
        if (status != LOG_FINE)
            return status;
        *end = text.length == SIZE_MAX;
        if (*end)
            return LOG_FINE;
        text = log_piece_trim(text);
        if (text.length > 0 && !(comments && text.bytes[0] == '#'))
            return json_line_read(line, text, false, log_source_lines(source));
    }
}

const cJSON *json_line_root(const struct json_line *line)
{
    return line->document.root;
}

static int wrong(const struct json_line *line, const cJSON *item, const char *name,
                 const char *wanted)
{
    return log_bad(line->problem, line->binary, line->place,
                   item ? "\"%s\" is no %s" : "\"%s\" is missing, a %s", name, wanted);
}

int json_line_u64(const struct json_line *line, const cJSON *object, const char *name,
                  const uint64_t *missing, uint64_t *value)
{
    const cJSON *item = json_document_member(object, name);
    if (!item && missing) {
        *value = *missing;
        return LOG_FINE;
    }
    return json_document_u64(&line->document, item, value)
               ? LOG_FINE
               : wrong(line, item, name, "whole number from 0 to 2^64 - 1");
}

int json_line_text(const struct json_line *line, const cJSON *object, const char *name,
                   bool optional, const char **text)
{
    const cJSON *item = json_document_member(object, name);
    *text = NULL;
    if (!item && optional)
        return LOG_FINE;
    if (!item || !cJSON_IsString(item))
        return wrong(line, item, name, "text");
    *text = item->valuestring;
    return LOG_FINE;
}

int json_line_bool(const struct json_line *line, const cJSON *object, const char *name, bool *value)
{
    const cJSON *item = json_document_member(object, name);
    *value = item && cJSON_IsTrue(item);
    return !item || cJSON_IsBool(item) ? LOG_FINE : wrong(line, item, name, "true or false");
}

int json_line_pointer(const struct json_line *line, const cJSON *object, const char *name,
                      uint64_t *value)
{
    const char *text;
    int status = json_line_text(line, object, name, false, &text);
    if (status != LOG_FINE || !text)
        return status;
    return log_piece_pointer((struct log_piece){text, strlen(text)}, value)
               ? LOG_FINE
               : wrong(line, json_document_member(object, name), name, "address");
}
