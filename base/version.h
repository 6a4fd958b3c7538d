/* The version of worsegpu. It stands in the file VERSION alone; the Makefile hands it over. */
#ifndef VERSION_H
#define VERSION_H

#ifndef WORSEGPU_VERSION
#error "build with make: it reads the version from the file VERSION"
#endif

enum {
    WORSEGPU_PROTOCOL = 1 /* the wire contract, proto/PROTOCOL.md */
};

#endif
