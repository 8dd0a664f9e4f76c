/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing a class. */

#include "mpi_class.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int32_t class_open(struct na_plugin_class *na_class, const struct na_plugin_init *init,
                          struct na_plugin_class_info *info);
static int32_t class_check(struct na_plugin_class *na_class, const struct na_plugin_init *init);
static int32_t class_name(struct na_plugin_class *na_class);
static int32_t class_receive(struct na_plugin_class *na_class);
static int32_t class_open_rma(struct na_plugin_class *na_class);

static const struct kit_msg_ops class_ops = {
    .max_frame = MPI_MAX_FRAME,
    .max_sends = 1, /* large ones may be overtaken by small ones */
    .peer_size = sizeof(struct mpi_peer),
    .frame_size = sizeof(void *), /* unused: a size of 0 cannot be allocated */
    .send = mpi_frame_send,
    .poll = mpi_poll,
    .frame_release = mpi_frame_release,
    .peer_open = mpi_peer_open,
    .peer_close = mpi_peer_close,
    .rma_start = kit_remote_start,
    .rma_abandon = kit_remote_abandon,
    .control = kit_remote_control,
};

int32_t mpi_class_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                             struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    struct na_plugin_class *na_class;
    int32_t ret;

    (void) host_class;
    na_class = kit_host->mem_alloc(sizeof(*na_class), 64);
    if (na_class == NULL)
        return NA_PLUGIN_NOMEM;
    kit_list_init(&na_class->node);
    kit_list_init(&na_class->links);
    kit_list_init(&na_class->arrivals);
    kit_list_init(&na_class->posted);
    kit_list_init(&na_class->again);
    kit_list_init(&na_class->sent);
    kit_list_init(&na_class->held);
    kit_list_init(&na_class->free_frames);
    kit_list_init(&na_class->free_pieces);
    ret = class_open(na_class, init, info);
    if (ret != NA_PLUGIN_SUCCESS) {
        (void) mpi_class_finalize(na_class);
        return ret;
    }
    *class_p = na_class;
    return NA_PLUGIN_SUCCESS;
}

/*
 * First no connection can arrive from other threads any more. Then jobs are ended, because MPI may
 * still use frames of the message layer, which closes last.
 */
int32_t mpi_class_finalize(struct na_plugin_class *na_class)
{
    bool is_over = mpi_process_is_over();

    if (na_class == NULL)
        return NA_PLUGIN_SUCCESS;
    mpi_stop(na_class);
    mpi_enter();
    if (is_over) {
        MPI_LOG_ERROR("MPI was finalized before this class was closed");
    } else {
        mpi_link_met(na_class);
        mpi_links_close(na_class);
        mpi_jobs_abandon_all(na_class);
    }
    mpi_leave();
    kit_remote_close(&na_class->fabric);
    kit_endpoint_close(&na_class->fabric);
    mpi_sources_free(na_class, NULL);
    mpi_links_free(na_class);
    mpi_jobs_free(na_class);
    kit_host->mem_free(na_class);
    return NA_PLUGIN_SUCCESS;
}

static int32_t class_open(struct na_plugin_class *na_class, const struct na_plugin_init *init,
                          struct na_plugin_class_info *info)
{
    struct kit_endpoint_config config = {
        .ops = &class_ops,
        .plugin = MPI_PLUGIN_NAME,
        .name = na_class->name,
        .init = init,
    };
    int32_t ret = class_check(na_class, init);

    if (ret == NA_PLUGIN_SUCCESS)
        ret = mpi_start(na_class, init);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = class_name(na_class);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = class_open_rma(na_class);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    config.protocol = na_class->is_dynamic ? MPI_PROTOCOL_DYNAMIC : MPI_PROTOCOL_STATIC;
    ret = kit_endpoint_open(&na_class->fabric, &config, info);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = class_receive(na_class);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    info->capabilities |= NA_PLUGIN_CAP_RMA;
    info->max_rma_size = 0; /* no limit: they are sent in pieces */
    MPI_LOG_INFO("rank %d of %d, at %s", mpi_process.rank, mpi_process.size, na_class->name);
    return NA_PLUGIN_SUCCESS;
}

static int32_t class_check(struct na_plugin_class *na_class, const struct na_plugin_init *init)
{
    const char *missing = mpi_dynamic_missing();

    na_class->is_dynamic = strcmp(init->protocol, MPI_PROTOCOL_DYNAMIC) == 0;
    na_class->is_listening = init->listen != 0;
    if (init->address != NULL && init->address[0] != '\0') {
        MPI_LOG_ERROR("'%s': MPI chooses the addresses of its endpoints, none can be given",
                      init->address);
        return NA_PLUGIN_INVALID_ARG;
    }
    if (na_class->is_dynamic && missing != NULL) {
        MPI_LOG_ERROR("%s", missing);
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    return NA_PLUGIN_SUCCESS;
}

/* Makes the name of our endpoint. */
static int32_t class_name(struct na_plugin_class *na_class)
{
    char port[KIT_NAME_MAX];
    struct kit_key random;
    int32_t ret;

    if (!na_class->is_dynamic) {
        (void) snprintf(na_class->name, sizeof(na_class->name),
                        na_class->serial == 0 ? "%d" : "%d/%u", mpi_process.rank, na_class->serial);
        return NA_PLUGIN_SUCCESS;
    }
    if (na_class->is_listening) {
        ret = mpi_port_open(port);
        if (ret == NA_PLUGIN_SUCCESS)
            (void) snprintf(na_class->name, sizeof(na_class->name), "%.230s#%u", port,
                            na_class->serial);
        return ret;
    }
    if (kit_key_draw(&random) != NA_PLUGIN_SUCCESS) {
        MPI_LOG_ERROR("no random numbers (%s)", strerror(errno));
        return NA_PLUGIN_IO_ERROR;
    }
    (void) snprintf(na_class->name, sizeof(na_class->name), MPI_ORIGIN_PREFIX "%016llx%016llx",
                    (unsigned long long) random.word[0], (unsigned long long) random.word[1]);
    return NA_PLUGIN_SUCCESS;
}

/* Makes the shared link, and posts its receives. */
static int32_t class_receive(struct na_plugin_class *na_class)
{
    struct mpi_link *link = mpi_link_make(na_class, NULL);
    int32_t ret;

    if (link == NULL)
        return NA_PLUGIN_NOMEM;
    na_class->shared = link;
    link->comm = na_class->is_dynamic ? mpi_process.self : mpi_process.world;
    link->rank = MPI_ANY_SOURCE;
    link->phase = MPI_LINK_READY;
    mpi_enter();
    ret = mpi_receives_post(link, MPI_SHARED_RECEIVES);
    mpi_leave();
    return ret;
}

static int32_t class_open_rma(struct na_plugin_class *na_class)
{
    const struct kit_rma_config config = {
        .ops = &mpi_rma_ops,
        .plugin = MPI_PLUGIN_NAME,
        .piece_size = na_class->is_dynamic ? MPI_PIECE_EAGER : MPI_PIECE,
        .window = na_class->is_dynamic ? MPI_WINDOW_EAGER : MPI_WINDOW,
        .first_tag = MPI_TAG_PIECES + na_class->serial * mpi_process.tags,
        .tag_count = mpi_process.tags,
        .peer_tag_low = MPI_TAG_PIECES,
        .peer_tag_high = MPI_TAG_PIECES + mpi_process.serials * mpi_process.tags - 1,
        .piece_private = sizeof(struct mpi_piece),
    };

    return kit_remote_open(&na_class->fabric, &config);
}
