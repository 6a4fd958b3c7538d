/* From an inject request, or the words of --inject, to a rule: what goes together and what does
 * not. */
#ifndef RULE_REQUEST_H
#define RULE_REQUEST_H

#include "daemon/server.h"
#include "proto/request.h"

/* Why there is no rule. */
struct rule_refusal {
    enum error_kind kind;
    const char *param; /* the wrong parameter, with ERROR_INVALID_PARAMS */
    uint64_t limit;    /* with ERROR_LIMIT_EXCEEDED */
    char message[PROTO_MAX_ERROR_TEXT];
};

/* Adds the rule that a request asks for. `hosted` is the allocator it names, NULL for all. NULL
 * with `refusal`: nothing has changed. */
struct rule *rule_request_add(struct server *server, const struct request *request,
                              const struct hosted *hosted, struct rule_refusal *refusal);

/* Adds the rule that a text such as "oom --nth 10" describes (proto/inject_words.h), as root would.
 * WORSEGPU_OK, or WORSEGPU_INVALID_ARGUMENT or WORSEGPU_NO_MEMORY with `message`. */
int rule_request_add_text(struct server *server, const char *text, char *message,
                          size_t message_size);

#endif
