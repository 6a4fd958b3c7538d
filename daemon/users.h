/* Users and what they hold: the accounts behind the limits for each user and each connection.
 *
 * A user is there as long as it has a connection or a live allocation. What is charged is refunded
 * by the same object: the charge sits in the lease it pays for. */
#ifndef USERS_H
#define USERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <bsd/sys/tree.h>

#include "base/worsegpu_memory.h"

/* What somebody holds, or a part of it. */
struct account {
    uint64_t gpu_bytes; /* reserved on the fake GPUs */
    uint64_t cpu_bytes; /* on the host */
    uint64_t allocations;
    uint64_t detached; /* how many of those are */
};

struct user {
    RB_ENTRY(user) by_uid;
    uid_t uid;
    struct account account;
    uint64_t connections; /* open now */
    uint64_t references;  /* of connections and charges */
};

RB_HEAD(user_tree, user);

struct users {
    const struct worsegpu_memory *memory;
    struct user_tree tree;
};

/* What one allocation costs its user. Small, since every lease has one. */
struct charge {
    struct user *user; /* NULL when nothing is charged */
    uint64_t reserved_bytes;
    bool on_gpu;
    bool detached;
};

void users_init(struct users *users, const struct worsegpu_memory *memory);

/* A user by number, made when it is not there yet; holds it. NULL without memory. */
struct user *users_hold(struct users *users, uid_t uid);

/* Lets go of it; the last one ends it. */
void users_drop(struct users *users, struct user *user);

/* A user by number, not held for the caller; NULL when it has nothing here. */
struct user *users_find(struct users *users, uid_t uid);

void account_add(struct account *account, const struct account *part);
void account_subtract(struct account *account, const struct account *part);

/* The part of an account that a charge is. */
struct account charge_part(const struct charge *charge);

/* Charges a user, which it holds until the refund. */
void charge_make(struct charge *charge, struct user *user, uint64_t reserved_bytes, bool on_gpu,
                 bool detached);

/* Takes the charge back. Nothing when nothing is charged. */
void charge_refund(struct charge *charge, struct users *users);

#endif
