/* Loops and definitions that cppcheck must know and cannot, since it does not read the system's
 * headers. Only tools/lint.sh uses this. */
#ifndef CPPCHECK_MACROS_H
#define CPPCHECK_MACROS_H

/* clang-format off */
#define TAILQ_FOREACH(item, head, field) \
    for ((item) = (head)->tqh_first; (item); (item) = (item)->field.tqe_next)
#define RB_FOREACH(item, name, head) \
    for ((item) = name##_RB_MINMAX(head, -1); (item); (item) = name##_RB_NEXT(item))
#define RB_GENERATE_INTERNAL(name, type, field, compare, attributes)
#define cJSON_ArrayForEach(item, array) \
    for ((item) = (array) ? (array)->child : NULL; (item); (item) = (item)->next)
/* clang-format on */

#endif
