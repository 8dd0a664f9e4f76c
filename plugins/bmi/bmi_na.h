/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The declarations that the modules of this plugin share. Messages are the kit's (kit_msg.h): its
 * frames are sent as BMI's unexpected messages. Puts and gets are those of kit_remote.h, and their
 * pieces are BMI's expected messages.
 */

#ifndef BMI_NA_H
#define BMI_NA_H

#include "kit_remote.h"
#include "library.h"
#include "na_plugin_offer_details.h"

#include <bmi.h>
#include <stdbool.h>

#define BMI_NA_NAME             "bmi"
#define BMI_NA_PROTOCOL         "tcp"
#define BMI_NA_PREFIX           "tcp://"

#define BMI_NA_LOG_ERROR(...)   BMI_NA_LOG(NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define BMI_NA_LOG_WARNING(...) BMI_NA_LOG(NA_PLUGIN_LOG_WARNING, __VA_ARGS__)
#define BMI_NA_LOG_INFO(...)    BMI_NA_LOG(NA_PLUGIN_LOG_INFO, __VA_ARGS__)
#define BMI_NA_LOG_DEBUG(...)   BMI_NA_LOG(NA_PLUGIN_LOG_DEBUG, __VA_ARGS__)
#define BMI_NA_LOG(level, ...)  KIT_LOG(level, BMI_NA_NAME, __VA_ARGS__)

/* A posted operation of BMI, whose user_ptr points to it. */
enum request_kind {
    REQUEST_FRAME,
    REQUEST_PIECE,
};

struct request {
    enum request_kind kind;
    bool is_posted; /* `id` is valid */
    bmi_op_id_t id;
    struct kit_link link; /* of a frame, in the peer's `frames` */
};

/* The plugin's part of a peer. */
struct bmi_na_peer {
    struct kit_peer *peer;
    bool is_open;
    BMI_addr_t address;
    struct kit_link link;   /* in the class's `peers`, while it is open */
    struct kit_link frames; /* that are posted */
};

/* The plugin's part of a frame. */
struct bmi_na_frame {
    struct request request;
    struct kit_frame *frame;
};

/* The head of memory that a discarded piece is received into. */
struct bmi_na_sink {
    struct kit_link link; /* in the class's `sinks` */
};

/* The plugin's part of a piece. */
struct bmi_na_piece {
    struct request request;
    struct kit_rma_piece *piece;
    BMI_addr_t address;
    bool is_cancelling; /* its receive is being cancelled, and then posted to a sink */
    bool is_withdrawn;  /* its receive must not be posted to a sink */
    struct bmi_na_sink *sink;
};

/* A received frame that the message layer still reads. */
struct bmi_na_received {
    struct kit_link link; /* in the class's `received` */
    BMI_addr_t address;
    void *buffer;
};

struct na_plugin_class {
    struct kit_endpoint base; /* the kit's part, which must be first */
    struct kit_msg_ops ops;
    struct library library;
    bmi_context_id context;
    bool has_context;
    bool is_closing;                          /* BMI is closed or being closed */
    bool is_failed;                           /* BMI made no progress, which was logged */
    bool is_clock_due;                        /* the next poll reads the clock */
    int error;                                /* BMI's error in this poll, or 0 */
    const struct BMI_unexpected_info *source; /* the frame being given to the kit, or NULL */
    struct kit_link peers;                    /* open ones */
    struct kit_link received;
    struct kit_link sinks;
    struct bmi_na_received *received_spare;
    uint32_t received_count;
    uint32_t polls;
    int wait_fd;
    char name[KIT_NAME_MAX];
};

static inline struct na_plugin_class *bmi_na_class(struct kit_endpoint *endpoint)
{
    return (struct na_plugin_class *) (void *) endpoint;
}

/* endpoint.c */
int32_t bmi_na_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                          struct na_plugin_class **class_p, struct na_plugin_class_info *info);
int32_t bmi_na_finalize(struct na_plugin_class *na_class);

/* enumerate.c */
int32_t bmi_na_enumerate(const char *protocol, na_plugin_offer_fn report, void *arg);

/* address.c */
int32_t bmi_na_addr_lookup(struct na_plugin_class *na_class, const char *string,
                           struct na_plugin_addr **addr_p);
int32_t bmi_na_peer_open(struct kit_endpoint *endpoint, struct kit_peer *peer);
void bmi_na_peer_close(struct kit_endpoint *endpoint, struct kit_peer *peer);
void bmi_na_peer_lost(struct na_plugin_class *na_class, BMI_addr_t address, int error);
uint16_t bmi_na_port(const struct sockaddr_storage *place);
void bmi_na_set_port(struct sockaddr_storage *place, uint16_t port);

/* frame.c */
int32_t bmi_na_frame_send(struct kit_endpoint *endpoint, struct kit_frame *frame);
void bmi_na_frame_done(struct na_plugin_class *na_class, struct bmi_na_frame *frame, int error);
void bmi_na_frame_release(struct kit_endpoint *endpoint, void *cookie);
void bmi_na_frames_take(struct na_plugin_class *na_class);
void bmi_na_received_free(struct na_plugin_class *na_class);

/* piece.c */
extern const struct kit_rma_ops bmi_na_rma_ops;
void bmi_na_piece_done(struct na_plugin_class *na_class, struct bmi_na_piece *piece, int error,
                       uint64_t size);
void bmi_na_sinks_free(struct na_plugin_class *na_class);

/* poll.c */
int32_t bmi_na_poll(struct kit_endpoint *endpoint);
int bmi_na_get_fd(struct kit_endpoint *endpoint);
bool bmi_na_try_wait(struct kit_endpoint *endpoint);

/* status.c */
int32_t bmi_na_status(int error);
const char *bmi_na_reason(int error);

#endif /* BMI_NA_H */
