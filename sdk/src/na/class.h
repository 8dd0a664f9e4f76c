/* SPDX-License-Identifier: BSD-3-Clause */
/* A class: an open transport. */

#ifndef NA_CLASS_H
#define NA_CLASS_H

#include "na.h"
#include "na/fork.h"
#include "na/transport.h"
#include "util/compiler.h"

#include <pthread.h>
#include <stdatomic.h>

/* Counters of a class. The first three are sums of its closed contexts; an open one has its own. */
struct na_class_counters {
    atomic_uint_fast64_t completed;  /* callbacks with NA_SUCCESS */
    atomic_uint_fast64_t failed;     /* callbacks with an error other than NA_CANCELED */
    atomic_uint_fast64_t canceled;   /* callbacks with NA_CANCELED */
    atomic_uint_fast64_t refused;    /* posts that the plugin refused */
    atomic_uint_fast64_t again;      /* of these, with NA_AGAIN */
    atomic_uint_fast64_t duplicates; /* completions without an outstanding operation: plugin bugs */
    atomic_uint_fast64_t forced;     /* operations canceled by the core, see na_op_force_all() */
};

/* Lost peers that can be recorded while malloc() fails. */
#define NA_LOST_RESERVE 32u

/* A lost peer that the plugin has reported and the program was not told of yet. */
struct na_lost {
    struct na_lost *next;
    struct na_plugin_addr *addr; /* owns a reference; NULL: an unused entry of the reserve */
    int32_t status;
};

struct na_class {
    /* Constant while the class is open, and read on the hot path. */
    struct na_plugin table;
    struct na_plugin_class *plugin_class;
    size_t max_unexpected_size;
    size_t max_expected_size;
    uint32_t max_tag;
    unsigned int forks;   /* na_forks of the process that opened the class */
    bool no_block;        /* NA_NO_BLOCK */
    bool single_context;  /* one thread at a time uses each context */
    bool is_alone;        /* one thread at a time uses the class, and the plugin has no threads */
    atomic_bool has_lost; /* `lost` is not empty */

    const struct na_transport *transport;
    struct na_plugin_class_info info;
    char *protocol;
    char *class_name;    /* as in the init string, or the plugin's name */
    char *address;       /* NULL or empty: none */
    const char *options; /* inside the memory of `address`; NULL: none */
    struct na_selection *selection;
    bool listen;
    uint32_t max_contexts;

    pthread_mutex_t mutex; /* guards contexts and ops */
    struct na_context *contexts;
    struct na_op_id *ops;
    struct na_class *next; /* under na_classes_mutex */

    /* Guards the members down to lost_arg. No callback and no function of the plugin runs under it,
     * because the plugin may report a lost peer while it holds locks of its own. */
    pthread_mutex_t lost_mutex;
    struct na_lost *lost;
    struct na_lost lost_reserve[NA_LOST_RESERVE]; /* used when malloc() fails */
    na_peer_lost_cb_t lost_callback;
    void *lost_arg;

    struct na_class_counters counters;
};

/* Returns true in a child of the process that opened the class: the child must not touch it. */
static inline bool na_class_is_inherited(const struct na_class *na_class)
{
    return na_class->forks != na_forks;
}

/* Like na_class_is_inherited(), and logs it. Not for hot paths. Returns false for NULL. */
static inline bool na_class_fork_refused(const struct na_class *na_class, const char *function)
{
    if (util_likely(na_class == NULL || !na_class_is_inherited(na_class)))
        return false;
    (void) na_fork_refused(function);
    return true;
}

/* Logs that a plugin returned a status that does not exist. Returns NA_FAULT. [version.c] */
na_return_t na_return_unknown(int32_t status);

/* Converts a plugin's status, whose codes are those of na_return_t. An unknown one is NA_FAULT. */
static inline na_return_t na_return_from_plugin(int32_t status)
{
    if (util_unlikely((uint32_t) status >= NA_RETURN_MAX))
        return na_return_unknown(status);
    return (na_return_t) status;
}

#endif /* NA_CLASS_H */
