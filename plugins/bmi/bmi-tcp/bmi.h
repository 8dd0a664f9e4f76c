/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Buffered Message Interface, as far as its TCP method and the plugin need it. Names, values
 * and signatures are those of BMI, the implementation is in this folder. It speaks the wire format
 * of BMI's bmi_tcp, so the other side of a connection may use BMI itself.
 *
 * Differences: one thread at a time calls functions of an instance, and there are extensions, at
 * the end.
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

/* This implementation ignores the type. */
enum bmi_buffer_type {
    BMI_PRE_ALLOC = 1,
    BMI_EXT_ALLOC = 2
};

/* Options of BMI_set_info and BMI_get_info. BMI's other options have no effect with TCP. */
enum {
    BMI_CHECK_MAXSIZE = 3,         /* get, int: largest message */
    BMI_INC_ADDR_REF = 5,          /* set: one more reference */
    BMI_DEC_ADDR_REF = 6,          /* set: one less; without references the address may be freed */
    BMI_GET_UNEXP_SIZE = 10,       /* get, int: largest unexpected message */
    BMI_TCP_BUFFER_SEND_SIZE = 11, /* set, int: of sockets made later; 0: the system's default */
    BMI_TCP_BUFFER_RECEIVE_SIZE = 12, /* set, int: likewise */
    BMI_TCP_CLOSE_SOCKET = 13,        /* set: ends the address's connections and operations */
    BMI_TCP_GET_PORT = 18             /* get, int: the port we listen at; 0: none */
};

/* Functions return errors negative, and completions contain them negative. */
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

/* An unexpected message. BMI_unexpected_free() frees `buffer`. */
struct BMI_unexpected_info {
    bmi_error_code_t error_code;
    BMI_addr_t addr;
    void *buffer;
    bmi_size_t size;
    bmi_msg_tag_t tag;
};

/*
 * Opens the current instance. `method_list` is "bmi_tcp" or NULL; `listen_addr` is
 * "tcp://host:port" with a numeric host, or NULL for an instance that does not listen. Port 0 picks
 * a free one, which BMI_TCP_GET_PORT returns.
 */
int BMI_initialize(const char *method_list, const char *listen_addr, int flags);

/*
 * Closes the instance, after a moment in which posted messages are sent. Outstanding operations do
 * not complete; buffers of unexpected messages are freed.
 */
int BMI_finalize(void);

int BMI_open_context(bmi_context_id *context_id);
void BMI_close_context(bmi_context_id context_id);

/*
 * Posts a message. 1: it was sent, there is no completion and *id is 0. 0: a completion with
 * `user_ptr` follows; the caller keeps `buffer` until then. Negative: it failed. An unexpected
 * message has at most BMI_GET_UNEXP_SIZE bytes, another one BMI_CHECK_MAXSIZE.
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
 * Posts a buffer for a message with that tag from that address; buffers for one tag are filled in
 * order. 1: the message had arrived, *actual_size is its size and there is no completion. A large
 * message without a posted buffer blocks its connection until one is posted.
 */
int BMI_post_recv(bmi_op_id_t *id, BMI_addr_t src, void *buffer, bmi_size_t expected_size,
                  bmi_size_t *actual_size, enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag,
                  void *user_ptr, bmi_context_id context_id, bmi_hint hints);

/* Returns 1 and completed operations; makes progress first if there are none. 0: none. */
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
 * Returns the address of "tcp://host:port", the same one while it is referenced. The first message
 * connects, as does the first one after a connection broke. A peer that connected to us from there
 * is reached by its connection.
 */
int BMI_addr_lookup(BMI_addr_t *new_addr, const char *id_string);

/* Where the address's messages come from, as text for people. Valid until the next call. */
const char *BMI_addr_rev_lookup_unexpected(BMI_addr_t addr);

/*
 * Ends an operation early: its completion follows at once, with -BMI_ECANCEL unless it had
 * completed. Its memory is not used any more: the rest of a message being sent is copied, that of
 * a message being received is discarded.
 */
int BMI_cancel(bmi_op_id_t id, bmi_context_id context_id);

/* ------------------------------------------------------------------------------------------------
 * Extensions
 */

/* Calls act upon the calling thread's current instance; a process may have several. */
struct BMI_instance;

/* Level 1 is an error, 2 a warning, 4 for debugging. */
typedef void (*BMI_log_fn)(int level, const char *message);

/* Returns a closed instance, or NULL without memory. It must be closed when it is destroyed. */
struct BMI_instance *BMI_instance_create(BMI_log_fn log);
void BMI_instance_destroy(struct BMI_instance *instance);

/* Makes the instance current in this thread. NULL: the default one, which always exists. */
void BMI_instance_use(struct BMI_instance *instance);

/* Options of BMI_set_info, int */
#define BMI_CLASSES       1000 /* unexpected messages of this class and above are discarded */
#define BMI_DROP_UNWANTED 1001 /* 1: so are expected ones that arrive without a receive */

/*
 * Option of BMI_set_info, for an address that was looked up: messages posted later are sent by a
 * connection that we make, not by one whose peer connected to us and claimed this address.
 */
#define BMI_DIAL 1002

/* An idle time for the test functions: they make no progress, and return completed ones only. */
#define BMI_TEST_ONLY (-1)

/* Waits up to that time for an event, then sends and receives what is possible. */
int BMI_progress(int max_idle_time_ms);

/* A descriptor that is readable when BMI_progress has work. Wait only if BMI_may_wait returns 1. */
int BMI_get_wait_fd(void);
int BMI_may_wait(void);

/*
 * Makes the wait descriptor readable after this time, although BMI_progress has nothing to do then.
 * 0: never. Replaces a time that was set before.
 */
int BMI_wake_in(int ms);

/*
 * When a connection breaks, BMI_testunexpected returns, behind the messages that arrived before, an
 * entry with an error and without a buffer, even if no operation was outstanding.
 */

/*
 * Whether an unexpected message to the address should be posted now. 1: it is sent at once, or
 * behind expected ones. 0: there is no connection yet (one is being made), or an unexpected message
 * waits. Negative: the address cannot be reached.
 */
int BMI_may_send(BMI_addr_t addr);

/*
 * The operation goes on, but does not use its memory any more: a message to send is copied, a
 * received one is discarded. Its completion follows as it would have.
 */
int BMI_detach(bmi_op_id_t id);

/* The same for a send, which then has no completion. */
int BMI_leave(bmi_op_id_t id);

#endif /* BMI_H */
