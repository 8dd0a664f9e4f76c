/* SPDX-License-Identifier: BSD-3-Clause */
/* Libfabric without Amalgam: reliable datagram endpoints, tagged messages, reads and writes. */

#include "raw.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG 1

struct side {
    struct raw_side raw;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *endpoint;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_mr *mr;
    void *descriptor;
    fi_addr_t peer;
    uint64_t peer_key;
    uint64_t peer_base;
    struct fi_context2 contexts[2 * RAW_WINDOW_MAX];
};

static void side_open(struct raw_side *raw);
static struct fi_info *side_info(const struct raw_options *options);
static void side_connect(struct raw_side *raw);
static void side_close(struct raw_side *raw);
static void side_poll(struct raw_side *raw);
static void side_send(struct raw_side *raw, uint64_t offset, uint64_t size, uint32_t slot);
static void side_receive(struct raw_side *raw, uint64_t offset, uint64_t size, uint32_t slot);
static void side_rma(struct raw_side *raw, enum raw_direction direction, uint64_t offset,
                     uint64_t size, uint32_t slot);
static void check(int64_t ret, const char *what);

int main(int argc, char **argv)
{
    const struct raw_library library = {
        .provider = FI_VERSION_LT(fi_version(), FI_VERSION(1, 18)) ? "net" : "tcp",
        .variant = "messages without tags",
        .side_size = sizeof(struct side),
        .open = side_open,
        .connect = side_connect,
        .close = side_close,
        .poll = side_poll,
        .send = side_send,
        .receive = side_receive,
        .rma = side_rma,
    };

    return raw_main(argc, argv, &library);
}

static void side_open(struct raw_side *raw)
{
    struct side *side = (struct side *) raw;
    struct fi_av_attr av_attr = {.type = FI_AV_MAP};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};

    side->info = side_info(raw->options);
    check(fi_fabric(side->info->fabric_attr, &side->fabric, NULL), "fi_fabric");
    check(fi_domain(side->fabric, side->info, &side->domain, NULL), "fi_domain");
    check(fi_endpoint(side->domain, side->info, &side->endpoint, NULL), "fi_endpoint");
    check(fi_cq_open(side->domain, &cq_attr, &side->cq, NULL), "fi_cq_open");
    check(fi_av_open(side->domain, &av_attr, &side->av, NULL), "fi_av_open");
    check(fi_ep_bind(side->endpoint, &side->cq->fid, FI_SEND | FI_RECV), "fi_ep_bind");
    check(fi_ep_bind(side->endpoint, &side->av->fid, 0), "fi_ep_bind");
    check(fi_enable(side->endpoint), "fi_enable");
    check(fi_mr_reg(side->domain, raw->buffer, RAW_WINDOW_MAX * RAW_BUFFER_SIZE,
                    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1,
                    0, &side->mr, NULL),
          "fi_mr_reg");
    side->descriptor = fi_mr_desc(side->mr);
}

static struct fi_info *side_info(const struct raw_options *options)
{
    bool by_name =
        strstr(options->provider, "shm") != NULL || strstr(options->provider, "psm") != NULL;
    const char *node = options->device != NULL ? options->device : "127.0.0.1";
    struct fi_info *hints = fi_allocinfo(), *info;

    check(hints != NULL ? 0 : -FI_ENOMEM, "fi_allocinfo");
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(options->provider);
    check(fi_getinfo(FI_VERSION(1, 15), by_name ? NULL : node, NULL, by_name ? 0 : FI_SOURCE, hints,
                     &info),
          "fi_getinfo");
    fi_freeinfo(hints);
    return info;
}

/* Data that each side sends to the other. */
struct introduction {
    uint64_t key;
    uint64_t base;
    uint8_t address[512];
};

static void side_connect(struct raw_side *raw)
{
    struct side *side = (struct side *) raw;
    struct introduction own = {.key = fi_mr_key(side->mr)}, other;
    size_t length = sizeof(own.address);

    if ((side->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0)
        own.base = (uint64_t) (uintptr_t) raw->buffer;
    check(fi_getname(&side->endpoint->fid, own.address, &length), "fi_getname");
    raw_exchange(raw, &own, sizeof(own), &other, sizeof(other));
    check(fi_av_insert(side->av, other.address, 1, &side->peer, 0, NULL) == 1 ? 0 : -FI_EINVAL,
          "fi_av_insert");
    side->peer_key = other.key;
    side->peer_base = other.base;
}

static void side_close(struct raw_side *raw)
{
    struct side *side = (struct side *) raw;

    (void) fi_close(&side->mr->fid);
    (void) fi_close(&side->endpoint->fid);
    (void) fi_close(&side->av->fid);
    (void) fi_close(&side->cq->fid);
    (void) fi_close(&side->domain->fid);
    (void) fi_close(&side->fabric->fid);
    fi_freeinfo(side->info);
}

static void side_poll(struct raw_side *raw)
{
    struct side *side = (struct side *) raw;
    struct fi_cq_tagged_entry entries[16];
    struct fi_cq_err_entry error = {0};
    ssize_t count = fi_cq_read(side->cq, entries, 16);

    if (count == -FI_EAGAIN)
        return;
    if (count == -FI_EAVAIL && fi_cq_readerr(side->cq, &error, 0) == 1)
        check(-error.err, "completion");
    check(count, "fi_cq_read");
    raw->done += (uint64_t) count;
}

static void side_send(struct raw_side *raw, uint64_t offset, uint64_t size, uint32_t slot)
{
    struct side *side = (struct side *) raw;
    ssize_t ret;

    do {
        if (raw->options->variant)
            ret = fi_send(side->endpoint, raw->buffer + offset, size, side->descriptor, side->peer,
                          &side->contexts[slot]);
        else
            ret = fi_tsend(side->endpoint, raw->buffer + offset, size, side->descriptor, side->peer,
                           TAG, &side->contexts[slot]);
        if (ret == -FI_EAGAIN)
            side_poll(raw);
    } while (ret == -FI_EAGAIN);
    check(ret, "fi_tsend");
}

static void side_receive(struct raw_side *raw, uint64_t offset, uint64_t size, uint32_t slot)
{
    struct side *side = (struct side *) raw;
    ssize_t ret;

    do {
        if (raw->options->variant)
            ret = fi_recv(side->endpoint, raw->buffer + offset, size, side->descriptor,
                          FI_ADDR_UNSPEC, &side->contexts[RAW_WINDOW_MAX + slot]);
        else
            ret = fi_trecv(side->endpoint, raw->buffer + offset, size, side->descriptor,
                           FI_ADDR_UNSPEC, TAG, 0, &side->contexts[RAW_WINDOW_MAX + slot]);
        if (ret == -FI_EAGAIN)
            side_poll(raw);
    } while (ret == -FI_EAGAIN);
    check(ret, "fi_trecv");
}

static void side_rma(struct raw_side *raw, enum raw_direction direction, uint64_t offset,
                     uint64_t size, uint32_t slot)
{
    struct side *side = (struct side *) raw;
    struct iovec vector = {raw->buffer + offset, size};
    struct fi_rma_iov remote = {side->peer_base + offset, size, side->peer_key};
    struct fi_msg_rma message = {
        .msg_iov = &vector,
        .desc = &side->descriptor,
        .iov_count = 1,
        .addr = side->peer,
        .rma_iov = &remote,
        .rma_iov_count = 1,
        .context = &side->contexts[slot],
    };
    ssize_t ret;

    do {
        if (direction == RAW_READ)
            ret = fi_readmsg(side->endpoint, &message, FI_COMPLETION);
        else
            ret = fi_writemsg(side->endpoint, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
        if (ret == -FI_EAGAIN)
            side_poll(raw);
    } while (ret == -FI_EAGAIN);
    check(ret, direction == RAW_READ ? "fi_readmsg" : "fi_writemsg");
}

static void check(int64_t ret, const char *what)
{
    if (ret >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, fi_strerror((int) -ret));
    exit(1);
}
