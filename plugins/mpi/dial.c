/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections between jobs. MPI blocks in accepting and in connecting, so both are done in threads,
 * which deliver the connections to their classes. A process has one port and one thread that
 * accepts until the process ends, because MPI cannot stop accepting. All endpoints of the process
 * share the port; the HELLO names the endpoint that is meant.
 */

#include "mpi_class.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define HELLO_MAGIC     UINT32_C(0x48446d41)
#define HELLO_NS        UINT64_C(10000000000) /* less than MPI_DIAL_NS, as the next peer waits */
#define DIAL_ATTEMPTS   3u
#define DIAL_PAUSE_NS   20000000              /* another process may be connecting to the port */
#define TURN_NS         UINT64_C(30000000000) /* longest wait for processes that connect to it */
#define TURN_PAUSE      1000000
#define ACCEPT_PAUSE    100000000
#define CLOSE_NS        UINT64_C(3000000000) /* for BYEs when the process ends */
#define CLOSE_PAUSE     1000000
#define DETACH_SIGNAL   (SIGRTMAX - 3)
#define DETACH_AFTER_NS UINT64_C(50000000) /* by then the accepting thread sleeps without a lock */

/* The first message on a connection, from the process that connects. */
struct dial_hello {
    uint32_t magic;
    uint32_t to; /* numbers of the endpoints */
    uint32_t from;
    uint32_t reserved;
    char name[KIT_NAME_MAX]; /* of the endpoint `from` */
};

/* A connection to make. MPI may block the connecting thread for minutes, until after the class was
 * closed, so this is allocated with malloc, as is dial_retired. */
struct dial_call {
    char port[MPI_MAX_PORT_NAME];
    uint32_t to, from;
    uint32_t link;
    char name[KIT_NAME_MAX];
};

static int32_t port_start(void);
static void *port_run(void *arg);
static void port_accepted(MPI_Comm comm);
static bool port_detach(uint64_t end);
static void port_detached(int number);
static bool hello_receive(MPI_Comm comm, struct dial_hello *hello);
static int32_t thread_start(void *(*run)(void *arg), void *arg, pthread_t *thread);
static void *dial_run(void *arg);
static int dial_connect(struct dial_call *call, MPI_Comm *comm_p);
static void dial_turns_take(const struct dial_call *call, int turns[2]);
static void dial_turns_give(const int turns[2]);
static int dial_turn_take(uint64_t port, uint64_t end);
static void dial_pause(long ns);
static void comm_refuse(MPI_Comm comm);
static bool comm_is_closed(MPI_Comm comm);

/* A communicator that this side does not use any more. */
struct dial_retired {
    struct kit_link node;
    MPI_Comm comm;
};

static struct kit_link retired = {&retired, &retired}; /* guarded by dial_lock */
static _Atomic uint32_t dial_count;                    /* threads that connect */
static _Atomic uint32_t dial_waiting; /* threads that wait for their turn to connect */
static pthread_mutex_t dial_lock = PTHREAD_MUTEX_INITIALIZER;
static char own_port[MPI_MAX_PORT_NAME]; /* empty: not opened */
static MPI_Comm port_self;               /* for MPI_Comm_accept() */
static pthread_t port_thread;
static _Atomic uint64_t port_since; /* ns: since when it waits in MPI_Comm_accept(), or 0 */
static _Atomic bool is_detached;

/* Returns the port of this process, and opens it at first use. */
int32_t mpi_port_open(char port[KIT_NAME_MAX])
{
    int32_t ret = NA_PLUGIN_SUCCESS;

    (void) pthread_mutex_lock(&dial_lock);
    if (own_port[0] == '\0')
        ret = port_start();
    if (ret == NA_PLUGIN_SUCCESS)
        memcpy(port, own_port, strlen(own_port) + 1); /* port_start() has checked its length */
    (void) pthread_mutex_unlock(&dial_lock);
    return ret;
}

/* True for the name of an endpoint of this process, open or not. */
bool mpi_port_is_own(const char *name)
{
    char port[KIT_NAME_MAX];
    uint32_t serial;
    bool is_own;

    if (!mpi_port_read(name, port, &serial))
        return false;
    (void) pthread_mutex_lock(&dial_lock);
    is_own = strcmp(port, own_port) == 0;
    (void) pthread_mutex_unlock(&dial_lock);
    return is_own;
}

/* Connects the link, in a thread. */
int32_t mpi_dial(struct mpi_link *link)
{
    struct dial_call *call = calloc(1, sizeof(*call));
    pthread_t thread;
    int32_t ret;

    if (call == NULL)
        return NA_PLUGIN_NOMEM;
    if (!mpi_port_read(link->name, call->port, &call->to)) {
        free(call);
        return NA_PLUGIN_HOSTUNREACH;
    }
    (void) atomic_fetch_add(&dial_count, 1);
    call->from = link->na_class->serial;
    call->link = link->number;
    memcpy(call->name, link->na_class->name, sizeof(call->name));
    ret = thread_start(dial_run, call, &thread);
    if (ret != NA_PLUGIN_SUCCESS) {
        (void) atomic_fetch_sub(&dial_count, 1);
        free(call);
    }
    return ret;
}

/* True if a connection of this process waits until other processes are connected. */
bool mpi_dial_is_waiting(void)
{
    return atomic_load(&dial_waiting) != 0;
}

/* Keeps a communicator that is not used any more until mpi_comms_close(), which waits for a BYE. */
void mpi_comm_retire(MPI_Comm comm)
{
    struct dial_retired *one = calloc(1, sizeof(*one));

    if (one == NULL)
        return;
    one->comm = comm;
    (void) pthread_mutex_lock(&dial_lock);
    kit_list_append(&retired, &one->node);
    (void) pthread_mutex_unlock(&dial_lock);
}

/*
 * Called when the process ends. False if a peer has not sent a BYE, most likely because it is dead,
 * or if a connection is being made: MPI_Finalize() would wait for both without end.
 */
bool mpi_comms_close(void)
{
    uint64_t end = kit_host->clock_ns() + CLOSE_NS;
    struct kit_link *node, *next;
    bool is_closed;

    for (;;) {
        (void) pthread_mutex_lock(&dial_lock);
        for (node = retired.next; node != &retired; node = next) {
            struct dial_retired *one = kit_container(node, struct dial_retired, node);

            next = node->next;
            if (!comm_is_closed(one->comm))
                continue;
            kit_list_remove(node);
            free(one);
        }
        is_closed = kit_list_empty(&retired) && atomic_load(&dial_count) == 0;
        (void) pthread_mutex_unlock(&dial_lock);
        if (is_closed || kit_host->clock_ns() > end)
            return is_closed && port_detach(end);
        dial_pause(CLOSE_PAUSE);
    }
}

static int32_t port_start(void)
{
    char text[MPI_TEXT_MAX];
    char port[MPI_MAX_PORT_NAME] = "";
    int error = MPI_Open_port(MPI_INFO_NULL, port);
    int32_t ret;

    if (error != MPI_SUCCESS) {
        MPI_LOG_ERROR("MPI opens no port to be connected to (%s); " MPI_PLUGIN_NAME
                      "+" MPI_PROTOCOL_STATIC " needs none, with both sides in one mpiexec",
                      mpi_text(error, text));
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    /* The port and the number of an endpoint must make an address. */
    if (strlen(port) == 0 || strlen(port) > KIT_NAME_MAX - 16 || strpbrk(port, " \t\r\n") != NULL) {
        MPI_LOG_ERROR("the name of MPI's port, '%.300s', does not make an address", port);
        (void) MPI_Close_port(port);
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    ret = mpi_process_dup(MPI_COMM_SELF, "MPI_COMM_SELF", &port_self);
    memcpy(own_port, port, sizeof(port));
    if (ret == NA_PLUGIN_SUCCESS)
        ret = thread_start(port_run, NULL, &port_thread);
    if (ret != NA_PLUGIN_SUCCESS) {
        if (port_self != MPI_COMM_NULL)
            (void) MPI_Comm_free(&port_self);
        own_port[0] = '\0';
        (void) MPI_Close_port(port);
    }
    return ret;
}

/* The thread that accepts connections. */
static void *port_run(void *arg)
{
    sigset_t signals;

    (void) arg;
    (void) sigemptyset(&signals);
    (void) sigaddset(&signals, DETACH_SIGNAL);
    (void) pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    for (;;) {
        MPI_Comm comm = MPI_COMM_NULL;
        int error;

        atomic_store(&port_since, kit_host->clock_ns());
        error = MPI_Comm_accept(own_port, MPI_INFO_NULL, 0, port_self, &comm);
        atomic_store(&port_since, 0);
        if (mpi_process_is_over())
            break;
        if (error == MPI_SUCCESS && comm != MPI_COMM_NULL)
            port_accepted(comm);
        else
            dial_pause(ACCEPT_PAUSE);
    }
    return NULL;
}

/*
 * MPI_Finalize() makes MPI_Comm_accept() fail and then use freed memory. So the accepting thread is
 * stopped before, by a signal, while it sleeps and holds no lock. False if it is not sleeping, or
 * if the program uses the signal.
 */
static bool port_detach(uint64_t end)
{
    struct sigaction action = {0}, before;

    if (own_port[0] == '\0')
        return true;
    for (;;) {
        uint64_t since = atomic_load(&port_since), now = kit_host->clock_ns();

        if (since != 0 && now - since > DETACH_AFTER_NS)
            break;
        if (now > end + DETACH_AFTER_NS)
            return false;
        dial_pause(CLOSE_PAUSE);
    }
    action.sa_handler = port_detached;
    if (sigaction(DETACH_SIGNAL, NULL, &before) != 0 || before.sa_handler != SIG_DFL ||
        sigaction(DETACH_SIGNAL, &action, NULL) != 0 ||
        pthread_kill(port_thread, DETACH_SIGNAL) != 0)
        return false;
    while (!atomic_load(&is_detached) && kit_host->clock_ns() < end + DETACH_AFTER_NS)
        dial_pause(CLOSE_PAUSE);
    return atomic_load(&is_detached);
}

static void port_detached(int number)
{
    (void) number;
    atomic_store(&is_detached, true);
    for (;;)
        (void) pause();
}

static void port_accepted(MPI_Comm comm)
{
    struct mpi_arrival *arrival;
    struct dial_hello hello;

    (void) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (!hello_receive(comm, &hello)) {
        MPI_LOG_WARNING("refused a connection: its process sent no HELLO of this protocol; both "
                        "sides must use the same release");
        comm_refuse(comm);
        return;
    }
    arrival = kit_host->mem_alloc(sizeof(*arrival), 0);
    if (arrival == NULL) {
        comm_refuse(comm);
        return;
    }
    kit_list_init(&arrival->node);
    arrival->comm = comm;
    arrival->serial = hello.from;
    memcpy(arrival->name, hello.name, sizeof(arrival->name));
    if (mpi_process_deliver(hello.to, arrival))
        return;
    MPI_LOG_INFO("%s connected to endpoint %u, which is not open", hello.name, hello.to);
    kit_host->mem_free(arrival);
    comm_refuse(comm);
}

/* Receives and checks a HELLO; false if it is not valid, or does not arrive in time. */
static bool hello_receive(MPI_Comm comm, struct dial_hello *hello)
{
    uint64_t end = kit_host->clock_ns() + HELLO_NS;
    int is_done = 0, size = 0;
    MPI_Request request;
    MPI_Status status;

    memset(hello, 0, sizeof(*hello));
    if (MPI_Irecv(hello, sizeof(*hello), MPI_BYTE, 0, MPI_TAG_META, comm, &request) != MPI_SUCCESS)
        return false;
    for (;;) {
        if (MPI_Test(&request, &is_done, &status) != MPI_SUCCESS)
            return false;
        if (is_done != 0)
            break;
        if (kit_host->clock_ns() > end) {
            (void) MPI_Cancel(&request);
            (void) MPI_Wait(&request, &status);
            return false;
        }
        dial_pause(100000);
    }
    (void) MPI_Get_count(&status, MPI_BYTE, &size);
    if (size != (int) sizeof(*hello) || hello->magic != HELLO_MAGIC ||
        memchr(hello->name, '\0', sizeof(hello->name)) == NULL || hello->name[0] == '\0' ||
        hello->from >= mpi_process.serials)
        return false;
    for (const char *c = hello->name; *c != '\0'; c++)
        if (*c <= ' ' || *c >= 0x7f)
            return false;
    return true;
}

/* The thread blocks all signals, which are for the program's threads. */
static int32_t thread_start(void *(*run)(void *arg), void *arg, pthread_t *thread)
{
    sigset_t all, before;
    pthread_attr_t attr;
    int error;

    (void) sigfillset(&all);
    (void) pthread_attr_init(&attr);
    (void) pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, &attr, run, arg);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void) pthread_attr_destroy(&attr);
    if (error == 0)
        return NA_PLUGIN_SUCCESS;
    MPI_LOG_ERROR("no thread for MPI's connections: error %d", error);
    return NA_PLUGIN_NOMEM;
}

/* A thread that connects, sends a HELLO, and delivers the connection. */
static void *dial_run(void *arg)
{
    struct dial_call *call = arg;
    struct dial_hello hello = {.magic = HELLO_MAGIC, .to = call->to, .from = call->from};
    struct mpi_arrival *arrival;
    MPI_Comm comm = MPI_COMM_NULL;
    char text[MPI_TEXT_MAX];
    int turns[2];
    int error;

    dial_turns_take(call, turns);
    error = dial_connect(call, &comm);
    if (error == MPI_SUCCESS) {
        (void) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        memcpy(hello.name, call->name, sizeof(hello.name));
        error = MPI_Send(&hello, sizeof(hello), MPI_BYTE, 0, MPI_TAG_META, comm);
    }
    dial_turns_give(turns);
    if (error != MPI_SUCCESS)
        MPI_LOG_ERROR("cannot connect to %s#%u (%s). Jobs of different mpiexecs find each other by "
                      "a server only: run `ompi-server --no-daemonize -r FILE` and start each with "
                      "`mpiexec --ompi-server file:FILE`",
                      call->port, call->to, mpi_text(error, text));
    arrival = kit_host->mem_alloc(sizeof(*arrival), 0);
    if (arrival == NULL) { /* the link fails by its deadline */
        if (comm != MPI_COMM_NULL)
            comm_refuse(comm);
        goto out;
    }
    kit_list_init(&arrival->node);
    arrival->comm = comm;
    arrival->status = error == MPI_SUCCESS ? NA_PLUGIN_SUCCESS : NA_PLUGIN_HOSTUNREACH;
    arrival->is_dialed = true;
    arrival->link = call->link;
    arrival->serial = call->to;
    if (!mpi_process_deliver(call->from, arrival)) {
        if (comm != MPI_COMM_NULL)
            comm_refuse(comm);
        kit_host->mem_free(arrival);
    }

out:
    free(call);
    (void) atomic_fetch_sub(&dial_count, 1);
    return NULL;
}

static int dial_connect(struct dial_call *call, MPI_Comm *comm_p)
{
    MPI_Comm self;
    int error;

    (void) pthread_mutex_lock(&dial_lock);
    error = MPI_Comm_dup(MPI_COMM_SELF, &self);
    (void) pthread_mutex_unlock(&dial_lock);
    if (error != MPI_SUCCESS)
        return error;
    (void) MPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
    for (uint32_t i = 0; i < DIAL_ATTEMPTS; i++) {
        if (i != 0)
            dial_pause((long) i * DIAL_PAUSE_NS);
        error = MPI_Comm_connect(call->port, MPI_INFO_NULL, 0, self, comm_p);
        if (error == MPI_SUCCESS)
            break;
        *comm_p = MPI_COMM_NULL;
    }
    (void) MPI_Comm_free(&self);
    return error;
}

/*
 * In Open MPI, processes that connect to the same port at the same time may hang, as may two
 * processes that connect to each other. So the processes of a node take turns: a connection locks
 * the target's port and that of its own process, the lower one first, which prevents deadlocks.
 */
static void dial_turns_take(const struct dial_call *call, int turns[2])
{
    uint64_t end = kit_host->clock_ns() + TURN_NS;
    uint64_t to = kit_digest(call->port, strlen(call->port)), from;
    char port[KIT_NAME_MAX] = "";
    uint32_t serial;

    (void) mpi_port_read(call->name, port, &serial);
    from = kit_digest(port, strlen(port));
    (void) atomic_fetch_add(&dial_waiting, 1);
    turns[0] = dial_turn_take(to < from ? to : from, end);
    turns[1] = dial_turn_take(to < from ? from : to, end);
    (void) atomic_fetch_sub(&dial_waiting, 1);
}

static void dial_turns_give(const int turns[2])
{
    for (int i = 0; i < 2; i++)
        if (turns[i] >= 0)
            (void) close(turns[i]);
}

/* Binding the port's abstract socket locks the port; it is unlocked when the process ends. */
static int dial_turn_take(uint64_t port, uint64_t end)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "amalgam-mpi-%016llx",
                          (unsigned long long) port);
    socklen_t size = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) length);

    while (fd >= 0 && bind(fd, (const struct sockaddr *) &address, size) != 0 &&
           errno == EADDRINUSE && kit_host->clock_ns() < end)
        dial_pause(TURN_PAUSE);
    return fd;
}

static void dial_pause(long ns)
{
    struct timespec pause = {0, ns};

    (void) nanosleep(&pause, NULL);
}

/* Sends BYE. The communicator is kept: MPI must not reuse its number while the peer may send. */
static void comm_refuse(MPI_Comm comm)
{
    MPI_Request request;

    if (MPI_Isend(NULL, 0, MPI_BYTE, 0, MPI_TAG_META, comm, &request) == MPI_SUCCESS)
        (void) MPI_Request_free(&request);
    mpi_comm_retire(comm);
}

/* Frees the communicator if a BYE has arrived. A HELLO before it is dropped. */
static bool comm_is_closed(MPI_Comm comm)
{
    struct dial_hello hello;
    MPI_Message message;
    MPI_Status status;
    int is_there = 0, size = 0;

    if (MPI_Improbe(0, MPI_TAG_META, comm, &is_there, &message, &status) != MPI_SUCCESS ||
        is_there == 0)
        return false;
    (void) MPI_Get_count(&status, MPI_BYTE, &size);
    if (size > (int) sizeof(hello))
        return false;
    (void) MPI_Mrecv(&hello, size, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    if (size == (int) sizeof(hello)) /* the HELLO */
        return false;
    (void) MPI_Comm_free(&comm);
    return true;
}
