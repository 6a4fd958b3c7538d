/* The settings of the torch policies: what the text of PYTORCH_CUDA_ALLOC_CONF says. */
#ifndef POLICIES_TORCH_CONFIG_H
#define POLICIES_TORCH_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/knobs.h"

enum {
    TORCH_DIVISIONS = 16 /* intervals of sizes, from 1 MiB to 64 GiB, a power of two each */
};

struct torch_settings {
    uint64_t max_split_bytes;            /* UINT64_MAX: not set */
    uint64_t non_split_rounding_bytes;   /* how much larger a block of at least that size may be */
    double collection_threshold;         /* part of the allowed memory; 0: not set */
    uint64_t divisions[TORCH_DIVISIONS]; /* of a power of two, for rounding; 0 and 1: none */
    bool expandable;
};

/* As PyTorch starts. */
void torch_settings_default(struct torch_settings *settings);

/* Reads `bytes` of text on top of the settings, as PyTorch 2.6 would: NAME:VALUE parted by commas,
 * later ones overwrite. Stricter in one way: a number has nothing behind it. false: `problem` says
 * what is wrong and what is known; the settings are then half changed. */
bool torch_settings_read(const char *text, size_t bytes, struct torch_settings *settings,
                         char problem[KNOBS_PROBLEM_SIZE]);

/* What a request of so many bytes (at least 1, at most 2^53) is rounded up to: a multiple of 512.
 */
uint64_t torch_settings_round(const struct torch_settings *settings, uint64_t bytes);

#endif
