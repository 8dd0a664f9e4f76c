/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile proxy between two processes, like a router that an attacker controls. Every TCP
 * connection that one of the processes makes, whatever the transport and the port, goes to the
 * proxy instead. The proxy forwards the messages one by one, and attacks one of them as the test
 * orders. The proxy does not have the key.
 */
#ifndef TESTS_INTEGRATION_HOSTILE_H
#define TESTS_INTEGRATION_HOSTILE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOSTILE_MESSAGE_MAX 65536u
#define HOSTILE_LINKS_MAX   1024u
/* bytes that a process sends first: the destination port and its own number */
#define HOSTILE_SAID 3u

/* The kind of a frame of the transport kit, as far as it shows without the key. */
enum hostile_kind {
    HOSTILE_HELLO,
    HOSTILE_HELLO_ACK,
    HOSTILE_HELLO_MET, /* within an established session */
    HOSTILE_HELLO_ACK_MET,
    HOSTILE_REQUEST,  /* an unexpected message */
    HOSTILE_RESPONSE, /* an expected message */
    HOSTILE_RECORD,   /* a control record of remote memory */
    HOSTILE_BYE,
    HOSTILE_SEALED,    /* encrypted and small: records, a BYE */
    HOSTILE_PIECE,     /* encrypted and large: bulk data */
    HOSTILE_CHALLENGE, /* ucx: what the accepting side sends first on the plugin's own socket */
    HOSTILE_CALL,      /* ucx: the introduction of the connecting side on that socket */
    HOSTILE_CALLED,    /* ucx: the answer to the introduction */
    HOSTILE_KINDS,
    HOSTILE_OTHER = HOSTILE_KINDS, /* a message of the transport itself */
};

enum hostile_attack {
    HOSTILE_REPLAY,
    HOSTILE_SWAP, /* replaced by a message of the same kind from the previous session */
    HOSTILE_REFLECT,
    HOSTILE_TRUNCATE,
    HOSTILE_REORDER,
    HOSTILE_EDIT,
    HOSTILE_ATTACKS,
    HOSTILE_REFUSE = HOSTILE_ATTACKS, /* a forged refusal is sent before the message, with the token
                                       * of the message */
};

/* An attack on the next message of one kind that one of the two processes sends. */
struct hostile_order {
    enum hostile_kind kind;
    uint32_t from; /* number of the sending process: 0 or 1 */
    enum hostile_attack attack;
    uint32_t place; /* index of the byte to edit, or how many bytes to truncate */
};

struct hostile_message {
    uint8_t data[HOSTILE_MESSAGE_MAX];
    size_t size;
    size_t at; /* offset of the frame in the message */
    size_t frame_size;
    enum hostile_kind kind;
};

struct hostile_link;

struct hostile {
    int listen_fd;
    uint16_t port;
    pthread_t thread;
    _Atomic bool is_over;
    struct hostile_link *links[HOSTILE_LINKS_MAX];
    uint32_t count;
    const char *transport;
    const char *plaintext; /* `seen` counts the receives that contain this text */
    _Atomic uint32_t seen;
    pthread_mutex_t mutex; /* guards the members below */
    struct hostile_order order;
    bool is_armed, is_cut;
    uint32_t done; /* messages that were attacked */
    uint32_t counts[2][HOSTILE_KINDS + 1];
    struct hostile_message last[2][HOSTILE_KINDS], kept[2][HOSTILE_KINDS];
};

void hostile_open(struct hostile *hostile, const char *transport, const char *plaintext);
void hostile_close(struct hostile *hostile);

void hostile_arm(struct hostile *hostile, const struct hostile_order *order);

/* Withdraws the order; a message that is held back for reordering is still forwarded. */
void hostile_disarm(struct hostile *hostile);

/* Returns how many messages were attacked since hostile_arm(). */
uint32_t hostile_done(struct hostile *hostile);

/* Returns how many messages of a kind from process `from` were forwarded. */
uint32_t hostile_count(struct hostile *hostile, uint32_t from, enum hostile_kind kind);

/* Closes all connections, as if the proxy had gone away. New connections are accepted. */
void hostile_cut(struct hostile *hostile);

/* Keeps the messages recorded so far as those of the previous session, for HOSTILE_SWAP. */
void hostile_keep(struct hostile *hostile);

/* Called in a process under test: from now on its connections go to the proxy at `port`. */
void hostile_lead(uint16_t port, uint32_t number);

#endif
