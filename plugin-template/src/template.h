/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unix datagrams between the processes of one user on one machine, over the transport kit.
 *
 * plugin.c has the plugin's table, endpoint.c opens and closes endpoints. socket.c is the fabric
 * for messages, memory.c for puts and gets: for another fabric replace these two.
 */

#ifndef TEMPLATE_H
#define TEMPLATE_H

#include <kit_base.h>
#include <kit_msg.h>
#include <kit_remote.h>
#include <sys/un.h>

#define TEMPLATE_NAME            "template" /* of na_template.so; addresses begin with it */
#define TEMPLATE_PROTOCOL        "unix"
#define TEMPLATE_NAME_MAX        64u    /* longest name of an endpoint */
#define TEMPLATE_FRAME           65536u /* largest datagram, in bytes */

#define TEMPLATE_LOG(level, ...) KIT_LOG(level, TEMPLATE_NAME, __VA_ARGS__)

/* The address of a socket. */
struct template_address {
    struct sockaddr_un name;
    socklen_t length;
};

/* The plugin's part of a peer, at kit_peer.priv. */
struct template_peer {
    struct template_address address;
    bool is_attach_refused; /* the system refused cross-memory attach to one of us */
};

/* An endpoint. The core calls it a class. */
struct na_plugin_class {
    struct kit_endpoint base; /* the kit's part, which must be first */
    char name[KIT_NAME_MAX];
    int socket;
    bool may_attach; /* the option attach: larger puts and gets use cross-memory attach */
    uint8_t frame[TEMPLATE_FRAME]; /* the datagram received last */
};

static inline struct na_plugin_class *template_class(struct kit_endpoint *endpoint)
{
    return (struct na_plugin_class *) (void *) endpoint;
}

/* endpoint.c */
int32_t template_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                            struct na_plugin_class **class_p, struct na_plugin_class_info *info);
int32_t template_finalize(struct na_plugin_class *na_class);
int32_t template_addr_lookup(struct na_plugin_class *na_class, const char *string,
                             struct na_plugin_addr **addr_p);
bool template_name_is_valid(const char *name);

/* socket.c */
extern const struct kit_msg_ops template_ops;
int32_t template_socket_open(struct na_plugin_class *na_class);
void template_socket_close(struct na_plugin_class *na_class);

/* memory.c */
extern const struct kit_rma_ops template_rma_ops;

#endif /* TEMPLATE_H */
