/* Policies times knobs; see fit_settings.h. */
#include "lab/fit_settings.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lab/compare.h"
#include "lib/policy.h"

#define CONF "alloc_conf"

enum {
    NAME_SIZE = 64
};

int fit_settings_add(struct text_list *settings, const char *policy)
{
    if (strcmp(policy, "all") != 0)
        return text_list_add(settings, policy, strlen(policy));
    const char *usual;
    for (size_t i = 0; (usual = compare_usual(i)) != NULL; i++) {
        if (text_list_add(settings, usual, strlen(usual)) != 0)
            return -1;
    }
    return 0;
}

/* ------------------------------------------------------------------------------ knobs */

static const struct policy_operations *policy_of(const char *setting)
{
    char name[NAME_SIZE];
    setting += strspn(setting, " \t");
    size_t length = strcspn(setting, " \t");
    if (length >= sizeof(name))
        return NULL;
    memcpy(name, setting, length);
    name[length] = '\0';
    return policy_find(name);
}

static bool has_knob(const char *setting, struct text_piece name)
{
    const struct policy_operations *policy = policy_of(setting);
    for (size_t i = 0; policy && i < policy->knob_count; i++) {
        if (strlen(policy->knobs[i].name) == name.length &&
            memcmp(policy->knobs[i].name, name.bytes, name.length) == 0)
            return true;
    }
    return false;
}

static bool any_has_knob(const struct text_list *settings, struct text_piece name)
{
    for (size_t i = 0; i < settings->count; i++) {
        if (has_knob(settings->texts[i], name))
            return true;
    }
    return false;
}

/* Behind the alloc_conf that a setting has; NULL: it has none. */
static const char *end_of_conf(const char *setting)
{
    const char *found = strstr(setting, " " CONF "=");
    return found ? found + 1 + strcspn(found + 1, " \t") : NULL;
}

/* ------------------------------------------------------------------------------ varying */

/* What is varied. */
struct varying {
    struct text_piece key;
    bool in_conf; /* it is a name in the alloc_conf */
    const char *values;
    char separator;
};

static int add_varied(struct text_list *varied, const char *setting, const struct varying *varying,
                      struct text_piece value)
{
    struct text_piece head = text_piece_of(setting);
    if (value.length == 7 && memcmp(value.bytes, "default", 7) == 0)
        return text_list_add(varied, head.bytes, head.length);
    if (!varying->in_conf) {
        const struct text_piece pieces[] = {head, text_piece_of(" "), varying->key,
                                            text_piece_of("="), value};
        return text_list_add_pieces(varied, pieces, sizeof(pieces) / sizeof(pieces[0]));
    }
    const char *end = end_of_conf(setting);
    struct text_piece join = text_piece_of(" " CONF "=");
    if (end) {
        head.length = (size_t)(end - setting);
        join = text_piece_of(end[-1] == '=' ? "" : ",");
    }
    const struct text_piece pieces[] = {
        head, join, varying->key, text_piece_of(":"), value, text_piece_of(end ? end : "")};
    return text_list_add_pieces(varied, pieces, sizeof(pieces) / sizeof(pieces[0]));
}

/* The next value, from *at on, which moves behind it: to a separator that is not in brackets. */
static struct text_piece next_value(const char **at, char separator)
{
    struct text_piece value = {*at, 0};
    unsigned depth = 0;
    const char *end = *at;
    for (; *end != '\0' && (*end != separator || depth > 0); end++) {
        depth += *end == '[';
        depth -= *end == ']' && depth > 0;
    }
    value.length = (size_t)(end - *at);
    *at = *end == '\0' ? end : end + 1;
    return text_piece_trim(value);
}

static int shown(struct text_piece key)
{
    return (int)(key.length < 100 ? key.length : 100);
}

static int vary_one(const char *setting, const struct varying *varying, struct text_list *varied,
                    char problem[FIT_SETTINGS_PROBLEM_SIZE])
{
    const char *at = varying->values;
    do {
        struct text_piece value = next_value(&at, varying->separator);
        if (value.length == 0) {
            snprintf(problem, FIT_SETTINGS_PROBLEM_SIZE,
                     "--vary %.*s has an empty value; \"default\" leaves the knob out",
                     shown(varying->key), varying->key.bytes);
            return 1;
        }
        if (varied->count >= FIT_SETTINGS_MOST) {
            snprintf(problem, FIT_SETTINGS_PROBLEM_SIZE, "more than %d settings are too many",
                     FIT_SETTINGS_MOST);
            return 1;
        }
        if (add_varied(varied, setting, varying, value) != 0)
            return -1;
    } while (*at != '\0');
    return 0;
}

static int vary_all(const struct text_list *settings, const struct varying *varying,
                    struct text_list *varied, char problem[FIT_SETTINGS_PROBLEM_SIZE])
{
    const struct text_piece conf = text_piece_of(CONF);
    bool used = false;
    int status = 0;
    for (size_t i = 0; status == 0 && i < settings->count; i++) {
        const char *setting = settings->texts[i];
        if (has_knob(setting, varying->in_conf ? conf : varying->key)) {
            status = vary_one(setting, varying, varied, problem);
            used = true;
        } else {
            status = text_list_add(varied, setting, strlen(setting));
        }
    }
    if (status == 0 && !used) {
        snprintf(problem, FIT_SETTINGS_PROBLEM_SIZE, "none of the policies has a knob \"%.*s\"",
                 shown(varying->key), varying->key.bytes);
        status = 1;
    }
    return status;
}

int fit_settings_vary(struct text_list *settings, const char *vary,
                      char problem[FIT_SETTINGS_PROBLEM_SIZE])
{
    struct text_list varied;
    size_t equals = strcspn(vary, "=");
    struct varying varying = {
        .key = text_piece_trim((struct text_piece){vary, equals}),
        .values = vary + equals + 1,
        .separator = strchr(vary, ';') ? ';' : ',',
    };
    if (varying.key.length == 0 || vary[equals] == '\0') {
        snprintf(problem, FIT_SETTINGS_PROBLEM_SIZE,
                 "--vary is KEY=VALUE,VALUE,... and not \"%.100s\"", vary);
        return 1;
    }
    varying.in_conf = !any_has_knob(settings, varying.key);
    text_list_init(&varied, settings->memory);
    int status = vary_all(settings, &varying, &varied, problem);
    text_list_release(settings);
    *settings = varied;
    return status;
}
