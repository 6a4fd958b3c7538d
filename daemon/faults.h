/* What rules do to a request: asked when it is known to be a good one, before it is carried out. */
#ifndef FAULTS_H
#define FAULTS_H

#include "daemon/handlers.h"

enum fault_course {
    FAULT_GO_ON,    /* carry it out; a rule may have changed the call */
    FAULT_ANSWERED, /* it has been answered, or never will be: do nothing more */
    FAULT_DELAYED   /* the connection keeps the line and carries it out later */
};

/* Whether any rule may meet this call. */
static inline bool faults_possible(const struct call *call)
{
    return call->server->rules.count > 0 &&
           rules_may_meet(&call->server->rules, call->request->method);
}

/* Judges a call, records the fault of the rule that fires, and does it. `line` is the request as it
 * came. A request that will be refused anyway meets no rule. Without memory to keep a delayed line
 * it is answered with internal_error and the rule does not fire. */
enum fault_course faults_meet(struct call *call, const char *line, size_t length);

#endif
