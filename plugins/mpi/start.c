/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Initialising MPI, and the communicators that all classes use. MPI can be initialised only once;
 * if the plugin did it, MPI is finalized when the process ends.
 */

#include "mpi_class.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRAIN_MESSAGES 10000
#define DRAIN_SIZE     2048

static int32_t process_start(void);
static int32_t process_check_threads(const struct na_plugin_class *na_class,
                                     const struct na_plugin_init *init);
static int32_t process_check_launch(void);
static int32_t process_communicators(const struct na_plugin_class *na_class);
static int32_t process_world(void);
static void process_count_tags(void);
static void process_end(void);
static void process_drain(MPI_Comm comm);
static const char *thread_level_text(int level);

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t owner_pid;       /* process that first used MPI here; 0: none yet */
static long world_given = -1; /* handle of which `world` is a duplicate; -1: MPI_COMM_WORLD */

/* Initialises MPI if that was not done, and gives the class its number. */
int32_t mpi_start(struct na_plugin_class *na_class, const struct na_plugin_init *init)
{
    int32_t ret;

    (void) pthread_mutex_lock(&start_lock);
    ret = process_start();
    if (ret == NA_PLUGIN_SUCCESS)
        ret = process_check_threads(na_class, init);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = process_communicators(na_class);
    if (ret == NA_PLUGIN_SUCCESS) {
        mpi_process_add(na_class);
        mpi_remains_look();
    }
    (void) pthread_mutex_unlock(&start_lock);
    return ret;
}

void mpi_stop(struct na_plugin_class *na_class)
{
    (void) pthread_mutex_lock(&start_lock);
    mpi_process_remove(na_class);
    mpi_remains_look();
    (void) pthread_mutex_unlock(&start_lock);
}

static int32_t process_start(void)
{
    int is_initialized = 0;
    char text[MPI_TEXT_MAX];
    int error;

    if (mpi_process_is_over()) {
        MPI_LOG_ERROR("MPI was finalized already and cannot be initialised again: call "
                      "MPI_Finalize after the last class is closed");
        return NA_PLUGIN_FAULT;
    }
    if (owner_pid != 0 && owner_pid != getpid()) {
        MPI_LOG_ERROR("MPI was initialised before this process was forked; a forked process has to "
                      "execute a program of its own to use it");
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    if (owner_pid != 0)
        return process_check_launch();
    (void) MPI_Initialized(&is_initialized);
    if (is_initialized != 0) {
        (void) MPI_Query_thread(&mpi_process.thread_level);
    } else {
        error = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &mpi_process.thread_level);
        if (error != MPI_SUCCESS) {
            MPI_LOG_ERROR("MPI cannot be initialised (%s)", mpi_text(error, text));
            return NA_PLUGIN_NODEV;
        }
        mpi_process.is_ours = true;
        kit_process_ignore_sigpipe(); /* Open MPI writes to sockets that a peer has closed */
        (void) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        (void) MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        (void) atexit(process_end);
    }
    owner_pid = getpid();
    process_count_tags();
    return process_check_launch();
}

/*
 * With less than MPI_THREAD_MULTIPLE, two threads must not be in MPI at the same time. A lock keeps
 * our calls apart, but not those of the program, which must promise to use one thread.
 */
static int32_t process_check_threads(const struct na_plugin_class *na_class,
                                     const struct na_plugin_init *init)
{
    bool is_single = (init->thread_mode & NA_PLUGIN_THREAD_SINGLE_CLASS) != 0;
    pthread_mutexattr_t attr;

    if (mpi_process.thread_level == MPI_THREAD_MULTIPLE)
        return NA_PLUGIN_SUCCESS;
    if (na_class->is_dynamic) {
        MPI_LOG_ERROR("MPI was initialised with %s, but " MPI_PLUGIN_NAME "+" MPI_PROTOCOL_DYNAMIC
                      " accepts connections in a thread of its own: call MPI_Init_thread with "
                      "MPI_THREAD_MULTIPLE",
                      thread_level_text(mpi_process.thread_level));
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    if (!is_single && (!mpi_process.is_ours || mpi_process.thread_level < MPI_THREAD_SERIALIZED)) {
        MPI_LOG_ERROR("MPI was initialised with %s: call MPI_Init_thread with MPI_THREAD_MULTIPLE, "
                      "or open the class with NA_THREAD_MODE_SINGLE",
                      thread_level_text(mpi_process.thread_level));
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    if (mpi_process.is_locking || is_single)
        return NA_PLUGIN_SUCCESS;
    (void) pthread_mutexattr_init(&attr);
    (void) pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    (void) pthread_mutex_init(&mpi_calls, &attr);
    (void) pthread_mutexattr_destroy(&attr);
    mpi_process.is_locking = true;
    return NA_PLUGIN_SUCCESS;
}

/* Started by the mpiexec of another MPI, each process would be a job of its own. */
static int32_t process_check_launch(void)
{
#ifdef OPEN_MPI
    static const char *const foreign = "PMI_SIZE";
    static const char *const own = "OMPI_COMM_WORLD_SIZE";
#else
    static const char *const foreign = "OMPI_COMM_WORLD_SIZE";
    static const char *const own = "PMI_SIZE";
#endif
    const char *size = getenv(foreign);
    int ranks = 1;

    (void) MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks > 1 || size == NULL || getenv(own) != NULL || strcmp(size, "1") == 0)
        return NA_PLUGIN_SUCCESS;
    MPI_LOG_ERROR(
        "this process was started as one of %s by the mpiexec of another MPI (%s is set), "
        "but plugin " MPI_PLUGIN_NAME " is built for " MPI_BUILT_FOR
        ": use that one's mpiexec, or the plugin for the other MPI",
        size, foreign);
    return NA_PLUGIN_NODEV;
}

static int32_t process_communicators(const struct na_plugin_class *na_class)
{
    int32_t ret = na_class->is_dynamic ? NA_PLUGIN_SUCCESS : process_world();

    if (ret == NA_PLUGIN_SUCCESS && mpi_process.self == MPI_COMM_NULL)
        ret = mpi_process_dup(MPI_COMM_SELF, "MPI_COMM_SELF", &mpi_process.self);
    return ret;
}

/*
 * Duplicates the program's communicator, which the environment names (na_mpi.h), once for each; all
 * of its ranks must take part. The duplicate before is never freed: Open MPI would deliver a late
 * BYE to the next communicator with the same number, or crash.
 */
static int32_t process_world(void)
{
    const char *given = getenv("AMALGAM_MPI_COMM");
    MPI_Comm base = MPI_COMM_WORLD;
    long handle = -1;
    int32_t ret;

    if (given != NULL) {
        char *end;

        handle = strtol(given, &end, 10);
        if (*given == '\0' || *end != '\0' || handle < INT32_MIN || handle > INT32_MAX) {
            MPI_LOG_ERROR("AMALGAM_MPI_COMM='%s' is no communicator: it is set by "
                          "NA_MPI_Set_init_intra_comm() only",
                          given);
            return NA_PLUGIN_INVALID_ARG;
        }
        base = MPI_Comm_f2c((MPI_Fint) handle);
    }
    if (mpi_process.world != MPI_COMM_NULL && world_given == handle)
        return NA_PLUGIN_SUCCESS;
    if (mpi_process.world != MPI_COMM_NULL && !mpi_process_is_empty()) {
        MPI_LOG_ERROR("a class over another communicator is open: close it first");
        return NA_PLUGIN_BUSY;
    }
    ret = mpi_process_dup(base, given != NULL ? "the given communicator" : "MPI_COMM_WORLD",
                          &mpi_process.world);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    world_given = handle;
    /* There are no late messages in new communicators, so numbers can begin at 0 again. */
    if (mpi_process_is_empty()) {
        mpi_process_restart();
        mpi_process.self = MPI_COMM_NULL;
    }
    (void) MPI_Comm_rank(mpi_process.world, &mpi_process.rank);
    (void) MPI_Comm_size(mpi_process.world, &mpi_process.size);
    return NA_PLUGIN_SUCCESS;
}

/* All processes get the same numbers, because they have the same MPI. */
static void process_count_tags(void)
{
    int is_set = 0;
    int *bound = NULL;
    uint32_t last = 32767; /* the least that the MPI standard guarantees */

    (void) MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &is_set);
    if (is_set != 0 && *bound > 32767)
        last = (uint32_t) *bound;
    mpi_process.tags = (last - MPI_TAG_PIECES) / MPI_TAGS >= 64 ? MPI_TAGS : MPI_TAGS_FEW;
    mpi_process.serials = (last - MPI_TAG_PIECES) / mpi_process.tags;
    if (mpi_process.serials > MPI_SERIALS_MAX)
        mpi_process.serials = MPI_SERIALS_MAX;
}

/* Called at exit. MPI_Finalize() waits for the other ranks, and for connected jobs. */
static void process_end(void)
{
    if (owner_pid != getpid() || mpi_process_is_over())
        return;
    mpi_remains_look();
    if (!mpi_comms_close()) {
        MPI_LOG_WARNING("MPI is left as it is: it would wait for a process that is connected and "
                        "does not answer any more");
        return;
    }
    process_drain(mpi_process.world);
    process_drain(mpi_process.self);
    (void) MPI_Finalize();
}

/* Receives messages for closed endpoints, mostly BYEs: some MPIs warn about unreceived ones. */
static void process_drain(MPI_Comm comm)
{
    static uint8_t dropped[DRAIN_SIZE];

    for (int i = 0; comm != MPI_COMM_NULL && i < DRAIN_MESSAGES; i++) {
        int is_there = 0, size = 0;
        MPI_Message message;
        MPI_Status status;

        if (MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &is_there, &message, &status) !=
                MPI_SUCCESS ||
            is_there == 0)
            break;
        (void) MPI_Get_count(&status, MPI_BYTE, &size);
        if (size > DRAIN_SIZE) /* its sender may not be able to send the rest */
            break;
        (void) MPI_Mrecv(dropped, size, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    }
}

static const char *thread_level_text(int level)
{
    switch (level) {
    case MPI_THREAD_SINGLE:
        return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
        return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
        return "MPI_THREAD_SERIALIZED";
    default:
        return "MPI_THREAD_MULTIPLE";
    }
}
