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

/* Counters that outlive contexts, and those of paths where speed does not matter. */
struct na_class_counters {
    atomic_uint_fast64_t completed; /* events given to callbacks */
    atomic_uint_fast64_t failed;    /* with an error other than cancellation */
    atomic_uint_fast64_t canceled;  /* with NA_CANCELED */
    atomic_uint_fast64_t refused;   /* operations that the plugin did not accept */
    atomic_uint_fast64_t again;     /* of these, for lack of resources */
    atomic_uint_fast64_t
        duplicates; /* completions of operations that were not outstanding: plugin bugs */
    atomic_uint_fast64_t
        forced; /* operations that a plugin left behind when a context was closed */
};

/* How many lost peers are told of between two polls where memory is short. */
#define NA_LOST_RESERVE 32u

/* A peer that is lost, of which the user is to be told. */
struct na_lost {
    struct na_lost *next;
    struct na_plugin_addr *addr; /* a reference; NULL: one of the reserve that is not used */
    int32_t status;
};

struct na_class {
    /* Read on the hot path, never written after the class is open. */
    struct na_plugin table;
    struct na_plugin_class *plugin_class;
    size_t max_unexpected_size;
    size_t max_expected_size;
    uint32_t max_tag;
    unsigned int forks; /* na_forks of the process that opened it */
    bool no_block;
    bool single_context;  /* one thread at a time uses each context */
    bool is_alone;        /* one thread at a time uses the class, and the plugin adds none */
    atomic_bool has_lost; /* there is something in `lost` */

    const struct na_transport *transport;
    struct na_plugin_class_info info;
    char *protocol;
    char *class_name;    /* as it was asked for, for the plugin */
    char *address;       /* NULL or empty: none */
    const char *options; /* behind it; NULL: none */
    struct na_selection *selection;
    bool listen;
    uint32_t max_contexts;

    pthread_mutex_t mutex; /* guards what follows */
    struct na_context *contexts;
    struct na_op_id *ops;
    struct na_class *next; /* under the lock of the list of all classes */

    pthread_mutex_t lost_mutex; /* guards what follows; nothing is called with it */
    struct na_lost *lost;
    struct na_lost lost_reserve[NA_LOST_RESERVE]; /* for when there is no memory */
    na_peer_lost_cb_t lost_callback;
    void *lost_arg;

    struct na_class_counters counters;
};

/* True in a child of the process that opened the class: nothing of it may be touched. */
static inline bool na_class_is_inherited(const struct na_class *na_class)
{
    return na_class->forks != na_forks;
}

/* The same, with a line in the log; for functions whose speed does not matter. NULL: false. */
static inline bool na_class_is_refused(const struct na_class *na_class, const char *function)
{
    if (util_likely(na_class == NULL || !na_class_is_inherited(na_class)))
        return false;
    (void) na_fork_refused(function);
    return true;
}

/* Says that a plugin has returned a status that does not exist [version.c]. */
na_return_t na_return_unknown(int32_t status);

/* A status that comes from a plugin. What is no code of ours is NA_FAULT. */
static inline na_return_t na_return_from_plugin(int32_t status)
{
    if (util_unlikely((uint32_t) status >= NA_RETURN_MAX))
        return na_return_unknown(status);
    return (na_return_t) status;
}

#endif /* NA_CLASS_H */
