/* SPDX-License-Identifier: BSD-3-Clause */
/* A second process with an endpoint of the same plugin. It is controlled over a socket,
 * independently of the plugin under test. */

#ifndef AMALGAM_CONF_PEER_H
#define AMALGAM_CONF_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "na_conformance/end.h"

#define CONF_HANDLE_SIZE 2048
#define CONF_NOWHERE     UINT64_MAX /* no byte differs */

/* Number `number` of a stream of messages: a receiving context checks the order of each stream. */
#define CONF_STREAMS                   4u
#define CONF_IN_STREAM(stream, number) ((uint64_t) (stream) << 32 | (number))

enum conf_peer_kind {
    CONF_PEER_HELLO,    /* the first reply, with the address in text */
    CONF_PEER_LISTEN,   /* posts `count` receives on each context (0: none), `mode` */
    CONF_PEER_SEND,     /* sends `count` messages with `size` bytes after the header to `text`,
                         * from `context` to `dest`; tags `tag`, +1 ..; `mode`; replies when done */
    CONF_PEER_START,    /* the same; replies at once, and stops when a send is refused */
    CONF_PEER_REPORT,   /* values: counted, out of order, wrong content; text: last source */
    CONF_PEER_EXPOSE,   /* registers `size` bytes of seed 1, in `count` pieces, flags `mode` */
    CONF_PEER_HIDE,     /* deregisters */
    CONF_PEER_FILL,     /* fills the memory with seed `tag` */
    CONF_PEER_VERIFY,   /* values[0]: first of `size` bytes at `offset` not of seed `tag` */
    CONF_PEER_TRANSFER, /* `size` bytes with the handle and `text`; `mode` 1 puts seed `tag`, 0
                         * gets; status; values[0]: first byte that differs */
    CONF_PEER_GET_LOOP, /* gets repeatedly until one fails; replies at once */
    CONF_PEER_NAP,      /* sleeps for `count` ms without polling; replies before */
    CONF_PEER_SLEEP     /* `count` not 0: from now on sleeps in the plugin's ways of waiting */
};

/* Modes of CONF_PEER_LISTEN, and of CONF_PEER_SEND */
enum conf_peer_mode {
    CONF_PEER_ECHO,  /* answers with an expected message, the same tag, to context `dest` */
    CONF_PEER_COUNT, /* counts messages, which begin with a uint64_t number; see CONF_IN_STREAM() */
    CONF_PEER_UNEXPECTED,
    CONF_PEER_EXPECTED,
    CONF_PEER_MIXED /* each tag twice: an unexpected, then an expected message */
};

struct conf_peer_command {
    uint32_t kind;
    uint32_t mode;
    uint32_t count;
    uint32_t tag;
    uint32_t context;
    uint32_t dest;
    uint64_t size;
    uint64_t offset;
    uint64_t handle_size;
    char text[CONF_ADDRESS_SIZE];
    uint8_t handle[CONF_HANDLE_SIZE];
};

struct conf_peer_reply {
    int32_t status;
    uint32_t reserved;
    uint64_t values[4];
    uint64_t handle_size;
    char text[CONF_ADDRESS_SIZE];
    uint8_t handle[CONF_HANDLE_SIZE];
};

struct conf_peer {
    pid_t pid;
    int fd;
    char address[CONF_ADDRESS_SIZE];
    struct na_plugin_addr *addr; /* of conf_peer_meet() */
    struct conf_peer *next;
};

/* Options of the peer's endpoint. */
struct conf_peer_options {
    uint32_t contexts;
    uint32_t progress_mode;
};

void conf_peer_start(struct conf_peer *peer, const struct conf_peer_options *options);
void conf_peer_meet(struct conf_peer *peer, struct conf_end *end);
void conf_peer_stop(struct conf_peer *peer);
void conf_peer_kill(struct conf_peer *peer);
void conf_peer_pause(const struct conf_peer *peer, bool pause);

/* The usual beginning and end: a peer, an endpoint, and the peer's address. */
void conf_pair_open(struct conf_peer *peer, struct conf_end *end, const struct conf_open *how);
void conf_pair_close(struct conf_peer *peer, struct conf_end *end);

/* Sends a command, and makes progress until the reply. The caller checks the reply's status. */
void conf_peer_call(struct conf_peer *peer, const struct conf_peer_command *command,
                    struct conf_peer_reply *reply);
void conf_peer_tell(struct conf_peer *peer, enum conf_peer_kind kind, enum conf_peer_mode mode,
                    uint32_t count);

/* The two halves of a call. */
void conf_peer_post(struct conf_peer *peer, const struct conf_peer_command *command);
void conf_peer_finish(struct conf_peer *peer, struct conf_peer_reply *reply);

/* Has the peer send between contexts 0; `how` is CONF_PEER_SEND or CONF_PEER_START. */
void conf_peer_send(struct conf_peer *peer, enum conf_peer_kind how, const struct conf_end *to,
                    enum conf_peer_mode mode, uint32_t count, uint64_t size, uint32_t tag);

void conf_peer_sending(struct conf_peer_command *command, enum conf_peer_kind how,
                       const struct conf_end *to, enum conf_peer_mode mode, uint32_t count,
                       uint64_t size, uint32_t tag);

/* Waits until the peer has counted `wanted` messages, all in order and with the right content;
 * otherwise fails the check. */
void conf_peer_expect_count(struct conf_peer *peer, uint64_t wanted);

/* Whether all peers that were not ended are alive; otherwise breaks a watched promise. */
bool conf_peers_live(void);

/* Main function of the peer process. */
int conf_peer_main(int control_fd, int shared_fd, const struct conf_peer_options *options);

#endif /* AMALGAM_CONF_PEER_H */
