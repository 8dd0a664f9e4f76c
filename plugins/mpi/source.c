/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of frames. MPI matches the messages of a sender in order, but when another thread of
 * the program is in MPI, too, a later message may complete first. Its frame is deferred here.
 */

#include "mpi_class.h"

#include <string.h>

static struct mpi_source *source_find(const struct na_plugin_class *na_class,
                                      const struct mpi_link *via, int rank, uint32_t serial);
static struct mpi_source *source_make(struct na_plugin_class *na_class, const struct mpi_link *via,
                                      int rank, uint32_t serial);
static uint32_t source_hash(const struct mpi_link *via, int rank, uint32_t serial);
static void source_begin(struct mpi_source *source, uint32_t link);
static void source_defer(struct mpi_source *source, struct mpi_job *job, uint32_t sequence);
static uint32_t job_sequence(const struct mpi_job *job);

/*
 * Sorts a received frame. False: it is not a frame, or of an old link. True: it is the next frame,
 * or, with `*source_p` NULL, the job is deferred until it is.
 */
bool mpi_source_take(struct na_plugin_class *na_class, struct mpi_job *job,
                     struct mpi_source **source_p)
{
    struct mpi_frame_header header;
    struct mpi_source *source;

    if (kit_unlikely(job->size < sizeof(header)))
        return false;
    memcpy(&header, job->data, sizeof(header));
    if (kit_unlikely(header.magic != MPI_FRAME_MAGIC))
        return false;
    source = source_find(na_class, job->link, job->source, header.serial);
    if (kit_unlikely(source == NULL))
        source = source_make(na_class, job->link, job->source, header.serial);
    if (kit_unlikely(source == NULL)) {
        MPI_LOG_ERROR("no memory for a new peer, rank %d: its message is lost", job->source);
        return false;
    }
    if (kit_unlikely(source->link != header.link)) {
        if ((int32_t) (header.link - source->link) < 0)
            return false;
        source_begin(source, header.link);
    }
    *source_p = source;
    if (kit_likely(header.sequence == source->expected)) {
        source->expected++;
        return true;
    }
    if ((int32_t) (header.sequence - source->expected) < 0 || source->early_count == MPI_EARLY_MAX)
        return false;
    source_defer(source, job, header.sequence);
    *source_p = NULL;
    return true;
}

/* The slow path of mpi_source_next(). */
struct mpi_job *mpi_source_take_early(struct mpi_source *source)
{
    struct mpi_job *job = kit_container(source->early.next, struct mpi_job, node);

    if (job_sequence(job) != source->expected)
        return NULL;
    kit_list_remove(&job->node);
    source->early_count--;
    source->expected++;
    return job;
}

/* Returns a count of the frames from the link's endpoint. */
uint32_t mpi_source_received(const struct mpi_link *link)
{
    const struct na_plugin_class *na_class = link->na_class;
    const struct mpi_source *source = source_find(
        na_class, link->is_own_comm ? link : na_class->shared, link->rank, link->serial);

    return source != NULL ? source->expected : 0;
}

/* Frees the sources whose frames arrive on that link; NULL: all. */
void mpi_sources_free(struct na_plugin_class *na_class, const struct mpi_link *via)
{
    for (uint32_t i = 0; i < MPI_BUCKETS; i++) {
        struct mpi_source **link = &na_class->sources[i];

        while (*link != NULL) {
            struct mpi_source *source = *link;

            if (via != NULL && source->via != via) {
                link = &source->hash_next;
                continue;
            }
            *link = source->hash_next;
            source_begin(source, 0);
            kit_host->mem_free(source);
        }
    }
}

/* Returns NULL when no frame of the endpoint has arrived. */
static struct mpi_source *source_find(const struct na_plugin_class *na_class,
                                      const struct mpi_link *via, int rank, uint32_t serial)
{
    struct mpi_source *source = na_class->sources[source_hash(via, rank, serial)];

    while (source != NULL &&
           (source->via != via || source->rank != rank || source->serial != serial))
        source = source->hash_next;
    return source;
}

/* NULL without memory. */
static struct mpi_source *source_make(struct na_plugin_class *na_class, const struct mpi_link *via,
                                      int rank, uint32_t serial)
{
    struct mpi_source **bucket = &na_class->sources[source_hash(via, rank, serial)];
    struct mpi_source *source = kit_host->mem_alloc(sizeof(*source), 0);

    if (source == NULL)
        return NULL;
    source->via = via;
    source->rank = rank;
    source->serial = serial;
    kit_list_init(&source->early);
    source->hash_next = *bucket;
    *bucket = source;
    return source;
}

static uint32_t source_hash(const struct mpi_link *via, int rank, uint32_t serial)
{
    return (((uint32_t) rank * 31 + serial) * 31 + via->number) % MPI_BUCKETS;
}

/* Starts with a new link of the endpoint; deferred frames of the old one are dropped. */
static void source_begin(struct mpi_source *source, uint32_t link)
{
    source->link = link;
    source->expected = 0;
    source->early_count = 0;
    while (!kit_list_empty(&source->early))
        mpi_job_put(kit_container(source->early.next, struct mpi_job, node));
}

static void source_defer(struct mpi_source *source, struct mpi_job *job, uint32_t sequence)
{
    struct kit_link *node = source->early.prev;

    while (node != &source->early &&
           (int32_t) (job_sequence(kit_container(node, struct mpi_job, node)) - sequence) > 0)
        node = node->prev;
    kit_list_prepend(node, &job->node); /* behind `node` */
    source->early_count++;
}

static uint32_t job_sequence(const struct mpi_job *job)
{
    struct mpi_frame_header header;

    memcpy(&header, job->data, sizeof(header));
    return header.sequence;
}
