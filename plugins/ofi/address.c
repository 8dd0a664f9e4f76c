/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of endpoints, and the address vector. The canonical name of an endpoint (host:port, a
 * string, or hexadecimal digits) has all of its raw address, so only names are sent to peers.
 */

#include "ofi.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Injected frames before a fence; each has some hundred bytes, far below a socket's buffer. */
#define OFI_INJECTED_MAX 16u
/* Requests in progress to a peer; so many of the largest frames fill half of a socket's buffer. */
#define OFI_UNACKNOWLEDGED_MAX 4u

static const char *ofi_addr_endpoint(const struct na_plugin_class *na_class, const char *string);
static int32_t ofi_address_resolve(const struct na_plugin_class *na_class, const char *name,
                                   bool is_canonical, void *raw, size_t *size, char *reason);
static int32_t ofi_address_resolve_socket(const struct na_plugin_class *na_class, const char *name,
                                          bool is_canonical, void *raw, size_t *size, char *reason);
static int32_t ofi_address_resolve_hex(const struct na_plugin_class *na_class, const char *name,
                                       uint8_t *raw, size_t *size, char *reason);
static int ofi_hex_digit(char digit);
static bool ofi_address_fence_send(struct na_plugin_class *na_class, struct ofi_address *address);
static int32_t ofi_address_insert(struct na_plugin_class *na_class, struct ofi_address *address,
                                  const char *name, const void *raw);
static int32_t ofi_address_check_file(const struct na_plugin_class *na_class, const char *name);
static void ofi_address_remove(struct na_plugin_class *na_class, struct ofi_address *address);

int32_t ofi_addr_lookup(struct na_plugin_class *na_class, const char *string,
                        struct na_plugin_addr **addr_p)
{
    const char *text = ofi_addr_endpoint(na_class, string);
    char reason[KIT_LOCATION_REASON_MAX] = "", name[KIT_NAME_MAX];
    uint8_t raw[KIT_RAW_MAX];
    size_t size = sizeof(raw);
    int32_t ret;

    if (text == NULL) {
        OFI_LOG_ERROR("'%.100s' is not an address of " OFI_PLUGIN_NAME "+%s://", string,
                      na_class->protocol_name);
        return NA_PLUGIN_INVALID_ARG;
    }
    ret = ofi_address_resolve(na_class, text, false, raw, &size, reason);
    if (ret != NA_PLUGIN_SUCCESS) {
        OFI_LOG_ERROR("'%.100s' is not an address: %s", string, reason);
        return ret;
    }
    ret = ofi_address_name(na_class, raw, size, name);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    return kit_msg_peer_lookup(&na_class->base, name, NULL, 0, addr_p);
}

/* Writes the canonical name of a raw address to `name`, which has KIT_NAME_MAX bytes. */
int32_t ofi_address_name(const struct na_plugin_class *na_class, const void *raw, size_t size,
                         char *name)
{
    struct sockaddr_storage address = {0};
    const uint8_t *bytes = raw;
    const char *string = raw, *prefix;

    switch (na_class->protocol.naming) {
    case OFI_NAMING_SOCKET:
        if (size > sizeof(address))
            break;
        memcpy(&address, raw, size);
        if (kit_location_length(&address) == 0 || kit_location_length(&address) > size)
            break;
        kit_location_format(&address, name, KIT_NAME_MAX);
        return NA_PLUGIN_SUCCESS;
    case OFI_NAMING_STRING:
        if (size == 0 || memchr(raw, '\0', size) == NULL)
            break;
        prefix = strstr(string, "://");
        if (prefix != NULL)
            string = prefix + 3;
        if (strlen(string) >= KIT_NAME_MAX)
            break;
        memcpy(name, string, strlen(string) + 1);
        return NA_PLUGIN_SUCCESS;
    case OFI_NAMING_RAW:
        if (size == 0 || size >= KIT_NAME_MAX / 2)
            break;
        for (size_t i = 0; i < size; i++)
            (void) snprintf(name + 2 * i, 3, "%02x", bytes[i]);
        return NA_PLUGIN_SUCCESS;
    }
    OFI_LOG_ERROR("an address of %zu bytes from provider '%s' is not understood", size,
                  na_class->info->fabric_attr->prov_name);
    return NA_PLUGIN_PROTOCOL_ERROR;
}

int32_t ofi_peer_open(struct kit_endpoint *endpoint, struct kit_peer *peer)
{
    struct na_plugin_class *na_class = (struct na_plugin_class *) endpoint;
    struct ofi_peer *priv = peer->priv;
    char reason[KIT_LOCATION_REASON_MAX] = "";
    struct ofi_address *address;
    uint8_t raw[KIT_RAW_MAX];
    size_t size = sizeof(raw);
    int32_t ret;

    if (!priv->probing) {
        priv->probe_fd = -1;
    }
    ret = ofi_address_resolve(na_class, peer->name, true, raw, &size, reason);
    if (ret != NA_PLUGIN_SUCCESS) {
        OFI_LOG_ERROR("peer '%.100s' cannot be reached: %s", peer->name, reason);
        return ret;
    }
    address = kit_host->mem_alloc(sizeof(*address), 0);
    if (address == NULL)
        return NA_PLUGIN_NOMEM;
    ret = ofi_address_insert(na_class, address, peer->name, raw);
    if (ret != NA_PLUGIN_SUCCESS) {
        kit_host->mem_free(address);
        return ret == NA_PLUGIN_AGAIN ? ofi_probe_stalled(na_class, peer) : ret;
    }
    address->local = ofi_local_get(na_class, peer->name);
    kit_list_prepend(&na_class->addresses, &address->node);
    priv->address = address;
    priv->stalled_since = 0;
    priv->connecting_since = 0;
    priv->blocked_since = 0;
    priv->retry_at = 0;
    priv->is_connected = false;
    priv->is_unattachable = false;
    return NA_PLUGIN_SUCCESS;
}

void ofi_peer_close(struct kit_endpoint *endpoint, struct kit_peer *peer)
{
    struct na_plugin_class *na_class = (struct na_plugin_class *) endpoint;
    struct ofi_peer *priv = peer->priv;
    struct ofi_address *address = priv->address;

    if (address == NULL)
        return;
    ofi_probe_end(peer);
    priv->address = NULL;
    if (na_class->base.rma != NULL)
        kit_rma_peer_failed(na_class->base.rma, peer, NA_PLUGIN_HOSTUNREACH);
    /* Removing the address closes the connection: a fence makes injected frames arrive before. */
    if (address->injected != 0 && (na_class->protocol.is_fenced || na_class->protocol.cm_port))
        (void) ofi_address_fence_send(na_class, address);
    address->closing = true;
    if (address->requests == 0)
        ofi_address_remove(na_class, address);
}

/*
 * False if nothing may be sent to the peer for now: it has as many requests as are allowed, or a
 * fence behind the injected frames has not completed. Posts that fence if it is due.
 */
bool ofi_address_fence(struct na_plugin_class *na_class, struct ofi_address *address)
{
    if (address->requests >= OFI_UNACKNOWLEDGED_MAX)
        return false;
    if (address->injected < OFI_INJECTED_MAX)
        return true;
    return !address->is_fencing && ofi_address_fence_send(na_class, address);
}

bool ofi_address_is_fencing(const struct na_plugin_class *na_class)
{
    const struct kit_link *node = na_class->addresses.next;

    while (node != &na_class->addresses &&
           !kit_container(node, const struct ofi_address, node)->is_fencing)
        node = node->next;
    return node != &na_class->addresses;
}

void ofi_address_fenced(struct na_plugin_class *na_class, struct ofi_request *request)
{
    struct ofi_address *address =
        (struct ofi_address *) (void *) ((uint8_t *) request - offsetof(struct ofi_address, fence));

    address->is_fencing = false;
    ofi_address_drop_request(na_class, address);
}

/* A request to the address completed. */
void ofi_address_drop_request(struct na_plugin_class *na_class, struct ofi_address *address)
{
    address->requests--;
    if (address->requests == 0 && address->closing)
        ofi_address_remove(na_class, address);
}

void ofi_address_destroy_all(struct na_plugin_class *na_class)
{
    while (!kit_list_empty(&na_class->addresses))
        ofi_address_remove(na_class,
                           kit_container(na_class->addresses.next, struct ofi_address, node));
}

bool ofi_string_name_check(const char *name)
{
    size_t length = strnlen(name, OFI_STRING_NAME_MAX + 1);

    if (length == 0 || length > OFI_STRING_NAME_MAX || name[0] == '.')
        return false;
    for (size_t i = 0; i < length; i++)
        if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
              (name[i] >= '0' && name[i] <= '9') || strchr("-_.:", name[i]) != NULL))
            return false;
    return true;
}

/*
 * Returns the part of an address string behind "://", or all of it if there is none. NULL if the
 * protocol in front is not of this provider, which may have several names, with and without its
 * utility providers.
 */
static const char *ofi_addr_endpoint(const struct na_plugin_class *na_class, const char *string)
{
    const char *separator = strstr(string, "://");
    const char *start = string;
    char protocol_name[64];
    struct ofi_protocol protocol;
    size_t length;

    if (separator == NULL)
        return string;
    if (strncmp(start, OFI_PLUGIN_NAME "+", sizeof(OFI_PLUGIN_NAME)) == 0)
        start += sizeof(OFI_PLUGIN_NAME);
    length = (size_t) (separator - start);
    if (length >= sizeof(protocol_name))
        return NULL;
    memcpy(protocol_name, start, length);
    protocol_name[length] = '\0';
    if (strcmp(protocol_name, na_class->protocol_name) == 0)
        return separator + 3;
    if (!ofi_protocol_find(protocol_name, &protocol) ||
        !ofi_protocol_has_provider(&protocol, na_class->info->fabric_attr->prov_name))
        return NULL;
    return separator + 3;
}

/* `*size` is the capacity of `raw` on entry, and the size of the address on return. */
static int32_t ofi_address_resolve(const struct na_plugin_class *na_class, const char *name,
                                   bool is_canonical, void *raw, size_t *size, char *reason)
{
    int written;

    switch (na_class->protocol.naming) {
    case OFI_NAMING_SOCKET:
        return ofi_address_resolve_socket(na_class, name, is_canonical, raw, size, reason);
    case OFI_NAMING_STRING:
        if (!ofi_string_name_check(name)) {
            (void) snprintf(reason, KIT_LOCATION_REASON_MAX,
                            "a name has 1 to %d letters, digits, '-', '_', '.', ':'",
                            OFI_STRING_NAME_MAX);
            return NA_PLUGIN_INVALID_ARG;
        }
        written = snprintf(raw, *size, OFI_STRING_PREFIX "%s", name);
        *size = (size_t) written + 1;
        return NA_PLUGIN_SUCCESS;
    default:
        return ofi_address_resolve_hex(na_class, name, raw, size, reason);
    }
}

static int32_t ofi_address_resolve_socket(const struct na_plugin_class *na_class, const char *name,
                                          bool is_canonical, void *raw, size_t *size, char *reason)
{
    uint32_t format =
        na_class->info->addr_format == FI_SOCKADDR_IN6 ? NA_PLUGIN_ADDR_IPV6 : NA_PLUGIN_ADDR_IPV4;
    const char *slash = strrchr(name, '/');
    struct sockaddr_storage address;
    struct kit_location location;
    int32_t ret;

    /* A program may pass on the listener's own "domain/host:port"; the domain is local to it. */
    ret = kit_location_parse(slash != NULL ? slash + 1 : name, &location, reason);
    /* A canonical name may be from a peer's HELLO, which must not cause a query to a DNS server. */
    if (ret == NA_PLUGIN_SUCCESS)
        ret = is_canonical ? kit_location_resolve_formatted(&location, format, &address, reason)
                           : kit_location_resolve_peer(&location, format, &address, reason);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    *size = kit_location_length(&address);
    memcpy(raw, &address, *size);
    return NA_PLUGIN_SUCCESS;
}

/* fi_av_insert() takes no size, so the name must have exactly as many bytes as our address. */
static int32_t ofi_address_resolve_hex(const struct na_plugin_class *na_class, const char *name,
                                       uint8_t *raw, size_t *size, char *reason)
{
    size_t length = strlen(name);

    if (length != strlen(na_class->name)) {
        (void) snprintf(reason, KIT_LOCATION_REASON_MAX,
                        "it has %zu hexadecimal digits, and our own has %zu", length,
                        strlen(na_class->name));
        return NA_PLUGIN_INVALID_ARG;
    }
    for (size_t i = 0; i < length; i++) {
        if (ofi_hex_digit(name[i]) < 0) {
            length = 0;
            break;
        }
    }
    if (length == 0 || length % 2 != 0 || length / 2 > *size) {
        (void) snprintf(reason, KIT_LOCATION_REASON_MAX,
                        "it is not an even number of hexadecimal digits");
        return NA_PLUGIN_INVALID_ARG;
    }
    for (size_t i = 0; i < length / 2; i++)
        raw[i] = (uint8_t) (ofi_hex_digit(name[2 * i]) << 4 | ofi_hex_digit(name[2 * i + 1]));
    *size = length / 2;
    return NA_PLUGIN_SUCCESS;
}

static int ofi_hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* A fence is a message of one byte, which no frame has; its send completes when it has arrived. */
static bool ofi_address_fence_send(struct na_plugin_class *na_class, struct ofi_address *address)
{
    static const uint8_t byte;

    if (address->is_fencing || na_class->endpoint == NULL)
        return false;
    address->fence.kind = OFI_REQUEST_FENCE;
    if (fi_send(na_class->endpoint, &byte, sizeof(byte), NULL, address->fi_addr,
                &address->fence.context) != 0)
        return false;
    address->is_fencing = true;
    address->injected = 0;
    address->requests++;
    return true;
}

static int32_t ofi_address_insert(struct na_plugin_class *na_class, struct ofi_address *address,
                                  const char *name, const void *raw)
{
    int32_t ret = ofi_address_check_file(na_class, name);
    int count;

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    count = fi_av_insert(na_class->av, raw, 1, &address->fi_addr, 0, NULL);
    if (count != 1) {
        OFI_LOG_ERROR("libfabric does not take the address of '%.100s' (%s)", name,
                      count < 0 ? fi_strerror(-count) : "no reason given");
        return count < 0 ? ofi_status(-count) : NA_PLUGIN_HOSTUNREACH;
    }
    /* If the file was removed meanwhile, libfabric took the address, but would crash later. */
    ret = ofi_address_check_file(na_class, name);
    if (ret != NA_PLUGIN_SUCCESS)
        (void) fi_av_remove(na_class->av, &address->fi_addr, 1, 0);
    return ret;
}

/*
 * Checks the shared-memory file of a node-local peer. NA_PLUGIN_AGAIN if there is none yet. It has
 * to belong to this process's user: a process of another user cannot open our file, and libfabric
 * aborts a process that answers an endpoint whose file it cannot open.
 */
static int32_t ofi_address_check_file(const struct na_plugin_class *na_class, const char *name)
{
    unsigned int user;

    if (!na_class->protocol.node_local)
        return NA_PLUGIN_SUCCESS;
    if (!ofi_probe_file(name, &user))
        return NA_PLUGIN_AGAIN;
    if (user == (unsigned int) geteuid())
        return NA_PLUGIN_SUCCESS;
    OFI_LOG_ERROR("'%.100s' is an endpoint of user %u: libfabric's shared memory joins processes "
                  "of one user, which is %u here; use ofi+tcp",
                  name, user, (unsigned int) geteuid());
    return NA_PLUGIN_HOSTUNREACH;
}

/*
 * Removing an address closes its connection. ofi_rxm (1.17) does not check whether there is one,
 * and there is none if connecting could not even begin: such an address stays in the vector.
 */
static void ofi_address_remove(struct na_plugin_class *na_class, struct ofi_address *address)
{
    ofi_data_forget(na_class, address);
    if (!address->is_refused || !na_class->protocol.cm_port)
        (void) fi_av_remove(na_class->av, &address->fi_addr, 1, 0);
    kit_list_take(&address->node);
    ofi_local_put(address->local);
    kit_host->mem_free(address);
}
