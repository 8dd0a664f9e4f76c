/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unix datagrams between the processes of one user on one machine, over the transport kit.
 *
 * plugin.c says what the plugin is, endpoint.c opens and closes, socket.c is the fabric: what it
 * does for messages, and memory.c: what it does for puts and gets. Replace the last two.
 */

#ifndef TEMPLATE_H
#define TEMPLATE_H

#include <kit_base.h>
#include <kit_msg.h>
#include <kit_remote.h>
#include <sys/un.h>

#define TEMPLATE_NAME            "template" /* of na_template.so, and what addresses begin with */
#define TEMPLATE_PROTOCOL        "unix"
#define TEMPLATE_NAME_MAX        64u    /* characters that name an endpoint */
#define TEMPLATE_FRAME           65536u /* bytes of a datagram */

#define TEMPLATE_LOG(level, ...) KIT_LOG(level, TEMPLATE_NAME, __VA_ARGS__)

/* Where a datagram goes to, or comes from. */
struct template_place {
    struct sockaddr_un address;
    socklen_t length;
};

/* The plugin's part of a peer: kit_peer.priv. */
struct template_peer {
    struct template_place place;
    bool is_detached; /* the system does not let one of us touch the memory of the other */
};

/* An endpoint. */
struct na_plugin_class {
    struct kit_endpoint base; /* first: the kit's */
    char name[KIT_NAME_MAX];
    int socket;
    bool may_attach;               /* the target of a put or get may touch its origin's memory */
    uint8_t frame[TEMPLATE_FRAME]; /* that was received last */
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
