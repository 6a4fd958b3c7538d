/* The settings that a torch snapshot records, as knobs of the policy; see torch_check.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lab/torch_check.h"

enum {
    CONF_SIZE = 320,
    MIB_BITS = 20
};

struct conf {
    char text[CONF_SIZE];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void add(struct conf *conf, const char *format, ...)
{
    if (conf->length > 0 && conf->length + 1 < sizeof(conf->text))
        conf->text[conf->length++] = ',';
    va_list arguments;
    va_start(arguments, format);
    int length =
        vsnprintf(conf->text + conf->length, sizeof(conf->text) - conf->length, format, arguments);
    va_end(arguments);
    conf->length += length > 0 ? (size_t)length : 0;
    if (conf->length >= sizeof(conf->text))
        conf->length = sizeof(conf->text) - 1;
}

/* One number for all sizes, or the list form with every power of two named. */
static void add_divisions(struct conf *conf, const uint64_t *divisions)
{
    bool any = false;
    bool same = true;
    for (size_t i = 0; i < TORCH_SNAPSHOT_DIVISIONS; i++) {
        any = any || divisions[i] > 1;
        same = same && divisions[i] == divisions[0];
    }
    if (!any)
        return;
    if (same) {
        add(conf, "roundup_power2_divisions:%" PRIu64, divisions[0]);
        return;
    }
    char list[CONF_SIZE];
    size_t length = 0;
    for (size_t i = 0; i < TORCH_SNAPSHOT_DIVISIONS && length < sizeof(list); i++)
        length += (size_t)snprintf(list + length, sizeof(list) - length, "%s%u:%" PRIu64,
                                   i > 0 ? "," : "", 1U << i, divisions[i]);
    add(conf, "roundup_power2_divisions:[%s]", list);
}

/* What is only in the text: how much larger than asked for a block may be that is not split. */
static void add_rounding(struct conf *conf, const char *text)
{
    static const char name[] = "max_non_split_rounding_mb:";
    const char *found = text ? strstr(text, name) : NULL;
    if (!found)
        return;
    const char *number = found + sizeof(name) - 1;
    int digits = (int)strspn(number, "0123456789");
    if (digits > 0 && digits < 10)
        add(conf, "max_non_split_rounding_mb:%.*s", digits, number);
}

void torch_model_write(const struct torch_snapshot *snapshot, bool expandable,
                       char text[VERIFY_MODEL_SIZE])
{
    const struct torch_snapshot_settings *settings = torch_snapshot_settings(snapshot);
    struct conf conf = {.length = 0};
    if (settings->has_max_split)
        add(&conf, "max_split_size_mb:%" PRIu64, settings->max_split_bytes >> MIB_BITS);
    add_rounding(&conf, settings->conf);
    add_divisions(&conf, settings->divisions);
    if (settings->expandable || expandable)
        add(&conf, "expandable_segments:True");
    if (conf.length == 0)
        snprintf(text, VERIFY_MODEL_SIZE, "torch");
    else
        snprintf(text, VERIFY_MODEL_SIZE, "torch alloc_conf=%s", conf.text);
}
