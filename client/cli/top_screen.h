/* The terminal of `top`, through ncurses: shows a grid, reads keys. Nothing here knows what is
 * shown. There is one at a time, since ncurses keeps its state itself. */
#ifndef TOP_SCREEN_H
#define TOP_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

#include "client/cli/top_view.h"

enum {
    TOP_KEY_NONE = -1,   /* none was pressed */
    TOP_KEY_RESIZED = -2 /* the terminal has another size now */
};

/* Takes over the terminal that is standard input and `out`. false: they are none, or one that
 * cannot move its cursor; nothing has changed then. */
bool top_screen_open(FILE *out);
void top_screen_close(void);

void top_screen_size(size_t *columns, size_t *rows);
void top_screen_show(const struct top_grid *grid);

/* The next key, without waiting. */
int top_screen_key(void);

#endif
