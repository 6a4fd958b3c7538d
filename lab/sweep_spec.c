/* The specification of a sweep: a file of `key = value` lines, and options; see sweep.h.
 *
 * The file is read here and not by libinih, which cuts lines at 200 bytes: policies with their
 * knobs, and paths, may be longer. */
#include <stdio.h>
#include <string.h>

#include "base/bytes_text.h"
#include "base/suggest.h"
#include "lab/fit.h"
#include "lab/sweep.h"
#include "lib/worsegpu.h"

enum key {
    KEY_LOG,
    KEY_POLICY,
    KEY_VARY,
    KEY_CAPACITY,
    KEY_SEED,
    KEYS
};

static const char *const KEY_NAMES[KEYS] = {
    [KEY_LOG] = "log",           [KEY_POLICY] = "policy", [KEY_VARY] = "vary",
    [KEY_CAPACITY] = "capacity", [KEY_SEED] = "seed",
};

/* A specification while it is read. */
struct reading {
    struct lab *lab;
    struct sweep_spec *spec;
    struct text_list varies;
    const char *file; /* NULL: the command line */
    uint64_t line;
};

void sweep_spec_init(struct sweep_spec *spec, const struct worsegpu_memory *memory)
{
    memset(spec, 0, sizeof(*spec));
    text_list_init(&spec->logs, memory);
    text_list_init(&spec->paths, memory);
    text_list_init(&spec->settings, memory);
    text_list_init(&spec->capacities, memory);
    text_list_init(&spec->seeds, memory);
}

void sweep_spec_release(struct sweep_spec *spec)
{
    text_list_release(&spec->logs);
    text_list_release(&spec->paths);
    text_list_release(&spec->settings);
    text_list_release(&spec->capacities);
    text_list_release(&spec->seeds);
}

struct sweep_point sweep_point_of(const struct sweep_spec *spec, uint64_t number)
{
    struct sweep_point point;
    uint64_t rest = number - 1;
    point.seed = (size_t)(rest % spec->seeds.count);
    rest /= spec->seeds.count;
    point.capacity = (size_t)(rest % spec->capacities.count);
    rest /= spec->capacities.count;
    point.setting = (size_t)(rest % spec->settings.count);
    point.log = (size_t)(rest / spec->settings.count);
    return point;
}

bool sweep_capacity(const char *text, uint64_t floor, uint64_t *bytes)
{
    size_t length = strlen(text);
    char times[32];
    double number;
    *bytes = 0;
    if (strcmp(text, "unlimited") == 0)
        return true;
    if (length > 1 && length < sizeof(times) && text[length - 1] == 'x') {
        memcpy(times, text, length - 1);
        times[length - 1] = '\0';
        if (!number_from_text(times, &number) || !(number > 0) || number > 1e6)
            return false;
        number *= (double)floor;
        *bytes = number < (double)WORSEGPU_MAX_BYTES ? (uint64_t)number : WORSEGPU_MAX_BYTES;
        *bytes += (double)*bytes < number;
        *bytes = *bytes > 0 ? *bytes : 1;
        return true;
    }
    return bytes_from_text(text, bytes) && *bytes > 0 && *bytes <= WORSEGPU_MAX_BYTES;
}

/* ------------------------------------------------------------------------------ problems */

/* The exit status after a complaint that names the line. */
static int wrong(const struct reading *reading, const char *problem)
{
    char sentence[SWEEP_PROBLEM_SIZE + 300];
    if (!reading->file)
        return lab_usage(reading->lab, problem, "try: worsegpu-lab help sweep");
    snprintf(sentence, sizeof(sentence), "%.250s: line %llu: %s", reading->file,
             (unsigned long long)reading->line, problem);
    return lab_error(reading->lab, LAB_USAGE, "usage", sentence);
}

static int added(const struct reading *reading, int status)
{
    return status == 0 ? LAB_FINE : lab_no_memory(reading->lab);
}

/* ------------------------------------------------------------------------------ values */

/* A log, and where it lies: beside the specification, unless its name begins with a slash. */
static int take_log(struct reading *reading, struct text_piece value)
{
    struct sweep_spec *spec = reading->spec;
    const char *slash = reading->file ? strrchr(reading->file, '/') : NULL;
    size_t folder = slash && value.bytes[0] != '/' ? (size_t)(slash - reading->file) + 1 : 0;
    const struct text_piece path[] = {{reading->file, folder}, value};
    if (value.length == 1 && value.bytes[0] == '-')
        return wrong(reading, "a sweep needs logs that are files: standard input is read once");
    if (text_list_add(&spec->logs, value.bytes, value.length) != 0)
        return lab_no_memory(reading->lab);
    return added(reading, text_list_add_pieces(&spec->paths, folder > 0 ? path : path + 1,
                                               folder > 0 ? 2 : 1));
}

static int take_policy(struct reading *reading, struct text_piece value)
{
    if (value.length == 3 && memcmp(value.bytes, "all", 3) == 0)
        return added(reading, fit_settings_add(&reading->spec->settings, "all"));
    return added(reading, text_list_add(&reading->spec->settings, value.bytes, value.length));
}

/* Capacities or seeds, separated by commas. */
static int take_list(struct reading *reading, enum key key, const char *values)
{
    struct text_list *list = key == KEY_SEED ? &reading->spec->seeds : &reading->spec->capacities;
    for (const char *at = values;;) {
        size_t length = strcspn(at, ",");
        struct text_piece value = text_piece_trim((struct text_piece){at, length});
        uint64_t bytes;
        char problem[SWEEP_PROBLEM_SIZE];
        if (text_list_add(list, value.bytes, value.length) != 0)
            return lab_no_memory(reading->lab);
        const char *text = list->texts[list->count - 1];
        if (key == KEY_CAPACITY && !sweep_capacity(text, 1, &bytes)) {
            snprintf(problem, sizeof(problem),
                     "a capacity is a size such as 1.5GiB, a number of floors such as 1.25x, or "
                     "\"unlimited\", not \"%.100s\"",
                     text);
            return wrong(reading, problem);
        }
        if (at[length] == '\0')
            return LAB_FINE;
        at += length + 1;
    }
}

static int take_value(struct reading *reading, enum key key, struct text_piece value)
{
    struct text_list one; /* for the NUL at its end */
    switch (key) {
    case KEY_LOG:
        return take_log(reading, value);
    case KEY_POLICY:
        return take_policy(reading, value);
    case KEY_VARY:
        return added(reading, text_list_add(&reading->varies, value.bytes, value.length));
    case KEY_CAPACITY:
    case KEY_SEED:
    case KEYS:
    default:
        text_list_init(&one, reading->lab->memory);
        int status = text_list_add(&one, value.bytes, value.length) == 0
                         ? take_list(reading, key, one.texts[0])
                         : lab_no_memory(reading->lab);
        text_list_release(&one);
        return status;
    }
}

/* ------------------------------------------------------------------------------ the file */

static int unknown_key(const struct reading *reading, struct text_piece name)
{
    char typed[64];
    char problem[SWEEP_PROBLEM_SIZE];
    snprintf(typed, sizeof(typed), "%.*s", (int)(name.length < 60 ? name.length : 60), name.bytes);
    const char *nearest = suggest_nearest(typed, KEY_NAMES, KEYS);
    snprintf(problem, sizeof(problem), "there is no key \"%s\"; %s%s", typed,
             nearest ? "did you mean " : "there are log, policy, vary, capacity and seed",
             nearest ? nearest : "");
    return wrong(reading, problem);
}

static int take_line(struct reading *reading, const char *bytes, size_t length)
{
    struct text_piece line = text_piece_trim((struct text_piece){bytes, length});
    if (line.length == 0 || line.bytes[0] == '#' || line.bytes[0] == ';')
        return LAB_FINE;
    if (line.length == 7 && memcmp(line.bytes, "[sweep]", 7) == 0)
        return LAB_FINE;
    const char *equals = memchr(line.bytes, '=', line.length);
    if (!equals)
        return wrong(reading, "this is not \"key = value\"");
    struct text_piece name =
        text_piece_trim((struct text_piece){line.bytes, (size_t)(equals - line.bytes)});
    struct text_piece value = text_piece_trim(
        (struct text_piece){equals + 1, line.length - (size_t)(equals + 1 - line.bytes)});
    for (size_t key = 0; key < KEYS; key++) {
        if (strlen(KEY_NAMES[key]) != name.length ||
            memcmp(KEY_NAMES[key], name.bytes, name.length) != 0)
            continue;
        if (value.length == 0)
            return wrong(reading, "there is no value behind the =");
        return take_value(reading, (enum key)key, value);
    }
    return unknown_key(reading, name);
}

static int read_file(struct reading *reading)
{
    struct lab *lab = reading->lab;
    struct log_source *source;
    struct log_problem problem = {""};
    const char *line = "";
    size_t length = 0;
    int exit = LAB_FINE;
    int status = log_source_open(reading->file, lab->memory, &source, &problem);
    if (status != LOG_FINE)
        return lab_log_error(lab, reading->file, status, &problem);
    while (exit == LAB_FINE) {
        status = log_source_line(source, &line, &length, &problem);
        if (status != LOG_FINE || length == SIZE_MAX)
            break;
        reading->line++;
        exit = take_line(reading, line, length);
    }
    log_source_close(source);
    return status == LOG_FINE ? exit : lab_log_error(lab, reading->file, status, &problem);
}

/* ------------------------------------------------------------------------------ options */

static int take_options(struct reading *reading)
{
    static const struct {
        enum lab_option option;
        enum key key;
        bool many;
    } OPTIONS[] = {
        {LAB_OPTION_log, KEY_LOG, true},     {LAB_OPTION_policy, KEY_POLICY, true},
        {LAB_OPTION_vary, KEY_VARY, true},   {LAB_OPTION_capacities, KEY_CAPACITY, false},
        {LAB_OPTION_seeds, KEY_SEED, false},
    };
    const struct command_line *line = &reading->lab->line;
    int status = LAB_FINE;
    for (size_t i = 0; i < sizeof(OPTIONS) / sizeof(OPTIONS[0]); i++) {
        size_t option = (size_t)OPTIONS[i].option;
        const char *text = NULL;
        for (size_t k = 0; status == LAB_FINE; k++) {
            if (OPTIONS[i].many)
                text = command_line_text(line, option, k);
            else
                text = k == 0 && command_line_has(line, option) ? line->values[option].text : NULL;
            if (!text)
                break;
            status = take_value(reading, OPTIONS[i].key, text_piece_of(text));
        }
    }
    return status;
}

/* ------------------------------------------------------------------------------ the whole */

/* FNV-1a: no secret, the same everywhere. */
static uint64_t mix(uint64_t hash, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t mix_list(uint64_t hash, const struct text_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        hash = mix(hash, list->texts[i], strlen(list->texts[i]) + 1);
    return mix(hash, "\n", 1);
}

static int mix_log(struct lab *lab, const char *path, uint64_t *hash)
{
    struct log_source *source;
    struct log_problem problem = {""};
    const unsigned char *bytes;
    size_t length = 1;
    int status = log_source_open(path, lab->memory, &source, &problem);
    if (status != LOG_FINE)
        return lab_log_error(lab, path, status, &problem);
    while (status == LOG_FINE && length > 0) {
        status = log_source_peek(source, 1, &bytes, &length, &problem);
        if (status == LOG_FINE && length > 0) {
            *hash = mix(*hash, bytes, length);
            log_source_skip(source, length);
        }
    }
    log_source_close(source);
    return status == LOG_FINE ? LAB_FINE : lab_log_error(lab, path, status, &problem);
}

/* Another version may decide otherwise: its results are of another sweep. */
static int identify(struct lab *lab, struct sweep_spec *spec)
{
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), WORSEGPU_VERSION, sizeof(WORSEGPU_VERSION));
    int status = LAB_FINE;
    hash = mix_list(hash, &spec->logs);
    hash = mix_list(hash, &spec->settings);
    hash = mix_list(hash, &spec->capacities);
    hash = mix_list(hash, &spec->seeds);
    for (size_t i = 0; status == LAB_FINE && i < spec->paths.count; i++)
        status = mix_log(lab, spec->paths.texts[i], &hash);
    snprintf(spec->id, sizeof(spec->id), "%016llx", (unsigned long long)hash);
    return status;
}

static int complete(struct reading *reading)
{
    struct sweep_spec *spec = reading->spec;
    char problem[FIT_SETTINGS_PROBLEM_SIZE];
    int status = 0;
    reading->file = NULL;
    if (spec->logs.count == 0)
        return wrong(reading, "a sweep needs a log: `log = FILE` in its file, or --log FILE");
    if (spec->settings.count == 0)
        status = fit_settings_add(&spec->settings, "all");
    if (status == 0 && spec->capacities.count == 0)
        status = text_list_add(&spec->capacities, "unlimited", 9);
    if (status == 0 && spec->seeds.count == 0)
        status = text_list_add(&spec->seeds, "0", 1);
    for (size_t i = 0; status == 0 && i < reading->varies.count; i++)
        status = fit_settings_vary(&spec->settings, reading->varies.texts[i], problem);
    if (status != 0)
        return status < 0 ? lab_no_memory(reading->lab) : wrong(reading, problem);
    spec->points = 1;
    const size_t factors[] = {spec->logs.count, spec->settings.count, spec->capacities.count,
                              spec->seeds.count};
    for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
        if (factors[i] > SWEEP_MOST_POINTS / spec->points)
            return wrong(reading, "more than 10,000,000 points are too many");
        spec->points *= factors[i];
    }
    return LAB_FINE;
}

int sweep_spec_read(struct lab *lab, struct sweep_spec *spec)
{
    struct reading reading = {.lab = lab, .spec = spec};
    int status = LAB_FINE;
    text_list_init(&reading.varies, lab->memory);
    if (lab->line.operand_count > 0) {
        reading.file = lab->line.operands[0];
        status = read_file(&reading);
    }
    reading.file = NULL;
    if (status == LAB_FINE)
        status = take_options(&reading);
    if (status == LAB_FINE)
        status = complete(&reading);
    text_list_release(&reading.varies);
    for (size_t i = 0; status == LAB_FINE && i < spec->seeds.count; i++)
        status = lab_check_settings(lab, &spec->settings, spec->seeds.texts[i]);
    return status == LAB_FINE ? identify(lab, spec) : status;
}
