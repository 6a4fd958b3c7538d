/* MT19937 as Python seeds and draws it; see python_random.h. */
#include "lib/python_random.h"

#include <stdbool.h>
#include <string.h>

#include "base/memory.h"
#include "lib/worsegpu.h"

enum {
    SHIFT_WORDS = 397,      /* how far ahead the recurrence looks */
    DIGITS_AT_ONCE = 9,     /* the most decimal digits that always fit a 32-bit word */
    DIGIT_BASE = 1000000000 /* 10 to that power */
};

#define TOP_BIT UINT32_C(0x80000000)
#define LOW_BITS UINT32_C(0x7fffffff)
#define TWIST UINT32_C(0x9908b0df)

static void seed_by_word(struct python_random *random, uint32_t seed)
{
    uint32_t *words = random->words;
    words[0] = seed;
    for (uint32_t i = 1; i < PYTHON_RANDOM_WORDS; i++)
        words[i] = UINT32_C(1812433253) * (words[i - 1] ^ (words[i - 1] >> 30)) + i;
}

/* The authors' init_by_array. */
static void seed_by_words(struct python_random *random, const uint32_t *key, size_t key_words)
{
    seed_by_word(random, UINT32_C(19650218));
    uint32_t *words = random->words;
    size_t rounds = key_words > PYTHON_RANDOM_WORDS ? key_words : PYTHON_RANDOM_WORDS;
    uint32_t i = 1;
    size_t j = 0;
    for (size_t k = 0; k < rounds; k++) {
        uint32_t mixed = (words[i - 1] ^ (words[i - 1] >> 30)) * UINT32_C(1664525);
        words[i] = (words[i] ^ mixed) + key[j] + (uint32_t)j;
        if (++i == PYTHON_RANDOM_WORDS) {
            words[0] = words[PYTHON_RANDOM_WORDS - 1];
            i = 1;
        }
        if (++j == key_words)
            j = 0;
    }
    for (size_t k = 1; k < PYTHON_RANDOM_WORDS; k++) {
        uint32_t mixed = (words[i - 1] ^ (words[i - 1] >> 30)) * UINT32_C(1566083941);
        words[i] = (words[i] ^ mixed) - i;
        if (++i == PYTHON_RANDOM_WORDS) {
            words[0] = words[PYTHON_RANDOM_WORDS - 1];
            i = 1;
        }
    }
    words[0] = TOP_BIT;
    random->next = PYTHON_RANDOM_WORDS;
}

/* Multiplies the number in `words` (least significant first) and adds to it; returns how many words
 * it has now. */
static size_t multiply_and_add(uint32_t *words, size_t count, uint32_t factor, uint32_t addend)
{
    uint64_t carry = addend;
    for (size_t i = 0; i < count; i++) {
        uint64_t sum = (uint64_t)words[i] * factor + carry;
        words[i] = (uint32_t)sum;
        carry = sum >> 32;
    }
    if (carry)
        words[count++] = (uint32_t)carry;
    return count;
}

int python_random_seed(struct python_random *random, const char *decimal,
                       const struct worsegpu_memory *memory)
{
    const char *digits = decimal[0] == '-' ? decimal + 1 : decimal;
    digits += strspn(digits, "0");
    size_t length = strlen(digits);
    size_t capacity = length / DIGITS_AT_ONCE + 1;
    uint32_t *key = memory_allocate_zeroed(memory, capacity, sizeof(*key));
    if (!key)
        return WORSEGPU_NO_MEMORY;

    /* The first group takes what does not fill a whole one. */
    size_t key_words = 0;
    size_t group = length % DIGITS_AT_ONCE;
    for (size_t at = 0; at < length;) {
        if (group == 0)
            group = DIGITS_AT_ONCE;
        uint32_t value = 0;
        for (; group > 0; group--)
            value = value * 10 + (uint32_t)(digits[at++] - '0');
        key_words = multiply_and_add(key, key_words, DIGIT_BASE, value);
    }
    seed_by_words(random, key, key_words ? key_words : 1); /* zero is one zero word */
    memory_release_array(memory, key, capacity, sizeof(*key));
    return WORSEGPU_OK;
}

static void make_new_words(struct python_random *random)
{
    uint32_t *words = random->words;
    for (uint32_t i = 0; i < PYTHON_RANDOM_WORDS; i++) {
        uint32_t after = i + 1 < PYTHON_RANDOM_WORDS ? i + 1 : 0;
        uint32_t ahead = i + SHIFT_WORDS;
        if (ahead >= PYTHON_RANDOM_WORDS)
            ahead -= PYTHON_RANDOM_WORDS;
        uint32_t joined = (words[i] & TOP_BIT) | (words[after] & LOW_BITS);
        words[i] = words[ahead] ^ (joined >> 1) ^ (joined & 1 ? TWIST : 0);
    }
    random->next = 0;
}

uint32_t python_random_word(struct python_random *random)
{
    if (random->next == PYTHON_RANDOM_WORDS)
        make_new_words(random);
    uint32_t word = random->words[random->next++];
    word ^= word >> 11;
    word ^= (word << 7) & UINT32_C(0x9d2c5680);
    word ^= (word << 15) & UINT32_C(0xefc60000);
    return word ^ (word >> 18);
}

uint32_t python_random_bits(struct python_random *random, unsigned bits)
{
    return python_random_word(random) >> (32 - bits);
}

double python_random_double(struct python_random *random)
{
    uint32_t high = python_random_word(random) >> 5;
    uint32_t low = python_random_word(random) >> 6;
    return ((double)high * 67108864.0 + (double)low) / 9007199254740992.0; /* 2^26, 2^53 */
}

uint32_t python_random_choice(struct python_random *random, uint32_t count)
{
    unsigned bits = 32 - (unsigned)__builtin_clz(count);
    uint32_t drawn;
    do
        drawn = python_random_bits(random, bits);
    while (drawn >= count);
    return drawn;
}
