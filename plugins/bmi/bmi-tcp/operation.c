/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations: their pool, completing, cancelling and detaching them. */

#include "tcp.h"

#include <stdlib.h>

static int send_copy(struct tcp_operation *operation);
static int send_split(struct tcp_operation *operation);

/* NULL without memory. */
struct tcp_operation *tcp_operation_get(struct tcp_address *address)
{
    struct tcp_instance *instance = address->instance;
    struct tcp_operation *operation = TAILQ_FIRST(&instance->free_operations);

    if (tcp_likely(operation != NULL))
        TAILQ_REMOVE(&instance->free_operations, operation, link);
    else
        operation = malloc(sizeof(*operation));
    if (operation == NULL)
        return NULL;
    operation->id = tcp_table_add(&instance->operation_table, operation);
    if (operation->id == 0) {
        free(operation);
        return NULL;
    }
    operation->address = address;
    operation->connection = NULL;
    operation->error = 0;
    operation->done = 0;
    operation->copy = NULL;
    operation->is_unreported = false;
    operation->is_unexpected = false;
    address->operations++;
    return operation;
}

/* The caller must release the operation's address afterwards. */
void tcp_operation_put(struct tcp_operation *operation)
{
    struct tcp_instance *instance = operation->address->instance;

    tcp_table_remove(&instance->operation_table, operation->id);
    free(operation->copy);
    operation->state = TCP_FREE;
    operation->address->operations--;
    TAILQ_INSERT_HEAD(&instance->free_operations, operation, link);
}

/* Queues an operation, which is in no list, for the test functions. `error` is negative or 0. */
void tcp_operation_complete(struct tcp_operation *operation, int error)
{
    struct tcp_instance *instance = operation->address->instance;

    if (operation->is_unexpected)
        operation->address->unexpected_sends--;
    operation->is_unexpected = false;
    if (operation->is_unreported) {
        tcp_operation_put(operation);
        return;
    }
    operation->state = TCP_COMPLETED;
    operation->error = error;
    operation->connection = NULL;
    TAILQ_INSERT_TAIL(&instance->completed[operation->context], operation, link);
}

/* Frees completed operations and the pool. There are no others, since all addresses have failed. */
void tcp_operations_free(struct tcp_instance *instance)
{
    struct tcp_operation *operation;

    for (int i = 0; i < TCP_CONTEXTS; i++) {
        while ((operation = TAILQ_FIRST(&instance->completed[i])) != NULL) {
            TAILQ_REMOVE(&instance->completed[i], operation, link);
            tcp_operation_put(operation);
        }
    }
    while ((operation = TAILQ_FIRST(&instance->free_operations)) != NULL) {
        TAILQ_REMOVE(&instance->free_operations, operation, link);
        free(operation);
    }
}

int BMI_cancel(bmi_op_id_t id, bmi_context_id context_id)
{
    struct tcp_instance *instance = tcp_current();
    struct tcp_operation *operation = tcp_table_find(&instance->operation_table, id);

    (void) context_id;
    if (operation == NULL || operation->state == TCP_COMPLETED)
        return 0;
    if (operation->kind == TCP_RECEIVE && operation->state == TCP_MOVING) {
        /* The rest of the message is discarded. */
        operation->connection->receive = NULL;
        operation->connection->target = NULL;
        tcp_operation_complete(operation, -BMI_ECANCEL);
    } else if (operation->state == TCP_QUEUED) {
        TAILQ_REMOVE(operation->kind == TCP_SEND ? &operation->address->sends
                                                 : &operation->address->receives,
                     operation, link);
        tcp_operation_complete(operation, -BMI_ECANCEL);
    } else {
        return send_split(operation);
    }
    return 0;
}

int BMI_detach(bmi_op_id_t id)
{
    struct tcp_instance *instance = tcp_current();
    struct tcp_operation *operation = tcp_table_find(&instance->operation_table, id);

    if (operation == NULL || operation->state == TCP_COMPLETED)
        return 0;
    if (operation->kind == TCP_SEND)
        return send_copy(operation);
    operation->data = NULL;
    if (operation->connection != NULL)
        operation->connection->target = NULL;
    return 0;
}

int BMI_leave(bmi_op_id_t id)
{
    struct tcp_instance *instance = tcp_current();
    struct tcp_operation *operation = tcp_table_find(&instance->operation_table, id);
    int ret;

    if (operation == NULL || operation->kind != TCP_SEND || operation->state == TCP_COMPLETED)
        return -BMI_EINVAL;
    ret = send_copy(operation);
    if (ret == 0)
        operation->is_unreported = true;
    return ret;
}

static int send_copy(struct tcp_operation *operation)
{
    if (operation->copy != NULL || operation->size == 0)
        return 0;
    operation->copy = malloc(operation->size);
    if (operation->copy == NULL)
        return -BMI_ENOMEM;
    memcpy(operation->copy, operation->data, operation->size);
    operation->data = operation->copy;
    return 0;
}

/* Cancels a send of which a part was written: another operation, unreported, writes the rest. */
static int send_split(struct tcp_operation *operation)
{
    struct tcp_operations *sends = &operation->address->sends;
    struct tcp_operation *rest;
    int ret = send_copy(operation);

    if (ret != 0)
        return ret;
    rest = tcp_operation_get(operation->address);
    if (rest == NULL)
        return -BMI_ENOMEM;
    rest->kind = TCP_SEND;
    rest->state = TCP_MOVING;
    rest->is_unreported = true;
    rest->data = operation->data;
    rest->size = operation->size;
    rest->done = operation->done;
    rest->copy = operation->copy;
    rest->is_unexpected = operation->is_unexpected;
    operation->is_unexpected = false;
    memcpy(rest->header, operation->header, sizeof(rest->header));
    operation->copy = NULL;
    TAILQ_INSERT_BEFORE(operation, rest, link);
    TAILQ_REMOVE(sends, operation, link);
    tcp_operation_complete(operation, -BMI_ECANCEL);
    return 0;
}
