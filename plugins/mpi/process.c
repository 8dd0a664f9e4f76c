/* SPDX-License-Identifier: BSD-3-Clause */
/* The classes of the process, by the numbers of their endpoints. */

#include "mpi_class.h"

#include <pthread.h>
#include <string.h>

static struct na_plugin_class *process_find(uint32_t serial);

struct mpi_process mpi_process = {.world = MPI_COMM_NULL, .self = MPI_COMM_NULL};

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t mpi_calls =
    PTHREAD_MUTEX_INITIALIZER; /* start.c makes it recursive before it is used */
static struct kit_link classes = {&classes, &classes};
static uint32_t next_serial;

/* Gives the class its number. */
void mpi_process_add(struct na_plugin_class *na_class)
{
    (void) pthread_mutex_lock(&process_lock);
    while (process_find(next_serial % mpi_process.serials) != NULL)
        next_serial++;
    na_class->serial = next_serial++ % mpi_process.serials;
    kit_list_append(&classes, &na_class->node);
    (void) pthread_mutex_unlock(&process_lock);
}

void mpi_process_remove(struct na_plugin_class *na_class)
{
    (void) pthread_mutex_lock(&process_lock);
    kit_list_remove(&na_class->node);
    (void) pthread_mutex_unlock(&process_lock);
}

bool mpi_process_is_empty(void)
{
    bool is_empty;

    (void) pthread_mutex_lock(&process_lock);
    is_empty = kit_list_empty(&classes);
    (void) pthread_mutex_unlock(&process_lock);
    return is_empty;
}

/* The next endpoint is number 0 again. */
void mpi_process_restart(void)
{
    (void) pthread_mutex_lock(&process_lock);
    next_serial = 0;
    (void) pthread_mutex_unlock(&process_lock);
}

/* True when MPI is finalized, so that it must not be called any more. */
bool mpi_process_is_over(void)
{
    int is_over = 0;

    (void) MPI_Finalized(&is_over);
    return is_over != 0;
}

/* True if a class of this process has the number. */
bool mpi_process_has(uint32_t serial)
{
    bool is_there;

    (void) pthread_mutex_lock(&process_lock);
    is_there = process_find(serial) != NULL;
    (void) pthread_mutex_unlock(&process_lock);
    return is_there;
}

/* Finds the number of the endpoint of this process with that name; false: there is none. */
bool mpi_process_local(const char *name, uint32_t *serial_p)
{
    bool is_there = false;

    (void) pthread_mutex_lock(&process_lock);
    for (struct kit_link *node = classes.next; node != &classes && !is_there; node = node->next) {
        const struct na_plugin_class *na_class = kit_container(node, struct na_plugin_class, node);

        is_there = na_class->is_dynamic && strcmp(na_class->name, name) == 0;
        *serial_p = na_class->serial;
    }
    (void) pthread_mutex_unlock(&process_lock);
    return is_there;
}

/* Gives a connection to the endpoint of that number; false: there is none. */
bool mpi_process_deliver(uint32_t serial, struct mpi_arrival *arrival)
{
    struct na_plugin_class *na_class;

    (void) pthread_mutex_lock(&process_lock);
    na_class = process_find(serial);
    if (na_class != NULL && na_class->is_dynamic) {
        kit_list_append(&na_class->arrivals, &arrival->node);
        atomic_store_explicit(&na_class->has_arrivals, true, memory_order_release);
    }
    (void) pthread_mutex_unlock(&process_lock);
    return na_class != NULL && na_class->is_dynamic;
}

/* Takes the oldest connection; NULL when there is none. */
struct mpi_arrival *mpi_process_arrival(struct na_plugin_class *na_class)
{
    struct mpi_arrival *arrival = NULL;

    (void) pthread_mutex_lock(&process_lock);
    if (kit_list_empty(&na_class->arrivals)) {
        atomic_store_explicit(&na_class->has_arrivals, false, memory_order_relaxed);
    } else {
        arrival = kit_container(na_class->arrivals.next, struct mpi_arrival, node);
        kit_list_remove(&arrival->node);
    }
    (void) pthread_mutex_unlock(&process_lock);
    return arrival;
}

/* Returns a number for a link: unique in the process, and ascending. */
uint32_t mpi_process_number(void)
{
    static _Atomic uint32_t last;

    return atomic_fetch_add(&last, 1) + 1;
}

void mpi_call_lock(void)
{
    (void) pthread_mutex_lock(&mpi_calls);
}

void mpi_call_unlock(void)
{
    (void) pthread_mutex_unlock(&mpi_calls);
}

/* process_lock is held. */
static struct na_plugin_class *process_find(uint32_t serial)
{
    for (struct kit_link *node = classes.next; node != &classes; node = node->next) {
        struct na_plugin_class *na_class = kit_container(node, struct na_plugin_class, node);

        if (na_class->serial == serial)
            return na_class;
    }
    return NULL;
}

int32_t mpi_process_dup(MPI_Comm from, const char *what, MPI_Comm *to)
{
    char text[MPI_TEXT_MAX];
    int error = MPI_Comm_dup(from, to);

    if (error == MPI_SUCCESS)
        error = MPI_Comm_set_errhandler(*to, MPI_ERRORS_RETURN);
    if (error == MPI_SUCCESS)
        return NA_PLUGIN_SUCCESS;
    MPI_LOG_ERROR("no communicator of our own with the ranks of %s (%s)", what,
                  mpi_text(error, text));
    *to = MPI_COMM_NULL;
    return mpi_status(error);
}
