/* The template of the page of `replay --html` as bytes of the program; see embed.S. */
#ifndef LAB_PAGE_EMBED_H
#define LAB_PAGE_EMBED_H

#include <stdint.h>

extern const char page_template[] __attribute__((visibility("hidden")));
extern const uint64_t page_template_bytes __attribute__((visibility("hidden")));

#endif
