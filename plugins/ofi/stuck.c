/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the endpoint still receives. The tcp provider (1.17) loses one of the buffers that all
 * its connections share with each connection that ends in the middle of a message; without any
 * nothing is received any more, its descriptor stays readable and no poll brings anything.
 * A descriptor that is readable all the time may also mean that a large put or get comes in: a
 * message to ourselves tells the two apart. An endpoint that receives nothing at all after that
 * one was sent is closed and opened anew at the same address. Time alone does not decide, for a
 * process that hundreds connect to at once on a busy machine polls seldom.
 */

#include "ofi.h"

#include <poll.h>
#include <string.h>
#include <sys/random.h>

#define OFI_STUCK_LOOKS    4u                   /* in a row that find the descriptor readable */
#define OFI_STUCK_NS       UINT64_C(50000000)   /* for as long */
#define OFI_STUCK_BUSY_NS  UINT64_C(1000000000) /* the same where there is no descriptor */
#define OFI_ANSWER_LOOKS   64u                  /* for the message to arrive, once it is sent */
#define OFI_ANSWER_NS      UINT64_C(300000000)  /* the same */
#define OFI_CONNECT_LOOKS  256u                 /* for it to be sent */
#define OFI_CONNECT_OWN_NS UINT64_C(3000000000) /* the same */
#define OFI_HEALTHY_NS     UINT64_C(1000000000) /* until an endpoint that receives is suspected */

/* The rxm layer looks after requests for connections every 10 ms. */
#define OFI_REQUESTS_NS UINT64_C(25000000)

static void ofi_is_healthy(struct ofi_stuck *stuck, uint64_t now);
static bool ofi_is_suspect(struct na_plugin_class *na_class, uint64_t now);
static bool ofi_can_receive(const struct na_plugin_class *na_class);
static void ofi_probe_own(struct na_plugin_class *na_class, uint64_t now);
static void ofi_probe_own_send(struct na_plugin_class *na_class, uint64_t now);
static void ofi_endpoint_renew(struct na_plugin_class *na_class);

/* After some polls in a row that received nothing. */
void ofi_stuck_look(struct na_plugin_class *na_class)
{
    struct ofi_stuck *stuck = &na_class->stuck;
    uint64_t now;

    ofi_unidentified_look(na_class);
    if (!stuck->is_possible || na_class->endpoint == NULL ||
        (na_class->wait_fd < 0 && !na_class->is_listening))
        return;
    now = kit_host->clock_ns();
    if (stuck->has_received)
        ofi_is_healthy(stuck, now);
    if (stuck->probe_since != 0)
        ofi_probe_own(na_class, now);
    else if (ofi_is_suspect(na_class, now))
        ofi_probe_own_send(na_class, now);
}

/* The endpoint receives, whoever sent what came. */
static void ofi_is_healthy(struct ofi_stuck *stuck, uint64_t now)
{
    stuck->has_received = false;
    stuck->looks = 0;
    if (stuck->probe_since != 0)
        stuck->healthy_until = now + OFI_HEALTHY_NS;
    stuck->probe_since = 0;
}

static bool ofi_is_suspect(struct na_plugin_class *na_class, uint64_t now)
{
    struct ofi_stuck *stuck = &na_class->stuck;
    struct pollfd descriptor = {.fd = na_class->wait_fd, .events = POLLIN};
    bool is_busy = na_class->wait_fd < 0;

    if (now < stuck->healthy_until || na_class->is_short || !ofi_can_receive(na_class) ||
        (!is_busy && poll(&descriptor, 1, 0) != 1)) {
        stuck->looks = 0;
        return false;
    }
    if (stuck->looks++ == 0)
        stuck->since = now;
    return stuck->looks >= OFI_STUCK_LOOKS &&
           now - stuck->since >= (is_busy ? OFI_STUCK_BUSY_NS : OFI_STUCK_NS);
}

/* Frames that the message layer holds take no buffers from the fabric: that is no fault of its. */
static bool ofi_can_receive(const struct na_plugin_class *na_class)
{
    for (uint32_t i = 0; i < na_class->receive_count; i++)
        if (na_class->receives[i].is_posted)
            return true;
    return false;
}

/* The message to ourselves is under way, or there is no connection yet that it could take. */
static void ofi_probe_own(struct na_plugin_class *na_class, uint64_t now)
{
    struct ofi_stuck *stuck = &na_class->stuck;

    if (!ofi_can_receive(na_class) || na_class->is_short) {
        stuck->probe_since = 0;
        return;
    }
    if (!stuck->is_sent)
        ofi_probe_own_send(na_class, now);
    stuck->looks++;
    if (stuck->is_sent
            ? stuck->looks > OFI_ANSWER_LOOKS && now - stuck->probe_since > OFI_ANSWER_NS
            : stuck->looks > OFI_CONNECT_LOOKS && now - stuck->probe_since > OFI_CONNECT_OWN_NS)
        ofi_endpoint_renew(na_class);
}

static void ofi_probe_own_send(struct na_plugin_class *na_class, uint64_t now)
{
    struct ofi_stuck *stuck = &na_class->stuck;
    uint8_t raw[KIT_RAW_MAX];
    size_t size = sizeof(raw);

    if (stuck->probe_since == 0) {
        if (getrandom(stuck->mark, sizeof(stuck->mark), GRND_NONBLOCK) !=
            (ssize_t) sizeof(stuck->mark))
            return;
        stuck->mark[0] = 0; /* no frame of ours begins like this */
        stuck->probe_since = now;
        stuck->is_sent = false;
    }
    if (!stuck->is_known) {
        if (fi_getname(&na_class->endpoint->fid, raw, &size) != 0 ||
            fi_av_insert(na_class->av, raw, 1, &stuck->own, 0, NULL) != 1)
            return;
        stuck->is_known = true;
    }
    if (fi_inject(na_class->endpoint, stuck->mark, sizeof(stuck->mark), stuck->own) != 0)
        return;
    stuck->is_sent = true;
    stuck->looks = 0;
    stuck->probe_since = now;
}

/* Peers learn of it by their next message, and make their connections anew. */
static void ofi_endpoint_renew(struct na_plugin_class *na_class)
{
    struct ofi_stuck *stuck = &na_class->stuck;

    OFI_LOG_WARNING("provider %s receives nothing any more, as after many connections that ended "
                    "in the middle of a message: the endpoint at %s is closed and opened anew, "
                    "what is under way fails; let only trusted networks reach its port",
                    na_class->info->fabric_attr->prov_name, na_class->name);
    stuck->probe_since = 0;
    stuck->looks = 0;
    stuck->renewals++;
    kit_endpoint_failed(&na_class->base, NA_PLUGIN_HOSTUNREACH, "our endpoint is opened anew");
    ofi_unidentified_end(na_class, OFI_REQUESTS_NS);
    if (ofi_reset(&na_class->base)) {
        stuck->is_renewing = true;
        (void) ofi_endpoint_reopen(na_class);
    } else {
        stuck->is_possible = false;
    }
}
