/* libworsegpu-client: making requests fail on purpose. A part of worsegpu_client.h, which includes
 * it; what is said there about statuses, errors and lifetimes holds here. */
#ifndef WORSEGPU_CLIENT_RULES_H
#define WORSEGPU_CLIENT_RULES_H

#include "worsegpu_client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What shall go wrong, when, and for whom. Zero it, set `action`, then what you want: 0 and NULL
 * mean not given. At most one of nth, every and probability; none of them: the next match. */
struct worsegpu_client_wish {
    const char *action; /* "out_of_memory", "quota_exceeded", "host_fallback", "forget", "delay",
                           "disconnect_before", "disconnect_after" */
    uint64_t nth;       /* from this match on, counted from now */
    uint64_t every;     /* at every so many matches */
    bool probability_given;
    double probability; /* 0 to 1, from the rule's own stream */
    uint64_t rule_seed; /* of that stream */
    uint64_t times;     /* at most so often; 0: once with nth, else no end */
    const char *method; /* only this method; NULL: what the action suits, of allocate and free */
    uint64_t min_size;  /* only requested bytes of at least this */
    uint64_t max_size;  /* ... of at most this */
    bool stream_given;
    uint64_t stream;        /* only this stream */
    const char *tag_prefix; /* only tags that begin so */
    uint64_t process;       /* only this process, as it was when it connected */
    bool user_given;
    uint64_t user;         /* only this user, by number */
    uint64_t client;       /* only the connection of this number */
    const char *allocator; /* only this allocator; NULL: all, for admins only */
    uint64_t delay_ms;     /* how long a delay is, in milliseconds */
};

/* A rule as it stands. What is not given is 0, false or empty. */
struct worsegpu_client_rule {
    uint64_t rule; /* its number, from 1 */
    char action[WORSEGPU_CLIENT_WORD_SIZE];
    uint64_t nth;
    uint64_t every;
    bool probability_given;
    double probability;
    uint64_t rule_seed;
    uint64_t times; /* 0: no end */
    char method[WORSEGPU_CLIENT_WORD_SIZE];
    uint64_t min_size;
    uint64_t max_size;
    bool stream_given;
    uint64_t stream;
    char tag_prefix[WORSEGPU_CLIENT_NAME_SIZE];
    uint64_t process;
    bool user_given;
    uint64_t user;
    uint64_t client;
    char allocator[WORSEGPU_CLIENT_NAME_SIZE]; /* empty: all */
    uint64_t delay_ms;
    uint64_t matched; /* how often it matched */
    uint64_t fired;   /* ... and something went wrong */
    bool spent;       /* it has fired as often as it may */
};

/* Adds a rule. *rule, which may be NULL, is filled in as it now stands. */
WORSEGPU_CLIENT_API int worsegpu_client_inject(worsegpu_client *client,
                                               const struct worsegpu_client_wish *wish,
                                               struct worsegpu_client_rule *rule,
                                               struct worsegpu_client_error *error);

/* Reads the answer to an inject just received (worsegpu_client_call, worsegpu_client_receive). */
WORSEGPU_CLIENT_API int worsegpu_client_read_rule(worsegpu_client *client,
                                                  struct worsegpu_client_rule *rule,
                                                  struct worsegpu_client_error *error);

/* A page of rules; `rules` belongs to the client. */
struct worsegpu_client_rules {
    const struct worsegpu_client_rule *rules;
    size_t count;
    uint64_t next;
    bool more;
};

/* Rules that this client may see, with a number above `after`, at most `limit` (1 to 1,000). */
WORSEGPU_CLIENT_API int worsegpu_client_rules(worsegpu_client *client, uint64_t after,
                                              uint64_t limit, struct worsegpu_client_rules *page,
                                              struct worsegpu_client_error *error);

/* Removes one rule, or with 0 all that this client may remove. *cleared, which may be NULL, is how
 * many there were. */
WORSEGPU_CLIENT_API int worsegpu_client_rules_clear(worsegpu_client *client, uint64_t rule,
                                                    uint64_t *cleared,
                                                    struct worsegpu_client_error *error);

#ifdef __cplusplus
}
#endif

#endif
