/* SPDX-License-Identifier: BSD-3-Clause */
/* The domain, the check that one thread at a time uses it, and the contexts of operations. */

#include "strict.h"

#include <stdlib.h>
#include <string.h>

static int strict_domain_close(struct fid *fid);
static uint64_t strict_mark(const uint64_t *context, size_t word);

static struct fi_ops strict_domain_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = strict_domain_close,
};

static struct fi_ops_domain strict_domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .av_open = strict_av_open,
    .cq_open = strict_cq_open,
    .endpoint = strict_ep_open,
};

int strict_domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **domain_p,
                       void *context)
{
    struct strict_fabric *fabric = (struct strict_fabric *) (void *) fid;
    struct strict_domain *domain;
    struct fi_info *below;
    int ret = strict_below_info(strict_port(info), &below);

    if (ret != 0)
        return ret;
    domain = strict_alloc(sizeof(*domain));
    domain->profile = strict_profile();
    domain->random = strict_seed();
    domain->fabric = fabric;
    ret = fi_domain(fabric->below, below, &domain->below, NULL);
    fi_freeinfo(below);
    if (ret != 0) {
        free(domain);
        return ret;
    }
    domain->regions = strict_alloc(domain->profile->regions * sizeof(*domain->regions));
    domain->fid = (struct fid_domain){.fid = {FI_CLASS_DOMAIN, context, &strict_domain_fid_ops},
                                      .ops = &strict_domain_ops,
                                      .mr = &strict_mr_ops};
    fabric->objects++;
    *domain_p = &domain->fid;
    return 0;
}

/* FI_THREAD_DOMAIN: only one thread at a time may be in a call with an object of the domain. */
void strict_enter(struct strict_domain *domain, const char *function)
{
    if (atomic_exchange(&domain->is_used, true))
        strict_die("%s: another thread is in a call with the same domain", function);
}

void strict_leave(struct strict_domain *domain)
{
    atomic_store(&domain->is_used, false);
}

/* FI_CONTEXT2: the provider writes to the whole context, and checks at the end that it is
 * unchanged. */
void strict_claim(struct strict_domain *domain, void *context, const char *function)
{
    struct strict_claim *claim;
    uint64_t *words = context;

    if ((domain->profile->mode & FI_CONTEXT2) == 0)
        return;
    if (context == NULL || (uintptr_t) context % _Alignof(struct fi_context2) != 0)
        strict_die("%s: %p is no place for a struct fi_context2", function, context);
    for (claim = domain->claims; claim != NULL; claim = claim->next)
        if (claim->context == words)
            strict_die("%s: the context at %p is of another operation, whose completion was not "
                       "read yet",
                       function, context);
    for (size_t i = 0; i < sizeof(struct fi_context2) / sizeof(*words); i++)
        words[i] = strict_mark(words, i);
    claim = strict_alloc(sizeof(*claim));
    claim->context = words;
    claim->next = domain->claims;
    domain->claims = claim;
}

/* The completion was read; or, with `is_read` false, the endpoint was closed, and the context may
 * have been freed. */
void strict_release(struct strict_domain *domain, void *context, bool is_read)
{
    struct strict_claim **link = &domain->claims;
    struct strict_claim *claim;

    while (*link != NULL && (*link)->context != context)
        link = &(*link)->next;
    claim = *link;
    if (claim == NULL)
        return;
    for (size_t i = 0; is_read && i < sizeof(struct fi_context2) / sizeof(uint64_t); i++)
        if (claim->context[i] != strict_mark(claim->context, i))
            strict_die("the context at %p was written to before its completion was read", context);
    *link = claim->next;
    free(claim);
}

static int strict_domain_close(struct fid *fid)
{
    struct strict_domain *domain = (struct strict_domain *) (void *) fid;
    struct strict_op *op;

    strict_enter(domain, "fi_close(domain)");
    for (size_t i = 0; i < domain->profile->regions; i++)
        if (domain->regions[i].is_open)
            strict_die("the domain is closed before a registration of %zu bytes in it",
                       domain->regions[i].size);
    if (domain->objects != 0)
        strict_die("the domain is closed before %u objects in it", domain->objects);
    (void) fi_close(&domain->below->fid);
    while ((op = domain->left) != NULL)
        strict_op_free(op);
    domain->fabric->objects--;
    free(domain->regions);
    free(domain);
    return 0;
}

static uint64_t strict_mark(const uint64_t *context, size_t word)
{
    return ((uint64_t) (uintptr_t) context + word) * UINT64_C(0x9e3779b97f4a7c15);
}
