/* The table of options and the values that it describes; see options_table.h. */
#include "daemon/options_table.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes_text.h"
#include "base/memory.h"
#include "base/suggest.h"
#include "daemon/groups.h"
#include "lib/worsegpu.h"

enum option_type {
    TYPE_BYTES,
    TYPE_COUNT,
    TYPE_RATIO,
    TYPE_YESNO,
    TYPE_CHOICE,
    TYPE_SEED,
    TYPE_GROUP,
    TYPE_WORD
};

/* SCOPE, CHANGE and the macro's own name as truth values. */
#define SCOPE_GPU true
#define SCOPE_DAEMON false
#define CHANGE_RELOADS true
#define CHANGE_FIXED false

static const struct option_info infos[] = {
#define OPTION(field, flag, type, default_text, minimum, maximum, scope, change, help)             \
    {#field,                                                                                       \
     flag,                                                                                         \
     #type,                                                                                        \
     default_text,                                                                                 \
     UINT64_C(minimum),                                                                            \
     UINT64_C(maximum),                                                                            \
     SCOPE_##scope,                                                                                \
     CHANGE_##change,                                                                              \
     false,                                                                                        \
     help},
#define LIMIT(field, flag, type, default_text, minimum, maximum, scope, change, help)              \
    {#field,                                                                                       \
     flag,                                                                                         \
     #type,                                                                                        \
     default_text,                                                                                 \
     UINT64_C(minimum),                                                                            \
     UINT64_C(maximum),                                                                            \
     SCOPE_##scope,                                                                                \
     CHANGE_##change,                                                                              \
     true,                                                                                         \
     help},
#include "daemon/options.def"
};

#define HOME_GPU struct gpu_options
#define HOME_DAEMON struct options

static const struct {
    enum option_type type;
    size_t offset;
    size_t size;
} values[] = {
#define OPTION(field, flag, type, default_text, minimum, maximum, scope, change, help)             \
    {TYPE_##type, offsetof(HOME_##scope, field), sizeof(OPTION_C_##type)},
#include "daemon/options.def"
};

size_t options_count(void)
{
    return OPTIONS;
}

const struct option_info *options_info(size_t index)
{
    return index < OPTIONS ? &infos[index] : NULL;
}

const char *option_choice(size_t index, size_t number)
{
    static const char *const visibilities[] = {"own", "all"};
    switch (index) {
    case OPTION_policy:
        return worsegpu_policy_name(number);
    case OPTION_scan:
        return worsegpu_scan_name((enum worsegpu_scan)number);
    case OPTION_log_level:
        return log_level_name(number);
    case OPTION_trace_visibility:
        return number < sizeof(visibilities) / sizeof(visibilities[0]) ? visibilities[number]
                                                                       : NULL;
    default:
        return NULL;
    }
}

const char *option_placeholder(size_t index)
{
    static const char *const shown[] = {
        [TYPE_BYTES] = "SIZE",       [TYPE_COUNT] = "N",   [TYPE_RATIO] = "P",
        [TYPE_YESNO] = "true|false", [TYPE_CHOICE] = "",   [TYPE_SEED] = "N",
        [TYPE_GROUP] = "GROUP",      [TYPE_WORD] = "TEXT",
    };
    return shown[values[index].type];
}

void *option_place(struct options *options, struct gpu_options *gpu, size_t index)
{
    return (infos[index].of_gpu ? (char *)gpu : (char *)options) + values[index].offset;
}

uint64_t options_number(const struct options *options, size_t index)
{
    uint64_t value;
    const char *home = infos[index].of_gpu ? (const char *)options->gpus : (const char *)options;
    memcpy(&value, home + values[index].offset, sizeof(value));
    return value;
}

/* ------------------------------------------------------------------------------- what it must be
 */

/* "a, b or c". */
static void list_choices(size_t index, char *text, size_t size)
{
    size_t length = 0;
    const char *word;
    *text = '\0';
    for (size_t number = 0; (word = option_choice(index, number)) && length < size; number++) {
        const char *before = number == 0 ? "" : option_choice(index, number + 1) ? ", " : " or ";
        length += (size_t)snprintf(text + length, size - length, "%s%s", before, word);
    }
}

void option_expected(size_t index, char text[OPTION_EXPECTED_SIZE])
{
    const struct option_info *info = &infos[index];
    switch (values[index].type) {
    case TYPE_BYTES:
        snprintf(text, OPTION_EXPECTED_SIZE,
                 "a size such as 4096, 64MiB or 1.5GiB, from %" PRIu64 " to %" PRIu64 " bytes",
                 info->minimum, info->maximum);
        break;
    case TYPE_COUNT:
        snprintf(text, OPTION_EXPECTED_SIZE, "a number from %" PRIu64 " to %" PRIu64, info->minimum,
                 info->maximum);
        break;
    case TYPE_RATIO:
        snprintf(text, OPTION_EXPECTED_SIZE, "a number from 0 to 1");
        break;
    case TYPE_YESNO:
        snprintf(text, OPTION_EXPECTED_SIZE, "true or false");
        break;
    case TYPE_CHOICE:
        list_choices(index, text, OPTION_EXPECTED_SIZE);
        break;
    case TYPE_SEED:
        snprintf(text, OPTION_EXPECTED_SIZE, "a decimal integer of at most %d digits",
                 WORSEGPU_MAX_SEED_DIGITS);
        break;
    case TYPE_GROUP:
        snprintf(text, OPTION_EXPECTED_SIZE, "the name of a group of this system");
        break;
    case TYPE_WORD:
        snprintf(text, OPTION_EXPECTED_SIZE, "%" PRIu64 " to %" PRIu64 " bytes of text",
                 info->minimum, info->maximum);
        break;
    }
}

/* --------------------------------------------------------------------------------------- setting
 */

static enum options_result set_number(size_t index, void *place, const char *text)
{
    uint64_t value;
    bool read = values[index].type == TYPE_BYTES ? bytes_from_text(text, &value)
                                                 : count_from_text(text, &value);
    if (!read || value < infos[index].minimum || value > infos[index].maximum)
        return OPTIONS_WRONG;
    memcpy(place, &value, sizeof(value));
    return OPTIONS_FINE;
}

static enum options_result set_ratio(void *place, const char *text)
{
    double value;
    if (!number_from_text(text, &value) || !(value >= 0.0 && value <= 1.0))
        return OPTIONS_WRONG;
    memcpy(place, &value, sizeof(value));
    return OPTIONS_FINE;
}

static enum options_result set_yesno(void *place, const char *text)
{
    bool value = strcmp(text, "true") == 0;
    if (!value && strcmp(text, "false") != 0)
        return OPTIONS_WRONG;
    memcpy(place, &value, sizeof(value));
    return OPTIONS_FINE;
}

static enum options_result set_text(const struct worsegpu_memory *memory, size_t index, void *place,
                                    const char *text)
{
    size_t length = strlen(text);
    if (length < infos[index].minimum || length > infos[index].maximum)
        return OPTIONS_WRONG;
    char *copy = memory_allocate_array(memory, length + 1, 1);
    if (!copy)
        return OPTIONS_NO_MEMORY;
    memcpy(copy, text, length + 1);
    option_clear(memory, index, place);
    *(char **)place = copy;
    return OPTIONS_FINE;
}

static bool is_choice(size_t index, const char *text)
{
    const char *word;
    for (size_t number = 0; (word = option_choice(index, number)) != NULL; number++)
        if (strcmp(word, text) == 0)
            return true;
    return false;
}

static bool is_seed(const char *text)
{
    struct worsegpu_config config;
    worsegpu_config_default(&config);
    config.seed = *text ? text : NULL;
    return worsegpu_config_check(&config, NULL, NULL) == WORSEGPU_OK;
}

static enum options_result set_group(const struct worsegpu_memory *memory, size_t index,
                                     struct option_group *place, const char *text)
{
    gid_t gid = 0;
    enum groups_result found = *text ? groups_find(memory, text, &gid) : GROUPS_FINE;
    if (found != GROUPS_FINE)
        return found == GROUPS_NO_MEMORY ? OPTIONS_NO_MEMORY : OPTIONS_WRONG;
    enum options_result result = set_text(memory, index, &place->name, text);
    if (result == OPTIONS_FINE)
        place->gid = gid;
    return result;
}

enum options_result option_set(const struct worsegpu_memory *memory, size_t index, void *place,
                               const char *text)
{
    switch (values[index].type) {
    case TYPE_BYTES:
    case TYPE_COUNT:
        return set_number(index, place, text);
    case TYPE_RATIO:
        return set_ratio(place, text);
    case TYPE_YESNO:
        return set_yesno(place, text);
    case TYPE_CHOICE:
        return is_choice(index, text) ? set_text(memory, index, place, text) : OPTIONS_WRONG;
    case TYPE_SEED:
        return is_seed(text) ? set_text(memory, index, place, text) : OPTIONS_WRONG;
    case TYPE_GROUP:
        return set_group(memory, index, place, text);
    case TYPE_WORD:
        return set_text(memory, index, place, text);
    }
    return OPTIONS_WRONG;
}

/* ----------------------------------------------------------------------------- comparing, showing
 */

static bool is_text(size_t index)
{
    return values[index].type >= TYPE_CHOICE;
}

/* A group's name comes first in it. */
static char *const *text_of(const void *place)
{
    return place;
}

void option_clear(const struct worsegpu_memory *memory, size_t index, void *place)
{
    char *const *text = text_of(place);
    if (!is_text(index) || !*text)
        return;
    memory_release_array(memory, *text, strlen(*text) + 1, 1);
    *(char **)place = NULL;
}

bool option_same(size_t index, const void *left, const void *right)
{
    if (!is_text(index))
        return memcmp(left, right, values[index].size) == 0;
    if (values[index].type == TYPE_GROUP &&
        ((const struct option_group *)left)->gid != ((const struct option_group *)right)->gid)
        return false;
    return strcmp(*text_of(left), *text_of(right)) == 0;
}

void option_swap(size_t index, void *left, void *right)
{
    char kept[sizeof(struct option_group)];
    _Static_assert(sizeof(kept) >= sizeof(uint64_t), "the longest value fits");
    memcpy(kept, left, values[index].size);
    memcpy(left, right, values[index].size);
    memcpy(right, kept, values[index].size);
}

void option_show(size_t index, const void *place, char *text, size_t size)
{
    uint64_t number;
    double ratio;
    switch (values[index].type) {
    case TYPE_BYTES:
    case TYPE_COUNT:
        memcpy(&number, place, sizeof(number));
        snprintf(text, size, "%" PRIu64, number);
        break;
    case TYPE_RATIO:
        memcpy(&ratio, place, sizeof(ratio));
        snprintf(text, size, "%g", ratio);
        break;
    case TYPE_YESNO:
        snprintf(text, size, "%s", *(const bool *)place ? "true" : "false");
        break;
    case TYPE_CHOICE:
    case TYPE_SEED:
    case TYPE_GROUP:
    case TYPE_WORD:
        snprintf(text, size, "%s", *text_of(place));
        break;
    }
}

const char *options_nearest_flag(const char *typed, bool on_command_line)
{
    static const char *const own[] = {"help", "version", "config", "inject", "run"};
    enum {
        OWN = sizeof(own) / sizeof(own[0])
    };
    const char *flags[OPTIONS + OWN];
    char word[64];
    for (size_t index = 0; index < OPTIONS; index++)
        flags[index] = options_info(index)->flag;
    memcpy(flags + OPTIONS, own, sizeof(own));
    snprintf(word, sizeof(word), "%s", typed); /* one that is cut is near to none */
    for (char *at = word; *at; at++)
        if (*at == '_')
            *at = '-';
    return suggest_nearest(word, flags, OPTIONS + (on_command_line ? OWN : 0));
}
