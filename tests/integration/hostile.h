/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile proxy between two processes. Each of them takes every TCP connection that it makes to
 * the proxy instead, as a router would that belongs to an attacker, whatever the transport connects
 * and to which port. The proxy hands messages on one by one, and does to one of them what it was
 * told to. It has no key.
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
#define HOSTILE_SAID        3u /* a process tells the proxy: which port, and its own number */

/* What a frame of the kit is, as far as somebody without the key can see. */
enum hostile_kind {
    HOSTILE_HELLO,
    HOSTILE_HELLO_ACK,
    HOSTILE_HELLO_MET, /* within a session */
    HOSTILE_HELLO_ACK_MET,
    HOSTILE_REQUEST,  /* an unexpected message */
    HOSTILE_RESPONSE, /* an expected message */
    HOSTILE_RECORD,   /* a control record of remote memory */
    HOSTILE_BYE,
    HOSTILE_SEALED,    /* encrypted and small: records, a BYE */
    HOSTILE_PIECE,     /* encrypted and large: bulk data */
    HOSTILE_CHALLENGE, /* ucx: what the called one says first on the plugin's own socket */
    HOSTILE_CALL,      /* ucx: the caller's introduction there */
    HOSTILE_CALLED,    /* ucx: the answer */
    HOSTILE_KINDS,
    HOSTILE_OTHER = HOSTILE_KINDS, /* the transport's own */
};

enum hostile_attack {
    HOSTILE_REPLAY,
    HOSTILE_SWAP, /* for one of the same kind of the session before */
    HOSTILE_REFLECT,
    HOSTILE_TRUNCATE,
    HOSTILE_REORDER,
    HOSTILE_EDIT,
    HOSTILE_ATTACKS,
    HOSTILE_REFUSE = HOSTILE_ATTACKS, /* a refusal goes ahead of it, under its token */
};

/* What is to be done to the next message of a kind, of one of the two processes. */
struct hostile_order {
    enum hostile_kind kind;
    uint32_t from; /* its number: 0 or 1 */
    enum hostile_attack attack;
    uint32_t place; /* of the byte that is edited, or how much is cut off */
};

struct hostile_message {
    uint8_t data[HOSTILE_MESSAGE_MAX];
    size_t size;
    size_t at; /* of the frame in it */
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
    const char *plaintext; /* counted where it is seen */
    _Atomic uint32_t seen;
    pthread_mutex_t mutex; /* guards what follows */
    struct hostile_order order;
    bool is_armed, is_cut;
    uint32_t done; /* messages that were attacked */
    uint32_t counts[2][HOSTILE_KINDS + 1];
    struct hostile_message last[2][HOSTILE_KINDS], kept[2][HOSTILE_KINDS];
};

void hostile_open(struct hostile *hostile, const char *transport, const char *plaintext);
void hostile_close(struct hostile *hostile);

void hostile_arm(struct hostile *hostile, const struct hostile_order *order);

/* Nothing more is done; what was held back goes on. */
void hostile_disarm(struct hostile *hostile);

/* How many messages were attacked since it was armed. */
uint32_t hostile_done(struct hostile *hostile);

/* How many of that kind were handed on, of that process. */
uint32_t hostile_count(struct hostile *hostile, uint32_t from, enum hostile_kind kind);

/* Every connection ends, as when the proxy goes away; the next ones are taken. */
void hostile_cut(struct hostile *hostile);

/* What was seen up to now is of a session that ends. */
void hostile_keep(struct hostile *hostile);

/* In a process: its connections go to the proxy at that port from now on. */
void hostile_lead(uint16_t port, uint32_t number);

#endif
