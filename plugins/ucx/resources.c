/* SPDX-License-Identifier: BSD-3-Clause */
/* The transports that UCX has on this machine, queried once for the process. */

#include "ucx.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <uct/api/uct.h>

static void ucx_resources_ask(void);
static void ucx_resources_ask_component(uct_component_h component);
static void ucx_resources_ask_md(uct_component_h component, const char *name);
static void ucx_resources_add(const char *transport, const char *device);

pthread_mutex_t ucx_resources_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ucx_resource ucx_resource_list[256];
static uint32_t ucx_resource_count;
static bool ucx_resources_asked;

/* The list does not change until the plugin's cleanup, when no thread uses it. */
uint32_t ucx_resources(const struct ucx_resource **list_p)
{
    (void) pthread_mutex_lock(&ucx_resources_lock);
    if (!ucx_resources_asked) {
        ucx_log_capture();
        ucx_enter();
        ucx_resources_ask();
        ucx_leave();
        ucx_resources_asked = true;
    }
    (void) pthread_mutex_unlock(&ucx_resources_lock);
    *list_p = ucx_resource_list;
    return ucx_resource_count;
}

/* Lists each transport once. */
void ucx_resources_text(char text[UCX_OFFERED_MAX])
{
    const struct ucx_resource *list;
    uint32_t count = ucx_resources(&list);
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < count && used < UCX_OFFERED_MAX; i++) {
        bool seen = false;

        for (uint32_t k = 0; k < i && !seen; k++)
            seen = strcmp(list[k].transport, list[i].transport) == 0;
        if (!seen)
            used += (size_t) snprintf(text + used, UCX_OFFERED_MAX - used, "%s%s",
                                      used > 0 ? ", " : "", list[i].transport);
    }
    if (used == 0)
        (void) snprintf(text, UCX_OFFERED_MAX, "nothing");
}

/* Whether the machine has RDMA transports of a list, and whether it has others of the list. */
void ucx_resources_find(const char *tls, bool *has_hardware, bool *has_others)
{
    static const char *const hardware[] = {"rc_verbs", "rc_mlx5", "dc_mlx5", "ugni_rdma"};
    const struct ucx_resource *list;
    uint32_t count = ucx_resources(&list);

    *has_hardware = *has_others = false;
    for (uint32_t i = 0; i < count; i++) {
        bool is_hardware = false;

        if (!ucx_protocol_has(tls, list[i].transport))
            continue;
        for (size_t k = 0; k < sizeof(hardware) / sizeof(hardware[0]); k++)
            is_hardware = is_hardware || strcmp(list[i].transport, hardware[k]) == 0;
        *(is_hardware ? has_hardware : has_others) = true;
    }
}

void ucx_resources_cleanup(void)
{
    (void) pthread_mutex_lock(&ucx_resources_lock);
    ucx_resource_count = 0;
    ucx_resources_asked = false;
    (void) pthread_mutex_unlock(&ucx_resources_lock);
}

static void ucx_resources_ask(void)
{
    uct_component_h *components;
    unsigned count;

    if (uct_query_components(&components, &count) != UCS_OK)
        return;
    for (unsigned i = 0; i < count; i++)
        ucx_resources_ask_component(components[i]);
    uct_release_component_list(components);
}

static void ucx_resources_ask_component(uct_component_h component)
{
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};
    uct_md_resource_desc_t *resources;

    if (uct_component_query(component, &attr) != UCS_OK || attr.md_resource_count == 0)
        return;
    resources = kit_host->mem_alloc(attr.md_resource_count * sizeof(*resources), 0);
    if (resources == NULL)
        return;
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = resources;
    if (uct_component_query(component, &attr) == UCS_OK)
        for (unsigned i = 0; i < attr.md_resource_count; i++)
            ucx_resources_ask_md(component, resources[i].md_name);
    kit_host->mem_free(resources);
}

static void ucx_resources_ask_md(uct_component_h component, const char *name)
{
    uct_tl_resource_desc_t *transports;
    uct_md_config_t *config;
    unsigned count;
    uct_md_h md;

    if (uct_md_config_read(component, NULL, NULL, &config) != UCS_OK)
        return;
    if (uct_md_open(component, name, config, &md) == UCS_OK) {
        if (uct_md_query_tl_resources(md, &transports, &count) == UCS_OK) {
            for (unsigned i = 0; i < count; i++)
                ucx_resources_add(transports[i].tl_name, transports[i].dev_name);
            uct_release_tl_resource_list(transports);
        }
        uct_md_close(md);
    }
    uct_config_release(config);
}

static void ucx_resources_add(const char *transport, const char *device)
{
    struct ucx_resource *resource = &ucx_resource_list[ucx_resource_count];

    if (ucx_resource_count == sizeof(ucx_resource_list) / sizeof(ucx_resource_list[0]))
        return;
    (void) snprintf(resource->transport, sizeof(resource->transport), "%s", transport);
    (void) snprintf(resource->device, sizeof(resource->device), "%s", device);
    ucx_resource_count++;
}
