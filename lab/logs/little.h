/* Numbers as bytes, lowest byte first; compilers make one load or store of each. */
#ifndef LOGS_LITTLE_H
#define LOGS_LITTLE_H

#include <stdint.h>

static inline uint32_t little_4(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static inline uint64_t little_8(const unsigned char *bytes)
{
    return (uint64_t)bytes[0] | (uint64_t)bytes[1] << 8 | (uint64_t)bytes[2] << 16 |
           (uint64_t)bytes[3] << 24 | (uint64_t)bytes[4] << 32 | (uint64_t)bytes[5] << 40 |
           (uint64_t)bytes[6] << 48 | (uint64_t)bytes[7] << 56;
}

static inline void little_put4(unsigned char *bytes, uint32_t number)
{
    bytes[0] = (unsigned char)number;
    bytes[1] = (unsigned char)(number >> 8);
    bytes[2] = (unsigned char)(number >> 16);
    bytes[3] = (unsigned char)(number >> 24);
}

static inline void little_put8(unsigned char *bytes, uint64_t number)
{
    bytes[0] = (unsigned char)number;
    bytes[1] = (unsigned char)(number >> 8);
    bytes[2] = (unsigned char)(number >> 16);
    bytes[3] = (unsigned char)(number >> 24);
    bytes[4] = (unsigned char)(number >> 32);
    bytes[5] = (unsigned char)(number >> 40);
    bytes[6] = (unsigned char)(number >> 48);
    bytes[7] = (unsigned char)(number >> 56);
}

#endif
