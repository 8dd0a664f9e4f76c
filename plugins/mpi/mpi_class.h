/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The declarations that the modules of this plugin share. Frames of kit_msg.h and pieces of
 * kit_rma.h are sent as MPI messages. MPI cannot be told to stop using memory, so the user's memory
 * is copied to and from buffers of the plugin.
 */

#ifndef MPI_CLASS_H
#define MPI_CLASS_H

#include "kit_remote.h"
#include "na_plugin_offer_details.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

/* The MPI that this object is built for. The build system defines MPI_PLUGIN_NAME. */
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
#define MPI_SHARED_RECEIVES  8u  /* receives posted for all peers together */
#define MPI_LINK_RECEIVES    2u  /* and for each link with its own communicator */
#define MPI_SYNC_EVERY       8u  /* one in so many frames is a synchronous send */
#define MPI_SYNC_ANYWAY      64u /* and one in so many to a peer that sends frames */
#define MPI_SENT_MAX         32u /* sent frames whose requests were not tested yet */
#define MPI_CLOCK_POLLS      64u
#define MPI_ALL_POLLS        16u                   /* one in so many polls tests all requests */
#define MPI_DIAL_NS          UINT64_C(30000000000) /* for the target to accept */
#define MPI_BYE_NS           UINT64_C(200000000)   /* for the peers' BYEs when a class closes */

/* Tests of a request in a poll that finds nothing. With MPICH a test takes longer. */
#define MPI_TESTS 4u
#ifdef OPEN_MPI
#    define MPI_TESTS_ALONE 8u /* when only receives on the shared link are posted */
#else
#    define MPI_TESTS_ALONE 4u
#endif

/* Tags. That of a frame is the number of the receiving endpoint; pieces have higher ones. */
#define MPI_SERIALS_MAX      4096u
#define MPI_TAG_META         4096 /* HELLO and BYE of a link */
#define MPI_TAG_PIECES       8192
#define MPI_TAGS             16384u /* of pieces, for each endpoint */
#define MPI_TAGS_FEW         1024u  /* if MPI has few tags */

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
    MPI_JOB_RECV_REST, /* of a link that is closing: the message is dropped */
};

/*
 * The header of each frame's message, in the byte order of the machine, because MPI does not
 * convert bytes. MPI matches the messages of a sender in order, but with several threads in MPI
 * they may complete in another order.
 */
struct mpi_frame_header {
    uint32_t serial;   /* of the sending endpoint */
    uint32_t link;     /* number of its link to us; a later link has a higher one */
    uint32_t sequence; /* of the frame on that link, from 0 */
    uint32_t magic;
};

#define MPI_FRAME_MAGIC  UINT32_C(0x4d466d41)
#define MPI_FRAME_BUFFER (MPI_MAX_FRAME + sizeof(struct mpi_frame_header))
#define MPI_BUCKETS      256u
#define MPI_EARLY_MAX    64u

/* An endpoint that sends frames to us (source.c). */
struct mpi_source {
    struct mpi_source *hash_next;
    const struct mpi_link *via; /* the link on which they arrive */
    int rank;
    uint32_t serial;
    uint32_t link;
    uint32_t expected; /* sequence of the next frame */
    uint32_t early_count;
    struct kit_link early; /* jobs with frames that overtook it, by sequence */
};

/* A message that is sent or received by MPI, with its buffer. */
struct mpi_job {
    struct kit_link node; /* of a pool, or of another list of the class or the process */
    struct mpi_link *link;
    enum mpi_job_kind kind;
    uint32_t index; /* in the class's requests; UINT32_MAX: in none */
    int source;     /* rank of the sender */
    uint64_t capacity;
    struct kit_frame *frame;
    struct kit_rma_piece *piece;
    bool is_cancelled; /* a received message is dropped */
    bool is_withdrawn; /* MPI_Cancel() was called */
    int32_t status;    /* of a completed job */
    uint64_t size;
    MPI_Request request; /* if it is not in the class's requests */
    uint8_t *data;
};

enum mpi_link_phase {
    MPI_LINK_DIALING,
    MPI_LINK_READY,
    MPI_LINK_FAILED,
};

/* The connection to an endpoint; or the shared link, on which frames of all ranks arrive. */
struct mpi_link {
    struct kit_link node; /* of the class */
    struct na_plugin_class *na_class;
    struct kit_peer *peer; /* that uses the link, or NULL */
    char *name;            /* of the endpoint; NULL: the shared link */
    enum mpi_link_phase phase;
    MPI_Comm comm;
    bool is_own_comm; /* `comm` is of this link alone; both sides end it with a BYE */
    bool is_local;    /* to an endpoint of this process */
    bool has_said_bye;
    bool is_peer_closing; /* a BYE came, but perhaps not all frames sent before it */
    bool has_heard_bye;
    uint32_t peer_sent; /* frames that the peer sent before its BYE */
    uint64_t deadline;  /* ns: for connecting; 0: it is not connecting */
    int rank;
    uint32_t serial; /* of the other endpoint */
    uint32_t number; /* of this link in the process, ascending */
    uint32_t sent;   /* frames sent */
    uint32_t heard;  /* mpi_source_received() at the last synchronous send */
    uint32_t jobs;   /* jobs on the link */
    bool is_closing; /* it is freed when it has no jobs */
};

/* A connection that another thread has made or accepted, to be taken by its class. */
struct mpi_arrival {
    struct kit_link node;
    MPI_Comm comm; /* MPI_COMM_NULL: `status` says why there is none */
    int32_t status;
    bool is_dialed;
    uint32_t link;   /* number of the link that is connected by it */
    uint32_t serial; /* of the other endpoint */
    char name[KIT_NAME_MAX];
};

/* The requests of a class, in arrays as MPI_Testsome() takes them. */
struct mpi_requests {
    MPI_Request *requests;
    struct mpi_job **jobs;
    int *indices;
    MPI_Status *statuses;
    struct mpi_job **done;
    uint32_t count;
    uint32_t capacity;
};

struct na_plugin_class {
    struct kit_endpoint fabric; /* the kit's part, which must be first */
    struct kit_link node;       /* of all classes of the process */
    bool is_dynamic;
    bool is_listening;
    uint32_t serial;
    char name[KIT_NAME_MAX];
    struct mpi_requests requests;
    struct kit_link links;
    struct mpi_link *shared; /* the shared link */
    struct kit_link posted;  /* receives on `shared`, in the order in which MPI fills them */
    uint32_t posted_count;
    bool has_more;         /* the last poll found completed jobs */
    struct kit_link again; /* receives on `shared` that an idle poll posts again */
    struct kit_link sent;  /* sent small frames, tested by an idle poll */
    uint32_t sent_count;
    struct kit_link held; /* received frames that the message layer still reads */
    struct kit_link free_frames;
    struct kit_link free_pieces;
    uint32_t job_count; /* allocated jobs, in use or not */
    struct mpi_source *sources[MPI_BUCKETS];
    uint32_t polls;
    uint32_t collects;
    uint32_t dialing;         /* links that are connecting */
    struct kit_link arrivals; /* guarded by process_lock */
    _Atomic bool has_arrivals;
    bool has_unused; /* closing links without jobs, perhaps */
    bool is_failed;  /* MPI_Testsome() failed, which was logged */
};

struct mpi_peer {
    struct mpi_link *link;
};

struct mpi_piece {
    struct mpi_job *job;
};

/* Shared by the classes of the process. */
struct mpi_process {
    MPI_Comm world; /* our duplicate, with the ranks of static addresses */
    MPI_Comm self;  /* our duplicate of MPI_COMM_SELF */
    int rank, size; /* in world */
    uint32_t serials;
    uint32_t tags; /* for the pieces of each endpoint */
    int thread_level;
    bool is_ours;    /* we initialised MPI */
    bool is_locking; /* MPI allows one thread at a time */
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

/* Called around calls of MPI; may be nested. */
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
#define MPI_ORIGIN_PREFIX "origin-" /* names of endpoints that do not listen */
int32_t mpi_addr_lookup(struct na_plugin_class *na_class, const char *name,
                        struct na_plugin_addr **addr_p);
bool mpi_name_read(const char *name, int *rank_p, uint32_t *serial_p);
bool mpi_port_read(const char *name, char port[KIT_NAME_MAX], uint32_t *serial_p);

/* link.c */
struct mpi_link *mpi_link_make(struct na_plugin_class *na_class, const char *name);
void mpi_link_drop(struct mpi_link *link);
void mpi_links_free_unused(struct na_plugin_class *na_class);
void mpi_link_drain(struct mpi_link *link);
int32_t mpi_peer_open(struct kit_endpoint *endpoint, struct kit_peer *peer);
void mpi_peer_close(struct kit_endpoint *endpoint, struct kit_peer *peer);

/* Called when a job of the link ends: if the link is closing, the next poll tries to free it. */
static inline void mpi_link_unused(struct mpi_link *link)
{
    if (kit_unlikely(link->is_closing))
        link->na_class->has_unused = true;
}

void mpi_link_met(struct na_plugin_class *na_class);
void mpi_links_look(struct na_plugin_class *na_class);
void mpi_link_bye(const struct mpi_job *job);
void mpi_link_left(struct mpi_link *link);
void mpi_links_close(struct na_plugin_class *na_class);
void mpi_links_free(struct na_plugin_class *na_class);

/* dial.c: connections, made and accepted in threads, because MPI blocks in both */
int32_t mpi_port_open(char port[KIT_NAME_MAX]);
int32_t mpi_dial(struct mpi_link *link);
bool mpi_dial_is_waiting(void);
bool mpi_port_is_own(const char *name);
void mpi_comm_retire(MPI_Comm comm);
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
void mpi_job_free_request(struct mpi_job *job);
int32_t mpi_job_send(struct mpi_job *job, int tag, uint64_t size, bool is_sync);
bool mpi_job_poll(struct mpi_job *job);
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
void mpi_frames_do_deferred(struct na_plugin_class *na_class);
void mpi_frames_look(struct na_plugin_class *na_class);
int32_t mpi_receives_post(struct mpi_link *link, uint32_t count);

/* True if an idle poll has sends to test or receives to post. */
static inline bool mpi_has_deferred(const struct na_plugin_class *na_class)
{
    return !kit_list_empty(&na_class->again) || na_class->sent_count != 0;
}

/* wait.c */
extern _Atomic uint32_t mpi_activity;
int32_t mpi_poll_wait(struct na_plugin_context *context, uint32_t timeout_ms, uint32_t *count);
void mpi_wake(struct na_plugin_context *context);

/* Called when a message moves: waiting threads do not sleep for a while. */
static inline void mpi_stay_awake(void)
{
    uint32_t now = atomic_load_explicit(&mpi_activity, memory_order_relaxed);

    atomic_store_explicit(&mpi_activity, now + 1, memory_order_relaxed);
}

/* source.c */
bool mpi_source_take(struct na_plugin_class *na_class, struct mpi_job *job,
                     struct mpi_source **source_p);
struct mpi_job *mpi_source_take_early(struct mpi_source *source);
uint32_t mpi_source_received(const struct mpi_link *link);
void mpi_sources_free(struct na_plugin_class *na_class, const struct mpi_link *via);

/* Takes the deferred job with the next frame, if there is one. */
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
