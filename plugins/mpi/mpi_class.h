/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the modules of this plugin share. Messages are frames of kit_msg.h, puts and gets pieces
 * of kit_rma.h, both as MPI messages. All that MPI reads or writes lies in buffers of ours:
 * MPI cannot be told to let go of memory, so the user's is copied.
 */

#ifndef MPI_CLASS_H
#define MPI_CLASS_H

#include "kit_remote.h"
#include "na_plugin_offer_details.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

/* Which MPI this object is built for: the build system says its plugin's name. */
#ifdef OPEN_MPI
#    define MPI_BUILT_FOR "Open MPI"
#else
#    define MPI_BUILT_FOR "MPICH"
#endif

#define MPI_PROTOCOL_STATIC  "static"
#define MPI_PROTOCOL_DYNAMIC "dynamic"

#define MPI_MAX_FRAME        UINT64_C(65536)
#define MPI_PIECE            (UINT32_C(256) << 10)
#define MPI_WINDOW           4u
#define MPI_PIECE_EAGER      (UINT32_C(60) << 10) /* between jobs: decision 11 */
#define MPI_WINDOW_EAGER     16u
#define MPI_SHARED_RECEIVES  8u  /* posted for all peers together */
#define MPI_LINK_RECEIVES    2u  /* and for each that has a communicator of its own */
#define MPI_SYNC_EVERY       8u  /* of so many frames to a peer one waits until it is received */
#define MPI_SYNC_ANYWAY      64u /* and of so many to one that sends frames itself */
#define MPI_SENT_MAX         32u /* frames that MPI was not asked about since they were sent */
#define MPI_CLOCK_POLLS      64u
#define MPI_ALL_POLLS        16u /* polls, of which one asks for what is out of order, too */
#define MPI_DIAL_NS          UINT64_C(30000000000) /* for a target to accept */
#define MPI_BYE_NS           UINT64_C(200000000)   /* for BYEs when a class closes */

/* In a poll that finds nothing. With MPICH a look takes longer. */
#define MPI_LOOKS 4u
#ifdef OPEN_MPI
#    define MPI_LOOKS_ALONE 8u /* where only frames of all are waited for */
#else
#    define MPI_LOOKS_ALONE 4u
#endif

/* Tags: frames carry the number of the endpoint they are for, pieces are numbered behind. */
#define MPI_SERIALS_MAX      4096u
#define MPI_TAG_META         4096 /* HELLO and BYE of a link */
#define MPI_TAG_PIECES       8192
#define MPI_TAGS             16384u /* of pieces, for each endpoint */
#define MPI_TAGS_FEW         1024u  /* where MPI has few */

#define MPI_LOG(level, ...)  KIT_LOG(level, MPI_PLUGIN_NAME, __VA_ARGS__)
#define MPI_LOG_ERROR(...)   MPI_LOG(NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define MPI_LOG_WARNING(...) MPI_LOG(NA_PLUGIN_LOG_WARNING, __VA_ARGS__)
#define MPI_LOG_INFO(...)    MPI_LOG(NA_PLUGIN_LOG_INFO, __VA_ARGS__)
#define MPI_LOG_DEBUG(...)   MPI_LOG(NA_PLUGIN_LOG_DEBUG, __VA_ARGS__)

enum mpi_job_kind {
    MPI_JOB_SEND_FRAME,
    MPI_JOB_RECV_FRAME,
    MPI_JOB_SEND_PIECE,
    MPI_JOB_RECV_PIECE,
    MPI_JOB_SEND_META,
    MPI_JOB_RECV_META,
    MPI_JOB_RECV_REST, /* of a link that is out of use: it is dropped */
};

/*
 * Begins the message of each frame, in the byte order of the machine, as MPI has none for bytes.
 * Messages of one sender are received in order, but several threads may see them done in another.
 */
struct mpi_frame_header {
    uint32_t serial;   /* of the sending endpoint */
    uint32_t link;     /* number of its way to us; a later one is higher */
    uint32_t sequence; /* on that way, from 0 */
    uint32_t magic;
};

#define MPI_FRAME_MAGIC  UINT32_C(0x4d466d41)
#define MPI_FRAME_BUFFER (MPI_MAX_FRAME + sizeof(struct mpi_frame_header))
#define MPI_BUCKETS      256u
#define MPI_EARLY_MAX    64u

/* An endpoint that sends us frames (source.c). */
struct mpi_source {
    struct mpi_source *hash_next;
    const struct mpi_link *via; /* on which they come */
    int rank;
    uint32_t serial;
    uint32_t link;
    uint32_t expected; /* sequence of the next frame */
    uint32_t early_count;
    struct kit_link early; /* jobs with frames that came before it */
};

/* One message that MPI works on, with the memory that it works on. */
struct mpi_job {
    struct kit_link node; /* of a pool, of the posted or deferred ones, of the remains */
    struct mpi_link *link;
    enum mpi_job_kind kind;
    uint32_t index; /* in the class's requests; UINT32_MAX: in none */
    int source;     /* rank that it came from */
    uint64_t capacity;
    struct kit_frame *frame;
    struct kit_rma_piece *piece;
    bool is_cancelled; /* what comes is dropped */
    bool is_withdrawn; /* MPI was asked to end it */
    int32_t status;    /* of what is done, until it is dealt with */
    uint64_t size;
    MPI_Request request; /* of remains, and of what is to be settled or looked at */
    uint8_t *data;
};

enum mpi_link_phase {
    MPI_LINK_DIALING,
    MPI_LINK_READY,
    MPI_LINK_FAILED,
};

/* The way to an endpoint, or for all: the one on which everybody's frames come. */
struct mpi_link {
    struct kit_link node; /* of the class */
    struct na_plugin_class *na_class;
    struct kit_peer *peer; /* NULL: the message layer does not use it */
    char *name;            /* of the endpoint; NULL: for all, or not known yet */
    enum mpi_link_phase phase;
    MPI_Comm comm;
    bool is_own_comm; /* of this link alone, in which the other side says BYE, too */
    bool is_local;    /* to an endpoint of this process */
    bool has_said_bye;
    bool is_leaving; /* the other side has said BYE, perhaps before its last frames came */
    bool has_heard_bye;
    uint32_t bye;      /* frames that it sent before */
    uint64_t deadline; /* ns: for the connection that is being made; 0: none is */
    int rank;
    uint32_t serial; /* of the other endpoint */
    uint32_t number; /* of this way among all that the process had */
    uint32_t sent;   /* frames */
    uint32_t heard;  /* frames of the other endpoint's, when they were counted last */
    uint32_t jobs;   /* that MPI works on */
    bool is_closing; /* goes when there are none */
};

/* A connection that another thread made or accepted, for the class that it is for. */
struct mpi_arrival {
    struct kit_link node;
    MPI_Comm comm; /* MPI_COMM_NULL: there is none, because of status */
    int32_t status;
    bool is_dialed;
    uint32_t link;   /* number of the link that it was dialed for */
    uint32_t serial; /* of the other endpoint */
    char name[KIT_NAME_MAX];
};

/* Requests of a class, in arrays as MPI wants them. */
struct mpi_requests {
    MPI_Request *requests;
    struct mpi_job **jobs;
    int *indices;
    MPI_Status *statuses;
    struct mpi_job **done;
    uint32_t count;
    uint32_t capacity;
};

/* Begins with the message layer's endpoint. */
struct na_plugin_class {
    struct kit_endpoint fabric;
    struct kit_link node; /* of all of the process */
    bool is_dynamic;
    bool is_listening;
    uint32_t serial;
    char name[KIT_NAME_MAX];
    struct mpi_requests requests;
    struct kit_link links;
    struct mpi_link *shared; /* for all */
    struct kit_link posted;  /* receives on the shared link: MPI fills them in this order */
    uint32_t posted_count;
    bool has_more;         /* the last poll found something */
    struct kit_link again; /* receives on it that are posted when there is time */
    struct kit_link sent;  /* small frames that MPI has, looked at when there is time */
    uint32_t sent_count;
    struct kit_link held; /* frames that the message layer keeps */
    struct kit_link free_frames;
    struct kit_link free_pieces;
    uint32_t job_count; /* with memory, in use or not */
    struct mpi_source *sources[MPI_BUCKETS];
    uint32_t polls;
    uint32_t collects;
    uint32_t dialing;         /* links */
    struct kit_link arrivals; /* the lock of the process */
    _Atomic bool has_arrivals;
    bool has_unused; /* links */
    bool is_failed;  /* said once */
};

struct mpi_peer {
    struct mpi_link *link;
};

struct mpi_piece {
    struct mpi_job *job;
};

/* What the classes of the process share. */
struct mpi_process {
    MPI_Comm world; /* a communicator of our own with the ranks of static addresses */
    MPI_Comm self;  /* likewise with this process alone */
    int rank, size; /* in world */
    uint32_t serials;
    uint32_t tags; /* for each of them */
    int thread_level;
    bool is_ours;    /* we initialised MPI */
    bool is_locking; /* MPI wants one thread at a time */
};

extern struct mpi_process mpi_process;

static inline struct na_plugin_class *mpi_class(struct kit_endpoint *endpoint)
{
    return (struct na_plugin_class *) (void *) endpoint;
}

static inline struct mpi_peer *mpi_peer(struct kit_peer *peer)
{
    return peer->priv;
}

/* status.c */
#define MPI_TEXT_MAX 128u
int32_t mpi_status(int error);
const char *mpi_text(int error, char text[MPI_TEXT_MAX]);

/* start.c */
int32_t mpi_start(struct na_plugin_class *na_class, const struct na_plugin_init *init);
void mpi_stop(struct na_plugin_class *na_class);

/* process.c */
extern pthread_mutex_t mpi_calls;
void mpi_process_add(struct na_plugin_class *na_class);
void mpi_process_remove(struct na_plugin_class *na_class);
bool mpi_process_is_empty(void);
void mpi_process_restart(void);
bool mpi_process_is_over(void);
bool mpi_process_has(uint32_t serial);
bool mpi_process_local(const char *name, uint32_t *serial_p);
bool mpi_process_deliver(uint32_t serial, struct mpi_arrival *arrival);
struct mpi_arrival *mpi_process_arrival(struct na_plugin_class *na_class);
int32_t mpi_process_dup(MPI_Comm from, const char *what, MPI_Comm *to);
uint32_t mpi_process_number(void);
void mpi_call_lock(void);
void mpi_call_unlock(void);

/* Around calls of MPI; may be nested. */
static inline void mpi_enter(void)
{
    if (kit_unlikely(mpi_process.is_locking))
        mpi_call_lock();
}

static inline void mpi_leave(void)
{
    if (kit_unlikely(mpi_process.is_locking))
        mpi_call_unlock();
}

/* enumerate.c */
int32_t mpi_enumerate(const char *protocol, na_plugin_offer_fn report, void *arg);
const char *mpi_dynamic_missing(void);

/* endpoint.c */
int32_t mpi_class_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                             struct na_plugin_class **class_p, struct na_plugin_class_info *info);
int32_t mpi_class_finalize(struct na_plugin_class *na_class);

/* address.c */
#define MPI_ORIGIN_PREFIX "origin-" /* who does not listen */
int32_t mpi_addr_lookup(struct na_plugin_class *na_class, const char *name,
                        struct na_plugin_addr **addr_p);
bool mpi_name_read(const char *name, int *rank_p, uint32_t *serial_p);
bool mpi_port_read(const char *name, char port[KIT_NAME_MAX], uint32_t *serial_p);

/* link.c */
struct mpi_link *mpi_link_make(struct na_plugin_class *na_class, const char *name);
void mpi_link_drop(struct mpi_link *link);
void mpi_links_free_unused(struct na_plugin_class *na_class);
void mpi_link_quiet(struct mpi_link *link);
int32_t mpi_peer_open(struct kit_endpoint *endpoint, struct kit_peer *peer);
void mpi_peer_close(struct kit_endpoint *endpoint, struct kit_peer *peer);

/* After something on the link is done: perhaps MPI is done with it, too. The next poll looks. */
static inline void mpi_link_unused(struct mpi_link *link)
{
    if (kit_unlikely(link->is_closing))
        link->na_class->has_unused = true;
}

void mpi_link_met(struct na_plugin_class *na_class);
void mpi_links_look(struct na_plugin_class *na_class);
void mpi_link_bye(const struct mpi_job *job);
void mpi_link_left(struct mpi_link *link);
void mpi_links_leave(struct na_plugin_class *na_class);
void mpi_links_free(struct na_plugin_class *na_class);

/* dial.c: connections, made and accepted in threads, because MPI blocks in both */
int32_t mpi_port_open(char port[KIT_NAME_MAX]);
int32_t mpi_dial(struct mpi_link *link);
bool mpi_dial_is_waiting(void);
bool mpi_port_is_own(const char *name);
void mpi_comm_leave(MPI_Comm comm);
bool mpi_comms_close(void);

/* job.c */
static inline bool mpi_job_is_receive(const struct mpi_job *job)
{
    return job->kind == MPI_JOB_RECV_FRAME || job->kind == MPI_JOB_RECV_PIECE ||
           job->kind == MPI_JOB_RECV_META || job->kind == MPI_JOB_RECV_REST;
}

struct mpi_job *mpi_job_get(struct na_plugin_class *na_class, struct mpi_link *link,
                            enum mpi_job_kind kind);
void mpi_job_put(struct mpi_job *job);
void mpi_job_settle(struct mpi_job *job);
int32_t mpi_job_send(struct mpi_job *job, int tag, uint64_t size, bool is_sync);
bool mpi_job_look(struct mpi_job *job);
int32_t mpi_job_receive(struct mpi_job *job, int tag, uint64_t size);
bool mpi_job_receive_rest(struct mpi_link *link);
void mpi_job_withdraw(struct mpi_job *job);
void mpi_job_abandon(struct mpi_job *job);
uint32_t mpi_jobs_collect(struct na_plugin_class *na_class);
void mpi_jobs_free(struct na_plugin_class *na_class);
void mpi_remains_look(void);

/* frame.c */
int32_t mpi_frame_send(struct kit_endpoint *endpoint, struct kit_frame *frame);
void mpi_frame_release(struct kit_endpoint *endpoint, void *cookie);
void mpi_frame_sent(struct na_plugin_class *na_class, struct mpi_job *job);
void mpi_frame_received(struct na_plugin_class *na_class, struct mpi_job *job);
void mpi_frame_drop(struct mpi_job *job);
void mpi_frames_later(struct na_plugin_class *na_class);
void mpi_frames_look(struct na_plugin_class *na_class);
int32_t mpi_receives_post(struct mpi_link *link, uint32_t count);

/* Something waits for a poll that finds nothing. */
static inline bool mpi_has_later(const struct na_plugin_class *na_class)
{
    return !kit_list_empty(&na_class->again) || na_class->sent_count != 0;
}

/* wait.c */
extern _Atomic uint32_t mpi_activity;
int32_t mpi_poll_wait(struct na_plugin_context *context, uint32_t timeout_ms, uint32_t *count);
void mpi_wake(struct na_plugin_context *context);

/* Something happens: nobody naps for a while. */
static inline void mpi_stay_awake(void)
{
    uint32_t now = atomic_load_explicit(&mpi_activity, memory_order_relaxed);

    atomic_store_explicit(&mpi_activity, now + 1, memory_order_relaxed);
}

/* source.c */
bool mpi_source_take(struct na_plugin_class *na_class, struct mpi_job *job,
                     struct mpi_source **source_p);
struct mpi_job *mpi_source_take_early(struct mpi_source *source);
uint32_t mpi_source_heard(const struct mpi_link *link);
void mpi_sources_free(struct na_plugin_class *na_class, const struct mpi_link *via);

/* One that was kept and whose turn it is; NULL when there is none. */
static inline struct mpi_job *mpi_source_next(struct mpi_source *source)
{
    return kit_likely(kit_list_empty(&source->early)) ? NULL : mpi_source_take_early(source);
}

/* poll.c */
int32_t mpi_poll(struct kit_endpoint *endpoint);
void mpi_jobs_abandon_all(struct na_plugin_class *na_class);

/* piece.c */
extern const struct kit_rma_ops mpi_rma_ops;
void mpi_piece_done(struct na_plugin_class *na_class, struct mpi_job *job);

#endif /* MPI_CLASS_H */
