/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that arrive without a posted receive, and notices of errors among unexpected ones. */

#include "tcp.h"

#include <stdlib.h>

/* Freed messages that are kept for reuse. */
#define FREE_MESSAGES 64u

/* Returns a message with room for any eager one; NULL without memory. */
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

/* A message counts from its first byte on, because its memory is allocated then. */
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

/* Adds a complete message. */
void tcp_unexpected_add(struct tcp_instance *instance, struct tcp_message *message)
{
    message->address->unexpected++;
    instance->unexpected_size += TCP_MESSAGE_SIZE;
    TAILQ_INSERT_TAIL(&instance->unexpected, message, link);
}

/* Without memory for a notice, only the address's operations report the error. */
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
