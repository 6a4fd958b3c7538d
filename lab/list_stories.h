/* What `list` says of shapes and public cases. */
#ifndef LAB_LIST_STORIES_H
#define LAB_LIST_STORIES_H

#include "lab/lab.h"

/* As text; the exit status. */
int list_print_shapes(struct lab *lab);
int list_print_cases(struct lab *lab);
/* As members of an object. */
void list_write_shapes(struct json_writer *writer);
void list_write_cases(struct json_writer *writer);

#endif
