/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory handles: those of the engine for remote memory, under the endpoint's lock. */

#include "bmi_na.h"

/* How long BMI may take to let go of memory that is deregistered; embedded it does at once. */
#define RELEASE_NS UINT64_C(5000000000)

int32_t bmi_na_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                          uint32_t flags, struct na_plugin_mem **mem_p)
{
    struct kit_region *memory;
    int32_t ret;

    kit_msg_lock(&na_class->base);
    ret = kit_rma_mem_create(na_class->rma, base, length, flags, &memory);
    kit_msg_unlock(&na_class->base);
    if (ret == NA_PLUGIN_SUCCESS)
        *mem_p = (struct na_plugin_mem *) (void *) memory;
    return ret;
}

void bmi_na_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) bmi_na_mem_deregister(na_class, mem);
    kit_msg_lock(&na_class->base);
    kit_rma_mem_destroy(na_class->rma, bmi_na_memory(mem));
    kit_msg_unlock(&na_class->base);
}

int32_t bmi_na_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                            uint32_t mem_type, uint64_t device)
{
    int32_t ret;

    (void) device;
    kit_msg_lock(&na_class->base);
    ret = kit_rma_mem_register(na_class->rma, bmi_na_memory(mem), mem_type);
    kit_msg_unlock(&na_class->base);
    return ret;
}

/* Afterwards the caller may free the memory. */
int32_t bmi_na_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    uint64_t start = 0;
    bool is_free;

    kit_msg_lock(&na_class->base);
    is_free = kit_rma_mem_deregister(na_class->rma, bmi_na_memory(mem));
    while (!is_free) {
        uint64_t now = kit_host->clock_ns();

        if (start == 0)
            start = now;
        if (now - start > RELEASE_NS)
            break;
        (void) bmi_na_poll(&na_class->base);
        kit_msg_dispatch(&na_class->base);
        is_free = kit_rma_mem_deregister(na_class->rma, bmi_na_memory(mem));
    }
    kit_msg_unlock(&na_class->base);
    if (!is_free)
        BMI_NA_LOG_ERROR("BMI does not let go of memory that is deregistered");
    return NA_PLUGIN_SUCCESS;
}

uint64_t bmi_na_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) na_class;
    (void) mem;
    return KIT_REGION_PACKED;
}

int32_t bmi_na_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem, void *buf,
                             uint64_t size)
{
    int32_t ret;

    kit_msg_lock(&na_class->base);
    ret = kit_rma_mem_serialize(na_class->rma, bmi_na_memory(mem), buf, size);
    kit_msg_unlock(&na_class->base);
    return ret;
}

int32_t bmi_na_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                               struct na_plugin_mem **mem_p)
{
    struct kit_region *memory;
    int32_t ret;

    kit_msg_lock(&na_class->base);
    ret = kit_rma_mem_deserialize(na_class->rma, buf, size, &memory);
    kit_msg_unlock(&na_class->base);
    if (ret == NA_PLUGIN_SUCCESS)
        *mem_p = (struct na_plugin_mem *) (void *) memory;
    return ret;
}
