/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plugin without a function, built in several variants to test the loader. VARIANT_NAME is its
 * name; the variant is one of VARIANT_MAJOR, VARIANT_MINOR, VARIANT_SIZE, VARIANT_REFUSE,
 * VARIANT_NO_POLL, VARIANT_NO_TABLE, VARIANT_NO_NAME, VARIANT_LONG, VARIANT_ENTRY,
 * VARIANT_PRIORITY, VARIANT_PROTOCOL, VARIANT_OWN_NAME, VARIANT_END, VARIANT_END_LOADED,
 * VARIANT_END_LISTED, VARIANT_DESCRIPTION.
 */

#include "na_plugin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef VARIANT_DESCRIPTION
#    define VARIANT_DESCRIPTION "for tests of the loader"
#endif
#ifndef VARIANT_MAJOR
#    define VARIANT_MAJOR NA_PLUGIN_ABI_MAJOR
#endif
#ifndef VARIANT_MINOR
#    define VARIANT_MINOR NA_PLUGIN_ABI_MINOR
#endif
#ifndef VARIANT_PRIORITY
#    define VARIANT_PRIORITY 5
#endif
#ifndef VARIANT_PROTOCOL
#    define VARIANT_PROTOCOL "wire"
#endif
#ifndef VARIANT_FLAGS
#    define VARIANT_FLAGS NA_PLUGIN_OFFER_USABLE
#endif
#ifndef VARIANT_ENTRY
#    define VARIANT_ENTRY na_plugin_entry_v1
#endif

#ifdef VARIANT_END_LOADED
__attribute__((constructor)) static void end_loaded(void)
{
    VARIANT_END_LOADED;
}
#endif

/* The table of a later minor version has more functions at its end. */
struct long_table {
    struct na_plugin plugin;
    void *later[16];
};

static int32_t enumerate(const char *protocol, na_plugin_offer_fn report, void *arg)
{
    const struct na_plugin_offer offer = {VARIANT_PROTOCOL, NULL, "nothing is plugged in",
                                          VARIANT_PRIORITY, VARIANT_FLAGS};

#ifdef VARIANT_END_LISTED
    VARIANT_END_LISTED;
#endif
    return protocol == NULL || strcmp(protocol, VARIANT_PROTOCOL) == 0 ? report(arg, &offer) : 0;
}

static int32_t initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                          struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    (void) init;
    (void) host_class;
    (void) class_p;
    (void) info;
    return NA_PLUGIN_ADDRNOTAVAIL;
}

static int32_t on_class(struct na_plugin_class *na_class)
{
    (void) na_class;
    return NA_PLUGIN_FAULT;
}

static int32_t context_create(struct na_plugin_class *na_class,
                              struct na_host_context *host_context, uint32_t id,
                              struct na_plugin_context **context_p)
{
    (void) na_class;
    (void) host_context;
    (void) id;
    (void) context_p;
    return NA_PLUGIN_FAULT;
}

static int32_t on_context(struct na_plugin_context *context)
{
    (void) context;
    return NA_PLUGIN_FAULT;
}

static int32_t addr_lookup(struct na_plugin_class *na_class, const char *name,
                           struct na_plugin_addr **addr_p)
{
    (void) na_class;
    (void) name;
    (void) addr_p;
    return NA_PLUGIN_FAULT;
}

static void addr_free(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    (void) na_class;
    (void) addr;
}

static int32_t addr_dup(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                        struct na_plugin_addr **addr_p)
{
    (void) na_class;
    (void) addr;
    (void) addr_p;
    return NA_PLUGIN_FAULT;
}

static int32_t addr_self(struct na_plugin_class *na_class, struct na_plugin_addr **addr_p)
{
    (void) na_class;
    (void) addr_p;
    return NA_PLUGIN_FAULT;
}

static uint32_t addr_is_self(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    (void) na_class;
    (void) addr;
    return 0;
}

static uint32_t addr_compare(struct na_plugin_class *na_class, struct na_plugin_addr *addr1,
                             struct na_plugin_addr *addr2)
{
    (void) na_class;
    return addr1 == addr2;
}

static int32_t addr_to_string(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                              char *buf, uint64_t *size)
{
    (void) na_class;
    (void) addr;
    (void) buf;
    (void) size;
    return NA_PLUGIN_FAULT;
}

static int32_t send_message(struct na_plugin_context *context, void *op, const void *buf,
                            uint64_t size, void *data, struct na_plugin_addr *dest,
                            uint32_t dest_id, uint32_t tag)
{
    (void) context;
    (void) op;
    (void) buf;
    (void) size;
    (void) data;
    (void) dest;
    (void) dest_id;
    (void) tag;
    return NA_PLUGIN_FAULT;
}

static int32_t recv_unexpected(struct na_plugin_context *context, void *op, void *buf,
                               uint64_t size, void *data)
{
    (void) context;
    (void) op;
    (void) buf;
    (void) size;
    (void) data;
    return NA_PLUGIN_FAULT;
}

static int32_t recv_expected(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                             void *data, struct na_plugin_addr *source, uint32_t source_id,
                             uint32_t tag)
{
    return send_message(context, op, buf, size, data, source, source_id, tag);
}

static int32_t poll_context(struct na_plugin_context *context, uint32_t *count)
{
    (void) context;
    (void) count;
    return NA_PLUGIN_FAULT;
}

static int32_t cancel(struct na_plugin_context *context, void *op)
{
    (void) context;
    (void) op;
    return NA_PLUGIN_FAULT;
}

NA_PLUGIN_EXPORT int32_t VARIANT_ENTRY(const struct na_host *host,
                                       const struct na_plugin **plugin_p, const char **reason_p);

int32_t VARIANT_ENTRY(const struct na_host *host, const struct na_plugin **plugin_p,
                      const char **reason_p)
{
#ifdef VARIANT_OWN_NAME
    static const char *const own_names[] = {VARIANT_NAME, "other-name", VARIANT_NAME, NULL};
#endif
    static const struct long_table table = {
        .plugin = {.abi_version = VARIANT_MAJOR << 16 | VARIANT_MINOR,
#if defined(VARIANT_SIZE)
                   .size = VARIANT_SIZE,
#elif defined(VARIANT_LONG)
                   .size = sizeof(struct long_table),
#else
                   .size = sizeof(struct na_plugin),
#endif
#ifndef VARIANT_NO_NAME
                   .name = VARIANT_NAME,
#endif
#ifdef VARIANT_OWN_NAME
                   .class_names = own_names,
#endif
                   .version = "0.1",
                   .description = VARIANT_DESCRIPTION,
                   .enumerate = enumerate,
                   .initialize = initialize,
                   .finalize = on_class,
                   .context_create = context_create,
                   .context_stop = on_context,
                   .context_destroy = on_context,
                   .addr_lookup = addr_lookup,
                   .addr_free = addr_free,
                   .addr_dup = addr_dup,
                   .addr_self = addr_self,
                   .addr_is_self = addr_is_self,
                   .addr_compare = addr_compare,
                   .addr_to_string = addr_to_string,
                   .msg_send_unexpected = send_message,
                   .msg_recv_unexpected = recv_unexpected,
                   .msg_send_expected = send_message,
                   .msg_recv_expected = recv_expected,
#ifndef VARIANT_NO_POLL
                   .poll = poll_context,
#endif
                   .cancel = cancel},
#ifdef VARIANT_LONG
        .later = {(void *) (uintptr_t) 0x1234},
#endif
    };

#ifdef VARIANT_END
    VARIANT_END;
#endif
    (void) host;
    (void) poll_context;
#ifdef VARIANT_REFUSE
    (void) table;
    (void) plugin_p;
    *reason_p = "the fabric is asleep";
    return NA_PLUGIN_NODEV;
#else
    (void) reason_p;
#    ifndef VARIANT_NO_TABLE
    *plugin_p = &table.plugin;
#    endif
    (void) table;
    (void) plugin_p;
    return NA_PLUGIN_SUCCESS;
#endif
}
