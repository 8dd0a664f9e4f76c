/* SPDX-License-Identifier: BSD-3-Clause */
/* One copy at the target. */

#include "hg_cp/cp_session.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <xxhash.h>

#include "common/tool_clock.h"
#include "hg_cp/cp_file.h"

/* How often the target checks whether an otherwise idle origin is alive. */
#define ALIVE_INTERVAL_NS UINT64_C(500000000)

enum block_state {
    BLOCK_FREE,
    BLOCK_PULLING,
    BLOCK_FULL
};

/* A block of the file in the pipeline. state and size change under the lock. */
struct block {
    struct cp_session *session;
    enum block_state state;
    void *memory;
    hg_bulk_t bulk;
    hg_op_id_t op;
    uint64_t offset;
    uint64_t size;
};

/* A part of the file that the origin has offered. */
struct part {
    hg_handle_t handle; /* HG_HANDLE_NULL: unused */
    cp_pull_in_t in;
};

struct cp_session {
    struct cp_session_options options;
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_addr_t origin;
    uint64_t id;
    uint64_t size;
    uint32_t mode;
    bool overwrite;
    uint64_t active_ns;
    uint64_t pulled; /* offset up to which pulls have been started */
    unsigned int in_flight;
    struct part parts[CP_PARTS_MAX];
    bool finished;          /* the file has its name */
    hg_bulk_t alive_origin; /* descriptor of the number that the origin increments */
    hg_bulk_t alive_bulk;   /* local memory it is pulled to */
    hg_op_id_t alive_op;
    bool alive_pulling;
    uint64_t alive_ns;        /* start of the last such pull */
    uint64_t alive_number[2]; /* as pulled last, and before */
    void *memory;             /* of all blocks */
    struct block *blocks;
    struct cp_file file;
    bool writer_started;
    pthread_t writer;

    pthread_mutex_t lock; /* guards the members below, and the state of blocks */
    pthread_cond_t full;  /* a block is full, or the writer must stop */
    uint64_t written;     /* offset up to which the file is written and digested */
    bool stop;
    bool failed;
    char text[CP_TEXT_SIZE];
    XXH3_state_t *digest;
};

static bool session_allocate(struct cp_session *session, char *text, size_t text_size);
static bool session_watch_origin(struct cp_session *session, hg_bulk_t alive);
static void session_check_origin(struct cp_session *session);
static hg_return_t session_origin_checked(const struct hg_cb_info *info);
static void session_fail(struct cp_session *session, const char *text);
static void session_start_pulls(struct cp_session *session);
static bool session_start_pull(struct cp_session *session, struct block *block);
static hg_return_t block_pulled(const struct hg_cb_info *info);
static void block_set_state(struct block *block, enum block_state state);
static struct part *session_find_part(struct cp_session *session, uint64_t offset);
static void session_answer_parts(struct cp_session *session, uint64_t written, bool failed);
static void part_answer(struct part *part, enum cp_status status, const char *text);
static void *writer_main(void *arg);
static bool writer_write(struct cp_session *session, const struct block *block);
static void session_stop_writer(struct cp_session *session);

struct cp_session *cp_session_open(hg_class_t *hg_class, hg_context_t *context, hg_addr_t origin,
                                   const struct cp_session_options *options, const cp_open_in_t *in,
                                   char *text, size_t text_size)
{
    struct cp_session *session = calloc(1, sizeof(*session));

    (void) snprintf(text, text_size, "the target has no memory for %u blocks of %" PRIu64 " bytes",
                    options->depth, options->block_size);
    if (session == NULL)
        return NULL;
    session->options = *options;
    session->hg_class = hg_class;
    session->context = context;
    session->size = in->size;
    session->mode = in->mode;
    session->overwrite = in->force && options->force;
    session->active_ns = tool_clock_ns();
    session->file.fd = -1;
    (void) pthread_mutex_init(&session->lock, NULL);
    (void) pthread_cond_init(&session->full, NULL);
    if (HG_Addr_dup(hg_class, origin, &session->origin) != HG_SUCCESS ||
        getrandom(&session->id, sizeof(session->id), 0) != sizeof(session->id) ||
        !session_allocate(session, text, text_size) || !session_watch_origin(session, in->alive) ||
        !cp_file_create(&session->file, options->dir_fd, in->name, in->size, session->overwrite,
                        text, text_size))
        goto error;
    if (pthread_create(&session->writer, NULL, writer_main, session) != 0) {
        (void) snprintf(text, text_size, "the target cannot start a thread");
        goto error;
    }
    session->writer_started = true;
    return session;
error:
    cp_session_close(session);
    return NULL;
}

uint64_t cp_session_id(const struct cp_session *session)
{
    return session->id;
}

bool cp_session_belongs_to(const struct cp_session *session, hg_addr_t origin)
{
    return HG_Addr_cmp(session->hg_class, session->origin, origin) != 0;
}

void cp_session_pull(struct cp_session *session, hg_handle_t handle, const cp_pull_in_t *in)
{
    struct part *part = NULL, refused = {.handle = handle, .in = *in};

    session->active_ns = tool_clock_ns();
    for (unsigned int i = 0; i < CP_PARTS_MAX && part == NULL; i++) {
        if (session->parts[i].handle == HG_HANDLE_NULL)
            part = &session->parts[i];
    }
    if (part == NULL) {
        part_answer(&refused, CP_FAILED, "more parts at once than the target takes");
        return;
    }
    if (in->size == 0 || in->size > CP_PART_MAX || in->offset < session->pulled ||
        in->offset > session->size || in->size > session->size - in->offset ||
        HG_Bulk_get_size(in->bulk) < in->size) {
        part_answer(&refused, CP_FAILED, "a part lies outside of the file, or was sent before");
        return;
    }
    *part = refused;
    cp_session_continue(session);
}

void cp_session_continue(struct cp_session *session)
{
    uint64_t written;
    bool failed;

    (void) pthread_mutex_lock(&session->lock);
    written = session->written;
    failed = session->failed;
    (void) pthread_mutex_unlock(&session->lock);
    session_answer_parts(session, written, failed && session->in_flight == 0);
    if (failed || session->finished)
        return;
    session_start_pulls(session);
    session_check_origin(session);
}

bool cp_session_is_over(const struct cp_session *session)
{
    struct cp_session *writable = (struct cp_session *) session; /* only to lock */
    bool failed;

    (void) pthread_mutex_lock(&writable->lock);
    failed = session->failed;
    (void) pthread_mutex_unlock(&writable->lock);
    return (failed || session->finished) && session->in_flight == 0 && !session->alive_pulling;
}

const char *cp_session_name(const struct cp_session *session)
{
    return session->file.name;
}

const char *cp_session_failure(const struct cp_session *session)
{
    return session->failed ? session->text : NULL;
}

uint64_t cp_session_active_ns(const struct cp_session *session)
{
    for (unsigned int i = 0; i < CP_PARTS_MAX; i++) {
        if (session->parts[i].handle != HG_HANDLE_NULL)
            return tool_clock_ns();
    }
    return session->active_ns;
}

bool cp_session_finish(struct cp_session *session, const cp_close_in_t *in, char *text,
                       size_t text_size)
{
    XXH128_hash_t digest;

    if (session->finished) {
        (void) snprintf(text, text_size, "the copy is complete already");
        return false;
    }
    session_stop_writer(session); /* from here on, no other thread uses the session */
    if (session->failed) {
        (void) snprintf(text, text_size, "%s", session->text);
        return false;
    }
    if (session->in_flight > 0 || session->written != session->size) {
        (void) snprintf(text, text_size, "the copy was ended at byte %" PRIu64 " of %" PRIu64,
                        session->written, session->size);
        return false;
    }
    digest = XXH3_128bits_digest(session->digest);
    if (digest.high64 != in->digest_high || digest.low64 != in->digest_low) {
        (void) snprintf(text, text_size,
                        "the digests differ: %016" PRIx64 "%016" PRIx64 " was sent, %016" PRIx64
                        "%016" PRIx64 " was written; the copy is removed",
                        in->digest_high, in->digest_low, (uint64_t) digest.high64,
                        (uint64_t) digest.low64);
        return false;
    }
    session->finished = cp_file_publish(&session->file, session->mode, session->overwrite,
                                        session->options.sync, text, text_size);
    return session->finished;
}

void cp_session_abort(struct cp_session *session, const char *text)
{
    if (session->finished)
        return;
    session_fail(session, text);
    for (unsigned int i = 0; i < session->options.depth; i++) {
        if (session->blocks[i].op != HG_OP_ID_NULL)
            (void) HG_Bulk_cancel(session->blocks[i].op);
    }
    if (session->alive_op != HG_OP_ID_NULL)
        (void) HG_Bulk_cancel(session->alive_op);
    cp_session_continue(session);
}

void cp_session_close(struct cp_session *session)
{
    session_stop_writer(session);
    session_answer_parts(session, 0, true);
    cp_file_discard(&session->file);
    for (unsigned int i = 0; session->blocks != NULL && i < session->options.depth; i++) {
        if (session->blocks[i].bulk != HG_BULK_NULL)
            (void) HG_Bulk_free(session->blocks[i].bulk);
    }
    if (session->alive_bulk != HG_BULK_NULL)
        (void) HG_Bulk_free(session->alive_bulk);
    if (session->alive_origin != HG_BULK_NULL)
        (void) HG_Bulk_free(session->alive_origin);
    if (session->memory != NULL)
        (void) munmap(session->memory, session->options.depth * session->options.block_size);
    free(session->blocks);
    if (session->digest != NULL)
        (void) XXH3_freeState(session->digest);
    if (session->origin != HG_ADDR_NULL)
        (void) HG_Addr_free(session->hg_class, session->origin);
    (void) pthread_cond_destroy(&session->full);
    (void) pthread_mutex_destroy(&session->lock);
    free(session);
}

/* Allocates the blocks; a small file needs fewer than depth. */
static bool session_allocate(struct cp_session *session, char *text, size_t text_size)
{
    struct cp_session_options *options = &session->options;
    uint64_t blocks = (session->size + options->block_size - 1) / options->block_size;

    if (blocks < options->depth)
        options->depth = blocks > 0 ? (unsigned int) blocks : 1;
    session->digest = XXH3_createState();
    session->blocks = calloc(options->depth, sizeof(*session->blocks));
    session->memory = mmap(NULL, options->depth * options->block_size, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (session->memory == MAP_FAILED)
        session->memory = NULL;
    if (session->digest == NULL || session->blocks == NULL || session->memory == NULL ||
        XXH3_128bits_reset(session->digest) != XXH_OK)
        return false;
    for (unsigned int i = 0; i < options->depth; i++) {
        struct block *block = &session->blocks[i];
        hg_size_t size = options->block_size;
        hg_return_t ret;

        block->session = session;
        block->memory = (char *) session->memory + i * options->block_size;
        ret = HG_Bulk_create(session->hg_class, 1, &block->memory, &size, HG_BULK_WRITE_ONLY,
                             &block->bulk);
        if (ret != HG_SUCCESS) {
            (void) snprintf(text, text_size, "the target cannot register a block: %s",
                            HG_Error_to_string(ret));
            return false;
        }
    }
    return true;
}

static bool session_watch_origin(struct cp_session *session, hg_bulk_t alive)
{
    void *number = &session->alive_number[0];
    hg_size_t size = CP_ALIVE_SIZE;

    if (HG_Bulk_get_size(alive) < CP_ALIVE_SIZE || HG_Bulk_ref_incr(alive) != HG_SUCCESS)
        return false;
    session->alive_origin = alive;
    session->alive_ns = tool_clock_ns();
    return HG_Bulk_create(session->hg_class, 1, &number, &size, HG_BULK_WRITE_ONLY,
                          &session->alive_bulk) == HG_SUCCESS;
}

/* Checks whether the origin is alive. Not needed during pulls, which fail when it is gone. */
static void session_check_origin(struct cp_session *session)
{
    uint64_t now = tool_clock_ns();
    hg_return_t ret;

    if (session->in_flight > 0 || session->alive_pulling ||
        now < session->alive_ns + ALIVE_INTERVAL_NS)
        return;
    session->alive_ns = now;
    session->alive_number[1] = session->alive_number[0];
    ret = HG_Bulk_transfer(session->context, session_origin_checked, session, HG_BULK_PULL,
                           session->origin, session->alive_origin, 0, session->alive_bulk, 0,
                           CP_ALIVE_SIZE, &session->alive_op);
    session->alive_pulling = ret == HG_SUCCESS;
    if (ret != HG_SUCCESS)
        session_fail(session, "the origin cannot be reached any more");
}

/* A stopped process still has its memory, but its number does not change. */
static hg_return_t session_origin_checked(const struct hg_cb_info *info)
{
    struct cp_session *session = info->arg;

    session->alive_pulling = false;
    session->alive_op = HG_OP_ID_NULL;
    if (info->ret != HG_SUCCESS)
        session_fail(session, "the origin is gone");
    else if (session->alive_number[0] != session->alive_number[1])
        session->active_ns = tool_clock_ns();
    return HG_SUCCESS;
}

/* Records the first error. */
static void session_fail(struct cp_session *session, const char *text)
{
    (void) pthread_mutex_lock(&session->lock);
    if (!session->failed)
        (void) snprintf(session->text, sizeof(session->text), "%s", text);
    session->failed = true;
    (void) pthread_cond_signal(&session->full);
    (void) pthread_mutex_unlock(&session->lock);
}

/* The block at offset n * block_size is number n modulo depth: the writer takes them in turns. */
static void session_start_pulls(struct cp_session *session)
{
    const struct cp_session_options *options = &session->options;

    while (session->pulled < session->size) {
        struct block *block =
            &session->blocks[session->pulled / options->block_size % options->depth];
        bool is_free;

        (void) pthread_mutex_lock(&session->lock);
        is_free = block->state == BLOCK_FREE;
        (void) pthread_mutex_unlock(&session->lock);
        if (!is_free || !session_start_pull(session, block))
            return;
    }
}

/* False if the next part has not arrived, or the pull cannot be started. Parts begin at multiples
 * of the block size; otherwise a block ends with its part. */
static bool session_start_pull(struct cp_session *session, struct block *block)
{
    const struct part *part = session_find_part(session, session->pulled);
    uint64_t in_part, rest;
    char text[CP_TEXT_SIZE];
    hg_return_t ret;

    if (part == NULL)
        return false;
    in_part = session->pulled - part->in.offset;
    rest = part->in.size - in_part;
    block->offset = session->pulled;
    block->size = session->options.block_size - session->pulled % session->options.block_size;
    if (block->size > rest)
        block->size = rest;
    block_set_state(block, BLOCK_PULLING);
    ret = HG_Bulk_transfer(session->context, block_pulled, block, HG_BULK_PULL, session->origin,
                           part->in.bulk, in_part, block->bulk, 0, block->size, &block->op);
    if (ret != HG_SUCCESS) {
        block_set_state(block, BLOCK_FREE);
        (void) snprintf(text, sizeof(text), "the target cannot pull: %s", HG_Error_to_string(ret));
        session_fail(session, text);
        return false;
    }
    session->pulled += block->size;
    session->in_flight++;
    return true;
}

static hg_return_t block_pulled(const struct hg_cb_info *info)
{
    struct block *block = info->arg;
    struct cp_session *session = block->session;
    char text[CP_TEXT_SIZE];

    session->in_flight--;
    session->active_ns = tool_clock_ns();
    block->op = HG_OP_ID_NULL;
    if (info->ret != HG_SUCCESS) {
        (void) snprintf(text, sizeof(text), "pulling byte %" PRIu64 " of %" PRIu64 ": %s",
                        block->offset, session->size, HG_Error_to_string(info->ret));
        session_fail(session, text);
        return HG_SUCCESS;
    }
    block_set_state(block, BLOCK_FULL);
    return HG_SUCCESS;
}

static void block_set_state(struct block *block, enum block_state state)
{
    struct cp_session *session = block->session;

    (void) pthread_mutex_lock(&session->lock);
    block->state = state;
    if (state == BLOCK_FULL)
        (void) pthread_cond_signal(&session->full);
    (void) pthread_mutex_unlock(&session->lock);
}

static struct part *session_find_part(struct cp_session *session, uint64_t offset)
{
    for (unsigned int i = 0; i < CP_PARTS_MAX; i++) {
        struct part *part = &session->parts[i];

        if (part->handle != HG_HANDLE_NULL && offset >= part->in.offset &&
            offset - part->in.offset < part->in.size)
            return part;
    }
    return NULL;
}

/* Answers each part that is completely written; all parts if the copy has failed. */
static void session_answer_parts(struct cp_session *session, uint64_t written, bool failed)
{
    for (unsigned int i = 0; i < CP_PARTS_MAX; i++) {
        struct part *part = &session->parts[i];

        if (part->handle == HG_HANDLE_NULL)
            continue;
        if (failed)
            part_answer(part, CP_FAILED, session->text);
        else if (part->in.offset + part->in.size <= written)
            part_answer(part, CP_OK, "");
    }
}

/* An error is ignored: an origin that is gone needs no answer. */
static void part_answer(struct part *part, enum cp_status status, const char *text)
{
    cp_pull_out_t out = {.status = status, .text = text};

    (void) HG_Respond(part->handle, NULL, NULL, &out);
    (void) HG_Free_input(part->handle, &part->in);
    (void) HG_Destroy(part->handle);
    part->handle = HG_HANDLE_NULL;
}

static void *writer_main(void *arg)
{
    struct cp_session *session = arg;
    const struct cp_session_options *options = &session->options;
    uint64_t one = 1;

    (void) pthread_mutex_lock(&session->lock);
    while (!session->stop && !session->failed && session->written < session->size) {
        struct block *block =
            &session->blocks[session->written / options->block_size % options->depth];
        bool written;

        if (block->state != BLOCK_FULL) {
            (void) pthread_cond_wait(&session->full, &session->lock);
            continue;
        }
        (void) pthread_mutex_unlock(&session->lock);
        written = writer_write(session, block);
        (void) pthread_mutex_lock(&session->lock);
        if (written) {
            session->written += block->size;
            block->state = BLOCK_FREE;
        }
        (void) !write(options->wake_fd, &one, sizeof(one));
    }
    (void) pthread_mutex_unlock(&session->lock);
    return NULL;
}

static bool writer_write(struct cp_session *session, const struct block *block)
{
    char text[CP_TEXT_SIZE] = "the target cannot compute the digest";

    if (XXH3_128bits_update(session->digest, block->memory, block->size) == XXH_OK &&
        cp_file_write(&session->file, block->memory, block->size, block->offset, text,
                      sizeof(text)))
        return true;
    session_fail(session, text);
    return false;
}

static void session_stop_writer(struct cp_session *session)
{
    if (!session->writer_started)
        return;
    (void) pthread_mutex_lock(&session->lock);
    session->stop = true;
    (void) pthread_cond_signal(&session->full);
    (void) pthread_mutex_unlock(&session->lock);
    (void) pthread_join(session->writer, NULL);
    session->writer_started = false;
}
