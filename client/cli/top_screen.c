/* The terminal of `top`; see top_screen.h. */
#include "client/cli/top_screen.h"

#include <ncurses.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool wants_colour(void)
{
    const char *no_color = getenv("NO_COLOR");
    return !(no_color && *no_color) && has_colors();
}

static void start_colours(void)
{
    static const struct {
        short style;
        short colour;
    } colours[] = {
        {TOP_BAD, COLOR_RED},
        {TOP_USED, COLOR_GREEN},
        {TOP_FREE, COLOR_CYAN},
        {TOP_FORGOTTEN, COLOR_RED},
        {TOP_PENDING, COLOR_YELLOW},
        {TOP_PROCESS, COLOR_GREEN},
        {TOP_PROCESS + 1, COLOR_YELLOW},
        {TOP_PROCESS + 2, COLOR_CYAN},
        {TOP_PROCESS + 3, COLOR_MAGENTA},
        {TOP_PROCESS + 4, COLOR_BLUE},
        {TOP_PROCESS + 5, COLOR_WHITE},
    };
    if (!wants_colour())
        return;
    start_color();
    use_default_colors();
    for (size_t i = 0; i < sizeof(colours) / sizeof(colours[0]); i++)
        init_pair(colours[i].style, colours[i].colour, -1);
}

bool top_screen_open(FILE *out)
{
    const char *kind = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(fileno(out)) || !kind || !*kind ||
        strcmp(kind, "dumb") == 0)
        return false;
    SCREEN *screen = newterm(NULL, out, stdin);
    if (!screen)
        return false;
    const char *move = tigetstr("cup");
    if (!move || (intptr_t)move == -1) {
        endwin();
        delscreen(screen);
        return false;
    }
    set_term(screen);
    cbreak();
    noecho();
    keypad(stdscr, true);
    nodelay(stdscr, true);
    curs_set(0);
    start_colours();
    return true;
}

void top_screen_close(void)
{
    SCREEN *screen = set_term(NULL);
    if (!screen)
        return;
    set_term(screen);
    endwin();
    delscreen(screen);
}

void top_screen_size(size_t *columns, size_t *rows)
{
    int height;
    int width;
    getmaxyx(stdscr, height, width);
    *columns = width > 0 ? (size_t)width : 0;
    *rows = height > 0 ? (size_t)height : 0;
}

static chtype attributes_of(enum top_style style)
{
    chtype colour = wants_colour() ? (chtype)COLOR_PAIR((int)style) : 0;
    switch (style) {
    case TOP_PLAIN:
        return A_NORMAL;
    case TOP_BOLD:
        return A_BOLD;
    case TOP_BAR:
        return A_REVERSE;
    case TOP_BAD:
        return A_REVERSE | colour;
    default:
        return colour;
    }
}

void top_screen_show(const struct top_grid *grid)
{
    chtype attributes[TOP_STYLES];
    for (int style = 0; style < TOP_STYLES; style++)
        attributes[style] = attributes_of((enum top_style)style);
    erase();
    for (size_t row = 0; row < grid->rows; row++) {
        for (size_t column = 0; column < grid->columns; column++) {
            const struct top_cell *cell = &grid->cells[row * grid->columns + column];
            mvaddch((int)row, (int)column, (chtype)cell->character | attributes[cell->style]);
        }
    }
    refresh();
}

int top_screen_key(void)
{
    int key = getch();
    if (key == ERR)
        return TOP_KEY_NONE;
    return key == KEY_RESIZE ? TOP_KEY_RESIZED : key;
}
