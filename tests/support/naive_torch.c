/* PyTorch's caching allocator, slow and simple; see naive_torch.h. Its figures are in
 * naive_torch_figures.c. */
#include "tests/support/naive_torch.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define MIB(count) ((uint64_t)(count) << 20)
#define NOBODY SIZE_MAX

static uint64_t up(uint64_t bytes, uint64_t step)
{
    return (bytes + step - 1) / step * step;
}

static uint64_t lesser(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

static uint64_t round_size(const struct naive_settings *settings, uint64_t bytes)
{
    uint64_t power = 1;
    while (power <= bytes / 2)
        power *= 2;
    if (bytes >= 512 && settings->division > 1 && bytes > 512 * settings->division)
        return power == bytes ? bytes : up(bytes, power / settings->division);
    return bytes < 512 ? 512 : up(bytes, 512);
}

/* ------------------------------------------------------------------------------ blocks */

static uint64_t end_of(const struct naive_block *block)
{
    return block->offset + block->bytes;
}

static size_t new_block(struct naive_torch *torch, const struct naive_block *like, uint64_t offset,
                        uint64_t bytes, enum naive_state state)
{
    for (size_t i = 0; i < NAIVE_BLOCKS; i++) {
        if (torch->blocks[i].state == NAIVE_DEAD) {
            torch->blocks[i] = (struct naive_block){
                .state = state,
                .small = like->small,
                .segment = like->segment,
                .stream = like->stream,
                .offset = offset,
                .bytes = bytes,
                .noted = torch->searches[like->small],
            };
            return i;
        }
    }
    fail_msg("too many blocks for this witness");
    return NOBODY;
}

/* The block of the same segment that touches it above or below. */
static size_t neighbour(const struct naive_torch *torch, size_t block, bool above)
{
    const struct naive_block *it = &torch->blocks[block];
    for (size_t i = 0; i < NAIVE_BLOCKS; i++) {
        const struct naive_block *other = &torch->blocks[i];
        if (other->state != NAIVE_DEAD && other->segment == it->segment &&
            (above ? other->offset == end_of(it) : end_of(other) == it->offset))
            return i;
    }
    return NOBODY;
}

static bool is(const struct naive_torch *torch, size_t block, enum naive_state state)
{
    return block != NOBODY && torch->blocks[block].state == state;
}

bool naive_is_whole(const struct naive_torch *torch, size_t block)
{
    return neighbour(torch, block, false) == NOBODY && neighbour(torch, block, true) == NOBODY;
}

/* Gives the block this state and joins it with neighbours that have it. */
static void become(struct naive_torch *torch, size_t block, enum naive_state state)
{
    struct naive_block *it = &torch->blocks[block];
    for (int above = 0; above < 2; above++) {
        size_t other = neighbour(torch, block, above != 0);
        if (!is(torch, other, state))
            continue;
        it->offset = lesser(it->offset, torch->blocks[other].offset);
        it->bytes += torch->blocks[other].bytes;
        torch->blocks[other].state = NAIVE_DEAD;
    }
    it->state = state;
    it->noted = torch->searches[it->small];
}

static const struct naive_torch *sorted_torch; /* what compare compares in */

static int compare(const void *left, const void *right)
{
    const struct naive_block *a = &sorted_torch->blocks[*(const size_t *)left];
    const struct naive_block *b = &sorted_torch->blocks[*(const size_t *)right];
    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

size_t naive_pool(const struct naive_torch *torch, bool small, size_t pool[NAIVE_BLOCKS])
{
    size_t count = 0;
    pool[0] = 0; /* for cppcheck, which does not see that nothing of an empty pool is read */
    for (size_t i = 0; i < NAIVE_BLOCKS; i++) {
        if (torch->blocks[i].state == NAIVE_FREE && torch->blocks[i].small == small)
            pool[count++] = i;
    }
    sorted_torch = torch;
    qsort(pool, count, sizeof(*pool), compare);
    return count;
}

/* ------------------------------------------------------------------------------ device */

static uint64_t new_range(struct naive_torch *torch, bool memory, uint64_t bytes, size_t *range)
{
    uint64_t place = up(torch->end, MIB(2));
    if (torch->settings.reuses_addresses) {
        place = UINT64_MAX;
        for (size_t i = 0; i <= torch->range_count; i++) {
            if (i < torch->range_count && !torch->ranges[i].present)
                continue;
            uint64_t from = i < torch->range_count
                                ? up(torch->ranges[i].offset + torch->ranges[i].bytes, MIB(2))
                                : 0;
            bool fits = true;
            for (size_t k = 0; k < torch->range_count; k++) {
                const struct naive_range *other = &torch->ranges[k];
                if (other->present && from < other->offset + other->bytes &&
                    other->offset < from + bytes)
                    fits = false;
            }
            if (fits)
                place = lesser(place, from);
        }
    }
    *range = torch->range_count++;
    assert_true(*range < NAIVE_RANGES);
    torch->ranges[*range] = (struct naive_range){true, memory, place, bytes};
    if (place + bytes > torch->end)
        torch->end = place + bytes;
    fprintf(torch->told, "%s %" PRIu64 " %" PRIu64 "\n", memory ? "region" : "reserve", place,
            bytes);
    return place;
}

static void end_range(struct naive_torch *torch, size_t range)
{
    struct naive_range *it = &torch->ranges[range];
    it->present = false;
    fprintf(torch->told, "%s %" PRIu64 " %" PRIu64 "\n", it->memory ? "region_free" : "unreserve",
            it->offset, it->bytes);
}

static bool take_bytes(struct naive_torch *torch, uint64_t bytes)
{
    if (torch->total + bytes > torch->settings.device_bytes)
        return false;
    torch->total += bytes;
    torch->device_alloc++;
    if (torch->total > torch->reserved_peak)
        torch->reserved_peak = torch->total;
    return true;
}

static void give_region(struct naive_torch *torch, size_t block)
{
    torch->total -= torch->blocks[block].bytes;
    torch->device_free++;
    end_range(torch, torch->blocks[block].segment);
    torch->blocks[block].state = NAIVE_DEAD;
}

bool naive_is_region(const struct naive_torch *torch, size_t block)
{
    return torch->ranges[torch->blocks[block].segment].memory;
}

static uint64_t allowed(const struct naive_torch *torch)
{
    return (uint64_t)(torch->settings.fraction * (double)torch->settings.device_bytes);
}

/* ------------------------------------------------------------------------------ expandable */

static uint64_t page_of(bool small)
{
    return small ? MIB(2) : MIB(20);
}

static bool map(struct naive_torch *torch, size_t *block, uint64_t bytes)
{
    struct naive_block *it = &torch->blocks[*block];
    uint64_t mapped = up(bytes, page_of(it->small));
    if (!take_bytes(torch, mapped))
        return false;
    fprintf(torch->told, "map %" PRIu64 " %" PRIu64 "\n", it->offset, mapped);
    if (mapped < it->bytes)
        new_block(torch, it, it->offset + mapped, it->bytes - mapped, NAIVE_UNMAPPED);
    it->bytes = mapped;
    become(torch, *block, NAIVE_FREE);
    return true;
}

static void unmap(struct naive_torch *torch, size_t block)
{
    struct naive_block *it = &torch->blocks[block];
    uint64_t base = torch->ranges[it->segment].offset;
    uint64_t page = page_of(it->small);
    uint64_t from = base + up(it->offset - base, page);
    uint64_t to = base + (end_of(it) - base) / page * page;
    if (from >= to)
        return;
    if (it->offset < from)
        new_block(torch, it, it->offset, from - it->offset, NAIVE_FREE);
    if (to < end_of(it))
        new_block(torch, it, to, end_of(it) - to, NAIVE_FREE);
    it->offset = from;
    it->bytes = to - from;
    fprintf(torch->told, "unmap %" PRIu64 " %" PRIu64 "\n", from, to - from);
    torch->total -= to - from;
    torch->device_free++;
    become(torch, block, NAIVE_UNMAPPED);
    if (naive_is_whole(torch, block)) {
        end_range(torch, it->segment);
        it->state = NAIVE_DEAD;
    }
}

/* Where free and unmapped blocks together are large enough: the lowest such place. */
static size_t find_space(const struct naive_torch *torch, uint64_t bytes, bool small,
                         uint64_t stream)
{
    size_t best = NOBODY;
    uint64_t best_unmapped = UINT64_MAX;
    for (size_t i = 0; i < NAIVE_BLOCKS; i++) {
        const struct naive_block *it = &torch->blocks[i];
        if (it->state != NAIVE_UNMAPPED || it->small != small || it->stream != stream ||
            it->offset > best_unmapped)
            continue;
        size_t below = neighbour(torch, i, false);
        size_t start = is(torch, below, NAIVE_FREE) ? below : i;
        uint64_t sum = 0;
        for (size_t k = start; is(torch, k, NAIVE_FREE) || is(torch, k, NAIVE_UNMAPPED);
             k = neighbour(torch, k, true))
            sum += torch->blocks[k].bytes;
        if (sum >= bytes) {
            best = start;
            best_unmapped = it->offset;
        }
    }
    return best;
}

static size_t attempt_expandable(struct naive_torch *torch, uint64_t bytes, bool small,
                                 uint64_t stream)
{
    size_t block = find_space(torch, bytes, small, stream);
    if (block == NOBODY) {
        struct naive_block like = {.small = small, .stream = stream};
        uint64_t device = torch->settings.device_bytes;
        uint64_t length = up(device + device / 8, page_of(small));
        uint64_t offset = new_range(torch, false, length, &like.segment);
        block = new_block(torch, &like, offset, length, NAIVE_UNMAPPED);
    }
    if (is(torch, block, NAIVE_UNMAPPED) &&
        !map(torch, &block, lesser(bytes, torch->blocks[block].bytes)))
        return NOBODY;
    while (torch->blocks[block].bytes < bytes) {
        size_t above = neighbour(torch, block, true);
        if (!map(torch, &above,
                 lesser(bytes - torch->blocks[block].bytes, torch->blocks[above].bytes)))
            return NOBODY;
        block = above;
    }
    return block;
}

/* ------------------------------------------------------------------------------ events */

/* Takes events that have completed (or all of them) off the fronts of their queues. */
static void look(struct naive_torch *torch, bool all)
{
    for (size_t i = 0; i < torch->event_count;) {
        struct naive_event event = torch->events[i];
        bool goes = event.done || all;
        for (size_t k = 0; k < i; k++)
            goes = goes && torch->events[k].stream != event.stream;
        if (!goes) {
            i++;
            continue;
        }
        for (size_t k = i + 1; k < torch->event_count; k++)
            torch->events[k - 1] = torch->events[k];
        torch->event_count--;
        if (--torch->blocks[event.block].events == 0)
            become(torch, event.block, NAIVE_FREE);
    }
}

void naive_record(struct naive_torch *torch, size_t block, uint64_t stream)
{
    struct naive_block *it = &torch->blocks[block];
    for (size_t i = 0; i < it->other_count; i++) {
        if (it->others[i] == stream)
            return;
    }
    if (stream == it->stream)
        return;
    assert_true(it->other_count < NAIVE_OTHERS);
    it->others[it->other_count++] = stream;
}

void naive_done(struct naive_torch *torch, uint64_t stream, uint64_t count, bool newest)
{
    for (size_t i = 0; i < torch->event_count && count > 0; i++) {
        struct naive_event *event = &torch->events[newest ? torch->event_count - 1 - i : i];
        if (event->stream == stream && !event->done) {
            event->done = true;
            count--;
        }
    }
}

void naive_release(struct naive_torch *torch, size_t block)
{
    struct naive_block *it = &torch->blocks[block];
    it->events = it->other_count;
    for (size_t i = 0; i < it->other_count; i++) {
        assert_true(torch->event_count < NAIVE_EVENTS);
        torch->events[torch->event_count++] = (struct naive_event){it->others[i], block, false};
    }
    it->other_count = 0;
    if (it->events > 0)
        it->state = NAIVE_WAITING;
    else
        become(torch, block, NAIVE_FREE);
}

/* ------------------------------------------------------------------------------ giving back */

void naive_empty(struct naive_torch *torch)
{
    size_t pool[NAIVE_BLOCKS];
    torch->syncs++;
    look(torch, true);
    for (int small = 0; small < 2; small++) {
        size_t count = naive_pool(torch, small != 0, pool);
        for (size_t i = 0; i < count; i++) {
            if (!naive_is_region(torch, pool[i]))
                unmap(torch, pool[i]);
            else if (naive_is_whole(torch, pool[i]))
                give_region(torch, pool[i]);
        }
    }
}

static bool release_some(struct naive_torch *torch, uint64_t bytes, bool small, uint64_t stream)
{
    size_t pool[NAIVE_BLOCKS];
    uint64_t most = torch->settings.max_split;
    if (most == UINT64_MAX || torch->settings.expandable)
        return false;
    uint64_t target = bytes > most ? bytes : most;
    uint64_t released = 0;
    size_t count = naive_pool(torch, small, pool);
    for (size_t i = 0; i < count; i++) {
        const struct naive_block *it = &torch->blocks[pool[i]];
        if (it->stream == stream && it->bytes >= target) {
            give_region(torch, pool[i]);
            return true;
        }
    }
    for (size_t i = count; i > 0 && released < target; i--) {
        const struct naive_block *it = &torch->blocks[pool[i - 1]];
        if (it->stream == stream && it->bytes >= most) {
            released += it->bytes;
            give_region(torch, pool[i - 1]);
        }
    }
    return released >= target;
}

static void collect(struct naive_torch *torch)
{
    size_t pool[NAIVE_BLOCKS];
    uint64_t threshold = (uint64_t)(torch->settings.collection * (double)allowed(torch));
    uint64_t before = torch->total;
    bool released = true;
    while (before > threshold && released && before - torch->total < before - threshold) {
        double ages = 0;
        double whole = 0;
        size_t count = naive_pool(torch, false, pool);
        for (size_t i = 0; i < count; i++) {
            if (naive_is_region(torch, pool[i]) && naive_is_whole(torch, pool[i])) {
                ages += (double)(torch->searches[0] - torch->blocks[pool[i]].noted);
                whole++;
            }
        }
        released = false;
        for (size_t i = 0; i < count; i++) {
            double age = (double)(torch->searches[0] - torch->blocks[pool[i]].noted);
            if (naive_is_region(torch, pool[i]) && naive_is_whole(torch, pool[i]) &&
                age >= ages / whole) {
                give_region(torch, pool[i]);
                released = true;
            }
        }
    }
}

/* ------------------------------------------------------------------------------ placing */

static uint64_t reach(const struct naive_torch *torch, size_t block)
{
    size_t above = neighbour(torch, block, true);
    uint64_t more = is(torch, above, NAIVE_UNMAPPED) ? torch->blocks[above].bytes : 0;
    return torch->blocks[block].bytes + more;
}

static size_t search(struct naive_torch *torch, uint64_t bytes, bool small, uint64_t stream)
{
    const struct naive_settings *settings = &torch->settings;
    size_t pool[NAIVE_BLOCKS];
    if (settings->collection > 0 && settings->fraction >= 0)
        torch->searches[small]++;
    size_t count = naive_pool(torch, small, pool);
    size_t i = 0;
    while (i < count &&
           (torch->blocks[pool[i]].stream != stream || torch->blocks[pool[i]].bytes < bytes))
        i++;
    if (i == count)
        return NOBODY;
    while (settings->expandable && i + 1 < count && torch->blocks[pool[i + 1]].stream == stream &&
           reach(torch, pool[i + 1]) < reach(torch, pool[i]))
        i++;
    uint64_t found = torch->blocks[pool[i]].bytes;
    bool refused = bytes < settings->max_split ? found >= settings->max_split
                                               : found >= bytes + settings->rounding;
    return refused ? NOBODY : pool[i];
}

static size_t attempt(struct naive_torch *torch, uint64_t bytes, bool small, uint64_t stream)
{
    uint64_t length = bytes < MIB(10) ? MIB(20) : up(bytes, MIB(2));
    if (bytes <= MIB(1))
        length = MIB(2);
    if (torch->settings.fraction >= 0 && torch->total + length > allowed(torch))
        return NOBODY;
    if (torch->settings.expandable)
        return attempt_expandable(torch, bytes, small, stream);
    if (!take_bytes(torch, length))
        return NOBODY;
    struct naive_block like = {.small = small, .stream = stream};
    uint64_t offset = new_range(torch, true, length, &like.segment);
    return new_block(torch, &like, offset, length, NAIVE_FREE);
}

static size_t obtain(struct naive_torch *torch, uint64_t bytes, bool small, uint64_t stream)
{
    if (torch->settings.collection > 0 && torch->settings.fraction >= 0)
        collect(torch);
    size_t block = attempt(torch, bytes, small, stream);
    if (block == NOBODY && release_some(torch, bytes, small, stream))
        block = attempt(torch, bytes, small, stream);
    if (block == NOBODY) {
        naive_empty(torch);
        torch->retries++;
        block = attempt(torch, bytes, small, stream);
    }
    return block;
}

uint64_t naive_sum(const struct naive_torch *torch, enum naive_state state, uint64_t *count)
{
    uint64_t sum = 0;
    *count = 0;
    for (size_t i = 0; i < NAIVE_BLOCKS; i++) {
        if (torch->blocks[i].state == state) {
            sum += torch->blocks[i].bytes;
            ++*count;
        }
    }
    return sum;
}

uint64_t naive_place(struct naive_torch *torch, uint64_t bytes, uint64_t stream, size_t *block)
{
    uint64_t rounded = round_size(&torch->settings, bytes);
    bool small = rounded <= MIB(1);
    look(torch, false);
    *block = search(torch, rounded, small, stream);
    if (*block == NOBODY)
        *block = obtain(torch, rounded, small, stream);
    if (*block == NOBODY) {
        torch->ooms++;
        return UINT64_MAX;
    }
    struct naive_block *it = &torch->blocks[*block];
    uint64_t rest = it->bytes - rounded;
    bool cuts = small || torch->settings.expandable
                    ? rest >= 512
                    : rounded < torch->settings.max_split && rest > MIB(1);
    if (cuts) {
        it->bytes = rounded;
        new_block(torch, it, end_of(it), rest, NAIVE_FREE);
    }
    it->state = NAIVE_USED;
    it->requested = bytes;
    uint64_t count;
    uint64_t allocated = naive_sum(torch, NAIVE_USED, &count);
    uint64_t active = allocated + naive_sum(torch, NAIVE_WAITING, &count);
    torch->allocated_peak = allocated > torch->allocated_peak ? allocated : torch->allocated_peak;
    torch->active_peak = active > torch->active_peak ? active : torch->active_peak;
    return it->offset;
}
