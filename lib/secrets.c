/* Handle secrets; see secrets.h. */
#include "lib/secrets.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "lib/worsegpu.h"

_Static_assert(SECRETS_PAGE_BYTES % SECRET_BYTES == 0, "a page holds whole secrets");

static int system_draw(void *context, void *bytes, size_t count)
{
    (void)context;
    uint8_t *target = bytes;
    while (count > 0) {
        ssize_t drawn = getrandom(target, count, 0);
        if (drawn < 0) {
            if (errno == EINTR)
                continue;
            return WORSEGPU_NO_ENTROPY;
        }
        target += drawn;
        count -= (size_t)drawn;
    }
    return WORSEGPU_OK;
}

const struct entropy *entropy_system(void)
{
    static const struct entropy source = {.draw = system_draw, .context = NULL};
    return &source;
}

void secrets_init(struct secrets *secrets, const struct entropy *entropy)
{
    secrets->entropy = entropy;
    secrets->left = 0;
}

int secrets_prepare(struct secrets *secrets)
{
    if (secrets->left > 0)
        return WORSEGPU_OK;
    int status =
        secrets->entropy->draw(secrets->entropy->context, secrets->page, sizeof(secrets->page));
    if (status == WORSEGPU_OK)
        secrets->left = sizeof(secrets->page);
    return status;
}

void secrets_take(struct secrets *secrets, uint8_t secret[SECRET_BYTES])
{
    secrets->left -= SECRET_BYTES;
    memcpy(secret, secrets->page + secrets->left, SECRET_BYTES);
    memset(secrets->page + secrets->left, 0, SECRET_BYTES);
}
