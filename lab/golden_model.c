/* The header of golden allocator data as a policy with knobs: one table of the allocators and of
 * what their configurations are called there and here. */
#include "lab/golden_model.h"

#include <stdio.h>
#include <string.h>

/* How a value of the configuration becomes one of the knob. */
enum translation {
    IGNORED,     /* says how the data was made; the model does not depend on it */
    PLAIN,       /* as it stands; null is none */
    WORD,        /* in small letters, with _ for - */
    IF_A_NUMBER, /* as it stands, but a text or a negative number is left out */
    UNLESS_NONE, /* as WORD, but "none" is left out */
    LIST_ORDER   /* OSTEP's words for the order of its list */
};

struct setting {
    const char *key;
    const char *knob;
    enum translation translation;
};

enum {
    MAX_SETTINGS = 12
};

struct allocator {
    const char *name;
    const char *policy;
    const char *capacity; /* the key of the device's size in the configuration; NULL: the header's
                             capacity */
    struct setting settings[MAX_SETTINGS];
};

static const struct allocator allocators[] = {
    {"OffsetAllocator",
     "offset",
     NULL,
     {{"max_allocs", "max_allocs", PLAIN},
      {"node_index_bits", NULL, IGNORED},
      {"unit_bytes", NULL, IGNORED}}}, /* sizes and offsets of the data are in units already */
    {"VMA virtual block",
     "vma",
     NULL,
     {{"algorithm", "algorithm", WORD},
      {"strategy", "strategy", UNLESS_NONE},
      {"alignment", "alignment", IF_A_NUMBER}}},
    {"RMM pool_memory_resource",
     "rmm_pool",
     "device_bytes",
     {{"initial_pool_size", "initial_pool_size", PLAIN},
      {"maximum_pool_size", "maximum_pool_size", PLAIN},
      {"device_bytes", NULL, IGNORED},
      {"device_granularity", "device_granularity", PLAIN}}},
    {"BFC",
     "bfc",
     "device_bytes",
     {{"allow_growth", "allow_growth", PLAIN},
      {"garbage_collection", "garbage_collection", PLAIN},
      {"fragmentation_fraction", "fragmentation_fraction", PLAIN},
      {"allow_retry_on_failure", NULL, IGNORED},
      {"device_bytes", NULL, IGNORED},
      {"device_granularity", "device_granularity", PLAIN},
      {"device_coalesces", "device_coalesces", PLAIN}}},
    {"TLSF",
     "tlsf",
     NULL,
     {{"word_bytes", NULL, IGNORED},
      {"alignment", NULL, IGNORED}, /* that of each request is in the request */
      {"pool_aligned_to", NULL, IGNORED},
      {"control_outside_pool", NULL, IGNORED}}},
    {"PyTorch CUDACachingAllocator",
     "torch",
     "device_bytes",
     {{"alloc_conf", "alloc_conf", PLAIN},
      {"memory_fraction", "memory_fraction", PLAIN},
      {"device_bytes", NULL, IGNORED},
      {"device_base", NULL, IGNORED},
      {"device_reuses_addresses", "device_reuses_addresses", PLAIN}}},
    {"OSTEP malloc.py",
     "list_fit",
     NULL,
     {{"policy", "fit", WORD},
      {"list_order", "order", LIST_ORDER},
      {"coalesce", "merge", PLAIN},
      {"header_size", "header", PLAIN},
      {"alignment", "alignment", IF_A_NUMBER},
      {"base_address", NULL, IGNORED},
      {"seed", NULL, IGNORED},
      {"range", NULL, IGNORED},
      {"percent_alloc", NULL, IGNORED},
      {"num_ops", NULL, IGNORED}}},
};

static const char *const list_orders[][2] = {
    {"ADDRSORT", "address"},          {"SIZESORT+", "size_up"},       {"SIZESORT-", "size_down"},
    {"INSERT-FRONT", "insert_front"}, {"INSERT-BACK", "insert_back"},
};

/* A text under construction. */
struct writing {
    struct golden_model *model;
    size_t length;
    bool full;
};

static void write_bytes(struct writing *writing, const char *bytes, size_t length)
{
    if (writing->full || length >= sizeof(writing->model->text) - writing->length) {
        writing->full = true;
        return;
    }
    memcpy(writing->model->text + writing->length, bytes, length);
    writing->length += length;
    writing->model->text[writing->length] = '\0';
}

static void write_knob(struct writing *writing, const char *knob, const char *value, size_t length)
{
    write_bytes(writing, " ", 1);
    write_bytes(writing, knob, strlen(knob));
    write_bytes(writing, "=", 1);
    write_bytes(writing, value, length);
}

static void write_word(struct writing *writing, const char *knob, const char *text)
{
    char word[64];
    size_t length = strlen(text);
    if (length > sizeof(word))
        length = sizeof(word);
    for (size_t i = 0; i < length; i++) {
        char byte = text[i];
        word[i] = (char)(byte == '-' ? '_' : byte >= 'A' && byte <= 'Z' ? byte + 32 : byte);
    }
    write_knob(writing, knob, word, length);
}

/* One member of the configuration. false when its value makes no sense. */
static bool write_setting(struct writing *writing, const struct setting *setting,
                          const struct json_document *header, const cJSON *value)
{
    size_t length;
    switch (setting->translation) {
    case IGNORED:
        return true;
    case IF_A_NUMBER:
        if (!cJSON_IsNumber(value) || value->valuedouble < 0)
            return true;
        break;
    case UNLESS_NONE:
        if (cJSON_IsString(value) && strcmp(value->valuestring, "none") == 0)
            return true;
        break;
    case LIST_ORDER:
        for (size_t i = 0; i < sizeof(list_orders) / sizeof(list_orders[0]); i++) {
            if (cJSON_IsString(value) && strcmp(value->valuestring, list_orders[i][0]) == 0) {
                write_word(writing, setting->knob, list_orders[i][1]);
                return true;
            }
        }
        return false;
    case PLAIN:
    case WORD:
        break;
    }
    if (cJSON_IsNumber(value)) {
        const char *spelling = json_document_spelling(header, value, &length);
        write_knob(writing, setting->knob, spelling, length);
    } else if (cJSON_IsBool(value)) {
        write_word(writing, setting->knob, cJSON_IsTrue(value) ? "true" : "false");
    } else if (cJSON_IsNull(value)) {
        write_word(writing, setting->knob, "none");
    } else if (cJSON_IsString(value) && strpbrk(value->valuestring, " \t") == NULL) {
        if (setting->translation == PLAIN)
            write_knob(writing, setting->knob, value->valuestring, strlen(value->valuestring));
        else
            write_word(writing, setting->knob, value->valuestring);
    } else {
        return false;
    }
    return true;
}

static const struct setting *find_setting(const struct allocator *allocator, const char *key)
{
    for (size_t i = 0; i < MAX_SETTINGS && allocator->settings[i].key; i++) {
        if (strcmp(allocator->settings[i].key, key) == 0)
            return &allocator->settings[i];
    }
    return NULL;
}

static const struct allocator *find_allocator(const char *name)
{
    for (size_t i = 0; i < sizeof(allocators) / sizeof(allocators[0]); i++) {
        if (strcmp(allocators[i].name, name) == 0)
            return &allocators[i];
    }
    return NULL;
}

int golden_model_read(const struct json_document *header, struct golden_model *model,
                      struct log_problem *problem)
{
    const cJSON *name = json_document_member(header->root, "allocator");
    const cJSON *configuration = json_document_member(header->root, "configuration");
    if (!cJSON_IsString(name) || !cJSON_IsObject(configuration))
        return log_bad(problem, false, 1,
                       "the header must name its \"allocator\" and have a \"configuration\"");
    const struct allocator *allocator = find_allocator(name->valuestring);
    if (!allocator)
        return log_bad(problem, false, 1, "there is no model of the allocator '%s'",
                       name->valuestring);
    const cJSON *capacity = allocator->capacity
                                ? json_document_member(configuration, allocator->capacity)
                                : json_document_member(header->root, "capacity");
    if (!json_document_u64(header, capacity, &model->capacity_bytes))
        return log_bad(problem, false, 1, "the header must say the capacity in bytes (\"%s\")",
                       allocator->capacity ? allocator->capacity : "capacity");
    model->text[0] = '\0';
    struct writing writing = {.model = model};
    write_bytes(&writing, allocator->policy, strlen(allocator->policy));
    for (const cJSON *member = configuration->child; member; member = member->next) {
        const struct setting *setting = find_setting(allocator, member->string);
        if (!setting)
            return log_bad(problem, false, 1, "the model of %s knows no setting '%s'",
                           allocator->name, member->string);
        if (!write_setting(&writing, setting, header, member))
            return log_bad(problem, false, 1, "the setting '%s' of %s makes no sense",
                           member->string, allocator->name);
    }
    /* BFC's limit is a setting of its own beside the size of the device. */
    size_t length;
    const cJSON *limit = json_document_member(header->root, "capacity");
    if (strcmp(allocator->policy, "bfc") == 0 && cJSON_IsNumber(limit)) {
        const char *spelling = json_document_spelling(header, limit, &length);
        write_knob(&writing, "limit", spelling, length);
    }
    if (writing.full)
        return log_bad(problem, false, 1, "the configuration is too long");
    return LOG_FINE;
}
