/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening, closing and queries of classes. */

#include "na/class.h"

#include "na/classes.h"
#include "na/init_info.h"
#include "na/log.h"
#include "na/open.h"
#include "na/operation.h"
#include "na/peer_lost.h"
#include "na_ext.h"

#include <stdio.h>

#define REASON_MAX 4096

na_class_t *NA_Initialize(const char *info_string, bool listen)
{
    return NA_Initialize_opt2(info_string, listen, NA_INIT_INFO_OPT_VERSION, NULL);
}

na_class_t *NA_Initialize_opt(const char *info_string, bool listen,
                              const struct na_init_info *na_init_info)
{
    return NA_Initialize_opt2(info_string, listen, NA_INIT_INFO_OPT_VERSION, na_init_info);
}

na_class_t *NA_Initialize_opt2(const char *info_string, bool listen, unsigned int version,
                               const struct na_init_info *na_init_info)
{
    na_class_t *na_class;

    (void) NA_Initialize_reason(info_string, listen, version, na_init_info, &na_class, NULL, 0);
    return na_class;
}

na_return_t NA_Initialize_reason(const char *info_string, bool listen, unsigned int version,
                                 const struct na_init_info *na_init_info, na_class_t **na_class_p,
                                 char *reason, size_t reason_size)
{
    char own_reason[REASON_MAX] = "", escaped[REASON_MAX + 256];
    struct na_init_info info;
    na_return_t ret;

    if (na_class_p == NULL) {
        NA_LOG_ERROR("na_class_p is NULL; pass where the class goes");
        return NA_INVALID_ARG;
    }
    *na_class_p = NULL;
    ret = na_init_info_get(&info, version, na_init_info, own_reason, sizeof(own_reason));
    if (ret == NA_SUCCESS)
        ret = na_class_open(info_string, listen, &info, na_class_p, own_reason, sizeof(own_reason));
    if (ret == NA_SUCCESS) {
        na_classes_add(*na_class_p);
        own_reason[0] = '\0';
    }
    if (reason != NULL && reason_size > 0) {
        na_log_escape(escaped, sizeof(escaped), own_reason);
        (void) snprintf(reason, reason_size, "%s", escaped);
    }
    return ret;
}

na_return_t NA_Finalize(na_class_t *na_class)
{
    unsigned int left;
    bool busy;

    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (na_class == NULL)
        return NA_SUCCESS;
    pthread_mutex_lock(&na_class->mutex);
    busy = na_class->contexts != NULL;
    pthread_mutex_unlock(&na_class->mutex);
    if (busy) {
        NA_LOG_ERROR("class %s+%s still has contexts; destroy them first", na_class->class_name,
                     na_class->protocol);
        return NA_BUSY;
    }
    left = na_op_free_all(na_class);
    if (left > 0)
        NA_LOG_WARNING("%u operations of class %s+%s were not destroyed; freed with it", left,
                       na_class->class_name, na_class->protocol);
    na_classes_remove(na_class);
    na_peer_lost_end(na_class);
    return na_class_close(na_class);
}

const char *NA_Get_class_name(const na_class_t *na_class)
{
    return na_class != NULL ? na_transport_class_name(na_class->transport) : NULL;
}

const char *NA_Get_class_protocol(const na_class_t *na_class)
{
    return na_class != NULL ? na_class->protocol : NULL;
}

bool NA_Is_listening(const na_class_t *na_class)
{
    return na_class != NULL && na_class->listen;
}

bool NA_Has_opt_feature(na_class_t *na_class, unsigned long flags)
{
    unsigned long features = 0;

    if (na_class == NULL)
        return false;
    if (na_class->transport->multi_recv.msg_multi_recv_unexpected != NULL)
        features |= NA_OPT_MULTI_RECV;
    return (flags & ~features) == 0;
}

const struct na_selection *NA_Class_get_selection(const na_class_t *na_class)
{
    return na_class != NULL ? na_class->selection : NULL;
}

uint64_t NA_Class_get_max_rma_size(const na_class_t *na_class)
{
    if (na_class == NULL || na_class->table.put == NULL || na_class->table.get == NULL)
        return 0;
    return na_class->info.max_rma_size != 0 ? na_class->info.max_rma_size : UINT64_MAX;
}
