/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auto_sm: a second path through a node-local transport, and the address strings that hold the
 * addresses of a peer on both paths.
 *
 * An address string is "<main>", or with the second path "<main>;sm=<node>@<address>", where <node>
 * names the machine and <address> is the peer's on its second path. A peer that is known on the
 * second path only has an empty <main>.
 */
#include "engine/auto_sm.h"

#include "engine/library.h"
#include "engine/log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HG_SM_MARK "sm="

static bool hg_auto_sm_pick(const na_class_t *main_class, char *info_string, size_t size,
                            bool *is_same_p);
static const struct na_plugin_protocol *hg_auto_sm_best(const struct na_plugin_record *record,
                                                        int64_t least);
static bool hg_auto_sm_is_same(const na_class_t *na_class, const struct na_plugin_record *record,
                               const struct na_plugin_protocol *protocol);
static void hg_node_id_read(char *node_id, size_t size);
static hg_return_t hg_auto_sm_lookup_sm(hg_class_t *hg_class, const char *part,
                                        struct hg_addr *addr);
static na_return_t hg_auto_sm_check(na_class_t *na_class, na_addr_t **na_addr_p);
static hg_return_t hg_auto_sm_lookup_main(hg_class_t *hg_class, const char *name, size_t length,
                                          struct hg_addr *addr);
static hg_return_t hg_path_to_string(const struct hg_addr *addr, enum hg_path path, char *buf,
                                     size_t *size_p);

void hg_auto_sm_open(hg_class_t *hg_class, const struct na_init_info *main_init_info,
                     const char *info_string, bool listen)
{
    struct na_init_info na_init_info = *main_init_info;
    na_class_t *main_class = hg_class->paths[HG_PATH_MAIN].na_class;
    struct hg_class_path *path = &hg_class->paths[HG_PATH_SM];
    bool is_same = false;
    char picked[128];

    /* An endpoint that the program opened may encrypt without HG being asked to. */
    if (main_init_info->encrypt || NA_Class_has_capability(main_class, "encrypted")) {
        HG_LOG_WARNING("auto_sm: shared memory is not encrypted; peers on this node are reached as "
                       "others are");
        return;
    }
    if (main_init_info->mem_per_session ||
        NA_Class_has_capability(main_class, "memory_per_session")) {
        HG_LOG_WARNING("auto_sm: shared memory is not kept to sessions (mem_per_session); peers on "
                       "this node are reached as others are");
        return;
    }
    if (!hg_auto_sm_pick(main_class, picked, sizeof(picked), &is_same)) {
        HG_LOG_WARNING("auto_sm: no node-local transport is usable; peers on this node are "
                       "reached as others are");
        return;
    }
    if (is_same)
        return; /* the main path is that transport already */
    na_init_info.ip_subnet = NULL;
    na_init_info.auth_key = NULL;
    na_init_info.auth_key_also = NULL;
    na_init_info.addr_format = NA_ADDR_UNSPEC;
    if (info_string != NULL && strchr(info_string, '+') == NULL) {
        /* A plain name without protocol: the endpoint is opened under that name. */
        char *string = malloc(strlen(picked) + strlen(info_string) + sizeof("://"));

        if (string == NULL)
            return;
        (void) sprintf(string, "%s://%s", picked, info_string);
        path->na_class = NA_Initialize_opt2(
            string, listen, NA_VERSION(NA_VERSION_MAJOR, NA_VERSION_MINOR), &na_init_info);
        free(string);
    } else {
        path->na_class =
            NA_Initialize_opt2(info_string != NULL ? info_string : picked, listen,
                               NA_VERSION(NA_VERSION_MAJOR, NA_VERSION_MINOR), &na_init_info);
    }
    if (path->na_class == NULL) {
        HG_LOG_WARNING("auto_sm: \"%s\" could not be opened; peers on this node are reached as "
                       "others are",
                       info_string != NULL ? info_string : picked);
        return;
    }
    hg_node_id_read(hg_class->node_id, sizeof(hg_class->node_id));
}

hg_return_t hg_auto_sm_lookup(hg_class_t *hg_class, const char *name, struct hg_addr *addr)
{
    const char *part = strstr(name, ";" HG_SM_MARK);
    size_t length = part != NULL ? (size_t) (part - name) : strlen(name);
    hg_return_t ret = HG_SUCCESS, sm_ret = HG_NOENTRY;

    if (part != NULL)
        sm_ret = hg_auto_sm_lookup_sm(hg_class, part + 1, addr);
    if (length > 0)
        ret = hg_auto_sm_lookup_main(hg_class, name, length, addr);
    else if (sm_ret != HG_SUCCESS)
        ret = sm_ret;
    addr->path = sm_ret == HG_SUCCESS ? HG_PATH_SM : HG_PATH_MAIN;
    return ret;
}

hg_return_t hg_auto_sm_to_string(char *buf, hg_size_t *size_p, const struct hg_addr *addr)
{
    size_t capacity = buf != NULL ? (size_t) *size_p : 0;
    size_t main_size = 0, sm_size = 0, total;
    int mark = 0;
    hg_return_t ret;

    ret = hg_path_to_string(addr, HG_PATH_MAIN, NULL, &main_size);
    if (ret == HG_SUCCESS && (addr->is_self || hg_addr_get_path(addr) == HG_PATH_SM))
        ret = hg_path_to_string(addr, HG_PATH_SM, NULL, &sm_size);
    if (ret != HG_SUCCESS)
        return ret;
    if (sm_size > 0)
        mark = (int) (sizeof(";" HG_SM_MARK) - 1 + strlen(addr->hg_class->node_id) + 1);
    total =
        (main_size > 0 ? main_size - 1 : 0) + (size_t) mark + (sm_size > 0 ? sm_size - 1 : 0) + 1;
    *size_p = total;
    if (buf == NULL)
        return HG_SUCCESS;
    if (capacity < total)
        return HG_OVERFLOW;

    ret = hg_path_to_string(addr, HG_PATH_MAIN, buf, &main_size);
    if (ret != HG_SUCCESS || sm_size == 0)
        return ret;
    buf += main_size > 0 ? main_size - 1 : 0;
    (void) sprintf(buf, ";" HG_SM_MARK "%s@", addr->hg_class->node_id);
    return hg_path_to_string(addr, HG_PATH_SM, buf + mark, &sm_size);
}

void hg_auto_sm_lost(struct hg_addr *addr)
{
    if (addr->na_addr[HG_PATH_MAIN] != NULL &&
        atomic_exchange_explicit(&addr->path, HG_PATH_MAIN, memory_order_relaxed) == HG_PATH_SM)
        HG_LOG_INFO("auto_sm: a peer is gone from shared memory; it is reached as others are");
}

/* Write the init string of the best usable node-local protocol; false: none is usable. */
static bool hg_auto_sm_pick(const na_class_t *main_class, char *info_string, size_t size,
                            bool *is_same_p)
{
    struct na_plugin_record *records = NULL, *record;
    int64_t priority = -1;

    if (NA_Plugin_get_records(NA_LOADER_LOAD_ALL, &records) != NA_SUCCESS)
        return false;
    for (record = records; record != NULL; record = record->next) {
        const struct na_plugin_protocol *protocol = hg_auto_sm_best(record, priority);
        int length;

        if (protocol == NULL)
            continue;
        length = snprintf(info_string, size, "%s+%s", record->name, protocol->name);
        if (length <= 0 || (size_t) length >= size)
            continue;
        priority = (int64_t) protocol->priority;
        *is_same_p = hg_auto_sm_is_same(main_class, record, protocol);
    }
    NA_Plugin_free_records(records);
    return priority >= 0;
}

/* The best usable node-local protocol of a plugin above a priority, or NULL. */
static const struct na_plugin_protocol *hg_auto_sm_best(const struct na_plugin_record *record,
                                                        int64_t least)
{
    const struct na_plugin_protocol *best = NULL;
    size_t i;

    if (record->info == NULL)
        return NULL;
    for (i = 0; i < record->info->protocol_count; i++) {
        const struct na_plugin_protocol *protocol = &record->info->protocols[i];

        if (!protocol->node_local || !protocol->usable || (int64_t) protocol->priority <= least)
            continue;
        best = protocol;
        least = (int64_t) protocol->priority;
    }
    return best;
}

/* Whether a class was opened with this protocol of this plugin. */
static bool hg_auto_sm_is_same(const na_class_t *na_class, const struct na_plugin_record *record,
                               const struct na_plugin_protocol *protocol)
{
    const struct na_selection *selection = NA_Class_get_selection(na_class);

    return selection != NULL && selection->plugin_path != NULL && record->path != NULL &&
           strcmp(selection->plugin_path, record->path) == 0 &&
           strcmp(NA_Get_class_protocol(na_class), protocol->name) == 0;
}

/* Read the id of this boot of this machine: processes with the same id may share memory. */
static void hg_node_id_read(char *node_id, size_t size)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t length = -1;

    if (fd >= 0) {
        length = read(fd, node_id, size - 1);
        (void) close(fd);
    }
    if (length <= 0 && gethostname(node_id, size - 1) == 0)
        length = (ssize_t) strnlen(node_id, size - 1);
    node_id[length > 0 ? length : 0] = '\0';
    node_id[strcspn(node_id, "\n@;")] = '\0';
}

/* Look the peer up on the second path. A failure there is no error if the main path works. */
static hg_return_t hg_auto_sm_lookup_sm(hg_class_t *hg_class, const char *part,
                                        struct hg_addr *addr)
{
    struct hg_class_path *path = &hg_class->paths[HG_PATH_SM];
    size_t length = strlen(hg_class->node_id);
    na_return_t na_return;

    part += sizeof(HG_SM_MARK) - 1;
    if (path->na_class == NULL || strncmp(part, hg_class->node_id, length) != 0 ||
        part[length] != '@')
        return HG_HOSTUNREACH;
    na_return = NA_Addr_lookup(path->na_class, part + length + 1, &addr->na_addr[HG_PATH_SM]);
    if (na_return == NA_SUCCESS)
        na_return = hg_auto_sm_check(path->na_class, &addr->na_addr[HG_PATH_SM]);
    if (na_return != NA_SUCCESS) {
        addr->na_addr[HG_PATH_SM] = NULL;
        HG_LOG_INFO("auto_sm: \"%s\" is not reachable through shared memory: %s", part,
                    NA_Error_to_string(na_return));
    }
    return hg_return_from_na(na_return);
}

/*
 * A lookup may succeed although no such peer exists, and the first operation on the address would
 * fail when it is too late to use the main path. Serializing the address fails if the peer does not
 * exist.
 */
static na_return_t hg_auto_sm_check(na_class_t *na_class, na_addr_t **na_addr_p)
{
    size_t size = NA_Addr_get_serialize_size(na_class, *na_addr_p);
    void *buf = size > 0 ? malloc(size) : NULL;
    na_return_t na_return = NA_SUCCESS;

    if (buf != NULL)
        na_return = NA_Addr_serialize(na_class, buf, size, *na_addr_p);
    else if (size > 0)
        na_return = NA_NOMEM;
    free(buf);
    if (na_return != NA_SUCCESS) {
        NA_Addr_free(na_class, *na_addr_p);
        *na_addr_p = NULL;
    }
    return na_return;
}

static hg_return_t hg_auto_sm_lookup_main(hg_class_t *hg_class, const char *name, size_t length,
                                          struct hg_addr *addr)
{
    na_class_t *na_class = hg_class->paths[HG_PATH_MAIN].na_class;
    na_return_t na_return;
    char *copy;

    if (name[length] == '\0') {
        na_return = NA_Addr_lookup(na_class, name, &addr->na_addr[HG_PATH_MAIN]);
    } else {
        copy = strndup(name, length);
        if (copy == NULL)
            return HG_NOMEM;
        na_return = NA_Addr_lookup(na_class, copy, &addr->na_addr[HG_PATH_MAIN]);
        free(copy);
    }
    if (na_return != NA_SUCCESS)
        addr->na_addr[HG_PATH_MAIN] = NULL;
    return hg_return_from_na(na_return);
}

/* Convert the address on one path to a string; *size_p is 0 without an address. */
static hg_return_t hg_path_to_string(const struct hg_addr *addr, enum hg_path path, char *buf,
                                     size_t *size_p)
{
    if (addr->na_addr[path] == NULL) {
        *size_p = 0;
        return HG_SUCCESS;
    }
    return hg_return_from_na(
        NA_Addr_to_string(addr->hg_class->paths[path].na_class, buf, size_p, addr->na_addr[path]));
}
