/* lab/page/page.html as bytes of the program, and how many there are. */
#ifdef __CET__
#include <cet.h>
#endif
        .section .rodata
        .global page_template, page_template_bytes
        .hidden page_template, page_template_bytes
        .type   page_template, %object
        .type   page_template_bytes, %object
page_template:
        .incbin "lab/page/page.html"
.Lend:
        .size   page_template, .Lend - page_template
        .balign 8
page_template_bytes:
        .quad   .Lend - page_template
        .size   page_template_bytes, 8
        .section .note.GNU-stack, "", %progbits
