/* SPDX-License-Identifier: BSD-3-Clause */
/* The test functions: completed operations and unexpected messages. */

#include "tcp.h"

static void unexpected_take(struct tcp_instance *instance, struct tcp_message *message,
                            struct BMI_unexpected_info *info);
static void notice_take(struct tcp_message *message, struct BMI_unexpected_info *info);
static void unexpected_resume(struct tcp_instance *instance);

int BMI_testcontext(int incount, bmi_op_id_t *out_id_array, int *outcount,
                    bmi_error_code_t *error_code_array, bmi_size_t *actual_size_array,
                    void **user_ptr_array, int max_idle_time_ms, bmi_context_id context_id)
{
    struct tcp_instance *instance = tcp_current();
    struct tcp_operations *completed;
    int count = 0;
    int ret;

    *outcount = 0;
    if (!instance->is_open || context_id < 0 || context_id >= TCP_CONTEXTS)
        return -BMI_EINVAL;
    completed = &instance->completed[context_id];
    if (TAILQ_EMPTY(completed) && max_idle_time_ms != BMI_TEST_ONLY) {
        ret = BMI_progress(max_idle_time_ms);
        if (ret < 0)
            return ret;
    }
    while (count < incount && !TAILQ_EMPTY(completed)) {
        struct tcp_operation *operation = TAILQ_FIRST(completed);
        struct tcp_address *address = operation->address;

        TAILQ_REMOVE(completed, operation, link);
        out_id_array[count] = operation->id;
        error_code_array[count] = operation->error;
        actual_size_array[count] =
            (bmi_size_t) (operation->kind == TCP_SEND ? operation->size : operation->done);
        if (user_ptr_array != NULL)
            user_ptr_array[count] = operation->user_ptr;
        tcp_operation_put(operation);
        tcp_address_release(address);
        count++;
    }
    *outcount = count;
    return count > 0;
}

int BMI_testunexpected_class(int incount, int *outcount, struct BMI_unexpected_info *info_array,
                             uint8_t msg_class, int max_idle_time_ms)
{
    struct tcp_instance *instance = tcp_current();
    struct tcp_message *message, *next;
    int count = 0;
    int ret;

    *outcount = 0;
    if (!instance->is_open)
        return -BMI_EINVAL;
    if (TAILQ_EMPTY(&instance->unexpected) && max_idle_time_ms != BMI_TEST_ONLY) {
        ret = BMI_progress(max_idle_time_ms);
        if (ret < 0)
            return ret;
    }
    for (message = TAILQ_FIRST(&instance->unexpected); message != NULL && count < incount;
         message = next) {
        next = TAILQ_NEXT(message, link);
        if (message->error != 0)
            notice_take(message, &info_array[count++]);
        else if (message->class == msg_class)
            unexpected_take(instance, message, &info_array[count++]);
    }
    *outcount = count;
    return count > 0;
}

int BMI_unexpected_free(BMI_addr_t addr, void *buffer)
{
    struct tcp_instance *instance = tcp_current();
    struct tcp_message *message;

    (void) addr;
    if (buffer == NULL)
        return -BMI_EINVAL;
    message =
        (struct tcp_message *) (void *) ((uint8_t *) buffer - offsetof(struct tcp_message, data));
    TAILQ_REMOVE(&instance->taken, message, link);
    tcp_message_put(instance, message);
    return 0;
}

static void notice_take(struct tcp_message *message, struct BMI_unexpected_info *info)
{
    struct tcp_address *address = message->address;

    *info = (struct BMI_unexpected_info){.error_code = message->error, .addr = address->id};
    tcp_notice_drop(address);
    tcp_address_release(address);
}

static void unexpected_take(struct tcp_instance *instance, struct tcp_message *message,
                            struct BMI_unexpected_info *info)
{
    struct tcp_address *address = message->address;

    TAILQ_REMOVE(&instance->unexpected, message, link);
    TAILQ_INSERT_TAIL(&instance->taken, message, link);
    info->error_code = 0;
    info->addr = address->id;
    info->buffer = message->data;
    info->size = message->size;
    info->tag = message->tag;
    if ((instance->flags & BMI_AUTO_REF_COUNT) != 0) {
        address->references++;
        tcp_address_keep(address);
    }
    address->unexpected--;
    instance->unexpected_size -= TCP_MESSAGE_SIZE;
    if (tcp_unlikely(instance->unexpected_size < TCP_UNEXPECTED_SOFT / 2 && instance->is_full))
        unexpected_resume(instance);
}

/* There is room again: resumes connections stalled by unexpected messages. */
static void unexpected_resume(struct tcp_instance *instance)
{
    struct tcp_connection *connection;

    instance->is_full = false;
    TAILQ_FOREACH (connection, &instance->connections, link)
        if (connection->is_stalled && connection->in.mode == WIRE_UNEXPECTED)
            tcp_resume_add(connection);
}
