/* SPDX-License-Identifier: BSD-3-Clause */
/* Choosing the network device that is nearest to the processors of this thread. */

#include "ofi.h"

#ifdef OFI_WITH_HWLOC

#    include <hwloc.h>
#    include <string.h>

static bool ofi_is_ambiguous(const struct fi_info *list);
static const struct fi_bus_attr *ofi_pci(const struct fi_info *info);
static int ofi_distance(hwloc_topology_t topology, hwloc_const_cpuset_t here,
                        const struct fi_bus_attr *bus);

/*
 * Returns the entry of `list` to open: the first one, unless a PCI device of the same provider is
 * closer in the topology to the processors that this thread may run on.
 */
struct fi_info *ofi_device_choose(struct fi_info *list)
{
    struct fi_info *best = list;
    hwloc_topology_t topology;
    hwloc_cpuset_t here;
    int best_distance = -1;

    if (!ofi_is_ambiguous(list) || hwloc_topology_init(&topology) != 0)
        return list;
    here = hwloc_bitmap_alloc();
    if (here != NULL &&
        hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) == 0 &&
        hwloc_topology_load(topology) == 0 &&
        hwloc_get_cpubind(topology, here, HWLOC_CPUBIND_THREAD) == 0) {
        for (struct fi_info *info = list; info != NULL; info = info->next) {
            const struct fi_bus_attr *bus = ofi_pci(info);
            int distance;

            if (bus == NULL ||
                strcmp(info->fabric_attr->prov_name, list->fabric_attr->prov_name) != 0)
                continue;
            distance = ofi_distance(topology, here, bus);
            if (distance >= 0 && (best_distance < 0 || distance < best_distance)) {
                best = info;
                best_distance = distance;
            }
        }
    }
    hwloc_bitmap_free(here);
    hwloc_topology_destroy(topology);
    OFI_LOG_INFO("device '%s' is the nearest of several", best->domain_attr->name);
    return best;
}

static bool ofi_is_ambiguous(const struct fi_info *list)
{
    uint32_t devices = 0;

    for (const struct fi_info *info = list; info != NULL; info = info->next)
        devices += ofi_pci(info) != NULL;
    return devices > 1;
}

static const struct fi_bus_attr *ofi_pci(const struct fi_info *info)
{
    if (info->nic == NULL || info->nic->bus_attr == NULL ||
        info->nic->bus_attr->bus_type != FI_BUS_PCI)
        return NULL;
    return info->nic->bus_attr;
}

/* Levels of the topology from the device up to an object that includes the processors `here`. */
static int ofi_distance(hwloc_topology_t topology, hwloc_const_cpuset_t here,
                        const struct fi_bus_attr *bus)
{
    hwloc_obj_t object =
        hwloc_get_pcidev_by_busid(topology, bus->attr.pci.domain_id, bus->attr.pci.bus_id,
                                  bus->attr.pci.device_id, bus->attr.pci.function_id);
    int distance = 0;

    if (object == NULL)
        return -1;
    object = hwloc_get_non_io_ancestor_obj(topology, object);
    while (object != NULL && !hwloc_bitmap_isincluded(here, object->cpuset)) {
        object = object->parent;
        distance++;
    }
    return distance;
}

#else

struct fi_info *ofi_device_choose(struct fi_info *list)
{
    return list;
}

#endif
