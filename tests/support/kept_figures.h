/* Text that a test has worked out, against the same in tests/figures. */
#ifndef KEPT_FIGURES_H
#define KEPT_FIGURES_H

/* Compares line by line with NAME in tests/figures, and gives the text, which was
 * open_memstream's, back. The first line that differs fails the test. With $WORSEGPU_NEW_FIGURES
 * the text is written to that file as well. */
void kept_figures_compare(const char *name, char *text);

#endif
