/* Dicts and lists of a pickle become events, blocks, segments; see torch_parts.h. */
#include "lab/logs/torch_parts.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "lib/worsegpu.h"

_Static_assert((int)TORCH_WORDS <= (int)PICKLE_WORDS, "too many words");
_Static_assert((int)TORCH_FIELDS < 64, "too many fields for a set of bits");

struct word_text {
    const char *text;
    size_t length;
};

static const struct word_text word_texts[TORCH_WORDS] = {
    {NULL, 0},
#define FIELD(name, text) {text, sizeof(text) - 1},
#define VALUE(name, text) {text, sizeof(text) - 1},
#include "lab/logs/torch_words.def"
#undef FIELD
#undef VALUE
};

void torch_parts_init(struct torch_parts *parts, const struct worsegpu_memory *memory,
                      struct log_problem *problem)
{
    memset(parts, 0, sizeof(*parts));
    parts->memory = memory;
    parts->problem = problem;
    torch_events_init(&parts->events, memory);
    for (unsigned int word = TORCH_WORDS - 1; word > 0; word--) {
        size_t length = word_texts[word].length;
        parts->next_of[word] = parts->first_of[length];
        parts->first_of[length] = (uint8_t)word;
    }
}

void torch_parts_release(struct torch_parts *parts)
{
    const struct worsegpu_memory *memory = parts->memory;
    torch_events_release(&parts->events);
    memory_release_array(memory, parts->blocks, parts->blocks_capacity, sizeof(*parts->blocks));
    memory_release_array(memory, parts->segments, parts->segments_capacity,
                         sizeof(*parts->segments));
    memory_release_array(memory, parts->histories, parts->histories_capacity,
                         sizeof(*parts->histories));
    for (size_t i = 0; i < parts->list_count; i++)
        memory_release_array(memory, parts->lists[i].more, parts->lists[i].more_capacity,
                             sizeof(*parts->lists[i].more));
    memory_release_array(memory, parts->lists, parts->lists_capacity, sizeof(*parts->lists));
    for (size_t i = 0; i < parts->record_count; i++)
        memory_release_array(memory, parts->records[i].record, 1, sizeof(struct torch_record));
    memory_release_array(memory, parts->records, parts->records_capacity, sizeof(*parts->records));
    for (size_t i = 0; i < parts->text_count; i++)
        memory_release_array(memory, parts->texts[i], PICKLE_TEXT_BYTES + 1, 1);
}

/* ------------------------------------------------------------------------------ strings */

static uint8_t find_word(const void *context, const unsigned char *bytes, size_t length)
{
    const struct torch_parts *parts = context;
    if (length == 0)
        return TORCH_WORD_NOTHING;
    uint8_t word = parts->first_of[length];
    while (word != 0 && (word_texts[word].text[0] != (char)bytes[0] ||
                         memcmp(word_texts[word].text, bytes, length) != 0))
        word = parts->next_of[word];
    return word;
}

/* Only the text of the settings is kept. */
static int see_text(void *context, uint8_t after, const unsigned char *bytes, size_t length,
                    struct pickle_value *value)
{
    struct torch_parts *parts = context;
    if ((after != TORCH_WORD_FIELD_CONF && after != TORCH_WORD_FIELD_NEW_CONF) ||
        parts->text_count == TORCH_TEXTS)
        return LOG_FINE;
    char *text = memory_allocate_array(parts->memory, PICKLE_TEXT_BYTES + 1, 1);
    if (!text)
        return LOG_NO_MEMORY;
    memcpy(text, bytes, length);
    text[length] = '\0';
    value->kind = PICKLE_TEXT;
    value->payload = parts->text_count;
    parts->texts[parts->text_count++] = text;
    return LOG_FINE;
}

/* ------------------------------------------------------------------------------ records */

/* The unsigned integer in a field. */
static bool number(const struct torch_record *record, enum torch_field field, uint64_t *value)
{
    if (!torch_record_has(record, field) || record->fields[field].kind != PICKLE_INTEGER)
        return false;
    *value = record->fields[field].payload;
    return true;
}

static uint64_t number_or(const struct torch_record *record, enum torch_field field,
                          uint64_t otherwise)
{
    uint64_t value = otherwise;
    number(record, field, &value);
    return value;
}

static uint64_t word_in(const struct torch_record *record, enum torch_field field)
{
    return torch_record_has(record, field) && record->fields[field].kind == PICKLE_WORD
               ? record->fields[field].payload
               : 0;
}

static void become(struct pickle_value *value, enum torch_type type, uint64_t payload)
{
    value->kind = type == TORCH_EVENT ? PICKLE_COUNTED : PICKLE_KEPT;
    value->type = (uint8_t)type;
    value->payload = payload;
}

static int missing(struct torch_parts *parts, const struct torch_record *record, const char *what,
                   const char *field)
{
    return log_bad(parts->problem, true, record->place, "%s has no %s, or one of the wrong kind",
                   what, field);
}

/* Whether a device can have so many bytes there. */
static bool fits(uint64_t address, uint64_t bytes)
{
    return bytes > 0 && bytes <= WORSEGPU_MAX_BYTES && address <= UINT64_MAX - bytes;
}

static enum torch_action action_of(uint64_t word)
{
    switch (word) {
    case TORCH_WORD_ALLOC:
        return TORCH_ALLOC;
    case TORCH_WORD_FREE_REQUESTED:
        return TORCH_FREE_REQUESTED;
    case TORCH_WORD_FREE_COMPLETED:
        return TORCH_FREE_COMPLETED;
    case TORCH_WORD_SEGMENT_ALLOC:
        return TORCH_SEGMENT_ALLOC;
    case TORCH_WORD_SEGMENT_FREE:
        return TORCH_SEGMENT_FREE;
    case TORCH_WORD_SEGMENT_MAP:
        return TORCH_SEGMENT_MAP;
    case TORCH_WORD_SEGMENT_UNMAP:
        return TORCH_SEGMENT_UNMAP;
    case TORCH_WORD_OOM:
        return TORCH_OOM;
    default:
        return TORCH_OTHER_ACTION;
    }
}

static int keep_event(struct torch_parts *parts, const struct torch_record *record,
                      struct pickle_value *value)
{
    struct torch_event event = {.place = record->place};
    event.action = action_of(word_in(record, TORCH_FIELD_ACTION));
    event.has_addr = number(record, TORCH_FIELD_ADDR, &event.addr);
    event.has_size = number(record, TORCH_FIELD_SIZE, &event.size);
    event.has_time = number(record, TORCH_FIELD_TIME_US, &event.time_us);
    event.stream = number_or(record, TORCH_FIELD_STREAM, 0);
    if (event.action != TORCH_OTHER_ACTION && (!event.has_size || event.size == 0))
        return missing(parts, record, "an event", "\"size\"");
    bool has_memory = event.action != TORCH_OTHER_ACTION && event.action != TORCH_OOM;
    if (has_memory && !event.has_addr)
        return missing(parts, record, "an event", "\"addr\"");
    if (has_memory && !fits(event.addr, event.size))
        return log_bad(parts->problem, true, record->place,
                       "an event is about %" PRIu64 " bytes at %" PRIu64 ", which no device has",
                       event.size, event.addr);
    become(value, TORCH_EVENT, parts->events.count);
    return torch_events_add(&parts->events, &event, parts->problem);
}

static int keep_block(struct torch_parts *parts, const struct torch_record *record,
                      struct pickle_value *value)
{
    struct torch_raw_block block = {.place = record->place, .history = UINT32_MAX};
    if (!number(record, TORCH_FIELD_SIZE, &block.bytes) || block.bytes == 0)
        return missing(parts, record, "a block", "\"size\"");
    uint64_t state = word_in(record, TORCH_FIELD_STATE);
    if (state < TORCH_WORD_ACTIVE_ALLOCATED || state > TORCH_WORD_INACTIVE)
        return missing(parts, record, "a block", "\"state\" that is known");
    block.state = (uint8_t)state;
    block.address = number_or(record, TORCH_FIELD_ADDRESS, UINT64_MAX);
    block.requested_bytes = number_or(record, TORCH_FIELD_REQUESTED_SIZE, UINT64_MAX);
    const struct pickle_value *history = &record->fields[TORCH_FIELD_HISTORY];
    if (torch_record_has(record, TORCH_FIELD_HISTORY) && history->kind == PICKLE_KEPT &&
        history->type == TORCH_LIST)
        block.history = (uint32_t)history->payload;
    if (memory_grow(parts->memory, &parts->blocks, &parts->blocks_capacity, parts->block_count + 1,
                    sizeof(*parts->blocks)) != 0)
        return LOG_NO_MEMORY;
    become(value, TORCH_BLOCK, parts->block_count);
    parts->blocks[parts->block_count++] = block;
    return LOG_FINE;
}

static int keep_segment(struct torch_parts *parts, const struct torch_record *record,
                        struct pickle_value *value)
{
    enum {
        SMALL_SEGMENT = 2 << 20, /* no segment of the large pool is so small */
        MOST_DEVICES = 128       /* that PyTorch can be built for */
    };
    struct torch_raw_segment segment = {.place = record->place};
    if (!number(record, TORCH_FIELD_ADDRESS, &segment.address))
        return missing(parts, record, "a segment", "\"address\"");
    if (!number(record, TORCH_FIELD_TOTAL_SIZE, &segment.bytes))
        return missing(parts, record, "a segment", "\"total_size\"");
    if (!fits(segment.address, segment.bytes))
        return log_bad(parts->problem, true, record->place,
                       "a segment has %" PRIu64 " bytes at %" PRIu64 ", which no device has",
                       segment.bytes, segment.address);
    uint64_t device = number_or(record, TORCH_FIELD_DEVICE, 0);
    if (device >= MOST_DEVICES)
        return missing(parts, record, "a segment", "\"device\" below 128");
    segment.device = (uint32_t)device;
    segment.stream = number_or(record, TORCH_FIELD_STREAM, 0);
    if (torch_record_has(record, TORCH_FIELD_SEGMENT_POOL_ID) &&
        record->fields[TORCH_FIELD_SEGMENT_POOL_ID].kind == PICKLE_PAIR)
        segment.pool = record->fields[TORCH_FIELD_SEGMENT_POOL_ID].payload;
    uint64_t type = word_in(record, TORCH_FIELD_SEGMENT_TYPE);
    segment.small =
        type == TORCH_WORD_SMALL || (type != TORCH_WORD_LARGE && segment.bytes <= SMALL_SEGMENT);
    segment.expandable = torch_record_has(record, TORCH_FIELD_IS_EXPANDABLE) &&
                         record->fields[TORCH_FIELD_IS_EXPANDABLE].kind == PICKLE_TRUE;
    segment.blocks = torch_record_has(record, TORCH_FIELD_BLOCKS)
                         ? record->fields[TORCH_FIELD_BLOCKS]
                         : (struct pickle_value){.kind = PICKLE_LIST};
    if (memory_grow(parts->memory, &parts->segments, &parts->segments_capacity,
                    parts->segment_count + 1, sizeof(*parts->segments)) != 0)
        return LOG_NO_MEMORY;
    become(value, TORCH_SEGMENT, parts->segment_count);
    parts->segments[parts->segment_count++] = segment;
    return LOG_FINE;
}

static int keep_history(struct torch_parts *parts, const struct torch_record *record,
                        struct pickle_value *value)
{
    uint64_t size;
    if (!number(record, TORCH_FIELD_REAL_SIZE, &size))
        return missing(parts, record, "an entry of a history", "\"real_size\"");
    if (memory_grow(parts->memory, &parts->histories, &parts->histories_capacity,
                    parts->history_count + 1, sizeof(*parts->histories)) != 0)
        return LOG_NO_MEMORY;
    become(value, TORCH_HISTORY, parts->history_count);
    parts->histories[parts->history_count++] = size;
    return LOG_FINE;
}

/* The fields that are there, in a piece of memory of its own. */
static int keep_record(struct torch_parts *parts, const struct torch_record *record,
                       struct pickle_value *value)
{
    if (memory_grow(parts->memory, &parts->records, &parts->records_capacity,
                    parts->record_count + 1, sizeof(*parts->records)) != 0)
        return LOG_NO_MEMORY;
    struct torch_record *kept = memory_allocate_array(parts->memory, 1, sizeof(*kept));
    if (!kept)
        return LOG_NO_MEMORY;
    *kept = *record;
    become(value, TORCH_RECORD, parts->record_count);
    parts->records[parts->record_count++] = (struct torch_held){.record = kept};
    return LOG_FINE;
}

#define BIT(field) (UINT64_C(1) << TORCH_FIELD_##field)

/* What the keys say it is. `open`: more may come, so it is kept as it is if it is nothing yet. */
static int keep(struct torch_parts *parts, const struct torch_record *record, bool open,
                struct pickle_value *value)
{
    const uint64_t tops = BIT(SEGMENTS) | BIT(DEVICE_TRACES) | BIT(ALLOCATOR_SETTINGS);
    const uint64_t settings = BIT(CONF) | BIT(NEW_CONF) | BIT(MAX_SPLIT_SIZE) |
                              BIT(COLLECTION_THRESHOLD) | BIT(EXPANDABLE_SEGMENTS) | BIT(DIVISIONS);
    const uint64_t divisions = ~(BIT(DIVISION_0) - 1);
    if (open)
        return keep_record(parts, record, value);
    if (record->have & BIT(ACTION))
        return keep_event(parts, record, value);
    if (record->have & (BIT(TOTAL_SIZE) | BIT(BLOCKS)))
        return keep_segment(parts, record, value);
    if (record->have & BIT(STATE))
        return keep_block(parts, record, value);
    if (record->have & BIT(REAL_SIZE))
        return keep_history(parts, record, value);
    if (record->have & (tops | settings | divisions))
        return keep_record(parts, record, value);
    return LOG_FINE;
}

const struct torch_record *torch_parts_record(const struct torch_parts *parts,
                                              const struct pickle_value *value)
{
    return parts->records[value->payload].record;
}

int torch_parts_settle(struct torch_parts *parts, struct pickle_value *value)
{
    if (value->kind != PICKLE_KEPT || value->type != TORCH_RECORD)
        return LOG_FINE;
    struct torch_held *held = &parts->records[value->payload];
    if (held->record) {
        struct pickle_value became = {.kind = PICKLE_DICT};
        size_t index = (size_t)value->payload;
        size_t before = parts->record_count;
        int status = keep(parts, held->record, false, &became);
        if (status != LOG_FINE)
            return status;
        held = &parts->records[index];
        if (became.kind == PICKLE_KEPT && became.type == TORCH_RECORD) {
            /* It is what it was: the copy is not needed. */
            parts->record_count = before;
            memory_release_array(parts->memory, parts->records[before].record, 1,
                                 sizeof(struct torch_record));
            return LOG_FINE;
        }
        memory_release_array(parts->memory, held->record, 1, sizeof(*held->record));
        held->record = NULL;
        held->became = became;
    }
    value->kind = held->became.kind;
    value->type = held->became.type;
    value->payload = held->became.payload;
    return LOG_FINE;
}

/* ------------------------------------------------------------------------------ filling */

static int see_items(void *context, struct pickle_value *dict, const struct pickle_value *pairs,
                     size_t count, bool whole, uint64_t place)
{
    struct torch_parts *parts = context;
    struct torch_record *record = &parts->scratch;
    bool begun = dict->kind == PICKLE_KEPT && dict->type == TORCH_RECORD &&
                 parts->records[dict->payload].record;
    if (begun) {
        record = parts->records[dict->payload].record;
    } else if (dict->kind == PICKLE_DICT) {
        record->have = 0;
        record->place = dict->payload;
    } else {
        return log_bad(parts->problem, true, place, "a dict is filled again that was full");
    }
    for (size_t i = 0; i < count; i++) {
        const struct pickle_value *key = &pairs[2 * i];
        uint64_t word = key->payload;
        if (key->kind != PICKLE_WORD || word > TORCH_FIELDS)
            continue;
        struct pickle_value *field = &record->fields[word - 1];
        *field = key[1];
        int status = key[1].kind == PICKLE_KEPT ? torch_parts_settle(parts, field) : LOG_FINE;
        if (status != LOG_FINE)
            return status;
        record->have |= UINT64_C(1) << (word - 1);
    }
    if (begun)
        return LOG_FINE;
    return record->have == 0 ? LOG_FINE : keep(parts, record, !whole, dict);
}

static int add_to_list(struct torch_parts *parts, struct torch_list *list, enum torch_type type,
                       uint64_t payload)
{
    struct torch_run *last = NULL;
    if (list->runs > 0)
        last = list->runs == 1 ? &list->first : &list->more[list->runs - 2];
    if (last && last->type == (uint8_t)type &&
        (type == TORCH_EMPTY || payload == last->first + last->count)) {
        last->count++;
        list->count++;
        return LOG_FINE;
    }
    struct torch_run run = {.first = payload, .count = 1, .type = (uint8_t)type};
    if (list->runs == 0) {
        list->first = run;
    } else {
        if (memory_grow(parts->memory, &list->more, &list->more_capacity, list->runs,
                        sizeof(*list->more)) != 0)
            return LOG_NO_MEMORY;
        list->more[list->runs - 1] = run;
    }
    list->runs++;
    list->count++;
    return LOG_FINE;
}

static int see_elements(void *context, struct pickle_value *list, const struct pickle_value *values,
                        size_t count, uint64_t place)
{
    struct torch_parts *parts = context;
    if (list->kind == PICKLE_LIST) {
        if (parts->list_count >= UINT32_MAX ||
            memory_grow(parts->memory, &parts->lists, &parts->lists_capacity, parts->list_count + 1,
                        sizeof(*parts->lists)) != 0)
            return LOG_NO_MEMORY;
        parts->lists[parts->list_count] = (struct torch_list){.others = list->payload};
        become(list, TORCH_LIST, parts->list_count++);
    } else if (list->kind != PICKLE_KEPT || list->type != TORCH_LIST) {
        return log_bad(parts->problem, true, place, "elements are put into what is no list");
    }
    struct torch_list *kept = &parts->lists[list->payload];
    for (size_t i = 0; i < count; i++) {
        struct pickle_value value = values[i];
        int status = torch_parts_settle(parts, &value);
        if (status != LOG_FINE)
            return status;
        if (value.kind >= PICKLE_KEPT)
            status = add_to_list(parts, kept, (enum torch_type)value.type, value.payload);
        else if (value.kind == PICKLE_LIST && value.payload == 0)
            status = add_to_list(parts, kept, TORCH_EMPTY, 0);
        else
            kept->others++;
        if (status != LOG_FINE)
            return status;
    }
    return LOG_FINE;
}

struct pickle_owner torch_parts_owner(struct torch_parts *parts)
{
    return (struct pickle_owner){.context = parts,
                                 .word = find_word,
                                 .text = see_text,
                                 .items = see_items,
                                 .elements = see_elements};
}
