/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory handles, puts and gets of the table: those of the engine for remote memory. */

#include "mpi_class.h"

static struct kit_region *mem_inside(struct na_plugin_mem *mem);

int32_t mpi_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                       uint32_t flags, struct na_plugin_mem **mem_p)
{
    struct kit_region *memory;
    int32_t ret;

    kit_msg_lock(&na_class->fabric);
    ret = kit_rma_mem_create(na_class->rma, base, length, flags, &memory);
    kit_msg_unlock(&na_class->fabric);
    if (ret == NA_PLUGIN_SUCCESS)
        *mem_p = (struct na_plugin_mem *) (void *) memory;
    return ret;
}

void mpi_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) mpi_mem_deregister(na_class, mem);
    kit_msg_lock(&na_class->fabric);
    kit_rma_mem_destroy(na_class->rma, mem_inside(mem));
    kit_msg_unlock(&na_class->fabric);
}

int32_t mpi_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                         uint32_t mem_type, uint64_t device)
{
    int32_t ret;

    (void) device;
    kit_msg_lock(&na_class->fabric);
    ret = kit_rma_mem_register(na_class->rma, mem_inside(mem), mem_type);
    kit_msg_unlock(&na_class->fabric);
    return ret;
}

/* MPI never has the memory, so there is nothing to wait for. */
int32_t mpi_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    kit_msg_lock(&na_class->fabric);
    (void) kit_rma_mem_deregister(na_class->rma, mem_inside(mem));
    kit_msg_unlock(&na_class->fabric);
    return NA_PLUGIN_SUCCESS;
}

uint64_t mpi_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) na_class;
    (void) mem;
    return KIT_REGION_PACKED;
}

int32_t mpi_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem, void *buf,
                          uint64_t size)
{
    return kit_rma_mem_serialize(na_class->rma, mem_inside(mem), buf, size);
}

int32_t mpi_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                            struct na_plugin_mem **mem_p)
{
    struct kit_region *memory;
    int32_t ret;

    kit_msg_lock(&na_class->fabric);
    ret = kit_rma_mem_deserialize(na_class->rma, buf, size, &memory);
    kit_msg_unlock(&na_class->fabric);
    if (ret == NA_PLUGIN_SUCCESS)
        *mem_p = (struct na_plugin_mem *) (void *) memory;
    return ret;
}

int32_t mpi_rma_start(struct kit_endpoint *endpoint, struct kit_msg_rma *rma)
{
    struct mpi_rma *private = rma->priv;
    const struct kit_rma_request request = {
        .peer = rma->peer,
        .local = mem_inside(rma->local),
        .local_offset = rma->local_offset,
        .remote = mem_inside(rma->remote),
        .remote_offset = rma->remote_offset,
        .length = rma->length,
        .is_put = rma->is_put,
        .cookie = rma,
    };
    int32_t ret;

    ret = kit_rma_start(mpi_class(endpoint)->rma, &request, &private->transfer);
    if (ret == NA_PLUGIN_SUCCESS && private->transfer == NULL)
        kit_msg_rma_done(endpoint, rma, ret);
    return ret;
}

bool mpi_rma_abandon(struct kit_endpoint *endpoint, struct kit_msg_rma *rma, int32_t status)
{
    const struct mpi_rma *private = rma->priv;

    if (private->transfer == NULL || !kit_rma_abandon(mpi_class(endpoint)->rma, private->transfer,
                                                      status, status != NA_PLUGIN_CANCELED))
        return false;
    kit_msg_rma_done(endpoint, rma, status);
    return true;
}

static struct kit_region *mem_inside(struct na_plugin_mem *mem)
{
    return (struct kit_region *) (void *) mem;
}
