/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that arrived before anybody had a buffer for them, and the queue of unexpected ones. */

#include "tcp.h"

#include <stdlib.h>

/* Freed messages that are kept for the next. */
#define FREE_MESSAGES 64u

static void unexpected_take(struct tcp_instance *instance, struct tcp_message *message,
                            struct BMI_unexpected_info *info);
static void notice_take(struct tcp_message *message, struct BMI_unexpected_info *info);
static void unexpected_resume(struct tcp_instance *instance);

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

/* Room for an eager message of any size; NULL without memory. */
struct tcp_message *tcp_message_get(struct tcp_instance *instance, uint64_t size)
{
    struct tcp_message *message = TAILQ_FIRST(&instance->free_messages);

    if (tcp_likely(message != NULL)) {
        TAILQ_REMOVE(&instance->free_messages, message, link);
        instance->free_message_count--;
    } else {
        message = malloc(TCP_MESSAGE_SIZE);
    }
    if (message == NULL)
        return NULL;
    message->size = (uint32_t) size;
    message->error = 0;
    return message;
}

void tcp_message_put(struct tcp_instance *instance, struct tcp_message *message)
{
    if (instance->free_message_count >= FREE_MESSAGES) {
        free(message);
        return;
    }
    instance->free_message_count++;
    TAILQ_INSERT_HEAD(&instance->free_messages, message, link);
}

void tcp_messages_free(struct tcp_messages *list)
{
    struct tcp_message *message;

    while ((message = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, message, link);
        free(message);
    }
}

/* Room for it is needed from when it begins to come in. */
void tcp_early_count(struct tcp_address *address)
{
    address->early_size += TCP_MESSAGE_SIZE;
    address->instance->early_size += TCP_MESSAGE_SIZE;
}

void tcp_early_uncount(struct tcp_address *address)
{
    address->early_size -= TCP_MESSAGE_SIZE;
    address->instance->early_size -= TCP_MESSAGE_SIZE;
}

void tcp_early_free(struct tcp_address *address)
{
    struct tcp_message *message;

    while ((message = TAILQ_FIRST(&address->early)) != NULL) {
        TAILQ_REMOVE(&address->early, message, link);
        tcp_early_uncount(address);
        tcp_message_put(address->instance, message);
    }
}

/* It is complete. */
void tcp_unexpected_add(struct tcp_instance *instance, struct tcp_message *message)
{
    message->address->unexpected++;
    instance->unexpected_size += TCP_MESSAGE_SIZE;
    TAILQ_INSERT_TAIL(&instance->unexpected, message, link);
}

/* Without memory the address's operations alone say so. */
void tcp_notice_add(struct tcp_address *address, int error)
{
    struct tcp_message *notice = calloc(1, sizeof(*notice));

    if (notice == NULL)
        return;
    notice->address = address;
    notice->error = error;
    address->notice = notice;
    TAILQ_INSERT_TAIL(&address->instance->unexpected, notice, link);
}

void tcp_notice_drop(struct tcp_address *address)
{
    if (address->notice == NULL)
        return;
    TAILQ_REMOVE(&address->instance->unexpected, address->notice, link);
    free(address->notice);
    address->notice = NULL;
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

/* There is room again for what waits in connections. */
static void unexpected_resume(struct tcp_instance *instance)
{
    struct tcp_connection *connection;

    instance->is_full = false;
    for (connection = TAILQ_FIRST(&instance->connections); connection != NULL;
         connection = TAILQ_NEXT(connection, link))
        if (connection->is_stalled && connection->in.mode == WIRE_UNEXPECTED)
            tcp_resume_add(connection);
}
