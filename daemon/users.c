/* Users and what they hold; see users.h. */
#include "daemon/users.h"

#include "base/memory.h"

static int compare_users(const struct user *left, const struct user *right)
{
    return left->uid < right->uid ? -1 : left->uid > right->uid;
}

RB_GENERATE_INTERNAL(user_tree, user, by_uid, compare_users, __attribute__((unused)) static)

void users_init(struct users *users, const struct worsegpu_memory *memory)
{
    users->memory = memory;
    RB_INIT(&users->tree);
}

struct user *users_find(struct users *users, uid_t uid)
{
    struct user wanted = {.uid = uid};
    return RB_FIND(user_tree, &users->tree, &wanted);
}

struct user *users_hold(struct users *users, uid_t uid)
{
    struct user *user = users_find(users, uid);
    if (!user) {
        user = memory_allocate_zeroed(users->memory, 1, sizeof(*user));
        if (!user)
            return NULL;
        user->uid = uid;
        RB_INSERT(user_tree, &users->tree, user);
    }
    user->references++;
    return user;
}

void users_drop(struct users *users, struct user *user)
{
    if (--user->references > 0)
        return;
    RB_REMOVE(user_tree, &users->tree, user);
    memory_release_array(users->memory, user, 1, sizeof(*user));
}

void account_add(struct account *account, const struct account *part)
{
    account->gpu_bytes += part->gpu_bytes;
    account->cpu_bytes += part->cpu_bytes;
    account->allocations += part->allocations;
    account->detached += part->detached;
}

void account_subtract(struct account *account, const struct account *part)
{
    account->gpu_bytes -= part->gpu_bytes;
    account->cpu_bytes -= part->cpu_bytes;
    account->allocations -= part->allocations;
    account->detached -= part->detached;
}

struct account charge_part(const struct charge *charge)
{
    return (struct account){
        .gpu_bytes = charge->on_gpu ? charge->reserved_bytes : 0,
        .cpu_bytes = charge->on_gpu ? 0 : charge->reserved_bytes,
        .allocations = 1,
        .detached = charge->detached,
    };
}

void charge_make(struct charge *charge, struct user *user, uint64_t reserved_bytes, bool on_gpu,
                 bool detached)
{
    *charge = (struct charge){
        .user = user, .reserved_bytes = reserved_bytes, .on_gpu = on_gpu, .detached = detached};
    struct account part = charge_part(charge);
    account_add(&user->account, &part);
    user->references++;
}

void charge_refund(struct charge *charge, struct users *users)
{
    struct user *user = charge->user;
    if (!user)
        return;
    struct account part = charge_part(charge);
    account_subtract(&user->account, &part);
    charge->user = NULL;
    users_drop(users, user);
}
