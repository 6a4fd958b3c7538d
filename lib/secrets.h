/* Handle secrets: 128 random bits each, drawn from the system a page at a time.
 *
 * One `struct secrets` lives inside each allocator. A secret that was handed out is wiped here at
 * once. The source can be replaced, so that tests see what happens when the system has no
 * randomness. */
#ifndef SECRETS_H
#define SECRETS_H

#include <stddef.h>
#include <stdint.h>

enum {
    SECRET_BYTES = 16,
    SECRETS_PAGE_BYTES = 4096
};

/* Where random bytes come from. draw fills all `count` bytes: 0 or WORSEGPU_NO_ENTROPY. The struct
 * must outlive what was made with it. */
struct entropy {
    int (*draw)(void *context, void *bytes, size_t count);
    void *context;
};

/* The system's own source, getrandom(2). Never NULL; lives for ever. */
const struct entropy *entropy_system(void);

struct secrets {
    const struct entropy *entropy;
    size_t left; /* bytes not handed out yet: the first ones of the page */
    uint8_t page[SECRETS_PAGE_BYTES];
};

/* Draws nothing yet. */
void secrets_init(struct secrets *secrets, const struct entropy *entropy);

/* Makes sure that one secret can be taken. 0 or WORSEGPU_NO_ENTROPY. */
int secrets_prepare(struct secrets *secrets);

/* Hands one out. Only after secrets_prepare. */
void secrets_take(struct secrets *secrets, uint8_t secret[SECRET_BYTES]);

#endif
