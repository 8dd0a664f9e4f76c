/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing an endpoint (a class). */

#include "ucx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int32_t class_configure(struct na_plugin_class *na_class, const struct na_plugin_init *init,
                               char tls[UCX_TLS_MAX]);
static int32_t class_choose_rma(struct na_plugin_class *na_class, const char *tls,
                                const struct na_plugin_init *init);
static int32_t class_open(struct na_plugin_class *na_class, const struct na_plugin_init *init,
                          const char *tls, struct na_plugin_class_info *info);

int32_t ucx_class_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                             struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    struct na_plugin_class *na_class;
    char tls[UCX_TLS_MAX];
    int32_t ret;

    (void) host_class;
    ret = ucx_fork_enter();
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    na_class = kit_host->mem_alloc(sizeof(*na_class), 64);
    if (na_class == NULL) {
        ucx_fork_leave();
        return NA_PLUGIN_NOMEM;
    }
    na_class->listen_fd = na_class->epoll_fd = na_class->process_fd = -1;
    na_class->unclosed_fd = -1;
    for (uint32_t i = 0; i < UCX_SPARES; i++)
        na_class->spares[i] = -1;
    kit_list_init(&na_class->regions.all);
    kit_list_init(&na_class->links);
    kit_list_init(&na_class->scheduled);
    kit_list_init(&na_class->unidentified);
    kit_list_init(&na_class->closing);
    kit_list_init(&na_class->workers);
    kit_list_init(&na_class->free_blocks);
    kit_list_init(&na_class->reads);
    ret = class_configure(na_class, init, tls);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = class_open(na_class, init, tls, info);
    if (ret != NA_PLUGIN_SUCCESS) {
        (void) ucx_class_finalize(na_class);
        return ret;
    }
    *class_p = na_class;
    return NA_PLUGIN_SUCCESS;
}

/* UCX is closed first: then nothing refers to frames and requests of the message layer. */
int32_t ucx_class_finalize(struct na_plugin_class *na_class)
{
    if (na_class == NULL)
        return NA_PLUGIN_SUCCESS;
    if (na_class->listen_fd >= 0)
        (void) close(na_class->listen_fd);
    if (na_class->process_fd >= 0)
        (void) close(na_class->process_fd);
    (void) ucx_process_close_again(na_class);
    while (!kit_list_empty(&na_class->unidentified))
        ucx_channel_close(kit_container(na_class->unidentified.next, struct ucx_channel, node));
    ucx_channels_reclaim(na_class);
    ucx_spares_close(na_class);
    ucx_worker_close(na_class);
    kit_endpoint_close(&na_class->fabric);
    if (na_class->epoll_fd >= 0)
        (void) close(na_class->epoll_fd);
    ucx_blocks_free(na_class);
    ucx_registry_close(na_class);
    kit_regions_close(&na_class->regions);
    kit_table_free(&na_class->links_by_id);
    kit_auth_secret_close(na_class->secret);
    kit_auth_secret_close(na_class->secret_also);
    kit_host->mem_free(na_class->protocol);
    kit_host->mem_free(na_class);
    ucx_fork_leave();
    return NA_PLUGIN_SUCCESS;
}

static int32_t class_configure(struct na_plugin_class *na_class, const struct na_plugin_init *init,
                               char tls[UCX_TLS_MAX])
{
    char missing[UCX_TLS_MAX], offered[UCX_OFFERED_MAX];
    size_t size = strlen(init->protocol) + 1;
    int32_t ret;

    ucx_resources_text(offered);
    if (!ucx_protocol_to_tls(init->protocol, tls)) {
        UCX_LOG_ERROR("'%.80s' is not a transport of UCX, nor several joined by '+'; UCX offers "
                      "%s here",
                      init->protocol, offered);
        return NA_PLUGIN_PROTONOSUPPORT;
    }
    if (ucx_protocol_missing(tls, missing, sizeof(missing))) {
        UCX_LOG_ERROR("there is no '%s' on this machine; UCX offers %s here", missing, offered);
        return NA_PLUGIN_NODEV;
    }
    if (kit_regions_open(&na_class->regions) != NA_PLUGIN_SUCCESS) {
        UCX_LOG_ERROR("no random numbers (%s)", strerror(errno));
        return NA_PLUGIN_IO_ERROR;
    }
    na_class->incarnation = na_class->regions.owner;
    ret = ucx_auth_setup(na_class, init);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    na_class->is_busy = (init->progress_mode & NA_PLUGIN_PROGRESS_BUSY) != 0;
    na_class->protocol = kit_host->mem_alloc(size, 0);
    if (na_class->protocol == NULL)
        return NA_PLUGIN_NOMEM;
    memcpy(na_class->protocol, init->protocol, size);
    return class_choose_rma(na_class, tls, init);
}

static int32_t class_choose_rma(struct na_plugin_class *na_class, const char *tls,
                                const struct na_plugin_init *init)
{
    static const char *const names[] = {"auto", "copy", "ucp", "messages"};
    const char *choice = getenv("AMALGAM_UCX_RMA");
    const bool is_granted = kit_init_mem_per_session(init); /* peers use the engine alone */
    bool has_others;

    for (uint32_t i = 0; choice != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(choice, names[i]) == 0) {
            na_class->rma_choice = (enum ucx_rma_choice) i;
            choice = NULL;
        }
    }
    if (choice != NULL) {
        UCX_LOG_ERROR("AMALGAM_UCX_RMA is '%.40s'; auto, copy, ucp and messages are known", choice);
        return NA_PLUGIN_INVALID_ARG;
    }
    ucx_resources_find(tls, &na_class->has_hardware, &has_others);
    na_class->wants_keys = (na_class->has_hardware && na_class->rma_choice != UCX_RMA_MESSAGES) ||
                           na_class->rma_choice == UCX_RMA_UCP;
    if (kit_init_encrypts(init)) /* all data are sent in records, which are encrypted */
        na_class->rma_choice = UCX_RMA_MESSAGES;
    if (kit_init_encrypts(init) || is_granted)
        na_class->wants_keys = false;
    na_class->is_native = na_class->wants_keys && na_class->has_hardware && !has_others;
    na_class->may_attach = ucx_protocol_has(tls, "cma") && (na_class->rma_choice == UCX_RMA_AUTO ||
                                                            na_class->rma_choice == UCX_RMA_COPY);
    if (na_class->may_attach && na_class->rma_choice == UCX_RMA_AUTO && !is_granted)
        ucx_registry_open(na_class);
    return NA_PLUGIN_SUCCESS;
}

static int32_t class_open(struct na_plugin_class *na_class, const struct na_plugin_init *init,
                          const char *tls, struct na_plugin_class_info *info)
{
    struct kit_endpoint_config config = {
        .ops = &ucx_ops,
        .plugin = UCX_PLUGIN_NAME,
        .protocol = na_class->protocol,
        .name = na_class->name,
        .init = init,
    };
    char devices[UCX_DEVICES_MAX];
    int32_t ret;

    ret = ucx_name_listen(na_class, init, devices, sizeof(devices));
    if (strcmp(tls, "tcp") != 0)
        devices[0] = '\0';
    else if (devices[0] == '\0' && !na_class->wants_keys) /* a remote key is of one context */
        ucx_devices_choose(devices, na_class->loopback);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = ucx_rma_open(na_class);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = ucx_worker_open(na_class, init, tls, devices);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = kit_endpoint_open(&na_class->fabric, &config, info);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    info->capabilities |= NA_PLUGIN_CAP_RMA | (na_class->is_native ? NA_PLUGIN_CAP_RMA_NATIVE : 0);
    if (na_class->secret == NULL && !na_class->worker->is_readable)
        UCX_LOG_WARNING("what peers say of their workers cannot be checked with this UCX: set a "
                        "key (auth_key), or let only those reach us who are trusted");
    UCX_LOG_INFO("%s: UCX_TLS %s%s%s, a worker's address of %zu bytes", na_class->name, tls,
                 devices[0] != '\0' ? ", interface " : "", devices, na_class->worker->address_size);
    return NA_PLUGIN_SUCCESS;
}
