/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin over an MPI that is slow and fails: this program wraps MPI's functions through the
 * profiling interface. Both endpoints are in this process, which is the only rank. */

#include "transport/transport_test.h"

#include <mpi.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define TRACKED     4096
#define MESSAGES    200u
#define TARGETS     6u
#define SIZE        32u
#define FRAME_MIN   16 /* bytes; a shorter message is not a frame */
#define UNCONFIRMED 64 /* the most frames to one peer that are not known to be received */
#define SILENT      16 /* the most such frames to a peer that sends nothing */
#define POLLS       200u
#define IN_ORDER    5u

/* A message, its operation and its completion. */
struct letter {
    struct event event;
    na_op_id_t *op;
    uint8_t data[SIZE];
};

/* Sends whose completion the plugin has not seen. Handles may be equal. */
static MPI_Request tracked[TRACKED];
static int tracked_count;
static int sync_count;
static bool is_holding; /* the tracked sends do not complete */
static bool is_failing; /* the tracked sends complete with an error */
static bool is_receive_wanted;
static MPI_Request receive_held = MPI_REQUEST_NULL; /* this receive does not complete */

static void track(int count, int error, MPI_Request request)
{
    if (count < FRAME_MIN || error != MPI_SUCCESS)
        return;
    assert_true(tracked_count < TRACKED);
    tracked[tracked_count++] = request;
}

static int tracked_find(MPI_Request request)
{
    int i = 0;

    while (i < tracked_count && tracked[i] != request)
        i++;
    return i;
}

static bool is_held(MPI_Request request)
{
    if (request == MPI_REQUEST_NULL)
        return false;
    return request == receive_held || (is_holding && tracked_find(request) < tracked_count);
}

static bool tracked_end(MPI_Request request)
{
    int i = tracked_find(request);

    if (request == MPI_REQUEST_NULL || i == tracked_count)
        return false;
    tracked[i] = tracked[--tracked_count];
    return true;
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    int error = PMPI_Isend(data, count, type, to, tag, comm, request);

    track(count, error, *request);
    return error;
}

int MPI_Issend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    int error = PMPI_Issend(data, count, type, to, tag, comm, request);

    sync_count += count >= FRAME_MIN ? 1 : 0;
    track(count, error, *request);
    return error;
}

int MPI_Test(MPI_Request *request, int *is_done, MPI_Status *status)
{
    MPI_Request asked = *request;
    int error;

    *is_done = 0;
    if (is_held(asked))
        return MPI_SUCCESS;
    error = PMPI_Test(request, is_done, status);
    if (*is_done != 0 && tracked_end(asked) && is_failing)
        return MPI_ERR_OTHER;
    return error;
}

int MPI_Request_get_status(MPI_Request request, int *is_done, MPI_Status *status)
{
    if (is_receive_wanted)
        receive_held = request;
    is_receive_wanted = false;
    *is_done = 0;
    return is_held(request) ? MPI_SUCCESS : PMPI_Request_get_status(request, is_done, status);
}

int MPI_Testsome(int count, MPI_Request requests[], int *done_count, int indices[],
                 MPI_Status statuses[])
{
    MPI_Request asked[TRACKED];
    int error;

    assert_true(count <= TRACKED);
    for (int i = 0; i < count; i++) {
        asked[i] = requests[i];
        if (is_held(requests[i]))
            requests[i] = MPI_REQUEST_NULL;
    }
    error = PMPI_Testsome(count, requests, done_count, indices, statuses);
    for (int i = 0; i < *done_count; i++)
        (void) tracked_end(asked[indices[i]]);
    for (int i = 0; i < count; i++)
        if (is_held(asked[i]))
            requests[i] = asked[i];
    /* MPI may report completions in any order */
    for (int i = 0, j = *done_count - 1; i < j; i++, j--) {
        int index = indices[i];
        MPI_Status status = statuses[i];

        indices[i] = indices[j];
        statuses[i] = statuses[j];
        indices[j] = index;
        statuses[j] = status;
    }
    return error;
}

static void letters_open(struct end *end, struct letter *letters, size_t count)
{
    memset(letters, 0, count * sizeof(*letters));
    for (size_t i = 0; i < count; i++) {
        letters[i].op = NA_Op_create(end->na_class, NA_OP_SINGLE);
        assert_non_null(letters[i].op);
    }
}

static void letters_close(struct end *end, struct letter *letters, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (letters[i].event.source != NULL)
            NA_Addr_free(end->na_class, letters[i].event.source);
        NA_Op_destroy(end->na_class, letters[i].op);
    }
}

static void letters_receive(struct end *end, struct letter *letters, size_t count)
{
    letters_open(end, letters, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(
            end_receive_unexpected(end, &letters[i].event, letters[i].data, SIZE, letters[i].op),
            NA_SUCCESS);
}

static void letters_send(struct end *end, na_addr_t *to, struct letter *letters, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memset(letters[i].data, (int) i, SIZE);
        assert_int_equal(NA_Msg_send_unexpected(end->na_class, end->context, event_callback,
                                                &letters[i].event, letters[i].data, SIZE, NULL, to,
                                                0, (na_tag_t) i, letters[i].op),
                         NA_SUCCESS);
    }
}

static size_t letters_done(const struct letter *letters, size_t count)
{
    size_t done = 0;

    for (size_t i = 0; i < count; i++)
        done += letters[i].event.done != 0 ? 1 : 0;
    return done;
}

/* Polls both sides for a while, or until all messages have completed. */
static void exchange(struct end *from, struct end *to, const struct letter *letters, size_t count)
{
    uint64_t end = now_ms() + TEST_WAIT_MS;

    for (unsigned int i = 0;
         letters == NULL ? i < POLLS : letters_done(letters, count) != count && now_ms() < end;
         i++) {
        end_progress(from, 0);
        end_progress(to, 0);
    }
}

static void letters_check(const struct letter *letters, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(letters[i].event.done, 1);
        assert_int_equal(letters[i].event.ret, NA_SUCCESS);
        assert_int_equal(letters[i].event.tag, i);
        assert_int_equal(letters[i].data[SIZE - 1], (uint8_t) i);
    }
}

/* Passes a message in each direction, so that later frames contain no HELLO. */
static void get_to_know(struct end *from, na_addr_t *addr, struct end *to)
{
    struct letter in, out;

    letters_receive(to, &in, 1);
    letters_open(from, &out, 1);
    letters_send(from, addr, &out, 1);
    exchange(from, to, &in, 1);
    letters_check(&in, 1);
    exchange(from, to, NULL, 0);
    assert_int_equal(out.event.done, 1);
    letters_close(from, &out, 1);
    letters_close(to, &in, 1);
}

/* When sends do not complete, only a few more are started to that peer; later all messages
 * arrive. */
static void test_slow_sends(void **state)
{
    static struct letter in[MESSAGES], out[MESSAGES];
    struct end from, to;
    na_addr_t *addr;

    (void) state;
    end_open(&from, NULL, NULL);
    end_open(&to, NULL, NULL);
    addr = end_lookup(&from, &to);
    get_to_know(&from, addr, &to);
    letters_receive(&to, in, MESSAGES);
    letters_open(&from, out, MESSAGES);
    is_holding = true;
    letters_send(&from, addr, out, MESSAGES);
    exchange(&from, &to, NULL, 0);
    assert_in_range(tracked_count, 1, SILENT);
    assert_int_equal(letters_done(in, MESSAGES), (size_t) tracked_count);
    is_holding = false;
    exchange(&from, &to, in, MESSAGES);
    letters_check(in, MESSAGES);
    exchange(&from, &to, out, MESSAGES);
    assert_int_equal(letters_done(out, MESSAGES), MESSAGES);
    exchange(&from, &to, NULL, 0);
    assert_int_equal(tracked_count, 0);
    letters_close(&from, out, MESSAGES);
    letters_close(&to, in, MESSAGES);
    NA_Addr_free(from.na_class, addr);
    end_close(&to);
    end_close(&from);
    assert_int_equal(tracked_count, 0);
}

/* Also to a peer that answers, some sends are synchronous, to confirm that it receives. */
static void test_answers(void **state)
{
    struct end from, to;
    na_addr_t *there, *back;

    (void) state;
    end_open(&from, NULL, NULL);
    end_open(&to, NULL, NULL);
    there = end_lookup(&from, &to);
    back = end_lookup(&to, &from);
    get_to_know(&from, there, &to);
    sync_count = 0;
    for (unsigned int i = 0; i < MESSAGES; i++) {
        get_to_know(&from, there, &to);
        get_to_know(&to, back, &from);
    }
    assert_in_range(sync_count, 2 * (MESSAGES / UNCONFIRMED), 2 * MESSAGES / SILENT);
    NA_Addr_free(from.na_class, there);
    NA_Addr_free(to.na_class, back);
    end_close(&to);
    end_close(&from);
    assert_int_equal(tracked_count, 0);
}

/* More frames than are left to complete later, to several peers, without a poll in between. */
static void test_many_sends(void **state)
{
    static struct letter in[TARGETS][IN_ORDER + 2], out[TARGETS][IN_ORDER + 2];
    const size_t each = IN_ORDER + 2;
    struct end from, to[TARGETS];
    na_addr_t *addr[TARGETS];

    (void) state;
    end_open(&from, NULL, NULL);
    for (size_t i = 0; i < TARGETS; i++) {
        end_open(&to[i], NULL, NULL);
        addr[i] = end_lookup(&from, &to[i]);
        get_to_know(&from, addr[i], &to[i]);
        letters_receive(&to[i], in[i], each);
        letters_open(&from, out[i], each);
    }
    is_holding = true;
    for (size_t i = 0; i < TARGETS; i++)
        letters_send(&from, addr[i], out[i], each);
    is_holding = false;
    for (size_t i = 0; i < TARGETS; i++) {
        exchange(&from, &to[i], in[i], each);
        letters_check(in[i], each);
        exchange(&from, &to[i], out[i], each);
        assert_int_equal(letters_done(out[i], each), each);
    }
    end_progress(&from, 10);
    assert_int_equal(tracked_count, 0);
    for (size_t i = 0; i < TARGETS; i++) {
        letters_close(&from, out[i], each);
        letters_close(&to[i], in[i], each);
        NA_Addr_free(from.na_class, addr[i]);
        end_close(&to[i]);
    }
    end_close(&from);
    assert_int_equal(tracked_count, 0);
}

/* A message that counted as sent is lost: the receive from that peer ends with an error. */
static void test_failed_send(void **state)
{
    struct letter out, reply;
    struct end from, to;
    na_addr_t *addr;

    (void) state;
    end_open(&from, NULL, NULL);
    end_open(&to, NULL, NULL);
    addr = end_lookup(&from, &to);
    get_to_know(&from, addr, &to);
    letters_open(&from, &out, 1);
    letters_open(&from, &reply, 1);
    assert_int_equal(end_receive_expected(&from, &reply.event, reply.data, SIZE, addr, 1, reply.op),
                     NA_SUCCESS);
    is_failing = true;
    letters_send(&from, addr, &out, 1);
    assert_true(event_wait(&from, &reply.event, TEST_WAIT_MS));
    is_failing = false;
    assert_int_equal(reply.event.ret, NA_HOSTUNREACH);
    assert_int_equal(out.event.done, 1);
    letters_close(&from, &out, 1);
    letters_close(&from, &reply, 1);
    get_to_know(&from, addr, &to); /* the peer is still there */
    NA_Addr_free(from.na_class, addr);
    end_close(&to);
    end_close(&from);
    assert_int_equal(tracked_count, 0);
}

/* Memory of sends that MPI has not completed outlives the class. */
static void test_remains(void **state)
{
    struct end from, to, other;
    struct letter out;
    na_addr_t *addr;
    int left;

    (void) state;
    end_open(&from, NULL, NULL);
    end_open(&to, NULL, NULL);
    addr = end_lookup(&from, &to);
    get_to_know(&from, addr, &to);
    letters_open(&from, &out, 1);
    is_holding = true;
    letters_send(&from, addr, &out, 1);
    assert_true(event_wait(&from, &out.event, TEST_WAIT_MS));
    letters_close(&from, &out, 1);
    NA_Addr_free(from.na_class, addr);
    end_close(&from);
    left = tracked_count;
    assert_int_not_equal(left, 0);
    end_open(&other, NULL, NULL);
    end_close(&other);
    assert_int_equal(tracked_count, left);
    is_holding = false;
    end_close(&to);
    assert_int_equal(tracked_count, 0);
}

/* MPI completes messages out of order; messages to another peer are not delayed. */
static void test_order(void **state)
{
    struct letter in[IN_ORDER], out[IN_ORDER], in_other, out_other;
    na_addr_t *addr, *addr_other;
    struct end from, to, other;

    (void) state;
    end_open(&from, NULL, NULL);
    end_open(&to, NULL, NULL);
    end_open(&other, NULL, NULL);
    addr = end_lookup(&from, &to);
    addr_other = end_lookup(&other, &to);
    get_to_know(&from, addr, &to);
    get_to_know(&other, addr_other, &to);
    letters_receive(&to, &in_other, 1);
    letters_receive(&to, in, IN_ORDER);
    letters_open(&from, out, IN_ORDER);
    letters_open(&other, &out_other, 1);
    is_receive_wanted = true;
    end_progress(&to, 0);
    assert_true(receive_held != MPI_REQUEST_NULL);
    letters_send(&from, addr, out, IN_ORDER);
    letters_send(&other, addr_other, &out_other, 1);
    exchange(&from, &to, NULL, 0);
    exchange(&other, &to, &in_other, 1);
    exchange(&other, &to, &out_other, 1);
    letters_check(&in_other, 1);
    assert_int_equal(letters_done(in, IN_ORDER), 0);
    receive_held = MPI_REQUEST_NULL;
    exchange(&from, &to, in, IN_ORDER);
    exchange(&from, &to, out, IN_ORDER);
    letters_check(in, IN_ORDER);
    letters_close(&from, out, IN_ORDER);
    letters_close(&to, in, IN_ORDER);
    letters_close(&other, &out_other, 1);
    letters_close(&to, &in_other, 1);
    NA_Addr_free(from.na_class, addr);
    NA_Addr_free(other.na_class, addr_other);
    end_close(&other);
    end_close(&to);
    end_close(&from);
    assert_int_equal(tracked_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_sends), cmocka_unit_test(test_answers),
        cmocka_unit_test(test_many_sends), cmocka_unit_test(test_failed_send),
        cmocka_unit_test(test_remains),    cmocka_unit_test(test_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
