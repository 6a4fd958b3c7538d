/* The workloads of shapes.def; see shapes.h. */
#include "lab/shapes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes_text.h"
#include "base/suggest.h"
#include "lab/shapes/shapes_all.h"

static const struct shape SHAPES[] = {
#define TYPE_IS_COUNT false
#define TYPE_IS_BYTES true
#define SHAPE(name, summary, story)                                                                \
    {                                                                                              \
#name, summary, story, shape_##name,                                                       \
        {
#define PARAMETER(name, type, initial, least, most, meaning)                                       \
    {#name, TYPE_IS_##type, initial, least, most, meaning},
#define SHAPE_END                                                                                  \
    }                                                                                              \
    }                                                                                              \
    ,
#include "lab/shapes.def"
};

enum {
    SHAPE_COUNT = sizeof(SHAPES) / sizeof(SHAPES[0])
};

const struct shape *shape_at(size_t index)
{
    return index < SHAPE_COUNT ? &SHAPES[index] : NULL;
}

const struct shape *shape_find(const char *name)
{
    for (size_t i = 0; i < SHAPE_COUNT; i++)
        if (strcmp(SHAPES[i].name, name) == 0)
            return &SHAPES[i];
    return NULL;
}

const char *shape_nearest(const char *typed)
{
    const char *names[SHAPE_COUNT];
    for (size_t i = 0; i < SHAPE_COUNT; i++)
        names[i] = SHAPES[i].name;
    return suggest_nearest(typed, names, SHAPE_COUNT);
}

size_t shape_parameter_count(const struct shape *shape)
{
    size_t count = 0;
    while (count < SHAPE_MOST_PARAMETERS && shape->parameters[count].name)
        count++;
    return count;
}

void shape_number_text(const struct shape_parameter *parameter, uint64_t number,
                       char text[BYTES_TEXT_SIZE])
{
    if (parameter->bytes)
        bytes_to_exact_text(number, text);
    else
        snprintf(text, BYTES_TEXT_SIZE, "%" PRIu64, number);
}

/* ------------------------------------------------------------------------------ what was set */

static bool say_unknown(const struct shape *shape, const char *name,
                        char problem[SHAPE_PROBLEM_SIZE])
{
    const char *names[SHAPE_MOST_PARAMETERS];
    size_t count = shape_parameter_count(shape);
    for (size_t i = 0; i < count; i++)
        names[i] = shape->parameters[i].name;
    const char *nearest = suggest_nearest(name, names, count);
    snprintf(problem, SHAPE_PROBLEM_SIZE, "%s has no parameter '%.60s'%s%s%s", shape->name, name,
             nearest ? "; did you mean '" : "; `worsegpu-lab list shapes` shows them",
             nearest ? nearest : "", nearest ? "'?" : "");
    return false;
}

static bool read_number(const struct shape *shape, const struct shape_parameter *parameter,
                        const char *text, uint64_t *value, char problem[SHAPE_PROBLEM_SIZE])
{
    char least[BYTES_TEXT_SIZE];
    char most[BYTES_TEXT_SIZE];
    bool read = parameter->bytes ? bytes_from_text(text, value) : count_from_text(text, value);
    if (read && *value >= parameter->least && *value <= parameter->most)
        return true;
    shape_number_text(parameter, parameter->least, least);
    shape_number_text(parameter, parameter->most, most);
    snprintf(problem, SHAPE_PROBLEM_SIZE, "%s of %s is %s from %s to %s, not '%.60s'",
             parameter->name, shape->name, parameter->bytes ? "a size" : "a whole number", least,
             most, text);
    return false;
}

/* One NAME=VALUE. */
static bool read_word(const struct shape *shape, const char *word,
                      uint64_t values[SHAPE_MOST_PARAMETERS], char problem[SHAPE_PROBLEM_SIZE])
{
    char name[64];
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : 0;
    if (!equals || length == 0) {
        snprintf(problem, SHAPE_PROBLEM_SIZE,
                 "'%.60s' sets nothing: parameters are written NAME=VALUE", word);
        return false;
    }
    snprintf(name, sizeof(name), "%.*s", length < sizeof(name) ? (int)length : (int)sizeof(name),
             word);
    size_t count = shape_parameter_count(shape);
    for (size_t i = 0; i < count; i++)
        if (strcmp(shape->parameters[i].name, name) == 0)
            return read_number(shape, &shape->parameters[i], equals + 1, &values[i], problem);
    return say_unknown(shape, name, problem);
}

bool shape_read(const struct shape *shape, const char *const *words, size_t count,
                uint64_t values[SHAPE_MOST_PARAMETERS], char problem[SHAPE_PROBLEM_SIZE])
{
    for (size_t i = 0; i < SHAPE_MOST_PARAMETERS; i++)
        values[i] = shape->parameters[i].initial;
    for (size_t i = 0; i < count; i++)
        if (!read_word(shape, words[i], values, problem))
            return false;
    return true;
}
