/* Events of a trace as requests; see replay.h. */
#include "client/cli/replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/memory.h"
#include "proto/errors.h"
#include "proto/methods.h"

enum {
    FIRST_PLACES = 64,
    ID_SIZE = 40 /* "line-N" */
};

int replay_init(struct replay *replay, const struct worsegpu_memory *memory)
{
    *replay = (struct replay){.memory = memory};
    /* Without randomness only a table that somebody aims at is slow. */
    if (getrandom(&replay->key, sizeof(replay->key), GRND_NONBLOCK) != sizeof(replay->key))
        replay->key = (uintptr_t)replay;
    replay->sent = memory_allocate_array(memory, REPLAY_MOST_SENT, sizeof(*replay->sent));
    return replay->sent ? 0 : -1;
}

void replay_release(struct replay *replay)
{
    memory_release_array(replay->memory, replay->entries, replay->capacity,
                         sizeof(*replay->entries));
    memory_release_array(replay->memory, replay->sent, REPLAY_MOST_SENT, sizeof(*replay->sent));
}

/* ------------------------------------------------------------------------------ the table */

/* The finisher of S. Vigna's SplitMix64, over the id and the key. */
static size_t home_of(const struct replay *replay, uint64_t id)
{
    uint64_t mixed = id ^ replay->key;
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (size_t)(mixed ^ (mixed >> 31)) & (replay->capacity - 1);
}

/* The entry of an id, or the empty place where it belongs. Only with a table. */
static struct replay_entry *place_of(const struct replay *replay, uint64_t id)
{
    size_t at = home_of(replay, id);
    while (replay->entries[at].id != 0 && replay->entries[at].id != id)
        at = (at + 1) & (replay->capacity - 1);
    return &replay->entries[at];
}

static struct replay_entry *find(const struct replay *replay, uint64_t id)
{
    if (replay->capacity == 0 || id == 0)
        return NULL;
    struct replay_entry *entry = place_of(replay, id);
    return entry->id == id ? entry : NULL;
}

static int reserve(struct replay *replay)
{
    if ((replay->used + 1) * 2 <= replay->capacity)
        return 0;
    struct replay old = *replay;
    size_t capacity = old.capacity ? old.capacity * 2 : FIRST_PLACES;
    struct replay_entry *entries =
        memory_allocate_zeroed(replay->memory, capacity, sizeof(*entries));
    if (!entries)
        return -1;
    replay->entries = entries;
    replay->capacity = capacity;
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.entries[i].id != 0)
            *place_of(replay, old.entries[i].id) = old.entries[i];
    }
    memory_release_array(replay->memory, old.entries, old.capacity, sizeof(*entries));
    return 0;
}

/* Takes an entry out, and moves those behind it that it kept from their places. */
static void forget(struct replay *replay, struct replay_entry *entry)
{
    size_t last = replay->capacity - 1;
    size_t hole = (size_t)(entry - replay->entries);
    for (size_t at = (hole + 1) & last; replay->entries[at].id != 0; at = (at + 1) & last) {
        size_t home = home_of(replay, replay->entries[at].id);
        if (((at - home) & last) < ((at - hole) & last))
            continue;
        replay->entries[hole] = replay->entries[at];
        hole = at;
    }
    replay->entries[hole].id = 0;
    replay->used--;
}

/* ------------------------------------------------------------------------------ one event */

struct event {
    const struct json_document *document;
    uint64_t line_number;
    const char *allocator;
    struct json_writer *out;
    char *problem;
};

static uint64_t number_of(const struct event *event, const char *name, bool *given)
{
    uint64_t value = 0;
    const cJSON *item = json_document_member(event->document->root, name);
    *given = item && json_document_u64(event->document, item, &value);
    return value;
}

static bool truth_of(const struct event *event, const char *name)
{
    return cJSON_IsTrue(json_document_member(event->document->root, name));
}

static void begin_request(const struct event *event, enum method method)
{
    char id[ID_SIZE];
    struct json_writer *out = event->out;
    snprintf(id, sizeof(id), "line-%" PRIu64, event->line_number);
    json_writer_cut(out, 0);
    json_writer_begin_object(out);
    json_writer_member_text(out, "id", id);
    json_writer_member_text(out, "method", method_info(method)->name);
    json_writer_key(out, "params");
    json_writer_begin_object(out);
    if (event->allocator)
        json_writer_member_text(out, "allocator", event->allocator);
}

static void put_number(const struct event *event, enum parameter parameter)
{
    bool given;
    const char *name = parameter_info(parameter)->name;
    uint64_t value = number_of(event, name, &given);
    if (given)
        json_writer_member_u64(event->out, name, value);
}

static void put_truth(const struct event *event, enum parameter parameter)
{
    const char *name = parameter_info(parameter)->name;
    if (truth_of(event, name))
        json_writer_member_bool(event->out, name, true);
}

static enum replay_verdict end_request(const struct event *event, enum replay_verdict verdict)
{
    json_writer_end_object(event->out);
    json_writer_end_object(event->out);
    return event->out->failure == JSON_WRITER_FINE ? verdict : REPLAY_NO_MEMORY;
}

static enum replay_verdict wrong(const struct event *event, const char *what)
{
    snprintf(event->problem, REPLAY_PROBLEM_SIZE, "%s", what);
    return REPLAY_WRONG;
}

static enum replay_verdict note(const struct event *event, const char *what, uint64_t number)
{
    snprintf(event->problem, REPLAY_PROBLEM_SIZE, "%s %" PRIu64, what, number);
    return REPLAY_NOTE;
}

/* The entry of an allocation that can be spoken of; else NULL with the verdict. */
static struct replay_entry *known(struct replay *replay, const struct event *event,
                                  enum replay_verdict *verdict)
{
    bool given;
    uint64_t id = number_of(event, "allocation_id", &given);
    struct replay_entry *entry = find(replay, id);
    if (!entry) {
        replay->counts.unknown++;
        *verdict = note(event, "skipped: the trace has no live allocation", id);
    } else if (entry->state == REPLAY_ASKED) {
        *verdict = REPLAY_WAIT;
    } else if (entry->state == REPLAY_REFUSED) {
        replay->counts.without++;
        *verdict = REPLAY_SKIP;
    } else {
        return entry;
    }
    return NULL;
}

static enum replay_verdict free_entry(struct replay *replay, const struct event *event,
                                      struct replay_entry *entry, enum replay_verdict verdict)
{
    begin_request(event, METHOD_free);
    json_writer_member_text(event->out, "handle", entry->handle);
    if (verdict == REPLAY_SEND)
        put_number(event, PARAMETER_stream);
    verdict = end_request(event, verdict);
    if (verdict == REPLAY_NO_MEMORY)
        return verdict;
    forget(replay, entry);
    replay->counts.frees++;
    return verdict;
}

static enum replay_verdict judge_free(struct replay *replay, const struct event *event)
{
    enum replay_verdict verdict = REPLAY_SKIP;
    struct replay_entry *entry = known(replay, event, &verdict);
    if (entry)
        return free_entry(replay, event, entry, REPLAY_SEND);
    bool given;
    entry = find(replay, number_of(event, "allocation_id", &given));
    if (entry && entry->state == REPLAY_REFUSED)
        forget(replay, entry);
    return verdict;
}

static enum replay_verdict judge_allocate(struct replay *replay, const struct event *event,
                                          bool failed)
{
    bool given;
    uint64_t id = failed ? 0 : number_of(event, "allocation_id", &given);
    if (!failed && id == 0)
        return wrong(event, "an allocation without its allocation_id");
    number_of(event, "requested_bytes", &given);
    if (!given)
        return wrong(event, "an allocation without its requested_bytes");
    /* An id that is live already: another run's, in the same file. Its older bearer is gone. */
    struct replay_entry *older = find(replay, id);
    if (older && older->state == REPLAY_ASKED)
        return REPLAY_WAIT;
    if (older && older->state == REPLAY_LIVE)
        return free_entry(replay, event, older, REPLAY_SEND_FIRST);
    if (!failed && reserve(replay) != 0)
        return REPLAY_NO_MEMORY;
    begin_request(event, METHOD_allocate);
    put_number(event, PARAMETER_requested_bytes);
    put_number(event, PARAMETER_stream);
    put_number(event, PARAMETER_alignment);
    put_truth(event, PARAMETER_upper);
    enum replay_verdict verdict = end_request(event, REPLAY_SEND);
    if (verdict == REPLAY_NO_MEMORY)
        return verdict;
    if (!failed) {
        struct replay_entry *entry = place_of(replay, id);
        replay->used += entry->id == 0;
        entry->id = id;
        entry->state = REPLAY_ASKED;
    }
    replay->next = (struct replay_sent){.id = id, .may_fail = failed};
    replay->counts.allocations++;
    return verdict;
}

static enum replay_verdict judge_telling(struct replay *replay, const struct event *event,
                                         enum method method)
{
    enum replay_verdict verdict = REPLAY_SKIP;
    struct replay_entry *entry = NULL;
    if (method == METHOD_record_stream && !(entry = known(replay, event, &verdict)))
        return verdict;
    begin_request(event, method);
    if (entry)
        json_writer_member_text(event->out, "handle", entry->handle);
    if (method != METHOD_empty_cache)
        put_number(event, PARAMETER_stream);
    if (method == METHOD_event_done) {
        put_number(event, PARAMETER_count);
        put_truth(event, PARAMETER_newest);
    }
    replay->counts.others++;
    return end_request(event, REPLAY_SEND);
}

static enum replay_verdict judge_operation(struct replay *replay, const struct event *event,
                                           const char *operation)
{
    if (strcmp(operation, "allocate") == 0)
        return judge_allocate(replay, event, false);
    if (strcmp(operation, "allocate_failed") == 0)
        return judge_allocate(replay, event, true);
    if (strcmp(operation, "free") == 0)
        return judge_free(replay, event);
    if (strcmp(operation, "record_stream") == 0)
        return judge_telling(replay, event, METHOD_record_stream);
    if (strcmp(operation, "event_done") == 0)
        return judge_telling(replay, event, METHOD_event_done);
    if (strcmp(operation, "empty_cache") == 0)
        return judge_telling(replay, event, METHOD_empty_cache);
    if (strcmp(operation, "fault") != 0)
        return wrong(event, "an event whose operation is none of ours");
    replay->counts.faults++;
    return REPLAY_SKIP;
}

enum replay_verdict replay_judge(struct replay *replay, const struct json_document *document,
                                 uint64_t line_number, const char *allocator,
                                 struct json_writer *out, char problem[REPLAY_PROBLEM_SIZE])
{
    const cJSON *root = document->root;
    struct event event = {document, line_number, allocator, out, problem};
    replay->next = (struct replay_sent){.id = 0};
    if (!cJSON_IsObject(root) || json_document_member(root, "method"))
        return REPLAY_PLAIN;
    const cJSON *operation = json_document_member(root, "operation");
    bool given;
    uint64_t missed = number_of(&event, "missed", &given);
    if (!operation && given) {
        replay->counts.missed += missed;
        return note(&event, "events are missing here, in number", missed);
    }
    if (!operation || !cJSON_IsString(operation))
        return REPLAY_PLAIN;
    enum replay_verdict verdict = judge_operation(replay, &event, operation->valuestring);
    replay->counts.events += verdict != REPLAY_WAIT && verdict != REPLAY_SEND_FIRST;
    return verdict;
}

/* ------------------------------------------------------------------------------ answers */

void replay_note_sent(struct replay *replay)
{
    replay->sent[(replay->first_sent + replay->sent_count) % REPLAY_MOST_SENT] = replay->next;
    replay->sent_count++;
}

static bool is_out_of_memory(const cJSON *error)
{
    const cJSON *kind = json_document_member(json_document_member(error, "data"), "kind");
    return cJSON_IsString(kind) &&
           strcmp(kind->valuestring, error_kind_name(ERROR_OUT_OF_MEMORY)) == 0;
}

bool replay_note_answer(struct replay *replay, const cJSON *answer)
{
    struct replay_sent sent = replay->sent[replay->first_sent];
    replay->first_sent = (replay->first_sent + 1) % REPLAY_MOST_SENT;
    replay->sent_count--;
    const cJSON *error = json_document_member(answer, "error");
    if (sent.may_fail) {
        replay->counts.given_instead += !error;
        return error && is_out_of_memory(error);
    }
    struct replay_entry *entry = find(replay, sent.id);
    if (!entry)
        return false;
    const cJSON *handle = json_document_member(json_document_member(answer, "result"), "handle");
    bool fits = cJSON_IsString(handle) && strlen(handle->valuestring) < sizeof(entry->handle);
    entry->state = fits ? REPLAY_LIVE : REPLAY_REFUSED;
    replay->counts.refused += !fits;
    if (fits)
        memcpy(entry->handle, handle->valuestring, strlen(handle->valuestring) + 1);
    return false;
}
