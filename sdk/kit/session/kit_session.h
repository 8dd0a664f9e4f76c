/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions: the peers of an endpoint, found by name, by incarnation and by token; how two of them
 * introduce themselves (HELLO, HELLO_ACK, BYE); whether they are alive; and what their failure
 * means. The message layer sends and receives for it, and plugins of that layer use kit_msg.h.
 *
 * A peer is known by its canonical name, and its process by an incarnation, a random number of its
 * own. What it sends carries a token, which it was told in our HELLO: a slot, and random bits, so
 * that what it sent before it failed is stale. Two names may turn out to be one process: one of the
 * two peers is the canonical one then, in matching.
 *
 * With a key (auth_key) HELLO and HELLO_ACK are the exchange of kit_auth.h, and everything else is
 * sealed. A HELLO that is not sealed is an offer: it changes nothing until its sender has sealed
 * something with the keys that come of it. Without one whoever sees a token can use it.
 *
 * Nothing here calls anything of its user's but the functions of struct kit_session_config. What is
 * learnt of a peer is marked in `pending`, and the peer is put into the list `active`; the user
 * works that off when it is in no call of the fabric's. One lock of the user's guards a session;
 * kit_peer_hold() and kit_peer_release() need none. Nothing blocks. Since 1.1.
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

/* Longest canonical name of a peer (what follows "://" in its address), NUL included. */
#define KIT_NAME_MAX 256

/* Longest raw address that travels in a HELLO. */
#define KIT_RAW_MAX           1024

#define KIT_SESSION_PEERS_MAX (UINT32_C(1) << 20) /* peers of a session, aliases included */
#define KIT_SESSION_TICK_NS   UINT64_C(100000000) /* between two calls of kit_session_tick() */

struct kit_endpoint; /* the user's, and what the fabric is asked with */

/* What the next frame to a peer has to carry or to wait for. 0: a message may leave by itself. */
#define KIT_PENDING_HELLO     0x01u /* until it is answered every frame carries one */
#define KIT_PENDING_HELLO_ACK 0x02u
#define KIT_PENDING_BYE       0x04u
#define KIT_PENDING_PING      0x10u  /* a HELLO, also while an earlier one is not answered */
#define KIT_PENDING_ANSWER    0x20u  /* no HELLO of ours was answered yet */
#define KIT_PENDING_FAILURE   0x40u  /* `failure` was reported, and is not dealt with yet */
#define KIT_PENDING_CLOSE     0x80u  /* the way to its predecessor is to be closed */
#define KIT_PENDING_OFFER     0x100u /* the HELLO_ACK to an offer, which is not sealed */
#define KIT_PENDING_REFUSAL   0x200u /* to one that has not our key */
#define KIT_PENDING_CONFIRM   0x400u /* something sealed, so that the peer knows that we are met */
#define KIT_PENDING_FLOW      0x800u /* of the user: whether the peer may send, when it is met */

/* How far a peer is met. */
enum kit_peer_phase {
    KIT_PEER_NEW,
    KIT_PEER_HELLO_SENT,
    KIT_PEER_READY,
};

/* Why a HELLO is refused; proves nothing. As it travels behind its record's header. */
enum kit_refusal_reason {
    KIT_REFUSAL_NO_KEY = 1,    /* we have a key, the sender of the HELLO has none */
    KIT_REFUSAL_KEY = 2,       /* the other way round */
    KIT_REFUSAL_OTHER_KEY = 3, /* what should prove its key does not fit ours */
    KIT_REFUSAL_ENCRYPTS = 4,  /* we encrypt, the sender of the HELLO does not */
    KIT_REFUSAL_CLEAR = 5      /* the other way round */
};

/* To whom, by what it has said of itself. */
struct kit_refusal {
    uint64_t token;
    uint32_t incarnation_low;
    uint32_t mask;
    uint32_t reason;
};

#define KIT_SECRETS 2u /* keys that count: auth_key, auth_key_also */

/* A HELLO under a key whose sender has sealed nothing yet, and what comes of it under each of ours.
 */
struct kit_offer {
    struct kit_link age_link;  /* of the session, the oldest is first */
    struct kit_link peer_link; /* of the peer, likewise */
    struct kit_peer *peer;
    bool is_pending; /* it is to be answered */
    struct kit_auth_keys keys[KIT_SECRETS];
    struct kit_seal seals[KIT_SECRETS];
    uint8_t shares[KIT_SECRETS][KIT_AUTH_SHARE]; /* ours */
    uint8_t their_share[KIT_AUTH_SHARE];
    uint8_t digest[KIT_AUTH_KEY]; /* of the HELLO, but for its epoch */
    uint64_t token;
    uint64_t incarnation;
    uint32_t epoch;
    uint32_t ticks; /* of the session when it came */
    uint32_t size;
    uint8_t *data; /* the HELLO, behind this struct */
};

/* What a peer has under a key. */
struct kit_peer_auth {
    struct kit_seal seal;
    struct kit_seal_contexts contexts; /* of the seal */
    struct kit_seal old; /* of the same process under another name, which may still use it */
    bool is_sealed;
    bool has_old;
    bool has_exchange;
    bool has_turned;     /* this attempt goes on with the other one of our keys */
    uint32_t calls_with; /* the key that our HELLOs are under */
    uint32_t call_epoch; /* of the first HELLO under it */
    uint32_t exchange_uses;
    /* Of our HELLOs and answers until one of them is answered, under each of our keys. */
    struct kit_auth_exchange exchange[KIT_SECRETS];
    struct kit_link offers;
    uint32_t offer_count;
    struct kit_offer *answered;  /* the last; NULL: it is gone */
    struct kit_offer *confirmed; /* whose seal the last check has found, */
    uint32_t confirmed_with;     /* under which key */
    bool is_by_old;              /* the frame that came last had the old seal */
    uint64_t number;             /* of the seal, which no other one has */
    uint64_t taken;              /* the same of the frame whose records are taken; has_grants */
};

/* A peer; the first member of the user's struct. Plugins read the first group. */
struct kit_peer {
    char *name; /* canonical: what follows "://" in the address */
    void *raw;  /* the fabric's own form, of a peer that was met or looked up by it; else NULL */
    uint32_t raw_size;
    uint32_t local; /* 1 when its HELLO came from this node */
    void *priv;     /* config.private_size bytes of the plugin's, zero-filled */

    struct kit_session *session; /* that it is of */
    uint32_t refs;               /* of the core and of messages; any thread */

    /* Read and written by every message */
    uint32_t pending;
    uint32_t in_flight; /* frames of this connection that are being sent */
    bool is_heard;      /* since the last tick */
    bool is_watched;
    bool is_stalled;            /* a frame waits for room in the fabric */
    bool is_open;               /* the fabric has a way to it */
    struct kit_peer_auth *auth; /* NULL without a key, and of ourselves */
    uint64_t their_token;
    uint32_t their_incarnation_low;
    uint32_t epoch;         /* counts the HELLOs that were asked for */
    uint32_t sent_sequence; /* of the last frame under their token */
    uint32_t their_mask;    /* is added to it on the way */
    uint32_t received_sequence;
    uint32_t other_sequence; /* of what it sends to another of our names; 0: there is none */
    uint32_t waiting;        /* operations that wait for it: receives, queue, transfers */
    uint32_t connection;     /* counts connections: frames of an earlier one end without effect */
    uint32_t phase;
    uint32_t hello_epoch; /* of the last HELLO that we sent */
    uint32_t answered;    /* epochs up to this are of the incarnation that we know */
    uint32_t lost_before; /* what was posted before this epoch is lost; 0: nothing */
    uint64_t their_incarnation;
    uint32_t their_epoch;       /* to be echoed */
    uint64_t holder;            /* of grants; another one for each token */
    uint32_t granted_from;      /* what was granted before this epoch was for another session */
    uint32_t index;             /* our token for it: the slot, */
    uint32_t nonce;             /* and random bits */
    uint32_t mask;              /* of the sequences of its frames; it is told with the token */
    struct kit_peer *canonical; /* the peer that stands for its process */

    /* The rest is the session's own */
    int32_t failure;
    char *failure_reason;       /* NULL: there was no memory for it */
    uint32_t silent_network_ms; /* not 0: that is why it failed */
    struct kit_link active_link;
    struct kit_link watch_link;
    struct kit_peer *name_next;
    struct kit_peer *incarnation_next;
    uint64_t host; /* of its last HELLO, as the next three */
    uint64_t pid_namespace;
    uint64_t start_time;
    uint32_t pid;
    uint32_t name_hash;
    uint32_t silent_ms; /* how long something has been waiting for it without a sign of life */
    uint32_t ping_ms;   /* silence at which it gets another HELLO */
    uint32_t quiet_ms;  /* as silent_ms, and without an answer of its host */
    uint32_t probed_ms; /* quiet_ms when the host was asked last */
    int probe_fd;
    uint32_t idle_sweeps;
    bool is_probing;
    bool is_probe_answered; /* the host took the connection */
    bool is_self;
    bool is_removable;          /* goes when nothing needs it any more */
    bool has_closed;            /* sent a BYE, and no HELLO since */
    bool is_suspect;            /* its process was gone at the last tick */
    struct kit_refusal refusal; /* what it is to be told */
};

/* A place in the table of peers; its index is a part of the token. */
struct kit_session_slot {
    struct kit_peer *peer; /* NULL: free */
    uint32_t nonce;        /* of the token that was given last */
    uint32_t next_free;    /* index, of a place that is free */
};

/* What kit_session_open() is told. Strings and the raw address are copied, but for `plugin`. */
struct kit_session_config {
    const char *plugin; /* name, for the log */
    const char *name;   /* our own canonical name */
    const void *raw;    /* our own raw address, sent in each HELLO */
    uint32_t raw_size;
    uint32_t peer_size;    /* bytes of the user's struct that begins with kit_peer; zero-filled */
    uint32_t private_size; /* bytes at kit_peer.priv */
    bool has_tcp_names;    /* a peer's name is host:port, where it, or its host, answers over TCP */
    const char *auth_key;  /* text of the key; NULL or empty: none */
    const char *auth_key_also; /* of one that is accepted besides it; likewise */
    bool encrypts;             /* with a key: all that is sealed, as all peers have to */
    bool has_grants;           /* with a key: memory is reached where it was handed over */
    struct kit_endpoint *endpoint;

    /* As in kit_msg.h. */
    const void *(*peer_path)(struct kit_endpoint *endpoint, const struct kit_peer *peer);
    bool (*path_is_named)(struct kit_endpoint *endpoint, const void *path, const char *name);
};

/* A session; the user's lock guards it. */
struct kit_session {
    struct kit_session_config config;    /* but for its strings other than `plugin` */
    uint64_t incarnation;                /* ours */
    struct kit_auth_secret *secret;      /* NULL: there is no key */
    struct kit_auth_secret *secret_also; /* NULL: there is no second one */
    bool has_aes;                        /* this machine has, and there is a key */
    bool is_marked;                      /* something in `active`, or another mark of the user's */
    bool is_shared;                      /* several threads count references */
    bool is_sweep_due;              /* peers that are not needed are to be freed at the next tick */
    bool is_watching;               /* all peers that were met, also those nothing waits for */
    struct kit_link active;         /* peers that something was learnt of */
    uint64_t waiting;               /* sums over the peers */
    struct kit_peer *self;          /* ourselves */
    struct kit_session_slot *slots; /* the table of peers */
    uint32_t slot_count;            /* of places */
    uint32_t slot_free;             /* index; slot_count: none */
    uint32_t sweeps;                /* peers that the user is to check: see kit_peer_is_unused() */
    uint32_t peer_count;            /* of all, aliases included */
    struct kit_peer **names;        /* by their hash */
    struct kit_peer **incarnations; /* likewise */
    uint32_t hash_mask;             /* of both tables */
    struct kit_keys keys;           /* random numbers for tokens */
    struct kit_link watch;          /* peers that operations wait for */
    uint32_t watch_count;           /* of these */
    uint32_t ticks;                 /* that there were, */
    uint64_t tick_last;             /* and when the last one was, in ns */
    uint32_t silence_ms;            /* after which a peer has failed; 0: never */
    uint64_t host_id;               /* of our HELLOs, as the next three */
    uint64_t pid_namespace;         /* as in struct kit_hello_wire */
    uint64_t start_time;            /* likewise */
    uint32_t pid;                   /* likewise */
    uint64_t hellos;                /* received */
    uint64_t bad;                   /* what peers sent that is malformed or forged */
    uint64_t refused; /* HELLOs and frames of those that have another key, or none, and replays */
    uint64_t other_names;          /* calls that were answered under another name than was called */
    uint64_t refused_memory;       /* requests for memory that was not granted to their session */
    uint64_t numbers;              /* that were given to holders and seals */
    struct kit_link offers_by_age; /* the oldest is first */
    uint32_t offers;               /* that are kept */
};

/* Flags of a HELLO. */
#define KIT_HELLO_HAS_KEY  0x01u
#define KIT_HELLO_ENCRYPTS 0x02u
#define KIT_HELLO_HAS_AES  0x04u /* two who have it seal with AES-256-GCM */

/*
 * A HELLO or HELLO_ACK as it travels, little-endian; kit_hello_key where the flag says so, name and
 * raw address follow.
 */
struct kit_hello_wire {
    uint64_t token;         /* under which the sender knows the receiver */
    uint64_t incarnation;   /* the sender's */
    uint64_t host;          /* equal on one node; 0 when not known */
    uint64_t pid_namespace; /* equal where process ids mean the same; 0 when not known */
    uint64_t start_time;    /* of the sender's process, in ticks since boot */
    uint32_t mask;          /* added to the sequence of frames under the token */
    uint32_t flags;         /* KIT_HELLO_* */
    uint32_t pid;
    uint32_t epoch; /* the sender's; in HELLO_ACK that of the HELLO */
    uint16_t name_size;
    uint16_t raw_size;
    uint32_t reserved;
};

/* Under each key of the sender; 0 where there is none. A HELLO has one share alone. */
struct kit_hello_key {
    uint8_t share[KIT_SECRETS][KIT_AUTH_SHARE];
    uint8_t confirm[KIT_SECRETS][KIT_AUTH_CODE]; /* of a HELLO_ACK: its codes with these bytes 0 */
};

/* One that was checked; to be handed on as it is. */
struct kit_hello {
    struct kit_hello_wire wire; /* in our byte order */
    char name[KIT_NAME_MAX];
    const uint8_t *raw;
    bool has_key;
    struct kit_hello_key key;
};

/* ------------------------------------------------------------------------------------------------
 * Sessions
 */

/*
 * Makes one, with a peer that is ourselves.
 *
 * NA_PLUGIN_SUCCESS; NA_PLUGIN_NOMEM; NA_PLUGIN_IO_ERROR without random numbers; or
 * NA_PLUGIN_INVALID_ARG when AMALGAM_SILENCE_TIMEOUT is no number (logged). kit_session_close() is
 * needed, and safe, after each of them.
 */
int32_t kit_session_open(struct kit_session *session, const struct kit_session_config *config);

/* Frees the peers, to which the user has closed the ways, and the rest. */
void kit_session_close(struct kit_session *session);

/* Checks the peers that are waited for. Called every KIT_SESSION_TICK_NS. */
void kit_session_tick(struct kit_session *session, uint64_t now_ns);

/*
 * Whether peers that were met are watched, too, when nothing waits for them: they fail as soon as
 * it is seen that their process has ended, and get a HELLO every two seconds when they are silent.
 */
void kit_session_watch_all(struct kit_session *session, bool is_watching);

/* ------------------------------------------------------------------------------------------------
 * Peers
 */

/*
 * A new peer of a name that is not known, without a reference; it lives until kit_peer_free().
 *
 * NA_PLUGIN_SUCCESS, NA_PLUGIN_NOMEM, or NA_PLUGIN_IO_ERROR without random numbers.
 */
int32_t kit_peer_make(struct kit_session *session, const char *name, struct kit_peer **peer_p);

/*
 * A peer, which stays the session's. NULL: there is none. All that is looked for may come from the
 * wire.
 */
struct kit_peer *kit_peer_by_name(struct kit_session *session, const char *name);
struct kit_peer *kit_peer_by_incarnation(struct kit_session *session, uint64_t incarnation);

/* The same by the token that a frame carries; it stays the session's. */
static inline struct kit_peer *kit_peer_by_token(struct kit_session *session, uint64_t token)
{
    const uint32_t index = (uint32_t) token;

    if (kit_unlikely(index >= session->slot_count ||
                     session->slots[index].nonce != (uint32_t) (token >> 32)))
        return NULL;
    return session->slots[index].peer;
}

/* Stores the raw address; NA_PLUGIN_NOMEM without memory. */
int32_t kit_peer_set_raw(struct kit_peer *peer, const void *raw, uint32_t raw_size);

/* The next frame to it begins with a HELLO, whoever answers; the traffic goes on. */
void kit_peer_hello_again(struct kit_peer *peer);

/*
 * It has failed: what waits for it is to end with `status`; `reason`, which is copied, is for the
 * log. From now on what it sends under the token that it was told is stale. The first report
 * counts.
 */
void kit_peer_failed(struct kit_peer *peer, int32_t status, const char *reason);

/* Makes it one that was never met; KIT_PENDING_PING stays. The way to it is to be closed. */
void kit_peer_reset(struct kit_peer *peer);

/*
 * Whether nothing needs it any more, as far as the session knows: it was never met, or is to be
 * removed, or its process is gone. The user frees it then, if that does not need it either.
 */
bool kit_peer_is_unused(const struct kit_peer *peer);
void kit_peer_free(struct kit_peer *peer);

/*
 * The process behind a peer, when it is of this node and its number means the same here, and its
 * incarnation. Else false.
 */
bool kit_peer_process(const struct kit_peer *peer, uint32_t *pid_p, uint64_t *incarnation_p);

/* Any thread, unless there is only one at a time. */
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
 * Drops a reference; a peer without any is freed by the user, see kit_peer_is_unused(). Any thread.
 */
static inline void kit_peer_release(struct kit_peer *peer)
{
    kit_peer_count(peer, UINT32_MAX);
}

/* Something was learnt of it. */
static inline void kit_peer_mark(struct kit_peer *peer)
{
    peer->session->is_marked = true;
    if (kit_list_empty(&peer->active_link))
        kit_list_append(&peer->session->active, &peer->active_link);
}

/* An operation or a frame waits for it: it is to be watched. */
void kit_peer_watch(struct kit_peer *peer);

/* One more operation or frame waits for it. */
static inline void kit_peer_waiting_add(struct kit_peer *peer)
{
    peer->waiting++;
    peer->session->waiting++;
    if (kit_unlikely(!peer->is_watched))
        kit_peer_watch(peer);
}

/* One that waited has ended. */
static inline void kit_peer_waiting_remove(struct kit_peer *peer)
{
    peer->waiting--;
    peer->session->waiting--;
}

/* The sequence after it; 0 is for frames that are not counted. */
static inline uint32_t kit_sequence_next(uint32_t sequence)
{
    return sequence == UINT32_MAX ? 1 : sequence + 1;
}

/* As it travels. */
static inline uint32_t kit_peer_sequence_sent(const struct kit_peer *peer)
{
    return peer->sent_sequence + peer->their_mask;
}

/* What the peer is told in our HELLO, and puts into its frames. */
static inline uint64_t kit_peer_token(const struct kit_peer *peer)
{
    return (uint64_t) peer->nonce << 32 | peer->index;
}

/* ------------------------------------------------------------------------------------------------
 * HELLO and HELLO_ACK: what is between their record's header and its end
 */

/* Bytes of one of ours. */
static inline uint32_t kit_hello_size(const struct kit_session *session)
{
    return (uint32_t) (sizeof(struct kit_hello_wire) + strlen(session->self->name) +
                       session->self->raw_size +
                       (session->secret != NULL ? sizeof(struct kit_hello_key) : 0));
}

/* Writes one, kit_hello_size() bytes, for the peer. */
void kit_hello_write(struct kit_peer *peer, bool is_ack, uint8_t *place);

/*
 * The peer that sent this HELLO, made if it is new. NULL: it is malformed or forged, which is
 * logged and counted, or there is no memory. `path` is where it came from.
 */
struct kit_peer *kit_hello_read(struct kit_session *session, const void *path, const void *data,
                                uint32_t size, struct kit_hello *hello);

/*
 * Makes the peer the one that sent it; a HELLO_ACK is pending for it then. What was posted before
 * the epoch lost_before, if that is not 0, was for another process, to which the way is to be
 * closed; and `canonical` may be another peer than before. False without memory.
 */
bool kit_hello_take(struct kit_peer *peer, const struct kit_hello *hello);

/* The same with a HELLO_ACK from the peer. False when it is malformed or forged. */
bool kit_hello_ack_received(struct kit_peer *peer, const void *data, uint32_t size);

/* Counts one that has another key, or none; true the first time, when it is to be seen. */
static inline bool kit_session_refuse(struct kit_session *session)
{
    return session->refused++ == 0;
}

/* ------------------------------------------------------------------------------------------------
 * Under a key, and towards those that have one
 */

/* What our HELLOs say, and those of all that we talk to. */
static inline uint32_t kit_session_flags(const struct kit_session *session)
{
    if (session->secret == NULL)
        return 0;
    return KIT_HELLO_HAS_KEY | (session->config.encrypts ? KIT_HELLO_ENCRYPTS : 0) |
           (session->has_aes ? KIT_HELLO_HAS_AES : 0);
}

/* Whether a HELLO is of one that has a key, or encrypts, where we do not, or the other way round.
 */
static inline bool kit_hello_is_foreign(const struct kit_session *session,
                                        const struct kit_hello *hello)
{
    return ((hello->wire.flags ^ kit_session_flags(session)) &
            (KIT_HELLO_HAS_KEY | KIT_HELLO_ENCRYPTS)) != 0;
}

/* Counts it, logs it, and has its sender told: KIT_PENDING_REFUSAL. */
void kit_hello_refuse(struct kit_peer *peer, const struct kit_hello *hello);

/* A refusal came: what waits for the peer ends with NA_PLUGIN_PERMISSION, unless it is met. */
void kit_refusal_received(struct kit_peer *peer, uint32_t reason);

/* Keeps a HELLO that is not sealed as an offer: KIT_PENDING_OFFER. `data` is all of it. */
void kit_offer_keep(struct kit_peer *peer, const struct kit_hello *hello, const void *data,
                    uint32_t size);

/*
 * Writes the HELLO_ACK to one that is to be answered, kit_hello_size() bytes, and returns that,
 * which belongs to the peer.
 */
const struct kit_offer *kit_offer_answer(struct kit_peer *peer, uint8_t *place);

/* The last answer did not leave: its offer is to be answered again. */
void kit_offer_answer_again(struct kit_peer *peer);

/*
 * The peer is the one that made the offer whose seal was found: kit_hello_take(). False without
 * memory: then the peer has failed.
 */
bool kit_offer_take(struct kit_peer *peer);

/* A HELLO_ACK that is not sealed. False when it is malformed, or nobody waits for it. */
bool kit_offer_answered(struct kit_peer *peer, const void *data, uint32_t size);

/* Whether a sealed HELLO or HELLO_ACK says of its peer what is known. */
bool kit_hello_is_of(const struct kit_peer *peer, const struct kit_hello *hello);

/*
 * kit_seal_open() of whose seal some bytes have. KIT_SEAL_NEXT also for those of an offer, which
 * *is_new_p tells: it is to be taken before they are.
 */
enum kit_seal_result kit_peer_seal_open(struct kit_peer *peer, uint32_t sequence, uint8_t *data,
                                        uint64_t clear, uint64_t size, bool *is_new_p);

/* Whether frames to and from it are sealed. */
static inline bool kit_peer_is_sealed(const struct kit_peer *peer)
{
    return peer->auth != NULL && peer->auth->is_sealed;
}

/* What is granted to the peer now. */
static inline struct kit_grant kit_peer_grant(const struct kit_peer *peer)
{
    struct kit_grant grant;

    grant.holder = peer->holder;
    grant.index = peer->index;
    grant.epoch = peer->epoch;
    return grant;
}

/*
 * What the peer's frame that is being taken may reach: what was granted in the session that sealed
 * it. False: nothing.
 */
static inline bool kit_peer_may_ask(const struct kit_peer *peer, struct kit_grant *asked)
{
    *asked = kit_peer_grant(peer);
    asked->epoch = peer->granted_from;
    return kit_peer_is_sealed(peer) && peer->auth->taken == peer->auth->number;
}

/* Forgets all keys of the peer. */
void kit_peer_auth_reset(struct kit_peer *peer);

/* Whether that many characters make a name, which goes into logs and address strings. */
bool kit_name_is_good(const uint8_t *name, uint32_t size);

/*
 * Is kit_auth_secret_get() and returns the same; writes to the log in the name of `plugin` when it
 * fails. kit_auth_secret_close() ends *secret_p.
 */
int32_t kit_auth_secret_open(const char *plugin, const char *text,
                             struct kit_auth_secret **secret_p);

#ifdef __cplusplus
}
#endif

#endif /* KIT_SESSION_H */
