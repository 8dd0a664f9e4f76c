/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The base of the transport kit, for plugins of any fabric: the core's host table, the log, lists,
 * tables of objects by id, locks, random keys, digests, processes of this node and their memory,
 * socket addresses.
 *
 * The kit is linked statically into a plugin, so each plugin has its own copy, and no symbol of it
 * is exported. It has no stable ABI, and needs none.
 *
 * Unless a comment says otherwise any thread may call a function, it does not block, and its
 * arguments stay the caller's. The status codes are those of na_plugin.h. Since 1.1.
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

/* Branch hints. */
#define kit_likely(x)   __builtin_expect(!!(x), 1)
#define kit_unlikely(x) __builtin_expect(!!(x), 0)

/* ------------------------------------------------------------------------------------------------
 * The host
 */

/* The core's table: memory, the log, the clock, completions. Set once, by kit_host_set(). */
extern const struct na_host *kit_host;

/*
 * Sets kit_host to the table that na_plugin_entry_v1() received; called there, before any other
 * function of the kit. Since 1.1.
 *
 * NA_PLUGIN_SUCCESS, or NA_PLUGIN_OPNOTSUPPORTED if the table has another major version of the ABI
 * or is too short; *reason_p is then a text that lives as long as the plugin.
 */
int32_t kit_host_set(const struct na_host *host, const char **reason_p);

/* Logs a line in the name of the plugin. The level is NA_PLUGIN_LOG_*, the rest as for printf. */
#define KIT_LOG(level, plugin, ...) \
    na_plugin_log(kit_host, level, plugin, __func__, __LINE__, __VA_ARGS__)

/*
 * Counts an event that peers can cause, and returns the level of its message: a warning for the
 * first one, debug for the others. The caller's lock guards the counter.
 */
static inline uint32_t kit_log_level_first(uint64_t *count)
{
    return (*count)++ == 0 ? NA_PLUGIN_LOG_WARNING : NA_PLUGIN_LOG_DEBUG;
}

/* Returns the constant name of a status for the log, as "NA_HOSTUNREACH"; not NULL. Since 1.1. */
const char *kit_status_name(int32_t status);

/*
 * Copies the value of an option of the init string, one that na_plugin.option_names lists, and a
 * NUL into `size` bytes at `value`. Called in na_plugin.initialize. Since 1.1.
 *
 * NA_PLUGIN_SUCCESS; NA_PLUGIN_NOENTRY if it is not set, or the core has an ABI before 1.2;
 * NA_PLUGIN_OVERFLOW if it does not fit. After an error nothing was written.
 */
int32_t kit_option_get(const struct na_plugin_init *init, const char *name, char *value,
                       size_t size);

/*
 * Return auth_key_also, encrypt and mem_per_session of the init structure, or NULL and false if the
 * core is too old to have them. The text belongs to the caller of initialize. Since 1.1.
 */
const char *kit_init_auth_key_also(const struct na_plugin_init *init);
bool kit_init_encrypts(const struct na_plugin_init *init);
bool kit_init_mem_per_session(const struct na_plugin_init *init);

/*
 * Returns the part of an address string that names the peer: the rest after "plugin+protocol://" or
 * "protocol://", or the whole string if it has no "://". The result points into the string. NULL:
 * the string begins with another plugin or protocol. For na_plugin.addr_lookup. Since 1.1.
 */
const char *kit_address_name(const char *address, const char *plugin, const char *protocol);

/* ------------------------------------------------------------------------------------------------
 * Lists: circular, intrusive, doubly linked, with a head. The caller's lock guards them.
 */

/* A list head, or a member of an element. An element that is in no list points to itself. */
struct kit_link {
    struct kit_link *next;
    struct kit_link *prev;
};

/* Returns the structure whose member `member` is the link. */
#define kit_container(link, type, member) \
    ((type *) (void *) ((char *) (link) -offsetof(type, member)))

/* Initializes an empty list, or an element that is in no list. */
static inline void kit_list_init(struct kit_link *list)
{
    list->next = list;
    list->prev = list;
}

/* True if the list is empty, or the element is in no list. */
static inline bool kit_list_empty(const struct kit_link *list)
{
    return list->next == list;
}

/* Returns the first element, which stays in the list, or NULL. */
static inline struct kit_link *kit_list_first(const struct kit_link *list)
{
    return list->next != list ? list->next : NULL;
}

/* Returns the next element, which stays in the list, or NULL. */
static inline struct kit_link *kit_list_next(const struct kit_link *list,
                                             const struct kit_link *link)
{
    return link->next != list ? link->next : NULL;
}

/* Inserts an element after another one, or, with the list itself as `place`, at the front. */
static inline void kit_list_insert_after(struct kit_link *place, struct kit_link *link)
{
    link->prev = place;
    link->next = place->next;
    place->next->prev = link;
    place->next = link;
}

/* Inserts an element at the end. */
static inline void kit_list_append(struct kit_link *list, struct kit_link *link)
{
    kit_list_insert_after(list->prev, link);
}

/* Inserts an element at the front. */
static inline void kit_list_prepend(struct kit_link *list, struct kit_link *link)
{
    kit_list_insert_after(list, link);
}

/* Unlinks an element whose link the caller overwrites or gives away at once. */
static inline void kit_list_take(struct kit_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
}

/* Removes an element, which is in no list then; does nothing if it was in none. */
static inline void kit_list_remove(struct kit_link *link)
{
    kit_list_take(link);
    kit_list_init(link);
}

/* Makes an element the only one of an empty list, whose head need not be initialized. */
static inline void kit_list_start(struct kit_link *list, struct kit_link *link)
{
    link->next = list;
    link->prev = list;
    list->next = link;
    list->prev = link;
}

/* True if the list has that element; walks the list, and only compares `element`. */
static inline bool kit_list_contains(const struct kit_link *list, const void *element)
{
    for (const struct kit_link *link = list->next; link != list; link = link->next)
        if (link == element)
            return true;
    return false;
}

/* ------------------------------------------------------------------------------------------------
 * Tables: objects by ids, which may be sent to peers. An id is the index of a slot and a generation
 * that begins at random, so that the id of a removed object, or of an earlier process at this
 * address, finds nothing. An id can be guessed, so it authorizes nothing. The caller's lock guards
 * a table.
 */

#define KIT_TABLE_MAX (UINT32_C(1) << 23) /* objects in one table */

/* An entry of a table. */
struct kit_table_slot {
    void *object;        /* NULL: free */
    uint32_t generation; /* the upper half of the id */
    uint32_t next_free;  /* index of the next free slot, if this one is free */
};

/* A zero-filled table is empty. */
struct kit_table {
    struct kit_table_slot *slots;
    uint32_t count;
    uint32_t free; /* index of the first free slot; count: none */
};

/*
 * Adds an object, which is not NULL, to the table. *id_p is never 0. Since 1.1.
 *
 * NA_PLUGIN_SUCCESS, NA_PLUGIN_NOMEM without memory or with KIT_TABLE_MAX objects, or
 * NA_PLUGIN_IO_ERROR if getrandom fails.
 */
int32_t kit_table_add(struct kit_table *table, void *object, uint64_t *id_p);

/*
 * Returns the object of that id, which stays in the table, or NULL. The id may come from the wire.
 * Since 1.1.
 */
void *kit_table_find(const struct kit_table *table, uint64_t id);

/* Removes an object; does nothing if there is none with that id. Since 1.1. */
void kit_table_remove(struct kit_table *table, uint64_t id);

/* Frees the table, which is empty then, but not the objects. Since 1.1. */
void kit_table_free(struct kit_table *table);

/* ------------------------------------------------------------------------------------------------
 * Keys and digests
 */

/* 128 bits of getrandom that authorize access to memory or to a peer. */
struct kit_key {
    uint64_t word[2]; /* the first word is never 0, so that 0 can mean no key */
};

/* A stock of keys: a call of getrandom costs as much as a registration of memory. */
#define KIT_KEYS 16u
struct kit_keys {
    struct kit_key keys[KIT_KEYS];
    uint32_t left;
};

/*
 * Draws a random key. Since 1.1.
 *
 * NA_PLUGIN_SUCCESS, or NA_PLUGIN_IO_ERROR with errno if getrandom fails: the key must not be used.
 */
int32_t kit_key_draw(struct kit_key *key);

/*
 * Takes a key from a stock, which is refilled when it is empty; returns as kit_key_draw(). A
 * zero-filled stock is empty.
 */
int32_t kit_key_take(struct kit_keys *keys, struct kit_key *key);

/* True if the two keys are equal; takes constant time. */
static inline bool kit_key_is_equal(const struct kit_key *a, const struct kit_key *b)
{
    return ((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1])) == 0;
}

/* Initial value for kit_digest_add(). */
#define KIT_DIGEST_NONE UINT64_C(0xcbf29ce484222325)

/* Adds bytes to a digest (FNV-1a), which is not cryptographic. */
static inline uint64_t kit_digest_add(uint64_t digest, const void *data, uint64_t size)
{
    const uint8_t *bytes = (const uint8_t *) data;

    for (uint64_t i = 0; i < size; i++)
        digest = (digest ^ bytes[i]) * UINT64_C(0x100000001b3);
    return digest;
}

/* Returns the digest of the bytes, not 0, with a well mixed low half. */
static inline uint64_t kit_digest(const void *data, uint64_t size)
{
    uint64_t digest = kit_digest_add(KIT_DIGEST_NONE, data, size);

    digest ^= digest >> 32;
    return digest != 0 ? digest : 1;
}

/* ------------------------------------------------------------------------------------------------
 * Locks. A waiting thread spins for a moment, and then sleeps; locks are not fair.
 */

/*
 * A zero-filled lock is free. Its members are accessed by the compiler's atomic builtins, which C++
 * has, too.
 */
struct kit_lock {
    uint32_t held;
    uint32_t sleepers;
    uint32_t waiters; /* threads that spin or sleep */
    bool is_elided;   /* set before the first use if only one thread at a time calls: no locking */
};

/* The slow paths of kit_lock_take() and kit_lock_drop(). */
void kit_lock_wait(struct kit_lock *lock);
void kit_lock_wake(struct kit_lock *lock);

/* Hint to the processor in a spin loop. */
static inline void kit_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Returns false if another thread has the lock. */
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

/* Releases the lock, and wakes a sleeping thread. Does not block. */
static inline void kit_lock_drop(struct kit_lock *lock)
{
    if (lock->is_elided)
        return;
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
    if (kit_unlikely(__atomic_load_n(&lock->sleepers, __ATOMIC_RELAXED) != 0))
        kit_lock_wake(lock);
}

/* True if a thread waits for the lock, so that a polling thread may leave the lock to it. */
static inline bool kit_lock_is_wanted(const struct kit_lock *lock)
{
    return __atomic_load_n(&lock->waiters, __ATOMIC_RELAXED) != 0;
}

/* ------------------------------------------------------------------------------------------------
 * Processes of this node, from /proc
 */

/*
 * Reads the start time of a process, in ticks since boot, and whether all of its threads have
 * ended. False: that cannot be read. Since 1.1.
 */
bool kit_process_read(uint32_t pid, uint64_t *start_p, bool *is_over_p);

/*
 * Returns a number of this process's namespace of that kind ("pid", "time"), equal for processes in
 * the same namespace, or 0 if it cannot be read. Since 1.1.
 */
uint64_t kit_process_namespace(const char *kind);

/*
 * Returns a number that distinguishes this process from later ones with the same process id: its
 * start time (low 48 bits) and a number of its time namespace (high 16 bits); 0 if that cannot be
 * read. The format is fixed, so that peers of other releases may use it. Since 1.1.
 */
uint64_t kit_process_identity(void);

/*
 * True if all threads of the process with this id and identity have ended, even if it is a zombie,
 * or its id was reused. False when in doubt; an identity of 0 means not known. The id is of this
 * process's PID namespace. Since 1.1.
 */
bool kit_process_is_dead(uint32_t pid, uint64_t identity);

/* Returns a number of this node, equal until it reboots; 0 if it cannot be read. Since 1.1. */
uint64_t kit_process_node(void);

/*
 * Ignores SIGPIPE unless the program handles it, for a library that may write to a socket which the
 * peer has closed. Since 1.1.
 */
void kit_process_ignore_sigpipe(void);

/* ------------------------------------------------------------------------------------------------
 * Cross-memory attach: the system copies between the memory of two processes of a node, if it
 * permits one of them to access the other, which takes no part.
 */

/* Returns an iovec for `size` bytes at an address of another process. */
static inline struct iovec kit_iovec(uint64_t address, uint64_t size)
{
    struct iovec vector;

    vector.iov_base = (void *) (uintptr_t) address;
    vector.iov_len = (size_t) size;
    return vector;
}

/*
 * Copy from or to the process `pid`. Each side is an array of at most 1024 segments. *moved_p is
 * the number of bytes copied, which is less than requested if a later segment is not mapped. May
 * block for as long as the copy takes. Since 1.1.
 *
 * NA_PLUGIN_SUCCESS: at least one byte was copied. NA_PLUGIN_OPNOTSUPPORTED: the system does not
 * permit access to the process; NA_PLUGIN_HOSTUNREACH: there is no such process; NA_PLUGIN_NOMEM;
 * NA_PLUGIN_FAULT: the first byte is not mapped. errno is the system's.
 */
int32_t kit_attach_read(uint32_t pid, const struct iovec *local, uint32_t local_count,
                        const struct iovec *remote, uint32_t remote_count, uint64_t *moved_p);
int32_t kit_attach_write(uint32_t pid, const struct iovec *local, uint32_t local_count,
                         const struct iovec *remote, uint32_t remote_count, uint64_t *moved_p);

/*
 * True if the system permits access to the other process. The address need not be mapped there.
 * Since 1.1.
 */
bool kit_attach_is_allowed(uint32_t pid, uint64_t address);

/* ------------------------------------------------------------------------------------------------
 * Locations, text that says where to listen or connect: host names, IPv4, IPv6 with a scope,
 * interfaces, ports; and the socket addresses that they resolve to
 */

/* Size of the buffer `reason` of the functions below, NUL included. */
#define KIT_LOCATION_REASON_MAX 256

/* A parsed location. */
struct kit_location {
    char host[256];    /* name, address without brackets, or interface; empty: none */
    uint16_t port;     /* in host byte order */
    uint16_t has_port; /* 0: none */
};

/*
 * Parses "", "host", "host:port", ":port", "[v6]", "[v6%scope]:port". Since 1.1.
 *
 * NA_PLUGIN_SUCCESS, or NA_PLUGIN_INVALID_ARG with a reason if the text is malformed: a port above
 * 65535, letters in a port, unbalanced brackets, a host too long.
 */
int32_t kit_location_parse(const char *text, struct kit_location *location, char *reason);

/*
 * Returns the address to bind: of the given interface, address or name, else of an interface in
 * `ip_subnet` ("10.1.0.0/16", NULL: none), else of the first interface that is up and not loopback,
 * else loopback. `addr_format` is NA_PLUGIN_ADDR_*. May block while a name is resolved. Since 1.1.
 *
 * NA_PLUGIN_SUCCESS, or NA_PLUGIN_NODEV or NA_PLUGIN_ADDRNOTAVAIL with a reason if this machine has
 * no such address.
 */
int32_t kit_location_resolve_local(const struct kit_location *location, const char *ip_subnet,
                                   uint32_t addr_format, struct sockaddr_storage *address,
                                   char *reason);

/*
 * Returns the address to connect to; the location needs a host and a port. May block while a name
 * is resolved. Since 1.1.
 *
 * NA_PLUGIN_SUCCESS, or with a reason NA_PLUGIN_INVALID_ARG without a host or port, or
 * NA_PLUGIN_NOENTRY if there is no such name.
 */
int32_t kit_location_resolve_peer(const struct kit_location *location, uint32_t addr_format,
                                  struct sockaddr_storage *address, char *reason);

/*
 * The same for names that kit_location_format() wrote, here or at a peer: a host that is not a
 * numeric address is refused (NA_PLUGIN_NOENTRY) and not resolved, because that may block. Does not
 * block. Since 1.1.
 */
int32_t kit_location_resolve_formatted(const struct kit_location *location, uint32_t addr_format,
                                       struct sockaddr_storage *address, char *reason);

/* Writes "1.2.3.4:5" or "[v6%scope]:5"; size, in bytes, is at least 128. Since 1.1. */
void kit_location_format(const struct sockaddr_storage *address, char *text, size_t size);

/* Returns the length of the address for bind() and connect(). Since 1.1. */
socklen_t kit_location_length(const struct sockaddr_storage *address);

#ifdef __cplusplus
}
#endif

#endif /* KIT_BASE_H */
