/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Buffered Message Interface, as far as its TCP method and the plugin above it need it: names,
 * values and signatures are those of BMI, the implementation is in this folder. It speaks the wire
 * format of BMI's bmi_tcp, so that either side of a connection may use either.
 *
 * Differences: calls on one instance are made by one thread at a time, and there are extensions,
 * at the end.
 */

#ifndef BMI_H
#define BMI_H

#include <stdint.h>

typedef int64_t bmi_size_t;
typedef int32_t bmi_msg_tag_t;
typedef int64_t bmi_context_id;
typedef int64_t bmi_op_id_t;
typedef int64_t BMI_addr_t;
typedef int32_t bmi_error_code_t;
typedef struct PVFS_hint_s *bmi_hint;

/* Longest address string, NUL included. */
#define BMI_MAX_ADDR_LEN 256

/* Flags of BMI_initialize */
enum {
    BMI_INIT_SERVER = 1,       /* listen */
    BMI_TCP_BIND_SPECIFIC = 2, /* at the given address only, not at all of the machine */
    BMI_AUTO_REF_COUNT = 4     /* each unexpected message takes a reference to its sender */
};

enum bmi_op_type {
    BMI_SEND = 1,
    BMI_RECV = 2
};

/* Both mean the same here. */
enum bmi_buffer_type {
    BMI_PRE_ALLOC = 1,
    BMI_EXT_ALLOC = 2
};

/* Options of BMI_set_info and BMI_get_info; those that are missing here mean nothing to TCP. */
enum {
    BMI_CHECK_MAXSIZE = 3,            /* get, int: largest message */
    BMI_INC_ADDR_REF = 5,             /* set: one more reference */
    BMI_DEC_ADDR_REF = 6,             /* set: one less; without any the address may go */
    BMI_GET_UNEXP_SIZE = 10,          /* get, int: largest unexpected message */
    BMI_TCP_BUFFER_SEND_SIZE = 11,    /* set, int: of the sockets made from now on; 0: default */
    BMI_TCP_BUFFER_RECEIVE_SIZE = 12, /* set, int: likewise */
    BMI_TCP_CLOSE_SOCKET = 13,        /* set: ends the address's connections and operations */
    BMI_TCP_GET_PORT = 18             /* get, int: where we listen; 0: nowhere */
};

/* Errors are returned negative, one of these in a completion is negative, too. */
#define BMI_ERROR_BIT           (1 << 30)
#define BMI_NON_ERRNO_ERROR_BIT (1 << 29)
#define BMI_ERROR               (1 << 7)
#define BMIE(number)            ((number) | BMI_ERROR_BIT)
#define BMI_ENOMEM              (BMIE(8) | BMI_ERROR)
#define BMI_EBUSY               (BMIE(10) | BMI_ERROR)
#define BMI_EINVAL              (BMIE(15) | BMI_ERROR)
#define BMI_EMFILE              (BMIE(16) | BMI_ERROR)
#define BMI_EPIPE               (BMIE(21) | BMI_ERROR)
#define BMI_EPROTO              (BMIE(38) | BMI_ERROR)
#define BMI_EBADMSG             (BMIE(39) | BMI_ERROR)
#define BMI_EMSGSIZE            (BMIE(42) | BMI_ERROR)
#define BMI_EADDRINUSE          (BMIE(47) | BMI_ERROR)
#define BMI_EADDRNOTAVAIL       (BMIE(48) | BMI_ERROR)
#define BMI_ENETUNREACH         (BMIE(50) | BMI_ERROR)
#define BMI_ENOBUFS             (BMIE(52) | BMI_ERROR)
#define BMI_ETIMEDOUT           (BMIE(53) | BMI_ERROR)
#define BMI_ECONNREFUSED        (BMIE(54) | BMI_ERROR)
#define BMI_EHOSTUNREACH        (BMIE(56) | BMI_ERROR)
#define BMI_EACCES              (BMIE(58) | BMI_ERROR)
#define BMI_ECONNRESET          (BMIE(59) | BMI_ERROR)
#define BMI_ENOSYS              (BMIE(25) | BMI_ERROR)
#define BMI_EIO                 (BMIE(4) | BMI_ERROR)
#define BMI_ECANCEL             ((1 | BMI_NON_ERRNO_ERROR_BIT | BMI_ERROR_BIT) | BMI_ERROR)

/* An unexpected message; `buffer` ends in BMI_unexpected_free. */
struct BMI_unexpected_info {
    bmi_error_code_t error_code;
    BMI_addr_t addr;
    void *buffer;
    bmi_size_t size;
    bmi_msg_tag_t tag;
};

/*
 * Opens the current instance. `method_list` is "bmi_tcp" or NULL; `listen_addr` is
 * "tcp://host:port" with a numeric host, or NULL for one that does not listen. Port 0 picks one
 * (BMI_TCP_GET_PORT says which).
 */
int BMI_initialize(const char *method_list, const char *listen_addr, int flags);

/*
 * Closes it, after a moment for what was posted to leave. What is outstanding is forgotten; buffers
 * of unexpected messages that were not freed go.
 */
int BMI_finalize(void);

int BMI_open_context(bmi_context_id *context_id);
void BMI_close_context(bmi_context_id context_id);

/*
 * Posts a message. 1: it left, there is no completion and *id is 0. 0: a completion with `user_ptr`
 * follows, up to which `buffer` stays. Negative: it failed. Unexpected ones are of at most
 * BMI_GET_UNEXP_SIZE bytes, others of BMI_CHECK_MAXSIZE.
 */
int BMI_post_send(bmi_op_id_t *id, BMI_addr_t dest, const void *buffer, bmi_size_t size,
                  enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, void *user_ptr,
                  bmi_context_id context_id, bmi_hint hints);
int BMI_post_sendunexpected_class(bmi_op_id_t *id, BMI_addr_t dest, const void *buffer,
                                  bmi_size_t size, enum bmi_buffer_type buffer_type,
                                  bmi_msg_tag_t tag, uint8_t msg_class, void *user_ptr,
                                  bmi_context_id context_id, bmi_hint hints);
#define BMI_post_sendunexpected(id, dest, buffer, size, type, tag, user_ptr, context, hints) \
    BMI_post_sendunexpected_class(id, dest, buffer, size, type, tag, 0, user_ptr, context, hints)

/*
 * Posts a buffer for the message with that tag from that address; several for one tag are filled in
 * order. 1: it was there already, *actual_size is its size and there is no completion. A large
 * message that nobody has posted a buffer for holds up its connection until somebody does.
 */
int BMI_post_recv(bmi_op_id_t *id, BMI_addr_t src, void *buffer, bmi_size_t expected_size,
                  bmi_size_t *actual_size, enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag,
                  void *user_ptr, bmi_context_id context_id, bmi_hint hints);

/* What has completed, after some progress when that is nothing. 1: something has. */
int BMI_testcontext(int incount, bmi_op_id_t *out_id_array, int *outcount,
                    bmi_error_code_t *error_code_array, bmi_size_t *actual_size_array,
                    void **user_ptr_array, int max_idle_time_ms, bmi_context_id context_id);
int BMI_testunexpected_class(int incount, int *outcount, struct BMI_unexpected_info *info_array,
                             uint8_t msg_class, int max_idle_time_ms);
#define BMI_testunexpected(incount, outcount, info_array, max_idle_time_ms) \
    BMI_testunexpected_class(incount, outcount, info_array, 0, max_idle_time_ms)

int BMI_unexpected_free(BMI_addr_t addr, void *buffer);

int BMI_set_info(BMI_addr_t addr, int option, void *inout_parameter);
int BMI_get_info(BMI_addr_t addr, int option, void *inout_parameter);

/*
 * The address of "tcp://host:port", always the same as long as it is referenced. Connecting begins
 * with the first message, and again with the first one after a connection broke; a peer that
 * connected to us from there is reached through its connection.
 */
int BMI_addr_lookup(BMI_addr_t *new_addr, const char *id_string);

/* Where the address's messages come from, for people. Valid until the next call. */
const char *BMI_addr_rev_lookup_unexpected(BMI_addr_t addr);

/*
 * Ends an operation early: its completion follows at once, with -BMI_ECANCEL unless it had
 * completed. The memory is not touched any more: what was being sent is copied, what is being
 * received thrown away.
 */
int BMI_cancel(bmi_op_id_t id, bmi_context_id context_id);

/* ------------------------------------------------------------------------------------------------
 * Extensions
 */

/* Calls act upon the calling thread's current instance; a process may have several. */
struct BMI_instance;

/* Level 1 is an error, 2 a warning, 4 for debugging. */
typedef void (*BMI_log_fn)(int level, const char *message);

/* A closed instance, or NULL without memory. It ends, closed again, in BMI_instance_destroy. */
struct BMI_instance *BMI_instance_create(BMI_log_fn log);
void BMI_instance_destroy(struct BMI_instance *instance);

/* Makes it current in this thread; NULL: the one that exists without being created. */
void BMI_instance_use(struct BMI_instance *instance);

/* Options of BMI_set_info, int */
#define BMI_CLASSES       1000 /* unexpected messages of this class and above are thrown away */
#define BMI_DROP_UNWANTED 1001 /* 1: so are others for which no receive is posted when they come */

/*
 * Of BMI_set_info, of an address that was looked up: what is posted from now on leaves by a
 * connection that we make, and not by one to us, whose other end says that it is this address.
 */
#define BMI_DIAL 1002

/* Given as a time to the test functions: no progress, only what has completed already. */
#define BMI_TEST_ONLY (-1)

/* Sends and receives what is possible, after waiting for up to the time for that. */
int BMI_progress(int max_idle_time_ms);

/* Polls readable when BMI_progress has something to do, provided that BMI_may_wait said 1. */
int BMI_get_wait_fd(void);
int BMI_may_wait(void);

/*
 * The wait descriptor polls readable after this time, 0 for never; BMI_progress finds nothing then.
 * A time that was set before is forgotten.
 */
int BMI_wake_in(int ms);

/*
 * When a connection breaks, BMI_testunexpected says so behind the messages that came before: one
 * with an error and without a buffer, also when no operation was outstanding.
 */

/*
 * Whether an unexpected message to the address is best posted now. 1: it leaves at once, or waits
 * behind others that are not unexpected. 0: there is no connection yet (one is being made), or an
 * unexpected message waits. Negative: there is no way to it.
 */
int BMI_may_send(BMI_addr_t addr);

/*
 * The operation goes on without its memory, which is not touched any more: what was to be sent is
 * copied, what comes is thrown away. Its completion follows as it would have.
 */
int BMI_detach(bmi_op_id_t id);

/* The same for a send, of which there is no completion either. */
int BMI_leave(bmi_op_id_t id);

#endif /* BMI_H */
