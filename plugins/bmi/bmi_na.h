/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the modules of this plugin share. Messages are the kit's (kit_msg.h), in frames that travel
 * as BMI's unexpected messages; put and get are kit_remote.h's, whose pieces are expected ones.
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

/* What a completion of BMI belongs to; user_ptr points to it. */
enum request_kind {
    REQUEST_FRAME,
    REQUEST_PIECE,
};

struct request {
    enum request_kind kind;
    bool is_posted; /* BMI knows `id` */
    bmi_op_id_t id;
    struct kit_link link; /* of the peer: what is under way to it or from it */
};

/* Private part of a peer. */
struct bmi_na_peer {
    struct kit_peer *peer;
    bool is_open;
    BMI_addr_t address;
    struct kit_link link; /* of the class: those that are open */
    struct kit_link frames;
};

/* Private part of a frame. */
struct bmi_na_frame {
    struct request request;
    struct kit_frame *frame;
};

/* Takes the place of a piece's memory; that follows. */
struct bmi_na_sink {
    struct kit_link link; /* of the class */
};

/* Private part of a piece. */
struct bmi_na_piece {
    struct request request;
    struct kit_rma_piece *piece;
    BMI_addr_t address;
    bool is_leaving;   /* its receive was cancelled, to be posted again without its memory */
    bool is_withdrawn; /* not to be posted again */
    struct bmi_na_sink *sink;
};

/* A received frame that the message layer holds. */
struct bmi_na_held {
    struct kit_link link; /* of the class */
    BMI_addr_t address;
    void *buffer;
};

struct na_plugin_class {
    struct kit_endpoint base; /* first: the message layer's */
    struct kit_msg_ops ops;
    struct library library;
    bmi_context_id context;
    bool has_context;
    bool is_closing;                          /* BMI is closed */
    bool is_failed;                           /* it does not work any more; said once */
    bool is_clock_due;                        /* the next poll looks at the clock */
    int error;                                /* of BMI in this poll */
    const struct BMI_unexpected_info *source; /* the frame that is being looked at */
    struct kit_link peers;                    /* that are open */
    struct kit_link held;
    struct kit_link sinks;
    struct bmi_na_held *held_spare;
    uint32_t held_count;
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
void bmi_na_peer_broken(struct na_plugin_class *na_class, BMI_addr_t address, int error);
uint16_t bmi_na_port(const struct sockaddr_storage *place);
void bmi_na_set_port(struct sockaddr_storage *place, uint16_t port);

/* frame.c */
int32_t bmi_na_frame_send(struct kit_endpoint *endpoint, struct kit_frame *frame);
void bmi_na_frame_done(struct na_plugin_class *na_class, struct bmi_na_frame *frame, int error);
void bmi_na_frame_release(struct kit_endpoint *endpoint, void *cookie);
void bmi_na_frames_take(struct na_plugin_class *na_class);
void bmi_na_held_free(struct na_plugin_class *na_class);

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
