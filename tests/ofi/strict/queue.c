/* SPDX-License-Identifier: BSD-3-Clause */
/* The completion queue. Events are held back for some reads and then reported together. Receives
 * stay in order, all others are mixed in at random. */

#include "strict.h"

#include "../../test_random.h"

#include <stdlib.h>
#include <string.h>

/* The most reads in a row that return no event. */
#define STRICT_HOLD  6u

#define STRICT_READS 64

static int strict_cq_control(struct fid *fid, int command, void *argument);
static ssize_t strict_cq_read(struct fid_cq *fid, void *buffer, size_t count);
static ssize_t strict_cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags);
static void strict_cq_take(struct strict_cq *cq, struct fi_cq_msg_entry *entry);
static const char *strict_cq_strerror(struct fid_cq *fid, int error, const void *data, char *buffer,
                                      size_t size);
static void strict_cq_below(struct strict_cq *cq);
static void strict_cq_let(struct strict_cq *cq);
static int strict_cq_close(struct fid *fid);

static struct fi_ops strict_cq_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = strict_cq_close,
    .control = strict_cq_control,
};

static struct fi_ops_cq strict_cq_ops = {
    .size = sizeof(struct fi_ops_cq),
    .read = strict_cq_read,
    .readerr = strict_cq_readerr,
    .strerror = strict_cq_strerror,
};

int strict_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **cq_p,
                   void *context)
{
    struct strict_domain *domain = (struct strict_domain *) (void *) fid;
    struct fi_cq_attr below = {.format = FI_CQ_FORMAT_MSG, .wait_obj = attr->wait_obj};
    struct strict_cq *cq;
    int ret;

    if (attr->format != FI_CQ_FORMAT_MSG ||
        (attr->wait_obj != FI_WAIT_NONE && !domain->profile->has_fd))
        return -FI_ENOSYS;
    cq = strict_alloc(sizeof(*cq));
    ret = fi_cq_open(domain->below, &below, &cq->below, NULL);
    if (ret != 0) {
        free(cq);
        return ret;
    }
    cq->domain = domain;
    cq->fid =
        (struct fid_cq){.fid = {FI_CLASS_CQ, context, &strict_cq_fid_ops}, .ops = &strict_cq_ops};
    domain->objects++;
    *cq_p = &cq->fid;
    return 0;
}

void strict_cq_add(struct strict_cq *cq, const struct strict_event *event)
{
    struct strict_event *added = strict_alloc(sizeof(*added));
    struct strict_event **link = &cq->held;
    const bool is_ordered = (event->flags & FI_RECV) != 0;

    *added = *event;
    while (*link != NULL && (is_ordered || !strict_chance(cq->domain, 4)))
        link = &(*link)->next;
    added->next = *link;
    *link = added;
}

/* Progresses the layer below and queued operations. */
void strict_cq_progress(struct strict_cq *cq)
{
    strict_cq_below(cq);
    for (struct strict_ep *ep = cq->eps; ep != NULL; ep = ep->next)
        strict_ep_flush(ep);
}

/* Whether later reads return an event although nothing arrives. */
bool strict_cq_has_work(struct strict_cq *cq)
{
    for (struct strict_ep *ep = cq->eps; ep != NULL; ep = ep->next)
        for (size_t i = 0; ep->av != NULL && i < ep->av->count; i++)
            if (ep->av->peers[i] != NULL && ep->av->peers[i]->first != NULL)
                return true;
    return cq->held != NULL || cq->ready != NULL;
}

static int strict_cq_control(struct fid *fid, int command, void *argument)
{
    struct strict_cq *cq = (struct strict_cq *) (void *) fid;

    return command == FI_GETWAIT ? fi_control(&cq->below->fid, FI_GETWAIT, argument) : -FI_ENOSYS;
}

static ssize_t strict_cq_read(struct fid_cq *fid, void *buffer, size_t count)
{
    struct strict_cq *cq = (struct strict_cq *) (void *) fid;
    struct fi_cq_msg_entry *entries = buffer;
    ssize_t ret = 0;

    strict_enter(cq->domain, "fi_cq_read");
    strict_cq_progress(cq);
    strict_cq_let(cq);
    while ((size_t) ret < count && cq->ready != NULL && cq->ready->error == 0)
        strict_cq_take(cq, &entries[ret++]);
    if (ret == 0)
        ret = cq->ready != NULL ? -FI_EAVAIL : -FI_EAGAIN;
    strict_leave(cq->domain);
    return ret;
}

static ssize_t strict_cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
    struct strict_cq *cq = (struct strict_cq *) (void *) fid;
    struct fi_cq_msg_entry taken;
    ssize_t ret = -FI_EAGAIN;

    (void) flags;
    strict_enter(cq->domain, "fi_cq_readerr");
    if (cq->ready != NULL && cq->ready->error != 0) {
        const int error = cq->ready->error;

        strict_cq_take(cq, &taken);
        *entry = (struct fi_cq_err_entry){
            .op_context = taken.op_context,
            .flags = taken.flags,
            .err = error,
            .prov_errno = error,
        };
        ret = 1;
    }
    strict_leave(cq->domain);
    return ret;
}

static void strict_cq_take(struct strict_cq *cq, struct fi_cq_msg_entry *entry)
{
    struct strict_event *event = cq->ready;

    strict_release(cq->domain, event->context, true);
    *entry = (struct fi_cq_msg_entry){event->context, event->flags, event->size};
    cq->ready = event->next;
    free(event);
}

static const char *strict_cq_strerror(struct fid_cq *fid, int error, const void *data, char *buffer,
                                      size_t size)
{
    (void) fid;
    (void) data;
    (void) buffer;
    (void) size;
    return fi_strerror(error);
}

static void strict_cq_below(struct strict_cq *cq)
{
    struct fi_cq_err_entry failed;
    struct fi_cq_msg_entry entry;

    for (int i = 0; i < STRICT_READS; i++) {
        ssize_t count = fi_cq_read(cq->below, &entry, 1);

        if (count == 1) {
            strict_op_done(entry.op_context, entry.len, 0);
            continue;
        }
        memset(&failed, 0, sizeof(failed));
        if (count != -FI_EAVAIL || fi_cq_readerr(cq->below, &failed, 0) != 1)
            return;
        if (failed.op_context != NULL)
            strict_op_done(failed.op_context, failed.len, failed.err);
    }
}

static void strict_cq_let(struct strict_cq *cq)
{
    if (cq->ready != NULL || cq->held == NULL)
        return;
    if (cq->hold == 0)
        cq->hold = 1 + (uint32_t) (test_random(&cq->domain->random) % STRICT_HOLD);
    if (--cq->hold == 0) {
        cq->ready = cq->held;
        cq->held = NULL;
    }
}

static int strict_cq_close(struct fid *fid)
{
    struct strict_cq *cq = (struct strict_cq *) (void *) fid;
    struct strict_domain *domain = cq->domain;
    struct fi_cq_msg_entry ignored;

    strict_enter(domain, "fi_close(cq)");
    if (cq->eps != NULL)
        strict_die("the completion queue is closed before an endpoint that is bound to it");
    while (cq->ready != NULL || cq->held != NULL) {
        if (cq->ready == NULL) {
            cq->ready = cq->held;
            cq->held = NULL;
        }
        strict_release(domain, cq->ready->context, false);
        strict_cq_take(cq, &ignored);
    }
    (void) fi_close(&cq->below->fid);
    domain->objects--;
    strict_leave(domain);
    free(cq);
    return 0;
}
