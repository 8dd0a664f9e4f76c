/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing an endpoint, and the names of endpoints. */

#include "template.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

static int32_t name_choose(struct na_plugin_class *na_class, const char *wanted);
static int32_t option_read(struct na_plugin_class *na_class, const struct na_plugin_init *init);

/*
 * Opens the fabric first, because the kit may send and receive as soon as it is open. After a
 * failure the core calls template_finalize(), which frees what was made before it.
 */
int32_t template_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                            struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    struct na_plugin_class *na_class = kit_host->mem_alloc(sizeof(*na_class), 0);
    const struct kit_rma_config rma = {.ops = &template_rma_ops, .plugin = TEMPLATE_NAME};
    struct kit_endpoint_config config = {
        .ops = &template_ops,
        .plugin = TEMPLATE_NAME,
        .protocol = TEMPLATE_PROTOCOL,
        .init = init,
    };
    int32_t status;

    (void) host_class;
    if (na_class == NULL)
        return NA_PLUGIN_NOMEM;
    *class_p = na_class;
    na_class->socket = -1;
    status = name_choose(na_class, init->address);
    if (status == NA_PLUGIN_SUCCESS)
        status = option_read(na_class, init);
    if (status == NA_PLUGIN_SUCCESS)
        status = template_socket_open(na_class);
    if (status == NA_PLUGIN_SUCCESS)
        status = kit_remote_open(&na_class->base, &rma);
    config.name = na_class->name;
    if (status == NA_PLUGIN_SUCCESS)
        status = kit_endpoint_open(&na_class->base, &config, info);
    if (status == NA_PLUGIN_SUCCESS)
        info->capabilities |= NA_PLUGIN_CAP_RMA;
    return status;
}

/* Puts and gets refer to peers, so they are closed before the endpoint closes its peers. */
int32_t template_finalize(struct na_plugin_class *na_class)
{
    template_socket_close(na_class);
    kit_remote_close(&na_class->base);
    kit_endpoint_close(&na_class->base);
    kit_host->mem_free(na_class);
    return NA_PLUGIN_SUCCESS;
}

/* A lookup does not contact the peer: if no peer has the name, the first operation fails. */
int32_t template_addr_lookup(struct na_plugin_class *na_class, const char *string,
                             struct na_plugin_addr **addr_p)
{
    const char *name = kit_address_name(string, TEMPLATE_NAME, TEMPLATE_PROTOCOL);

    if (name == NULL || !template_name_is_valid(name)) {
        TEMPLATE_LOG(NA_PLUGIN_LOG_ERROR, "'%.100s' is no address of the form %s+%s://name", string,
                     TEMPLATE_NAME, TEMPLATE_PROTOCOL);
        return NA_PLUGIN_INVALID_ARG;
    }
    return kit_msg_peer_lookup(&na_class->base, name, NULL, 0, addr_p);
}

/* Names are checked because a peer may send any name. */
bool template_name_is_valid(const char *name)
{
    const size_t length = strlen(name);

    return length != 0 && length <= TEMPLATE_NAME_MAX && strspn(name, NAME_CHARACTERS) == length;
}

/* The name is what follows "://" in the init string, or else the pid and a random number. */
static int32_t name_choose(struct na_plugin_class *na_class, const char *wanted)
{
    struct kit_key key;

    if (wanted == NULL || wanted[0] == '\0') {
        if (kit_key_draw(&key) != NA_PLUGIN_SUCCESS) {
            TEMPLATE_LOG(NA_PLUGIN_LOG_ERROR, "the system has no random numbers for a name");
            return NA_PLUGIN_IO_ERROR;
        }
        (void) snprintf(na_class->name, sizeof(na_class->name), "%ld-%016llx", (long) getpid(),
                        (unsigned long long) key.word[1]);
        return NA_PLUGIN_SUCCESS;
    }
    if (!template_name_is_valid(wanted)) {
        TEMPLATE_LOG(NA_PLUGIN_LOG_ERROR,
                     "'%.100s' cannot name an endpoint: 1 to %u letters, digits, '.', '_' or '-'",
                     wanted, TEMPLATE_NAME_MAX);
        return NA_PLUGIN_INVALID_ARG;
    }
    (void) snprintf(na_class->name, sizeof(na_class->name), "%s", wanted);
    return NA_PLUGIN_SUCCESS;
}

/* With "?attach=no" behind the address, puts and gets of any size are sent inline. */
static int32_t option_read(struct na_plugin_class *na_class, const struct na_plugin_init *init)
{
    char value[8] = "yes";
    const int32_t status = kit_option_get(init, "attach", value, sizeof(value));

    na_class->may_attach = strcmp(value, "yes") == 0;
    if (status == NA_PLUGIN_NOENTRY ||
        (status == NA_PLUGIN_SUCCESS && (na_class->may_attach || strcmp(value, "no") == 0)))
        return NA_PLUGIN_SUCCESS;
    TEMPLATE_LOG(NA_PLUGIN_LOG_ERROR, "the option attach is '%s': it is yes or no",
                 status == NA_PLUGIN_SUCCESS ? value : "too long");
    return NA_PLUGIN_INVALID_ARG;
}
