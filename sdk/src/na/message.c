/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages: the arguments are checked, and the plugin is called. */

#include "na/log.h"
#include "na/operation.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Arguments of a post, for post_refused(). */
struct post {
    const struct na_class *na_class;
    const struct na_context *context;
    const void *buf;
    size_t buf_size;
    size_t max_size;
    const void *peer;
    uint32_t tag;
    const struct na_op_id *op;
};

static bool post_is_valid(const na_class_t *na_class, const na_context_t *context, const void *buf,
                          const na_op_id_t *op);
static na_return_t post_refused(const struct post *post);
static na_return_t multi_recv_refused(const struct na_class *na_class);
static na_return_t msg_init(na_class_t *na_class, void *buf, size_t buf_size, uint64_t header_size,
                            int32_t (*init)(struct na_plugin_class *, void *, uint64_t));

size_t NA_Msg_get_max_unexpected_size(const na_class_t *na_class)
{
    return na_class != NULL ? na_class->max_unexpected_size : 0;
}

size_t NA_Msg_get_max_expected_size(const na_class_t *na_class)
{
    return na_class != NULL ? na_class->max_expected_size : 0;
}

size_t NA_Msg_get_unexpected_header_size(const na_class_t *na_class)
{
    return na_class != NULL ? (size_t) na_class->info.unexpected_header_size : 0;
}

size_t NA_Msg_get_expected_header_size(const na_class_t *na_class)
{
    return na_class != NULL ? (size_t) na_class->info.expected_header_size : 0;
}

na_tag_t NA_Msg_get_max_tag(const na_class_t *na_class)
{
    return na_class != NULL ? na_class->max_tag : 0;
}

void *NA_Msg_buf_alloc(na_class_t *na_class, size_t buf_size, unsigned long flags,
                       void **plugin_data_p)
{
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    void *buf = NULL, *data = NULL;

    if (na_class_fork_refused(na_class, __func__))
        return NULL;
    if (na_class == NULL || plugin_data_p == NULL || flags >= NA_ALLOC_MAX ||
        buf_size > PTRDIFF_MAX) {
        NA_LOG_ERROR(
            "class is %p, plugin_data_p is %p, flags are 0x%lx, size is %zu; pass an open class, "
            "where the data goes, NA_SEND, NA_RECV or NA_MULTI_RECV, and a possible size",
            (void *) na_class, (void *) plugin_data_p, flags, buf_size);
        return NULL;
    }
    *plugin_data_p = NULL;
    if (buf_size == 0)
        return NULL;
    if (na_class->table.msg_buf_alloc != NULL)
        buf = na_class->table.msg_buf_alloc(na_class->plugin_class, buf_size, (uint32_t) flags,
                                            &data);
    else if (posix_memalign(&buf, buf_size >= page ? page : UTIL_CACHE_LINE, buf_size) != 0)
        buf = NULL;
    else /* the pages behind the first are touched, and so take memory, only when they are used */
        memset(buf, 0, buf_size < page ? buf_size : page);
    if (buf == NULL)
        NA_LOG_ERROR("no memory for a message buffer of %zu bytes", buf_size);
    else
        *plugin_data_p = data;
    return buf;
}

void NA_Msg_buf_free(na_class_t *na_class, void *buf, void *plugin_data)
{
    if (na_class_fork_refused(na_class, __func__))
        return;
    if (buf == NULL)
        return;
    if (na_class == NULL)
        NA_LOG_ERROR("class is NULL; pass the class that the buffer was allocated for");
    else if (na_class->table.msg_buf_free != NULL)
        na_class->table.msg_buf_free(na_class->plugin_class, buf, plugin_data);
    else
        free(buf);
}

na_return_t NA_Msg_init_unexpected(na_class_t *na_class, void *buf, size_t buf_size)
{
    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (na_class == NULL)
        return msg_init(NULL, buf, buf_size, 0, NULL);
    return msg_init(na_class, buf, buf_size, na_class->info.unexpected_header_size,
                    na_class->table.msg_init_unexpected);
}

na_return_t NA_Msg_init_expected(na_class_t *na_class, void *buf, size_t buf_size)
{
    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (na_class == NULL)
        return msg_init(NULL, buf, buf_size, 0, NULL);
    return msg_init(na_class, buf, buf_size, na_class->info.expected_header_size,
                    na_class->table.msg_init_expected);
}

na_return_t NA_Msg_send_unexpected(na_class_t *na_class, na_context_t *context, na_cb_t callback,
                                   void *arg, const void *buf, size_t buf_size, void *plugin_data,
                                   na_addr_t *dest_addr, uint8_t dest_id, na_tag_t tag,
                                   na_op_id_t *op_id)
{
    if (util_unlikely(!post_is_valid(na_class, context, buf, op_id) || dest_addr == NULL ||
                      buf_size > na_class->max_unexpected_size || tag > na_class->max_tag))
        return post_refused(&(struct post){na_class, context, buf, buf_size,
                                           NA_Msg_get_max_unexpected_size(na_class), dest_addr, tag,
                                           op_id});
    if (util_unlikely(!na_op_post(op_id, context, NA_CB_SEND_UNEXPECTED, callback, arg, buf_size)))
        return na_op_busy(op_id);
    return na_op_posted(op_id, context,
                        na_class->table.msg_send_unexpected(
                            context->plugin_context, na_op_private(op_id), buf, buf_size,
                            plugin_data, (struct na_plugin_addr *) dest_addr, dest_id, tag));
}

na_return_t NA_Msg_recv_unexpected(na_class_t *na_class, na_context_t *context, na_cb_t callback,
                                   void *arg, void *buf, size_t buf_size, void *plugin_data,
                                   na_op_id_t *op_id)
{
    if (util_unlikely(!post_is_valid(na_class, context, buf, op_id)))
        return post_refused(
            &(struct post){na_class, context, buf, buf_size, SIZE_MAX, buf, 0, op_id});
    if (util_unlikely(!na_op_post(op_id, context, NA_CB_RECV_UNEXPECTED, callback, arg, buf_size)))
        return na_op_busy(op_id);
    return na_op_posted(op_id, context,
                        na_class->table.msg_recv_unexpected(context->plugin_context,
                                                            na_op_private(op_id), buf, buf_size,
                                                            plugin_data));
}

na_return_t NA_Msg_multi_recv_unexpected(na_class_t *na_class, na_context_t *context,
                                         na_cb_t callback, void *arg, void *buf, size_t buf_size,
                                         void *plugin_data, na_op_id_t *op_id)
{
    const struct na_plugin_multi_recv *multi_recv;

    if (util_unlikely(!post_is_valid(na_class, context, buf, op_id)))
        return post_refused(
            &(struct post){na_class, context, buf, buf_size, SIZE_MAX, buf, 0, op_id});
    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    multi_recv = &na_class->transport->multi_recv;
    if (util_unlikely(multi_recv->msg_multi_recv_unexpected == NULL))
        return multi_recv_refused(na_class);
    if (util_unlikely((op_id->flags & NA_OP_MULTI) == 0)) {
        NA_LOG_ERROR("the operation has one event only; create it with NA_OP_MULTI");
        return NA_INVALID_ARG;
    }
    if (util_unlikely(
            !na_op_post(op_id, context, NA_CB_MULTI_RECV_UNEXPECTED, callback, arg, buf_size)))
        return na_op_busy(op_id);
    return na_op_posted(op_id, context,
                        multi_recv->msg_multi_recv_unexpected(context->plugin_context,
                                                              na_op_private(op_id), buf, buf_size,
                                                              plugin_data));
}

na_return_t NA_Msg_send_expected(na_class_t *na_class, na_context_t *context, na_cb_t callback,
                                 void *arg, const void *buf, size_t buf_size, void *plugin_data,
                                 na_addr_t *dest_addr, uint8_t dest_id, na_tag_t tag,
                                 na_op_id_t *op_id)
{
    if (util_unlikely(!post_is_valid(na_class, context, buf, op_id) || dest_addr == NULL ||
                      buf_size > na_class->max_expected_size || tag > na_class->max_tag))
        return post_refused(&(struct post){na_class, context, buf, buf_size,
                                           NA_Msg_get_max_expected_size(na_class), dest_addr, tag,
                                           op_id});
    if (util_unlikely(!na_op_post(op_id, context, NA_CB_SEND_EXPECTED, callback, arg, buf_size)))
        return na_op_busy(op_id);
    return na_op_posted(op_id, context,
                        na_class->table.msg_send_expected(
                            context->plugin_context, na_op_private(op_id), buf, buf_size,
                            plugin_data, (struct na_plugin_addr *) dest_addr, dest_id, tag));
}

na_return_t NA_Msg_recv_expected(na_class_t *na_class, na_context_t *context, na_cb_t callback,
                                 void *arg, void *buf, size_t buf_size, void *plugin_data,
                                 na_addr_t *source_addr, uint8_t source_id, na_tag_t tag,
                                 na_op_id_t *op_id)
{
    if (util_unlikely(!post_is_valid(na_class, context, buf, op_id) || source_addr == NULL ||
                      tag > na_class->max_tag))
        return post_refused(
            &(struct post){na_class, context, buf, buf_size, SIZE_MAX, source_addr, tag, op_id});
    if (util_unlikely(!na_op_post(op_id, context, NA_CB_RECV_EXPECTED, callback, arg, buf_size)))
        return na_op_busy(op_id);
    return na_op_posted(op_id, context,
                        na_class->table.msg_recv_expected(
                            context->plugin_context, na_op_private(op_id), buf, buf_size,
                            plugin_data, (struct na_plugin_addr *) source_addr, source_id, tag));
}

static inline bool post_is_valid(const na_class_t *na_class, const na_context_t *context,
                                 const void *buf, const na_op_id_t *op)
{
    return na_class != NULL && context != NULL && buf != NULL && op != NULL &&
           context->na_class == na_class && op->na_class == na_class;
}

static UTIL_COLD na_return_t post_refused(const struct post *post)
{
    if (post->na_class == NULL || post->context == NULL || post->op == NULL || post->peer == NULL ||
        post->buf == NULL) {
        NA_LOG_ERROR("class is %p, context %p, operation %p, buffer %p, peer %p; none may be NULL",
                     (const void *) post->na_class, (const void *) post->context,
                     (const void *) post->op, post->buf, post->peer);
        return NA_INVALID_ARG;
    }
    if (post->context->na_class != post->na_class || post->op->na_class != post->na_class) {
        NA_LOG_ERROR("class %p, context %p and operation %p do not belong together",
                     (const void *) post->na_class, (const void *) post->context,
                     (const void *) post->op);
        return NA_INVALID_ARG;
    }
    if (post->buf_size > post->max_size) {
        NA_LOG_ERROR(
            "a message of %zu bytes is longer than the limit of %zu; send it in pieces or by "
            "RMA",
            post->buf_size, post->max_size);
        return NA_MSGSIZE;
    }
    NA_LOG_ERROR("tag %u is above the limit of %u; see NA_Msg_get_max_tag()", post->tag,
                 post->na_class->max_tag);
    return NA_OVERFLOW;
}

static UTIL_COLD na_return_t multi_recv_refused(const struct na_class *na_class)
{
    NA_LOG_DEBUG("plugin %s has no multi-receive; ask NA_Has_opt_feature() before",
                 na_class->transport->name);
    return NA_OPNOTSUPPORTED;
}

static na_return_t msg_init(na_class_t *na_class, void *buf, size_t buf_size, uint64_t header_size,
                            int32_t (*init)(struct na_plugin_class *, void *, uint64_t))
{
    if (na_class == NULL || buf == NULL) {
        NA_LOG_ERROR("class is %p, buffer %p; none may be NULL", (void *) na_class, buf);
        return NA_INVALID_ARG;
    }
    if (buf_size < header_size) {
        NA_LOG_ERROR("a buffer of %zu bytes is too short for the plugin's header of %llu", buf_size,
                     (unsigned long long) header_size);
        return NA_OVERFLOW;
    }
    if (init == NULL)
        return NA_SUCCESS;
    return na_return_from_plugin(init(na_class->plugin_class, buf, buf_size));
}
