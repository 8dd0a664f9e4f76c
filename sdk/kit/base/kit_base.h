/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The base of the transport kit: what a plugin needs of its process and its system, whatever its
 * fabric. The core's host table, the log, lists, tables of objects under ids, locks, random keys,
 * digests, processes of this node and their memory, addresses of sockets.
 *
 * The kit is linked statically into a plugin, so that each plugin has its own copy, and nothing of
 * it is exported. It promises no binary compatibility, and needs none.
 *
 * Unless a function says something else it may be called by any thread, it does not block, and what
 * it is given stays the caller's. The status codes are those of na_plugin.h. Since 1.1.
 */

#ifndef KIT_BASE_H
#define KIT_BASE_H

#include "na_plugin.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For conditions that mostly hold, and that mostly do not. */
#define kit_likely(x)   __builtin_expect(!!(x), 1)
#define kit_unlikely(x) __builtin_expect(!!(x), 0)

/* ------------------------------------------------------------------------------------------------
 * The host
 */

/* The core's table: memory, the log, the clock, completions. Set once, by kit_host_set(). */
extern const struct na_host *kit_host;

/*
 * Takes over the table that na_plugin_entry_v1() was given; called in there, before anything else
 * of the kit. Since 1.1.
 *
 * NA_PLUGIN_SUCCESS, or NA_PLUGIN_OPNOTSUPPORTED when the table is of another major version of the
 * ABI or too short: *reason_p is then a text that lives as long as the plugin.
 */
int32_t kit_host_set(const struct na_host *host, const char **reason_p);

/* A line of the log that names the plugin. The level is NA_PLUGIN_LOG_*, the rest is printf's. */
#define KIT_LOG(level, plugin, ...) \
    na_plugin_log(kit_host, level, plugin, __func__, __LINE__, __VA_ARGS__)

/* "NA_HOSTUNREACH": what a status is called, for the log. A constant, never NULL. Since 1.1. */
const char *kit_status_name(int32_t status);

/*
 * Copies the value of an option of the init string, one that na_plugin.option_names lists, with a
 * NUL behind it into `size` bytes at `value`. Called in na_plugin.initialize. Since 1.1.
 *
 * NA_PLUGIN_SUCCESS; NA_PLUGIN_NOENTRY when it is not given, or the core is of an ABI before 1.2;
 * NA_PLUGIN_OVERFLOW when it does not fit. Without success nothing is written.
 */
int32_t kit_option_get(const struct na_plugin_init *init, const char *name, char *value,
                       size_t size);

/*
 * auth_key_also, which belongs to the caller of initialize, encrypt and mem_per_session of a core
 * that has them; NULL and false of another one. Since 1.1.
 */
const char *kit_init_auth_key_also(const struct na_plugin_init *init);
bool kit_init_encrypts(const struct na_plugin_init *init);
bool kit_init_mem_per_session(const struct na_plugin_init *init);

/*
 * The part of an address string that names the peer: what follows "plugin+protocol://" or
 * "protocol://", or all of it when there is no "://". It points into the string. NULL when the
 * string begins in another way. For na_plugin.addr_lookup. Since 1.1.
 */
const char *kit_address_name(const char *address, const char *plugin, const char *protocol);

/* ------------------------------------------------------------------------------------------------
 * Lists: circular, with a head, linked through their elements. The caller's lock guards them.
 */

/* An element that is in no list points to itself. */
struct kit_link {
    struct kit_link *next;
    struct kit_link *prev;
};

/* The structure of that type whose member the link is. */
#define kit_container(link, type, member) \
    ((type *) (void *) ((char *) (link) -offsetof(type, member)))

/* Makes an empty list, or an element that is in none. */
static inline void kit_list_init(struct kit_link *list)
{
    list->next = list;
    list->prev = list;
}

/* True when nothing is in the list, and of an element when it is in none. */
static inline bool kit_list_empty(const struct kit_link *list)
{
    return list->next == list;
}

/* The first element, which stays in the list; NULL when that is empty. */
static inline struct kit_link *kit_list_first(const struct kit_link *list)
{
    return list->next != list ? list->next : NULL;
}

/* The element behind that one, which stays in the list; NULL behind the last one. */
static inline struct kit_link *kit_list_next(const struct kit_link *list,
                                             const struct kit_link *link)
{
    return link->next != list ? link->next : NULL;
}

/* Puts an element behind another one, or behind the list itself: in front of all. */
static inline void kit_list_insert_after(struct kit_link *place, struct kit_link *link)
{
    link->prev = place;
    link->next = place->next;
    place->next->prev = link;
    place->next = link;
}

/* Puts an element at the end. */
static inline void kit_list_append(struct kit_link *list, struct kit_link *link)
{
    kit_list_insert_after(list->prev, link);
}

/* Puts an element in front. */
static inline void kit_list_prepend(struct kit_link *list, struct kit_link *link)
{
    kit_list_insert_after(list, link);
}

/* Of an element that is put into another list, or given away, right afterwards. */
static inline void kit_list_take(struct kit_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
}

/* Takes an element out, which is in no list then; one that is in none stays as it is. */
static inline void kit_list_remove(struct kit_link *link)
{
    kit_list_take(link);
    kit_list_init(link);
}

/* Makes it the only element of a list that is empty. */
static inline void kit_list_start(struct kit_link *list, struct kit_link *link)
{
    link->next = list;
    link->prev = list;
    list->next = link;
    list->prev = link;
}

/* True when the list has that element; looks at each of them. */
static inline bool kit_list_contains(const struct kit_link *list, const void *element)
{
    for (const struct kit_link *link = list->next; link != list; link = link->next)
        if (link == element)
            return true;
    return false;
}

/* ------------------------------------------------------------------------------------------------
 * Tables: objects under ids that may travel. An id is a slot's index and a count of its uses that
 * begins at random, so that the id of an object that is gone, or of a process that had this address
 * before, finds nothing. An id can be guessed: it is no permission. The caller's lock guards them.
 */

#define KIT_TABLE_MAX (UINT32_C(1) << 23) /* objects in one table */

/* A place of a table. */
struct kit_table_slot {
    void *object;        /* NULL: free */
    uint32_t generation; /* the upper half of the id */
    uint32_t next_free;  /* index, of a place that is free */
};

/* Zero-filled it is an empty table. */
struct kit_table {
    struct kit_table_slot *slots;
    uint32_t count;
    uint32_t free; /* index; count: none */
};

/*
 * Puts an object, which is not NULL, into the table. *id_p is never 0. Since 1.1.
 *
 * NA_PLUGIN_SUCCESS, NA_PLUGIN_NOMEM without memory or with KIT_TABLE_MAX objects, or
 * NA_PLUGIN_IO_ERROR when the system has no random numbers.
 */
int32_t kit_table_add(struct kit_table *table, void *object, uint64_t *id_p);

/*
 * The object of that id, still its owner's, NULL when there is none. The id may come from the wire.
 * Since 1.1.
 */
void *kit_table_find(const struct kit_table *table, uint64_t id);

/* Takes an object out of the table; one that is not in there does no harm. Since 1.1. */
void kit_table_remove(struct kit_table *table, uint64_t id);

/* Frees the table, not the objects, and leaves it empty. Since 1.1. */
void kit_table_free(struct kit_table *table);

/* ------------------------------------------------------------------------------------------------
 * Keys and digests
 */

/* 128 bits of the system's random numbers, by which memory or a peer is reached. */
struct kit_key {
    uint64_t word[2]; /* the first one is not 0, so that 0 can say that there is no key */
};

/* A stock of them: asking the system takes as long as registering memory does. */
#define KIT_KEYS 16u
struct kit_keys {
    struct kit_key keys[KIT_KEYS];
    uint32_t left;
};

/*
 * A key that nobody can guess. Since 1.1.
 *
 * NA_PLUGIN_SUCCESS, or NA_PLUGIN_IO_ERROR when the system has no random numbers: errno says why,
 * and nothing may be named by the key.
 */
int32_t kit_key_draw(struct kit_key *key);

/*
 * The same out of a stock, which is filled up when it is empty; returns as kit_key_draw().
 * Zero-filled it is empty.
 */
int32_t kit_key_take(struct kit_keys *keys, struct kit_key *key);

/* True when they are the same; takes as long whether they differ early or late. */
static inline bool kit_key_is_equal(const struct kit_key *a, const struct kit_key *b)
{
    return ((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1])) == 0;
}

/* What kit_digest_add() begins with. */
#define KIT_DIGEST_NONE UINT64_C(0xcbf29ce484222325)

/* The digest (FNV-1a) of what `digest` is of and these bytes behind it. It stops no forger. */
static inline uint64_t kit_digest_add(uint64_t digest, const void *data, uint64_t size)
{
    const uint8_t *bytes = (const uint8_t *) data;

    for (uint64_t i = 0; i < size; i++)
        digest = (digest ^ bytes[i]) * UINT64_C(0x100000001b3);
    return digest;
}

/* Not 0; its low half is as good as the high one. */
static inline uint64_t kit_digest(const void *data, uint64_t size)
{
    uint64_t digest = kit_digest_add(KIT_DIGEST_NONE, data, size);

    digest ^= digest >> 32;
    return digest != 0 ? digest : 1;
}

/* ------------------------------------------------------------------------------------------------
 * Locks. One that waits spins for a moment, and then sleeps; there is no order among waiters.
 */

/*
 * Zero-filled it is free. Its numbers are read and written by the compiler's atomic builtins, which
 * C++ has, too.
 */
struct kit_lock {
    uint32_t held;
    uint32_t sleepers;
    uint32_t waiters; /* with those that sleep */
    bool is_elided;   /* set once, before the first use: one thread at a time */
};

/* The slow halves of kit_lock_take() and kit_lock_drop(). */
void kit_lock_wait(struct kit_lock *lock);
void kit_lock_wake(struct kit_lock *lock);

/* Lets the processor rest for a moment, in a loop that waits for another one. */
static inline void kit_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* False when another thread has it. */
static inline bool kit_lock_try(struct kit_lock *lock)
{
    return lock->is_elided || (__atomic_load_n(&lock->held, __ATOMIC_RELAXED) == 0 &&
                               __atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE) == 0);
}

/* May block. */
static inline void kit_lock_take(struct kit_lock *lock)
{
    if (kit_unlikely(!kit_lock_try(lock)))
        kit_lock_wait(lock);
}

/* Lets go of it, and wakes a thread that sleeps for it. Does not block. */
static inline void kit_lock_drop(struct kit_lock *lock)
{
    if (lock->is_elided)
        return;
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
    if (kit_unlikely(__atomic_load_n(&lock->sleepers, __ATOMIC_RELAXED) != 0))
        kit_lock_wake(lock);
}

/* Whether a thread waits for it: the one that has it most of the time may let it pass. */
static inline bool kit_lock_is_wanted(const struct kit_lock *lock)
{
    return __atomic_load_n(&lock->waiters, __ATOMIC_RELAXED) != 0;
}

/* ------------------------------------------------------------------------------------------------
 * Processes of this node, as /proc tells of them
 */

/*
 * When a process began, in ticks since boot, and whether all of its threads have ended. False when
 * that cannot be read. Since 1.1.
 */
bool kit_process_read(uint32_t pid, uint64_t *start_p, bool *is_over_p);

/*
 * A number of this process's namespace of that kind ("pid", "time"): processes with the same number
 * are in the same one. 0 when it cannot be read. Since 1.1.
 */
uint64_t kit_process_namespace(const char *kind);

/*
 * What tells this process from another one that gets its number later: when it began (low 48 bits)
 * and a number of the time namespace where that is so (the others). 0 when that cannot be read.
 * Peers may know it, of whatever release they are. Since 1.1.
 */
uint64_t kit_process_identity(void);

/*
 * True when no thread runs any more of the process that had this number and identity, though its
 * children may hold its files open, the number may be another process's by now, or its parent has
 * not collected it. False when in doubt; an identity of 0 is not known. The number is one of this
 * process's PID namespace. Since 1.1.
 */
bool kit_process_is_dead(uint32_t pid, uint64_t identity);

/* A number that is equal on one node until it boots again; 0 when it cannot be read. Since 1.1. */
uint64_t kit_process_node(void);

/*
 * Ignores SIGPIPE unless the program handles it, for a library that writes to sockets which the
 * peer has perhaps closed. Since 1.1.
 */
void kit_process_ignore_sigpipe(void);

/* ------------------------------------------------------------------------------------------------
 * Cross-memory attach: the system copies between the memory of two processes of a node, where it
 * lets one of them touch the other, and that one does not take part.
 */

/* An address of another process, and bytes there. */
static inline struct iovec kit_iovec(uint64_t address, uint64_t size)
{
    struct iovec vector;

    vector.iov_base = (void *) (uintptr_t) address;
    vector.iov_len = (size_t) size;
    return vector;
}

/*
 * Copies from the process of that number, and to it. Each side is an array of at most 1024 pieces.
 * *moved_p is the number of bytes, from the beginning on; it is below what was asked for when a
 * later part is not mapped. May block for as long as the copy takes. Since 1.1.
 *
 * NA_PLUGIN_SUCCESS: a byte at least was copied. NA_PLUGIN_OPNOTSUPPORTED: the system does not let
 * this process touch the other one; NA_PLUGIN_HOSTUNREACH: there is no such process;
 * NA_PLUGIN_NOMEM; NA_PLUGIN_FAULT: not even the first byte is mapped. errno is the system's.
 */
int32_t kit_attach_read(uint32_t pid, const struct iovec *local, uint32_t local_count,
                        const struct iovec *remote, uint32_t remote_count, uint64_t *moved_p);
int32_t kit_attach_write(uint32_t pid, const struct iovec *local, uint32_t local_count,
                         const struct iovec *remote, uint32_t remote_count, uint64_t *moved_p);

/*
 * Whether the system lets this process touch the other one, whose memory may, but need not have
 * something at that address. Since 1.1.
 */
bool kit_attach_is_allowed(uint32_t pid, uint64_t address);

/* ------------------------------------------------------------------------------------------------
 * Where to listen and whom to reach, as people write it: host names, IPv4, IPv6 with a scope,
 * interfaces, ports; and the sockets' addresses that it means
 */

/* Bytes that the functions below write a reason into, NUL included. */
#define KIT_LOCATION_REASON_MAX 256

/* Host and port, as they were written. */
struct kit_location {
    char host[256];    /* name, address without brackets, or interface; empty when none was given */
    uint16_t port;     /* in the order of this machine */
    uint16_t has_port; /* 0: none was given */
};

/*
 * Takes "", "host", "host:port", ":port", "[v6]", "[v6%scope]:port". Since 1.1.
 *
 * NA_PLUGIN_SUCCESS, or NA_PLUGIN_INVALID_ARG with the reason when it is malformed: a port above
 * 65535, letters in a port, unbalanced brackets, a host too long.
 */
int32_t kit_location_parse(const char *text, struct kit_location *location, char *reason);

/*
 * The address to bind: of the interface, the address or the name given, else of the interface in
 * `ip_subnet` ("10.1.0.0/16", NULL for none), else the first that is up and not loopback, else
 * loopback. `addr_format` is NA_PLUGIN_ADDR_*. May block while a name is looked up. Since 1.1.
 *
 * NA_PLUGIN_SUCCESS, or NA_PLUGIN_NODEV or NA_PLUGIN_ADDRNOTAVAIL with the reason when nothing of
 * this machine is meant.
 */
int32_t kit_location_resolve_local(const struct kit_location *location, const char *ip_subnet,
                                   uint32_t addr_format, struct sockaddr_storage *address,
                                   char *reason);

/*
 * The address to reach, for which host and port are needed. May block while a name is looked up.
 * Since 1.1.
 *
 * NA_PLUGIN_SUCCESS, or with the reason NA_PLUGIN_INVALID_ARG without a host or port, or
 * NA_PLUGIN_NOENTRY when there is no such name.
 */
int32_t kit_location_resolve_peer(const struct kit_location *location, uint32_t addr_format,
                                  struct sockaddr_storage *address, char *reason);

/*
 * The same for names that kit_location_format() wrote, here or at a peer: what is no number is
 * refused (NA_PLUGIN_INVALID_ARG) and not looked up, since that asks others and waits for them.
 * Does not block. Since 1.1.
 */
int32_t kit_location_resolve_formatted(const struct kit_location *location, uint32_t addr_format,
                                       struct sockaddr_storage *address, char *reason);

/* "1.2.3.4:5" or "[v6%scope]:5"; size, in bytes, is at least 128. Since 1.1. */
void kit_location_format(const struct sockaddr_storage *address, char *text, size_t size);

/* Bytes of the address that bind() and connect() want. Since 1.1. */
socklen_t kit_location_length(const struct sockaddr_storage *address);

#ifdef __cplusplus
}
#endif

#endif /* KIT_BASE_H */
