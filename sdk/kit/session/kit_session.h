/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions: the peers of an endpoint, found by name, by incarnation and by token; how two endpoints
 * introduce themselves (HELLO, HELLO_ACK, BYE); liveness and failure of peers. The user of this
 * layer is the message layer, which sends and receives for it; plugins over that use kit_msg.h.
 *
 * A peer is known by its canonical name, and its process by an incarnation, a random number of the
 * process. Each frame of a peer carries the token that our HELLO told it: a slot and random bits. A
 * peer that failed gets a new token, so that its earlier frames are stale. If two names turn out to
 * be one process, one of the two peers is the canonical one in matching.
 *
 * With a key (auth_key) HELLO and HELLO_ACK are the exchange of kit_auth.h, and everything else is
 * sealed. A HELLO without a seal is an offer: it changes nothing until its sender has sealed a
 * frame with the keys that result from it. Without a key anybody who sees a token can use it.
 *
 * This layer calls no function of its user's except those in struct kit_session_config. It marks
 * events of a peer in `pending` and appends the peer to the list `active`; the user acts on them
 * when it is in no call of the fabric's. The user's lock guards a session; kit_peer_hold() and
 * kit_peer_release() need no lock. Nothing blocks. Since 1.1.
 */

#ifndef KIT_SESSION_H
#define KIT_SESSION_H

#include "kit_auth.h"
#include "kit_base.h"
#include "kit_region.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Longest canonical name of a peer (the part of its address after "://"), NUL included. */
#define KIT_NAME_MAX 256

/* Longest raw address in a HELLO. */
#define KIT_RAW_MAX           1024

#define KIT_SESSION_PEERS_MAX (UINT32_C(1) << 20) /* peers of a session, aliases included */
#define KIT_SESSION_TICK_NS   UINT64_C(100000000) /* between two calls of kit_session_tick() */

struct kit_endpoint; /* the user's; passed to the functions of struct kit_session_config */

/* What the next frame to a peer has to carry or wait for. 0: a message may be sent by itself. */
#define KIT_PENDING_HELLO     0x01u /* every frame carries a HELLO until one is answered */
#define KIT_PENDING_HELLO_ACK 0x02u
#define KIT_PENDING_BYE       0x04u
#define KIT_PENDING_PING      0x10u  /* one more HELLO, also while an earlier one is not answered */
#define KIT_PENDING_ANSWER    0x20u  /* no HELLO of ours was answered yet */
#define KIT_PENDING_FAILURE   0x40u  /* `failure` was reported, and the user has not acted on it */
#define KIT_PENDING_CLOSE     0x80u  /* the connection to its earlier process has to be closed */
#define KIT_PENDING_OFFER     0x100u /* the HELLO_ACK to an offer, without a seal */
#define KIT_PENDING_REFUSAL   0x200u /* the refusal of a HELLO */
#define KIT_PENDING_CONFIRM   0x400u /* a sealed frame, which proves our key to the peer */
#define KIT_PENDING_FLOW      0x800u /* of the user: XON or XOFF, once the peer is ready */

/* How far the connection with a peer is. */
enum kit_peer_phase {
    KIT_PEER_NEW,
    KIT_PEER_HELLO_SENT,
    KIT_PEER_READY,
};

/* Why a HELLO is refused, which the receiver cannot verify. The values are part of the protocol. */
enum kit_refusal_reason {
    KIT_REFUSAL_NO_KEY = 1,    /* we have a key, the sender of the HELLO has none */
    KIT_REFUSAL_KEY = 2,       /* the sender of the HELLO has a key, we have none */
    KIT_REFUSAL_OTHER_KEY = 3, /* the proof of its key does not match our key */
    KIT_REFUSAL_ENCRYPTS = 4,  /* we encrypt, the sender of the HELLO does not */
    KIT_REFUSAL_CLEAR = 5      /* the sender of the HELLO encrypts, we do not */
};

/* A refusal to be sent. The addressee is described by the refused HELLO. */
struct kit_refusal {
    uint64_t token;
    uint32_t incarnation_low;
    uint32_t mask;
    uint32_t reason;
};

#define KIT_SECRETS 2u /* most keys of an endpoint: auth_key, auth_key_also */

/* A HELLO under a key whose sender has sealed no frame yet, with the keys that result from it. */
struct kit_offer {
    struct kit_link age_link;  /* in session->offers_by_age, the oldest is first */
    struct kit_link peer_link; /* in auth->offers of the peer, the oldest is first */
    struct kit_peer *peer;
    bool is_pending;                        /* the HELLO_ACK has to be sent */
    struct kit_auth_keys keys[KIT_SECRETS]; /* one for each key of ours, as the next two */
    struct kit_seal seals[KIT_SECRETS];
    uint8_t shares[KIT_SECRETS][KIT_AUTH_SHARE]; /* of our side */
    uint8_t their_share[KIT_AUTH_SHARE];
    uint8_t digest[KIT_AUTH_KEY]; /* of the HELLO without its epoch */
    uint64_t token;
    uint64_t incarnation;
    uint32_t epoch;
    uint32_t ticks; /* session->ticks when the HELLO came */
    uint32_t size;
    uint8_t *data; /* the HELLO; allocated with this struct */
};

/* State of a peer of an endpoint with a key. */
struct kit_peer_auth {
    struct kit_seal seal;
    struct kit_seal_contexts contexts; /* of `seal` */
    struct kit_seal old; /* of the same process under another name, which may still use it */
    bool is_sealed;
    bool has_old;
    bool has_exchange;
    bool has_switched;  /* this attempt goes on with the second of the keys tried */
    uint32_t key_index; /* of the key that our HELLOs are under */
    uint32_t key_epoch; /* epoch of the first HELLO under that key */
    uint32_t exchange_uses;
    /* Our shares, one for each key, in HELLOs and answers until one of them is answered. */
    struct kit_auth_exchange exchange[KIT_SECRETS];
    struct kit_link offers;
    uint32_t offer_count;
    struct kit_offer *answered;  /* the last; NULL: it was freed */
    struct kit_offer *confirmed; /* offer whose seal the last frame had */
    uint32_t confirmed_with;     /* index of the key of that seal */
    bool is_by_old;              /* the last received frame had the old seal */
    uint64_t number;             /* unique number of the seal */
    uint64_t taken; /* `number` of the frame whose records are being processed; has_grants */
};

/* A peer; the first member of the user's struct. Plugins read the first group. */
struct kit_peer {
    char *name; /* canonical: the part of the address after "://" */
    void *raw;  /* the fabric's address, from a HELLO or a lookup; NULL: not known */
    uint32_t raw_size;
    uint32_t local; /* 1: its HELLO came from this node */
    void *priv;     /* config.private_size bytes of the plugin's, zero-filled */

    struct kit_session *session; /* the endpoint's */
    uint32_t refs;               /* references of the core and of messages; any thread */

    /* Used by every message */
    uint32_t pending;
    uint32_t in_flight; /* frames of this connection that are being sent */
    bool is_heard;      /* a frame came since the last tick */
    bool is_watched;
    bool is_stalled;            /* the fabric had no room for a frame */
    bool is_open;               /* ops.peer_open succeeded */
    struct kit_peer_auth *auth; /* NULL without a key, and for ourselves */
    uint64_t their_token;       /* under which the peer knows us */
    uint32_t their_incarnation_low;
    uint32_t epoch;         /* count of the HELLOs that were requested */
    uint32_t sent_sequence; /* of the last frame under their token */
    uint32_t their_mask;    /* added to sent_sequence on the wire */
    uint32_t received_sequence;
    uint32_t other_sequence; /* last one of its frames to another name of ours; 0: none */
    uint32_t waiting;        /* operations that wait for the peer: receives, sends, transfers */
    uint32_t connection;     /* count of connections; frames of an earlier one are ignored */
    uint32_t phase;
    uint32_t hello_epoch; /* epoch of the last HELLO that we sent */
    uint32_t answered;    /* epochs up to this one were answered by the known incarnation */
    uint32_t lost_before; /* operations posted before this epoch are lost; 0: none */
    uint64_t their_incarnation;
    uint32_t their_epoch;       /* of its last HELLO; our HELLO_ACK echoes it */
    uint64_t holder;            /* of grants; changes with the token */
    uint32_t granted_from;      /* grants before this epoch were for another session */
    uint32_t index;             /* slot, low half of our token for the peer */
    uint32_t nonce;             /* random high half of our token for the peer */
    uint32_t mask;              /* added to sequences of its frames; sent with the token */
    struct kit_peer *canonical; /* peer that stands for the process; may be this one */

    /* The rest is internal to the session */
    int32_t failure;
    char *failure_reason;       /* NULL: there was no memory for it */
    uint32_t silent_network_ms; /* not 0: the peer failed after so long a silence of its network */
    struct kit_link active_link;
    struct kit_link watch_link;
    struct kit_peer *name_next;
    struct kit_peer *incarnation_next;
    uint64_t host; /* from its last HELLO, as the next three */
    uint64_t pid_namespace;
    uint64_t start_time;
    uint32_t pid;
    uint32_t name_hash;
    uint32_t silent_ms; /* time without a frame of the peer while operations wait for it */
    uint32_t ping_ms;   /* silent_ms at which it is sent another HELLO */
    uint32_t quiet_ms;  /* time without a frame and without an answer of its host */
    uint32_t probed_ms; /* quiet_ms when the last probe was sent */
    int probe_fd;
    uint32_t idle_sweeps;
    bool is_probing;
    bool is_probe_answered; /* the host accepted the connection */
    bool is_self;
    bool is_removable;          /* freed as soon as it is unused */
    bool has_closed;            /* sent a BYE, and no HELLO since */
    bool is_suspect;            /* its process did not exist at the last tick */
    struct kit_refusal refusal; /* with KIT_PENDING_REFUSAL */
};

/* An entry of the table of peers; its index is the low half of a token. */
struct kit_session_slot {
    struct kit_peer *peer; /* NULL: free */
    uint32_t nonce;        /* of the slot's last token */
    uint32_t next_free;    /* index of the next free slot, if this one is free */
};

/* Configuration. Strings and the raw address are copied, except `plugin`. */
struct kit_session_config {
    const char *plugin; /* name, for the log */
    const char *name;   /* our own canonical name */
    const void *raw;    /* our own raw address, sent in each HELLO */
    uint32_t raw_size;
    uint32_t peer_size;    /* bytes of the user's struct that begins with kit_peer; zero-filled */
    uint32_t private_size; /* bytes at kit_peer.priv */
    bool has_tcp_names;    /* a peer's name is host:port, where it, or its host, answers over TCP */
    const char *auth_key;  /* text of the key; NULL or empty: none */
    const char *auth_key_also; /* text of a second accepted key; NULL or empty: none */
    bool encrypts;             /* with a key: sealed data is encrypted; all peers must agree */
    bool has_grants;           /* with a key: peers reach only memory granted in their session */
    struct kit_endpoint *endpoint;

    /* As in kit_msg.h. */
    const void *(*peer_path)(struct kit_endpoint *endpoint, const struct kit_peer *peer);
    bool (*path_is_named)(struct kit_endpoint *endpoint, const void *path, const char *name);
};

/* A session; the user's lock guards it. */
struct kit_session {
    struct kit_session_config config;    /* strings other than `plugin` are NULL */
    uint64_t incarnation;                /* ours */
    struct kit_auth_secret *secret;      /* NULL: there is no key */
    struct kit_auth_secret *secret_also; /* NULL: there is no second key */
    bool has_aes;                        /* the machine has AES, and there is a key */
    bool is_marked;                      /* `active` is not empty, or the user set a mark */
    bool is_shared;                      /* several threads may change reference counts */
    bool is_sweep_due;                   /* the next tick checks all peers for unused ones */
    bool is_watching;               /* all ready peers are watched, see kit_session_watch_all() */
    struct kit_link active;         /* peers with an event that the user has not acted on */
    uint64_t waiting;               /* sum of kit_peer.waiting */
    struct kit_peer *self;          /* ourselves */
    struct kit_session_slot *slots; /* the table of peers */
    uint32_t slot_count;
    uint32_t slot_free;             /* index of the first free slot; slot_count: none */
    uint32_t sweeps;                /* number of slots that the user checks for unused peers */
    uint32_t peer_count;            /* all peers, aliases included */
    struct kit_peer **names;        /* hash table, by name */
    struct kit_peer **incarnations; /* hash table, by incarnation */
    uint32_t hash_mask;             /* of both tables */
    struct kit_keys keys;           /* random numbers for tokens */
    struct kit_link watch;          /* peers that are watched */
    uint32_t watch_count;
    uint32_t ticks;      /* number of ticks so far */
    uint64_t tick_last;  /* time of the last tick, in ns */
    uint32_t silence_ms; /* silence after which a peer has failed; 0: never */
    uint64_t host_id;    /* as in struct kit_hello_wire, as the next three */
    uint64_t pid_namespace;
    uint64_t start_time;
    uint32_t pid;
    uint64_t hellos;               /* HELLOs received */
    uint64_t bad;                  /* malformed or forged records and frames received */
    uint64_t refused;              /* HELLOs and frames refused: wrong or missing key, replays */
    uint64_t other_names;          /* HELLOs answered under another name than the called one */
    uint64_t refused_memory;       /* requests for memory that was not granted to their session */
    uint64_t numbers;              /* last number given to a holder or seal */
    struct kit_link offers_by_age; /* the oldest is first */
    uint32_t offers;               /* length of that list */
};

/* Flags of a HELLO. */
#define KIT_HELLO_HAS_KEY  0x01u
#define KIT_HELLO_ENCRYPTS 0x02u
#define KIT_HELLO_HAS_AES  0x04u /* if both sides have it they seal with AES-256-GCM */

/*
 * A HELLO or HELLO_ACK on the wire, little-endian. A struct kit_hello_key (with KIT_HELLO_HAS_KEY),
 * the name and the raw address follow.
 */
struct kit_hello_wire {
    uint64_t token;         /* under which the sender knows the receiver */
    uint64_t incarnation;   /* the sender's */
    uint64_t host;          /* equal for all processes of a node; 0: not known */
    uint64_t pid_namespace; /* equal where process ids mean the same; 0: not known */
    uint64_t start_time;    /* of the sender's process, in ticks since boot */
    uint32_t mask;          /* added to the sequence of frames under the token */
    uint32_t flags;         /* KIT_HELLO_* */
    uint32_t pid;
    uint32_t epoch; /* the sender's; in a HELLO_ACK that of the answered HELLO */
    uint16_t name_size;
    uint16_t raw_size;
    uint32_t reserved;
};

/* One entry for each key of the sender; zeroes where there is none. A HELLO has one share only. */
struct kit_hello_key {
    uint8_t share[KIT_SECRETS][KIT_AUTH_SHARE];
    uint8_t confirm[KIT_SECRETS][KIT_AUTH_CODE]; /* codes of the HELLO_ACK with these bytes 0 */
};

/* A received HELLO or HELLO_ACK that was checked. */
struct kit_hello {
    struct kit_hello_wire wire; /* in host byte order */
    char name[KIT_NAME_MAX];
    const uint8_t *raw;
    bool has_key;
    struct kit_hello_key key;
};

/* ------------------------------------------------------------------------------------------------
 * Sessions
 */

/*
 * Opens a session, with a peer for ourselves.
 *
 * NA_PLUGIN_SUCCESS; NA_PLUGIN_NOMEM; NA_PLUGIN_IO_ERROR if getrandom fails; or
 * NA_PLUGIN_INVALID_ARG if AMALGAM_SILENCE_TIMEOUT is not a number (logged). kit_session_close() is
 * needed, and safe, after success and after failure.
 */
int32_t kit_session_open(struct kit_session *session, const struct kit_session_config *config);

/* Frees the peers and the rest. The user has closed the connections to the peers before. */
void kit_session_close(struct kit_session *session);

/* Checks the liveness of watched peers. Called every KIT_SESSION_TICK_NS. */
void kit_session_tick(struct kit_session *session, uint64_t now_ns);

/*
 * Sets whether ready peers are watched also while no operation waits for them: a peer fails as soon
 * as its process has ended, and a silent one is sent a HELLO every two seconds.
 */
void kit_session_watch_all(struct kit_session *session, bool is_watching);

/* ------------------------------------------------------------------------------------------------
 * Peers
 */

/*
 * Makes a peer, without a reference, for a name that no peer has; it lives until kit_peer_free().
 *
 * NA_PLUGIN_SUCCESS, NA_PLUGIN_NOMEM, or NA_PLUGIN_IO_ERROR if getrandom fails.
 */
int32_t kit_peer_make(struct kit_session *session, const char *name, struct kit_peer **peer_p);

/*
 * Return the session's peer, without adding a reference, or NULL. The arguments may come from the
 * wire.
 */
struct kit_peer *kit_peer_by_name(struct kit_session *session, const char *name);
struct kit_peer *kit_peer_by_incarnation(struct kit_session *session, uint64_t incarnation);

/* Returns the session's peer by the token that a frame carries, or NULL. */
static inline struct kit_peer *kit_peer_by_token(struct kit_session *session, uint64_t token)
{
    const uint32_t index = (uint32_t) token;

    if (kit_unlikely(index >= session->slot_count ||
                     session->slots[index].nonce != (uint32_t) (token >> 32)))
        return NULL;
    return session->slots[index].peer;
}

/* Copies the raw address, unless raw_size is 0. NA_PLUGIN_SUCCESS or NA_PLUGIN_NOMEM. */
int32_t kit_peer_set_raw(struct kit_peer *peer, const void *raw, uint32_t raw_size);

/* The next frame to the peer begins with a HELLO, so that a restart is noticed; traffic goes on. */
void kit_peer_hello_again(struct kit_peer *peer);

/*
 * Reports that the peer has failed: the user ends its operations with `status`; `reason`, which is
 * copied, is for the log. The peer's token is stale from now on. Only the first report counts.
 */
void kit_peer_failed(struct kit_peer *peer, int32_t status, const char *reason);

/*
 * Resets the peer to KIT_PEER_NEW; KIT_PENDING_PING and KIT_PENDING_REFUSAL stay. The user has to
 * close the connection to it (KIT_PENDING_CLOSE).
 */
void kit_peer_reset(struct kit_peer *peer);

/*
 * True if the session does not need the peer: nothing refers to it, and it is new, removable, or
 * its process is gone. The user frees it then, unless the user still needs it.
 */
bool kit_peer_is_unused(const struct kit_peer *peer);
void kit_peer_free(struct kit_peer *peer);

/*
 * Returns the process id and the incarnation of a peer on this node. False: the peer is not known
 * to be on this node and in our pid namespace.
 */
bool kit_peer_process(const struct kit_peer *peer, uint32_t *pid_p, uint64_t *incarnation_p);

/* Changes the reference count; atomic if session->is_shared. */
static inline void kit_peer_count(struct kit_peer *peer, uint32_t change)
{
    if (peer->session->is_shared)
        (void) __atomic_fetch_add(&peer->refs, change, __ATOMIC_RELEASE);
    else
        __atomic_store_n(&peer->refs, __atomic_load_n(&peer->refs, __ATOMIC_RELAXED) + change,
                         __ATOMIC_RELAXED);
}

/* Adds a reference. Any thread. */
static inline void kit_peer_hold(struct kit_peer *peer)
{
    kit_peer_count(peer, 1);
}

/*
 * Drops a reference; the user frees a peer without any, see kit_peer_is_unused(). Any thread.
 */
static inline void kit_peer_release(struct kit_peer *peer)
{
    kit_peer_count(peer, UINT32_MAX);
}

/* Marks the peer for the user, which acts on `pending`. */
static inline void kit_peer_mark(struct kit_peer *peer)
{
    peer->session->is_marked = true;
    if (kit_list_empty(&peer->active_link))
        kit_list_append(&peer->session->active, &peer->active_link);
}

/* Begins to watch the liveness of the peer, for which an operation or a frame waits. */
void kit_peer_watch(struct kit_peer *peer);

/* One more operation waits for the peer. */
static inline void kit_peer_waiting_add(struct kit_peer *peer)
{
    peer->waiting++;
    peer->session->waiting++;
    if (kit_unlikely(!peer->is_watched))
        kit_peer_watch(peer);
}

/* An operation that waited for the peer has ended. */
static inline void kit_peer_waiting_remove(struct kit_peer *peer)
{
    peer->waiting--;
    peer->session->waiting--;
}

/* Returns the next sequence; 0 is for frames that are not counted. */
static inline uint32_t kit_sequence_next(uint32_t sequence)
{
    return sequence == UINT32_MAX ? 1 : sequence + 1;
}

/* Returns the sequence on the wire of the last sent frame. */
static inline uint32_t kit_peer_sequence_sent(const struct kit_peer *peer)
{
    return peer->sent_sequence + peer->their_mask;
}

/* Returns the token that our HELLO tells the peer, and that its frames carry. */
static inline uint64_t kit_peer_token(const struct kit_peer *peer)
{
    return (uint64_t) peer->nonce << 32 | peer->index;
}

/* ------------------------------------------------------------------------------------------------
 * HELLO and HELLO_ACK: the content of their records
 */

/* Bytes of a HELLO or HELLO_ACK of ours. */
static inline uint32_t kit_hello_size(const struct kit_session *session)
{
    return (uint32_t) (sizeof(struct kit_hello_wire) + strlen(session->self->name) +
                       session->self->raw_size +
                       (session->secret != NULL ? sizeof(struct kit_hello_key) : 0));
}

/* Writes a HELLO or HELLO_ACK, kit_hello_size() bytes, for the peer. */
void kit_hello_write(struct kit_peer *peer, bool is_ack, uint8_t *place);

/*
 * Checks a HELLO that came over `path` and returns the peer that sent it, made if it is new. NULL:
 * the HELLO is malformed or forged, which is logged and counted, or there is no memory.
 */
struct kit_peer *kit_hello_read(struct kit_session *session, const void *path, const void *data,
                                uint32_t size, struct kit_hello *hello);

/*
 * Updates the peer from its HELLO, after which it is ready and a HELLO_ACK is pending. If
 * lost_before is not 0, operations posted before that epoch were for another process, and the
 * connection to it has to be closed (KIT_PENDING_CLOSE). `canonical` may change. False: no memory.
 */
bool kit_hello_take(struct kit_peer *peer, const struct kit_hello *hello);

/* The same for a HELLO_ACK of the peer. False: it is malformed or forged. */
bool kit_hello_ack_received(struct kit_peer *peer, const void *data, uint32_t size);

/* ------------------------------------------------------------------------------------------------
 * Endpoints with a key, and refusal of endpoints with another configuration
 */

/* Flags of our HELLOs. */
static inline uint32_t kit_session_flags(const struct kit_session *session)
{
    if (session->secret == NULL)
        return 0;
    return KIT_HELLO_HAS_KEY | (session->config.encrypts ? KIT_HELLO_ENCRYPTS : 0) |
           (session->has_aes ? KIT_HELLO_HAS_AES : 0);
}

/* True if we and the sender of the HELLO differ in having a key, or in encrypting. */
static inline bool kit_hello_is_foreign(const struct kit_session *session,
                                        const struct kit_hello *hello)
{
    return ((hello->wire.flags ^ kit_session_flags(session)) &
            (KIT_HELLO_HAS_KEY | KIT_HELLO_ENCRYPTS)) != 0;
}

/* Counts and logs a foreign HELLO, and marks its refusal as pending (KIT_PENDING_REFUSAL). */
void kit_hello_refuse(struct kit_peer *peer, const struct kit_hello *hello);

/* A refusal came: a peer that has answered no HELLO yet fails with NA_PLUGIN_PERMISSION. */
void kit_refusal_received(struct kit_peer *peer, uint32_t reason);

/* Keeps a HELLO without a seal as an offer (KIT_PENDING_OFFER). `data` is the whole HELLO. */
void kit_offer_keep(struct kit_peer *peer, const struct kit_hello *hello, const void *data,
                    uint32_t size);

/*
 * Writes the HELLO_ACK, kit_hello_size() bytes, to the oldest pending offer of the peer, and
 * returns that offer, which belongs to the peer.
 */
const struct kit_offer *kit_offer_answer(struct kit_peer *peer, uint8_t *place);

/* The last HELLO_ACK to an offer could not be sent: the offer is pending again. */
void kit_offer_answer_again(struct kit_peer *peer);

/*
 * A frame with the seal of an offer came: updates the peer from the HELLO of that offer, as
 * kit_hello_take() does. False: the peer has failed for want of memory.
 */
bool kit_offer_take(struct kit_peer *peer);

/* A HELLO_ACK without a seal came. False: it is malformed or answers no HELLO of ours. */
bool kit_offer_answered(struct kit_peer *peer, const void *data, uint32_t size);

/* True if the HELLO has the incarnation, token and mask that we know of the peer. */
bool kit_hello_is_of(const struct kit_peer *peer, const struct kit_hello *hello);

/*
 * kit_seal_open() with the seals of the peer and of its offers. With KIT_SEAL_NEXT *is_new_p tells
 * that the seal is an offer's: the caller calls kit_offer_take() before it processes the bytes.
 */
enum kit_seal_result kit_peer_seal_open(struct kit_peer *peer, uint32_t sequence, uint8_t *data,
                                        uint64_t clear, uint64_t size, bool *is_new_p);

/* True if frames to and from the peer are sealed. */
static inline bool kit_peer_is_sealed(const struct kit_peer *peer)
{
    return peer->auth != NULL && peer->auth->is_sealed;
}

/* Returns the grant for memory that is granted to the peer in its current session. */
static inline struct kit_grant kit_peer_grant(const struct kit_peer *peer)
{
    struct kit_grant grant;

    grant.holder = peer->holder;
    grant.index = peer->index;
    grant.epoch = peer->epoch;
    return grant;
}

/*
 * Returns in *asked what the frame that is being processed may reach: memory that was granted in
 * the session that sealed the frame. False: none.
 */
static inline bool kit_peer_may_ask(const struct kit_peer *peer, struct kit_grant *asked)
{
    *asked = kit_peer_grant(peer);
    asked->epoch = peer->granted_from;
    return kit_peer_is_sealed(peer) && peer->auth->taken == peer->auth->number;
}

/* Wipes all keys and offers of the peer. */
void kit_peer_auth_reset(struct kit_peer *peer);

/* True if `size` characters are a valid name: printable, without blanks, not too long. */
bool kit_name_is_good(const uint8_t *name, uint32_t size);

/*
 * Returns as kit_auth_secret_get(), with a log message in the name of `plugin` if it fails.
 * *secret_p is valid until kit_auth_secret_close().
 */
int32_t kit_auth_secret_open(const char *plugin, const char *text,
                             struct kit_auth_secret **secret_p);

#ifdef __cplusplus
}
#endif

#endif /* KIT_SESSION_H */
