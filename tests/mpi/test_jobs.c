/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plugin's modules that handle messages. This file simulates MPI and the message layer: the
 * simulated MPI completes messages when the test says so, in any order, and fails when told to,
 * which MPI itself does rarely.
 */

#include "mpi_class.h"

#include "kit/plugin_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FAKES 1024

/* The state behind a request. */
struct fake {
    bool is_there; /* MPI has not freed the request */
    bool is_send, is_sync;
    bool is_done, is_cancelled;
    int error;
    int asked; /* how often it was tested */
    uint8_t *data;
    int size, source;
};

static struct fake fakes[FAKES];
static uint32_t fake_count;
static int send_error; /* error of the next MPI_Isend() or MPI_Issend() */
static bool sends_at_once, holds, closes, is_over;
static uint32_t answers; /* frames to send in reply to a sent one */
static int rest_size;    /* size of the message that no receive matches; negative: none */
static int32_t piece_status;
static uint8_t delivered[FAKES]; /* the first byte of each delivered frame */
static uint32_t delivered_count, sent_count, failed_count;
static int32_t sent_status;
static uint64_t clock_now;

static struct fake *send_frame(size_t size);

static struct na_plugin_class na_class;
static struct mpi_link *shared, *link_to;
static struct mpi_peer priv;
static struct kit_peer peer = {.priv = &priv};
static struct kit_frame frame = {.peer = &peer};
static uint8_t frame_data[4096];
static struct na_host host;

const struct na_host *kit_host = &host;
struct mpi_process mpi_process = {.serials = 16, .tags = 16};

/* ------------------------------------------------------------------------------------------------
 * MPI
 */

static MPI_Request fake_request(uint32_t index)
{
#ifdef OPEN_MPI
    return (MPI_Request) (void *) &fakes[index];
#else
    return (MPI_Request) (0x1000 + index);
#endif
}

static struct fake *fake_find(MPI_Request request)
{
    for (uint32_t i = 0; i < fake_count; i++)
        if (fake_request(i) == request) {
            assert_true(fakes[i].is_there);
            return &fakes[i];
        }
    fail_msg("not a valid request");
    return NULL;
}

static struct fake *fake_make(MPI_Request *request, void *data, int size)
{
    assert_true(fake_count < FAKES);
    fakes[fake_count] = (struct fake){.is_there = true, .data = data, .size = size};
    *request = fake_request(fake_count);
    return &fakes[fake_count++];
}

static int fake_send(const void *data, int size, bool is_sync, MPI_Request *request)
{
    int error = send_error;
    struct fake *fake;

    send_error = MPI_SUCCESS;
    if (error != MPI_SUCCESS)
        return error;
    fake = fake_make(request, (void *) (uintptr_t) data, size);
    fake->is_send = true;
    fake->is_sync = is_sync;
    fake->is_done = sends_at_once && !is_sync;
    return MPI_SUCCESS;
}

static void fake_status(const struct fake *fake, MPI_Status *status)
{
    if (status == MPI_STATUS_IGNORE)
        return;
    status->MPI_SOURCE = fake->source;
    status->MPI_TAG = (int) (fake - fakes);
    status->MPI_ERROR = fake->error;
}

int MPI_Isend(const void *data, int size, MPI_Datatype type, int rank, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    (void) type;
    (void) rank;
    (void) tag;
    (void) comm;
    return fake_send(data, size, false, request);
}

int MPI_Issend(const void *data, int size, MPI_Datatype type, int rank, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    (void) type;
    (void) rank;
    (void) tag;
    (void) comm;
    return fake_send(data, size, true, request);
}

int MPI_Irecv(void *data, int size, MPI_Datatype type, int rank, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    (void) type;
    (void) rank;
    (void) tag;
    (void) comm;
    (void) fake_make(request, data, size);
    return MPI_SUCCESS;
}

int MPI_Test(MPI_Request *request, int *is_done, MPI_Status *status)
{
    struct fake *fake = fake_find(*request);
    int error = fake->error;

    fake->asked++;
    *is_done = fake->is_done || error != MPI_SUCCESS;
    if (*is_done == 0)
        return MPI_SUCCESS;
    fake_status(fake, status);
    fake->is_there = false;
    *request = MPI_REQUEST_NULL;
    return error;
}

int MPI_Request_get_status(MPI_Request request, int *is_done, MPI_Status *status)
{
    struct fake *fake = fake_find(request);

    *is_done = fake->is_done;
    if (fake->is_done)
        fake_status(fake, status);
    return MPI_SUCCESS;
}

int MPI_Testsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[])
{
    int error = MPI_SUCCESS;

    *done = 0;
    for (int i = 0; i < count; i++) {
        struct fake *fake = fake_find(requests[i]);

        fake->asked++;
        if (!fake->is_done && fake->error == MPI_SUCCESS)
            continue;
        if (fake->error != MPI_SUCCESS)
            error = MPI_ERR_IN_STATUS;
        fake_status(fake, &statuses[*done]);
        indices[(*done)++] = i;
        fake->is_there = false;
        requests[i] = MPI_REQUEST_NULL;
    }
    return error;
}

int MPI_Cancel(MPI_Request *request)
{
    struct fake *fake = fake_find(*request);

    assert_false(fake->is_send);
    fake->is_cancelled = !fake->is_done;
    fake->is_done = true;
    return MPI_SUCCESS;
}

int MPI_Test_cancelled(const MPI_Status *status, int *is_cancelled)
{
    *is_cancelled = fakes[status->MPI_TAG].is_cancelled;
    return MPI_SUCCESS;
}

int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *count)
{
    (void) type;
    *count = fakes[status->MPI_TAG].size;
    return MPI_SUCCESS;
}

int MPI_Improbe(int rank, int tag, MPI_Comm comm, int *is_there, MPI_Message *message,
                MPI_Status *status)
{
    (void) rank;
    (void) tag;
    (void) comm;
    *is_there = rest_size >= 0;
    if (*is_there == 0)
        return MPI_SUCCESS;
    *message = MPI_MESSAGE_NULL;
    assert_true(fake_count < FAKES);
    fakes[fake_count] = (struct fake){.size = rest_size};
    fake_status(&fakes[fake_count++], status);
    return MPI_SUCCESS;
}

int MPI_Imrecv(void *data, int size, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
    (void) type;
    (void) message;
    assert_true(size <= (int) MPI_PIECE && size <= rest_size);
    memset(data, 1, (size_t) size);
    fake_make(request, data, size)->is_done = true;
    rest_size = -1;
    return MPI_SUCCESS;
}

int MPI_Error_class(int error, int *class)
{
    *class = error;
    return MPI_SUCCESS;
}

int MPI_Error_string(int error, char *text, int *length)
{
    (void) error;
    (void) strcpy(text, "as it was told");
    *length = (int) strlen(text);
    return MPI_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------
 * The message layer, and the other modules
 */

bool kit_msg_frame_received(struct kit_endpoint *endpoint, void *data, uint64_t size,
                            const void *path, void *cookie)
{
    (void) endpoint;
    (void) path;
    (void) cookie;
    assert_true(size > 0 && delivered_count < FAKES);
    delivered[delivered_count++] = *(const uint8_t *) data;
    link_to->is_closing |= closes;
    return !holds;
}

void kit_msg_frame_sent(struct kit_endpoint *endpoint, struct kit_frame *which, int32_t status)
{
    (void) endpoint;
    assert_ptr_equal(which, &frame);
    sent_status = status;
    sent_count++;
    for (; answers != 0; answers--)
        (void) send_frame(2000);
}

void kit_peer_failed(struct kit_peer *which, int32_t status, const char *reason)
{
    (void) reason;
    assert_ptr_equal(which, &peer);
    assert_int_equal(status, NA_PLUGIN_HOSTUNREACH);
    failed_count++;
}

bool mpi_process_has(uint32_t serial)
{
    return serial != 15;
}

bool mpi_process_is_over(void)
{
    return is_over;
}

void mpi_call_lock(void)
{
}

void mpi_call_unlock(void)
{
}

void mpi_links_free_unused(struct na_plugin_class *which)
{
    (void) which;
}

void mpi_link_bye(const struct mpi_job *job)
{
    job->link->has_heard_bye = true;
}

void mpi_link_left(struct mpi_link *link)
{
    (void) link;
}

void mpi_link_met(struct na_plugin_class *which)
{
    (void) which;
}

void mpi_links_look(struct na_plugin_class *which)
{
    (void) which;
}

void mpi_piece_done(struct na_plugin_class *which, struct mpi_job *job)
{
    (void) which;
    piece_status = job->status;
    mpi_job_put(job);
}

bool kit_rma_is_active(const struct kit_rma *rma)
{
    (void) rma;
    return false;
}

void kit_rma_poll(struct kit_rma *rma, uint64_t now)
{
    (void) rma;
    (void) now;
}

_Atomic uint32_t mpi_activity;

/* Each reading of the clock advances it by 10 ms. */
static uint64_t host_clock(void)
{
    return clock_now += UINT64_C(10000000);
}

/* ------------------------------------------------------------------------------------------------
 * A class with the link for all, and one to a peer
 */

static struct mpi_link *make_link(uint32_t number, int rank, uint32_t serial)
{
    struct mpi_link *link = calloc(1, sizeof(*link));

    assert_non_null(link);
    kit_list_init(&link->node);
    link->na_class = &na_class;
    link->phase = MPI_LINK_READY;
    link->number = number;
    link->rank = rank;
    link->serial = serial;
    return link;
}

static int setup(void **state)
{
    (void) state;
    host = plugin_host;
    host.clock_ns = host_clock;
    fake_count = 0;
    delivered_count = sent_count = failed_count = 0;
    holds = sends_at_once = closes = is_over = false;
    answers = 0;
    rest_size = -1;
    memset(&na_class, 0, sizeof(na_class));
    kit_list_init(&na_class.links);
    kit_list_init(&na_class.posted);
    kit_list_init(&na_class.again);
    kit_list_init(&na_class.sent);
    kit_list_init(&na_class.held);
    kit_list_init(&na_class.free_frames);
    kit_list_init(&na_class.free_pieces);
    na_class.shared = shared = make_link(1, MPI_ANY_SOURCE, 0);
    link_to = make_link(2, 1, 3);
    link_to->peer = &peer;
    priv.link = link_to;
    frame.data = frame_data;
    frame.size = 10;
    assert_int_equal(mpi_receives_post(shared, MPI_SHARED_RECEIVES), NA_PLUGIN_SUCCESS);
    return 0;
}

static void all_sends_done(void)
{
    for (uint32_t i = 0; i < fake_count; i++)
        fakes[i].is_done |= fakes[i].is_send;
}

static int teardown(void **state)
{
    (void) state;
    all_sends_done();
    mpi_frames_look(&na_class);
    mpi_jobs_abandon_all(&na_class);
    mpi_sources_free(&na_class, NULL);
    while (!kit_list_empty(&na_class.again))
        mpi_job_put(kit_container(na_class.again.next, struct mpi_job, node));
    assert_int_equal(shared->jobs, 0);
    assert_int_equal(link_to->jobs, 0);
    mpi_jobs_free(&na_class);
    mpi_remains_look();
    for (uint32_t i = 0; i < fake_count; i++)
        assert_false(fakes[i].is_there);
    free(shared);
    free(link_to);
    return 0;
}

static void polls(void)
{
    for (uint32_t i = 0; i < 2 * MPI_ALL_POLLS; i++)
        assert_int_equal(mpi_poll(&na_class.fabric), NA_PLUGIN_SUCCESS);
    assert_int_equal(na_class.posted_count, MPI_SHARED_RECEIVES);
}

/* Returns the first posted receive of the link that MPI has not filled. */
static struct fake *receive_of(const struct mpi_link *link)
{
    struct fake *first = NULL;

    for (uint32_t i = 0; i < na_class.requests.count; i++) {
        struct fake *fake = fake_find(na_class.requests.requests[i]);

        if (na_class.requests.jobs[i]->link == link && !fake->is_send && !fake->is_done &&
            (first == NULL || fake < first))
            first = fake;
    }
    assert_non_null(first);
    return first;
}

/* Fills a receive with data; MPI reports `told` as the size. */
static void fill(struct fake *fake, const void *data, size_t size, size_t told)
{
    memcpy(fake->data, data, size);
    fake->size = (int) told;
    fake->source = 1;
    fake->is_done = true;
}

/* MPI fills the next receive, in the order of posting. */
static void bring(const void *data, size_t size, size_t told)
{
    fill(receive_of(shared), data, size, told);
    polls();
}

/* Counts the requests that MPI has not freed. */
static uint32_t requests_there(void)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < fake_count; i++)
        count += fakes[i].is_there;
    return count;
}

struct message {
    struct mpi_frame_header header;
    uint8_t byte[16];
};

/* Makes a frame of endpoint `serial` of rank 1 over its link number `way`. */
static struct message message_make(uint32_t serial, uint32_t way, uint32_t sequence, uint8_t byte)
{
    return (struct message){.header = {serial, way, sequence, MPI_FRAME_MAGIC}, .byte = {byte}};
}

static void bring_frame(uint32_t serial, uint32_t way, uint32_t sequence, uint8_t byte)
{
    struct message message = message_make(serial, way, sequence, byte);

    bring(&message, sizeof(message), sizeof(message));
}

/* Delivers a frame over the peer's own link. */
static void bring_to_link(uint32_t sequence, uint8_t byte)
{
    struct message message = message_make(3, 5, sequence, byte);

    fill(receive_of(link_to), &message, sizeof(message), sizeof(message));
    polls();
}

static void expect_delivered(const char *bytes)
{
    assert_int_equal(delivered_count, strlen(bytes));
    assert_memory_equal(delivered, bytes, delivered_count);
    delivered_count = 0;
}

static struct fake *send_frame(size_t size)
{
    frame.size = size;
    assert_int_equal(mpi_frame_send(&na_class.fabric, &frame), NA_PLUGIN_SUCCESS);
    return &fakes[fake_count - 1];
}

/* ------------------------------------------------------------------------------------------------
 * Order
 */

static void frames_wait_for_their_turn(void **state)
{
    (void) state;
    bring_frame(0, 5, 0, 'a');
    expect_delivered("a");
    bring_frame(0, 5, 3, 'd');
    bring_frame(0, 5, 5, 'f');
    bring_frame(0, 5, 2, 'c');
    expect_delivered("");
    assert_int_equal(requests_there(), MPI_SHARED_RECEIVES);
    bring_frame(0, 5, 1, 'b');
    expect_delivered("bcd");
    bring_frame(0, 5, 4, 'e');
    expect_delivered("ef");
    /* Many times: frames that waited earlier leave no state that uses up room. */
    for (uint32_t i = 6; i < 6 + 4 * MPI_EARLY_MAX; i += 2) {
        bring_frame(0, 5, i + 1, 'h');
        bring_frame(0, 5, i, 'g');
        expect_delivered("gh");
    }
}

/* The order is kept for each endpoint, independent of the frames of others. */
static void endpoints_are_told_apart(void **state)
{
    (void) state;
    bring_frame(0, 5, 1, 'b');
    for (uint32_t i = 1; i < 3; i++) { /* both are in one place of the table */
        bring_frame(i * MPI_BUCKETS, 5, 0, 'c');
        bring_frame(i * MPI_BUCKETS, 5, 1, 'd');
    }
    expect_delivered("cdcd");
    bring_frame(0, 5, 0, 'a');
    expect_delivered("ab");
}

/* Frames over a link of its own have their own order, which is forgotten with the link. */
static void ways_are_told_apart(void **state)
{
    (void) state;
    link_to->number = shared->number + MPI_BUCKETS; /* in one place of the table */
    assert_int_equal(mpi_receives_post(link_to, MPI_LINK_RECEIVES), NA_PLUGIN_SUCCESS);
    bring_frame(3, 5, 0, 'a');
    bring_to_link(0, 'b');
    bring_to_link(1, 'c');
    bring_frame(3, 5, 1, 'd');
    expect_delivered("abcd");
    mpi_sources_free(&na_class, link_to);
    bring_to_link(0, 'e');
    bring_frame(3, 5, 2, 'f');
    expect_delivered("ef");
}

/* The link closes while a frame waits: later frames are dropped, and receives are reposted until
 * the peer's BYE. */
static void a_way_that_closes(void **state)
{
    (void) state;
    assert_int_equal(mpi_receives_post(link_to, MPI_LINK_RECEIVES), NA_PLUGIN_SUCCESS);
    link_to->is_own_comm = closes = true;
    bring_to_link(1, 'b');
    bring_to_link(0, 'a');
    expect_delivered("a");
    /* 'b' is kept, and the receive of 'a' is posted again no more */
    assert_int_equal(link_to->jobs, 1 + MPI_LINK_RECEIVES - 1);
    bring_to_link(2, 'c');
    assert_int_equal(link_to->jobs, 1 + MPI_LINK_RECEIVES - 1);
    link_to->has_heard_bye = true;
    bring_to_link(3, 'd');
    assert_int_equal(link_to->jobs, 1);
    expect_delivered("");
}

/* A duplicate, or a frame too far ahead, is dropped without an effect on others. */
static void frames_out_of_bounds(void **state)
{
    (void) state;
    bring_frame(0, 5, 0, 'a');
    bring_frame(0, 5, 0, 'a');
    bring_frame(0, 5, 2, 'c');
    bring_frame(0, 5, 1, 'b');
    expect_delivered("abc");
    for (uint32_t i = 4; i < 4 + MPI_EARLY_MAX + 3; i++)
        bring_frame(0, 5, i, 'e');
    bring_frame(0, 5, 3, 'd');
    assert_int_equal(delivered_count, 1 + MPI_EARLY_MAX);
}

/* A new link starts counting from 0, and later frames of the old one are dropped. */
static void a_new_way(void **state)
{
    (void) state;
    bring_frame(0, 5, 0, 'a');
    bring_frame(0, 5, 1, 'b');
    for (uint32_t i = 0; i < MPI_EARLY_MAX; i++)
        bring_frame(0, 5, 3 + i, 'x');
    bring_frame(0, 6, 0, 'c');
    bring_frame(0, 5, 2, 'x');
    bring_frame(0, 6, 4, 'g');
    bring_frame(0, 6, 3, 'f');
    bring_frame(0, 6, 1, 'd');
    bring_frame(0, 6, 2, 'e');
    expect_delivered("abcdefg");
}

static void what_is_no_frame(void **state)
{
    struct message message = message_make(0, 5, 0, 'x');
    struct fake *fake;

    (void) state;
    for (size_t size = 0; size < sizeof(message.header); size += 5)
        bring(&message, sizeof(message), size);
    message.header.magic ^= 1;
    bring(&message, sizeof(message), sizeof(message));
    message.header.magic ^= 1;
    for (int i = 0; i < 2; i++) { /* truncated, and MPI reports that */
        fake = receive_of(shared);
        fake->error = MPI_ERR_TRUNCATE;
        if (i == 0)
            fill(fake, &message, sizeof(message), sizeof(message));
        polls();
    }
    assert_int_equal(delivered_count, 0);
    bring_frame(0, 5, 0, 'a');
    expect_delivered("a");
}

/* Receives complete in another order than MPI fills them, and all at once. */
static void receives_in_any_order(void **state)
{
    struct fake *first = receive_of(shared);
    struct message message = message_make(0, 5, 0, 'a');

    (void) state;
    first->is_done = true; /* so that receive_of() skips it */
    fill(receive_of(shared), &message, sizeof(message), sizeof(message));
    first->is_done = false;
    polls();
    expect_delivered("a");
    for (uint32_t i = 0; i < MPI_SHARED_RECEIVES; i++) {
        message = message_make(0, 5, 1 + i, (uint8_t) ('b' + i));
        fill(receive_of(shared), &message, sizeof(message), sizeof(message));
    }
    for (uint32_t i = 0; i < 4; i++) { /* enough receives are posted at any time */
        assert_int_equal(mpi_poll(&na_class.fabric), NA_PLUGIN_SUCCESS);
        assert_true(na_class.posted_count >= MPI_SHARED_RECEIVES / 2 - 1);
    }
    polls();
    expect_delivered("bcdefghi");
}

/* Frames that the message layer keeps are not overwritten; as many receives are posted as
 * before. */
static void held_frames(void **state)
{
    (void) state;
    holds = true;
    for (uint32_t i = 0; i < 3 * MPI_SHARED_RECEIVES; i++)
        bring_frame(0, 5, i ^ 1, 'a'); /* every second frame also waits for its turn */
    assert_int_equal(delivered_count, 3 * MPI_SHARED_RECEIVES);
    assert_int_equal(requests_there(), MPI_SHARED_RECEIVES);
    for (uint32_t i = 0; i < 3 * MPI_SHARED_RECEIVES; i++) {
        assert_false(kit_list_empty(&na_class.held));
        mpi_frame_release(&na_class.fabric,
                          kit_container(na_class.held.next, struct mpi_job, node));
    }
    assert_true(kit_list_empty(&na_class.held));
}

/* ------------------------------------------------------------------------------------------------
 * Sending
 */

/* A small frame counts as sent at once, but MPI uses its memory until the send completes. */
static void small_frames(void **state)
{
    struct fake *fake;

    (void) state;
    fake = send_frame(10);
    assert_int_equal(sent_count, 1);
    assert_int_equal(na_class.sent_count, 1);
    polls();
    assert_true(fake->asked > 0);
    assert_int_equal(na_class.sent_count, 0);
    assert_int_equal(link_to->jobs, 1);
    fake->is_done = true;
    polls();
    assert_false(fake->is_there);
    assert_int_equal(link_to->jobs, 0);
    assert_int_equal(sent_count, 1);
    assert_int_equal(failed_count, 0);
}

/* Only a limited number of small sends is left to be tested later; beyond that they are tested at
 * once. */
static void many_small_frames(void **state)
{
    (void) state;
    for (uint32_t i = 0; i < 2 * MPI_SENT_MAX; i++)
        (void) send_frame(10);
    assert_int_equal(na_class.sent_count, MPI_SENT_MAX);
    polls();
    assert_int_equal(na_class.sent_count, 0);
    assert_int_equal(link_to->jobs, 2 * MPI_SENT_MAX);
    all_sends_done();
    polls();
    assert_int_equal(link_to->jobs, 0);
    assert_int_equal(sent_count, 2 * MPI_SENT_MAX);
}

static void many_small_frames_at_once(void **state)
{
    (void) state;
    sends_at_once = true;
    link_to->sent = 1; /* avoids a synchronous send */
    for (uint32_t i = 0; i < MPI_SENT_MAX; i++) {
        link_to->sent = 1;
        (void) send_frame(10);
    }
    link_to->sent = 1;
    assert_false(send_frame(10)->is_there);
    assert_int_equal(na_class.sent_count, MPI_SENT_MAX);
    assert_int_equal(link_to->jobs, MPI_SENT_MAX);
    assert_int_equal(sent_count, MPI_SENT_MAX + 1);
    assert_int_equal(sent_status, NA_PLUGIN_SUCCESS);
}

/* A large frame counts as sent only when MPI has completed it. */
static void large_frames(void **state)
{
    struct fake *fake;

    (void) state;
    fake = send_frame(2000);
    assert_memory_equal(fake->data + sizeof(struct mpi_frame_header), frame_data, 2000);
    polls();
    assert_int_equal(sent_count, 0);
    fake->is_done = true;
    polls();
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent_status, NA_PLUGIN_SUCCESS);
    assert_int_equal(link_to->jobs, 0);
}

/* A send fails in the call, when it is tested, or after it already counted as sent. */
static void sends_that_fail(void **state)
{
    struct fake *fake;

    (void) state;
    send_error = MPI_ERR_OTHER;
    assert_int_equal(mpi_frame_send(&na_class.fabric, &frame), NA_PLUGIN_HOSTUNREACH);
    assert_int_equal(link_to->jobs, 0);
    assert_int_equal(sent_count, 0);

    fake = send_frame(2000);
    fake->error = MPI_ERR_OTHER;
    polls();
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent_status, NA_PLUGIN_HOSTUNREACH);
    assert_int_equal(failed_count, 0);

    fake = send_frame(10);
    assert_int_equal(sent_status, NA_PLUGIN_SUCCESS);
    fake->error = MPI_ERR_OTHER;
    polls();
    assert_int_equal(failed_count, 1);
    assert_int_equal(link_to->jobs, 0);
    assert_false(fake->is_there);
}

/* Links that do not exist, are not ready, or lead to a closed endpoint of this process. */
static void ways_that_are_not_there(void **state)
{
    (void) state;
    link_to->phase = MPI_LINK_DIALING;
    assert_int_equal(mpi_frame_send(&na_class.fabric, &frame), NA_PLUGIN_AGAIN);
    link_to->phase = MPI_LINK_FAILED;
    assert_int_equal(mpi_frame_send(&na_class.fabric, &frame), NA_PLUGIN_HOSTUNREACH);
    link_to->phase = MPI_LINK_READY;
    link_to->is_local = true;
    link_to->serial = 15;
    assert_int_equal(mpi_frame_send(&na_class.fabric, &frame), NA_PLUGIN_HOSTUNREACH);
    priv.link = NULL;
    assert_int_equal(mpi_frame_send(&na_class.fabric, &frame), NA_PLUGIN_HOSTUNREACH);
    assert_int_equal(fake_count, MPI_SHARED_RECEIVES);
}

/* To a silent peer, one of several frames is a synchronous send, which completes only when it is
 * received. */
static void silent_peers_are_waited_for(void **state)
{
    (void) state;
    for (uint32_t i = 1; i <= 4 * MPI_SYNC_EVERY; i++) {
        bool is_sync = i % MPI_SYNC_EVERY == 0;
        uint32_t before = sent_count;
        struct fake *fake = send_frame(10);

        assert_int_equal(fake->is_sync, is_sync);
        polls();
        assert_int_equal(sent_count, before + !is_sync);
        fake->is_done = true;
        polls();
        assert_int_equal(sent_count, before + 1);
    }
}

/* To a peer that answers, synchronous sends are rarer; when it stops answering, they are as
 * frequent as to others. */
static void peers_that_answer_are_not(void **state)
{
    uint32_t i;

    (void) state;
    for (i = 1; i <= 2 * MPI_SYNC_ANYWAY; i++) {
        if (i % MPI_SYNC_EVERY == 0)
            bring_frame(3, 5, i / MPI_SYNC_EVERY - 1, 'a');
        assert_int_equal(send_frame(10)->is_sync, i % MPI_SYNC_ANYWAY == 0);
    }
    bring_frame(3, 5, i / MPI_SYNC_EVERY, 'a');
    for (; i <= 2 * MPI_SYNC_ANYWAY + 2 * MPI_SYNC_EVERY; i++)
        assert_int_equal(send_frame(10)->is_sync, i == 2 * MPI_SYNC_ANYWAY + 2 * MPI_SYNC_EVERY);
}

/* ------------------------------------------------------------------------------------------------
 * The end
 */

/* Sends that MPI has not completed when the class closes keep their memory until they complete. */
static void remains(void **state)
{
    struct fake *small, *large;
    int asked;

    (void) state;
    small = send_frame(10);
    large = send_frame(2000);
    polls();
    mpi_jobs_abandon_all(&na_class);
    assert_int_equal(na_class.requests.count, 0);
    assert_int_equal(link_to->jobs, 0);
    assert_int_equal(na_class.job_count, MPI_SHARED_RECEIVES);
    for (uint32_t i = 0; i < MPI_SHARED_RECEIVES; i++)
        assert_true(fakes[i].is_cancelled && !fakes[i].is_there);
    mpi_remains_look();
    large->is_done = is_over = true; /* nothing is tested after MPI_Finalize() */
    mpi_remains_look();
    assert_true(large->is_there);
    is_over = false;
    large->data[0]++;
    asked = small->asked;
    mpi_remains_look();
    assert_false(large->is_there);
    small->data[0]++;
    mpi_remains_look();
    assert_int_equal(small->asked, asked + 2);
    small->is_done = true;
    mpi_remains_look();
    assert_false(small->is_there);
    mpi_remains_look();
}

/* A receive that was tested but is not posted again holds no request of MPI. */
static void receives_that_are_not_posted_again(void **state)
{
    struct message message = message_make(0, 5, 0, 'a');
    struct fake *fake = receive_of(shared);

    (void) state;
    fill(fake, &message, sizeof(message), sizeof(message));
    assert_int_equal(mpi_poll(&na_class.fabric), NA_PLUGIN_SUCCESS);
    assert_int_equal(delivered_count, 1);
    assert_false(kit_list_empty(&na_class.again));
    assert_true(fake->is_there);
    mpi_jobs_abandon_all(&na_class);
    assert_false(fake->is_there);
}

/* The peer's BYE is received while the class closes. */
static void a_goodbye_at_the_end(void **state)
{
    struct mpi_job *job = mpi_job_get(&na_class, link_to, MPI_JOB_RECV_META);

    (void) state;
    assert_non_null(job);
    assert_int_equal(mpi_job_receive(job, MPI_TAG_META, job->capacity), NA_PLUGIN_SUCCESS);
    receive_of(link_to)->is_done = true;
    mpi_jobs_abandon_all(&na_class);
    assert_true(link_to->has_heard_bye);
}

/* The class closes after MPI_Finalize(), with messages in every list. */
static void the_class_closes_after_mpi(void **state)
{
    struct message message = message_make(0, 5, 1, 'b');

    (void) state;
    holds = true;
    bring_frame(0, 5, 0, 'a');
    holds = false;
    fill(receive_of(shared), &message, sizeof(message), sizeof(message));
    assert_int_equal(mpi_poll(&na_class.fabric), NA_PLUGIN_SUCCESS);
    assert_false(kit_list_empty(&na_class.again));
    (void) send_frame(10);
    for (uint32_t i = 0; i < fake_count; i++) /* MPI_Finalize() was called */
        fakes[i].is_there = false;
    while (na_class.requests.count != 0) {
        free(na_class.requests.jobs[na_class.requests.count - 1]->data);
        free(na_class.requests.jobs[--na_class.requests.count]);
    }
    mpi_sources_free(&na_class, NULL);
    mpi_jobs_free(&na_class);
    free(shared);
    free(link_to);
    assert_int_equal(setup(state), 0);
}

/* ------------------------------------------------------------------------------------------------
 * Pieces, and what nobody receives
 */

static struct mpi_job *receive_piece(void)
{
    struct mpi_job *job = mpi_job_get(&na_class, link_to, MPI_JOB_RECV_PIECE);

    assert_non_null(job);
    assert_int_equal(mpi_job_receive(job, MPI_TAG_PIECES, 100), NA_PLUGIN_SUCCESS);
    return job;
}

/* A piece that was withdrawn is reported as such, and its memory is used for the next one. */
static void pieces(void **state)
{
    struct mpi_job *job;

    (void) state;
    mpi_job_withdraw(receive_piece());
    polls();
    assert_int_equal(piece_status, NA_PLUGIN_CANCELED);
    job = receive_piece();
    assert_false(job->is_cancelled);
    fill(receive_of(link_to), "hello", 5, 5);
    polls();
    assert_int_equal(piece_status, NA_PLUGIN_SUCCESS);

    job = mpi_job_get(&na_class, link_to, MPI_JOB_SEND_PIECE);
    assert_non_null(job);
    assert_int_equal(mpi_job_send(job, MPI_TAG_PIECES, 5, false), NA_PLUGIN_SUCCESS);
    assert_int_not_equal(job->index, UINT32_MAX);
    assert_int_equal(na_class.sent_count, 0);
    all_sends_done();
    polls();
    assert_int_equal(link_to->jobs, 0);
}

/* A message that no receive matches is received and dropped, however long it is, without more
 * memory. */
static void what_nobody_receives(void **state)
{
    (void) state;
    assert_false(mpi_job_receive_rest(link_to));
    rest_size = 5;
    assert_true(mpi_job_receive_rest(link_to));
    rest_size = (int) MPI_PIECE + 1;
    assert_true(mpi_job_receive_rest(link_to));
    assert_int_equal(link_to->jobs, 2);
    polls();
    assert_int_equal(link_to->jobs, 0);
}

/* More requests than there is room for at first, completed in any order. */
static void many_at_a_time(void **state)
{
    struct fake *sends[200];

    (void) state;
    for (size_t i = 0; i < 200; i++)
        sends[i] = send_frame(2000);
    for (size_t i = 0; i < 200; i++) {
        sends[i * 77 % 200]->is_done = true;
        polls();
        assert_int_equal(sent_count, i + 1);
        assert_int_equal(link_to->jobs, 199 - i);
    }
}

/* The list of requests grows while completions are being handled. */
static void many_from_inside(void **state)
{
    struct fake *sends[60];

    (void) state;
    for (size_t i = 0; i < 60; i++)
        sends[i] = send_frame(2000);
    for (size_t i = 0; i < 60; i++)
        sends[i]->is_done = true;
    answers = 100;
    polls();
    assert_int_equal(sent_count, 60);
    assert_int_equal(link_to->jobs, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(frames_wait_for_their_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(endpoints_are_told_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(ways_are_told_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(frames_out_of_bounds, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_way, setup, teardown),
        cmocka_unit_test_setup_teardown(a_way_that_closes, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_frame, setup, teardown),
        cmocka_unit_test_setup_teardown(receives_in_any_order, setup, teardown),
        cmocka_unit_test_setup_teardown(held_frames, setup, teardown),
        cmocka_unit_test_setup_teardown(small_frames, setup, teardown),
        cmocka_unit_test_setup_teardown(many_small_frames, setup, teardown),
        cmocka_unit_test_setup_teardown(many_small_frames_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(large_frames, setup, teardown),
        cmocka_unit_test_setup_teardown(sends_that_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(ways_that_are_not_there, setup, teardown),
        cmocka_unit_test_setup_teardown(silent_peers_are_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(peers_that_answer_are_not, setup, teardown),
        cmocka_unit_test_setup_teardown(remains, setup, teardown),
        cmocka_unit_test_setup_teardown(receives_that_are_not_posted_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_goodbye_at_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(the_class_closes_after_mpi, setup, teardown),
        cmocka_unit_test_setup_teardown(pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(what_nobody_receives, setup, teardown),
        cmocka_unit_test_setup_teardown(many_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(many_from_inside, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
