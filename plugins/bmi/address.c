/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses: strings, and the peers of the message layer as BMI knows them. */

#include "bmi_na.h"
#include "wire.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static int32_t check_name(const char *name);
static bool is_hello_of(const struct BMI_unexpected_info *info, const char *name);

int32_t bmi_na_addr_lookup(struct na_plugin_class *na_class, const char *string,
                           struct na_plugin_addr **addr_p)
{
    const char *text = kit_address_name(string, BMI_NA_NAME, BMI_NA_PROTOCOL);
    char reason[KIT_LOCATION_REASON_MAX] = "it is not of the form bmi+tcp://host:port";
    char name[KIT_NAME_MAX];
    struct sockaddr_storage place;
    struct kit_location location;
    int32_t ret = NA_PLUGIN_INVALID_ARG;

    if (text != NULL)
        ret = kit_location_parse(text, &location, reason);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = kit_location_resolve_peer(&location, NA_PLUGIN_ADDR_UNSPEC, &place, reason);
    if (ret != NA_PLUGIN_SUCCESS) {
        BMI_NA_LOG_ERROR("'%.100s' is not an address: %s", string, reason);
        return ret;
    }
    kit_location_format(&place, name, sizeof(name));
    return kit_msg_peer_lookup(&na_class->base, name, NULL, 0, addr_p);
}

/* Looks the peer up in BMI, which uses the connection that the peer made to us, if there is one. */
int32_t bmi_na_peer_open(struct kit_endpoint *endpoint, struct kit_peer *peer)
{
    struct na_plugin_class *na_class = bmi_na_class(endpoint);
    struct bmi_na_peer *priv = peer->priv;
    char name[BMI_MAX_ADDR_LEN];
    int ret = 0;

    library_use(&na_class->library);
    if (snprintf(name, sizeof(name), BMI_NA_PREFIX "%s", peer->name) >= (int) sizeof(name))
        return NA_PLUGIN_OVERFLOW;
    if (check_name(peer->name) != NA_PLUGIN_SUCCESS)
        return NA_PLUGIN_HOSTUNREACH;
    if (library_answers_source && is_hello_of(na_class->source, peer->name)) {
        priv->address = na_class->source->addr;
    } else {
        ret = BMI_addr_lookup(&priv->address, name);
    }
    if (ret == 0)
        ret = BMI_set_info(priv->address, BMI_INC_ADDR_REF, NULL);
    if (ret != 0) {
        BMI_NA_LOG_DEBUG("BMI does not take the address %s: %s", name, bmi_na_reason(ret));
        return bmi_na_status(ret);
    }
    priv->peer = peer;
    priv->is_open = true;
    kit_list_init(&priv->frames);
    kit_list_append(&na_class->peers, &priv->link);
    return NA_PLUGIN_SUCCESS;
}

/* Cancels the frames to the peer, so that BMI stops using their memory. */
void bmi_na_peer_close(struct kit_endpoint *endpoint, struct kit_peer *peer)
{
    struct na_plugin_class *na_class = bmi_na_class(endpoint);
    struct bmi_na_peer *priv = peer->priv;

    if (!priv->is_open || na_class->is_closing)
        return;
    library_use(&na_class->library);
    while (!kit_list_empty(&priv->frames)) {
        struct request *request = kit_container(priv->frames.next, struct request, link);

        kit_list_remove(&request->link);
        if (request->is_posted)
            (void) BMI_cancel(request->id, na_class->context);
    }
    priv->is_open = false;
    kit_list_remove(&priv->link);
    if (na_class->base.rma != NULL)
        kit_rma_peer_failed(na_class->base.rma, peer, NA_PLUGIN_HOSTUNREACH);
    (void) BMI_set_info(priv->address, BMI_DEC_ADDR_REF, NULL);
}

/* Called when BMI reports that the connection of an address broke. */
void bmi_na_peer_lost(struct na_plugin_class *na_class, BMI_addr_t address, int error)
{
    for (struct kit_link *link = na_class->peers.next; link != &na_class->peers;
         link = link->next) {
        struct bmi_na_peer *priv = kit_container(link, struct bmi_na_peer, link);

        if (priv->address != address)
            continue;
        kit_peer_failed(priv->peer, NA_PLUGIN_HOSTUNREACH, bmi_na_reason(error));
        return;
    }
}

uint16_t bmi_na_port(const struct sockaddr_storage *place)
{
    const void *address = place;

    return ntohs(place->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *) address)->sin6_port
                                              : ((const struct sockaddr_in *) address)->sin_port);
}

void bmi_na_set_port(struct sockaddr_storage *place, uint16_t port)
{
    void *address = place;

    if (place->ss_family == AF_INET6)
        ((struct sockaddr_in6 *) address)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *) address)->sin_port = htons(port);
}

/*
 * A peer chooses the name in its HELLO. BMI would resolve host names with a query to the network,
 * so only numeric addresses are passed to BMI.
 */
static int32_t check_name(const char *name)
{
    char reason[KIT_LOCATION_REASON_MAX];
    struct sockaddr_storage place;
    struct kit_location location;
    int32_t ret = kit_location_parse(name, &location, reason);

    if (ret == NA_PLUGIN_SUCCESS)
        ret = kit_location_resolve_formatted(&location, NA_PLUGIN_ADDR_UNSPEC, &place, reason);
    if (ret != NA_PLUGIN_SUCCESS)
        BMI_NA_LOG_ERROR("peer '%.100s' cannot be reached: %s", name, reason);
    return ret;
}

/* True if the frame begins with the HELLO of a peer of that name. */
static bool is_hello_of(const struct BMI_unexpected_info *info, const char *name)
{
    const size_t offset = sizeof(struct wire_header) + sizeof(struct wire_record);
    struct kit_hello_wire hello;
    struct wire_header header;
    size_t length = strlen(name);

    if (info == NULL || (size_t) info->size < offset + sizeof(hello) + length)
        return false;
    memcpy(&header, info->buffer, sizeof(header));
    memcpy(&hello, (const uint8_t *) info->buffer + offset, sizeof(hello));
    return (header.flags & WIRE_HAS_HELLO) != 0 && le16toh(hello.name_size) == length &&
           memcmp((const uint8_t *) info->buffer + offset + sizeof(hello), name, length) == 0;
}
