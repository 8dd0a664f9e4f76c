/* SPDX-License-Identifier: BSD-3-Clause */
/* The origin: opens the copy, offers the file in parts, two of them at a time so that the target
 * always has the next one, and closes the copy with the digest. */

#include "hg_cp/cp_origin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "common/tool_clock.h"
#include "common/tool_endpoint.h"
#include "common/tool_message.h"
#include "common/tool_options.h"
#include "common/tool_signal.h"
#include "hg_cp/cp_progress.h"
#include "hg_cp/cp_protocol.h"
#include "hg_cp/cp_source.h"

/* Number of parts offered at the same time; longest sleep, also while waiting for the digest;
 * seconds that a cancelled RPC, and dropping the copy at the target, may take. */
#define PARTS           2
#define SLEEP_MS        100U
#define DIGEST_SLEEP_MS 1U
#define CANCEL_S        3
#define CHANGED_S       1 /* without an answer, before the file is checked */
#define ABANDON_S       2

struct cp_origin;

/* A part of the file that is offered to the target. */
struct origin_part {
    struct cp_origin *origin;
    hg_handle_t handle;
    hg_bulk_t bulk;
    void *memory; /* NULL: not in use */
    uint64_t size;
};

struct cp_origin {
    const struct cp_options *options;
    struct tool_target *own_target;
    struct cp_source source;
    struct cp_progress progress;
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_addr_t address;
    struct cp_rpc_ids ids;
    hg_handle_t handle; /* of the open or close RPC */
    struct origin_part parts[PARTS];
    unsigned int outstanding;
    uint64_t session;
    _Atomic uint64_t alive_number; /* incremented while this process runs; the target pulls it */
    hg_bulk_t alive;
    bool opened;
    uint64_t offered; /* offset of the next part */
    uint64_t written;
    uint64_t active_ns; /* time of the last answer */
    bool failed;        /* an error was reported on stderr */
    bool lost;          /* the target is gone, or does not answer */
    bool is_abandoned;  /* later errors are consequences, and not reported */
};

static bool origin_connect(struct cp_origin *origin, const char *address);
static bool origin_offer_alive(struct cp_origin *origin);
static void origin_close(struct cp_origin *origin);
static bool origin_open_copy(struct cp_origin *origin, const char *name);
static bool origin_send(struct cp_origin *origin);
static bool part_offer(struct origin_part *part);
static void part_withdraw(struct origin_part *part);
static hg_return_t part_answered(const struct hg_cb_info *info);
static bool origin_close_copy(struct cp_origin *origin);
static void origin_abandon(struct cp_origin *origin);
static bool origin_call(struct cp_origin *origin, hg_id_t id, void *in);
static hg_return_t origin_answered(const struct hg_cb_info *info);
static bool origin_progress(struct cp_origin *origin);
static void origin_cancel(struct cp_origin *origin);
static void origin_fail(struct cp_origin *origin, const char *what, const char *why);
static bool origin_print(const struct cp_origin *origin, const char *name, double seconds,
                         XXH128_hash_t digest);

int cp_origin_run(const struct cp_options *options, const char *address, const char *name,
                  struct tool_target *own_target)
{
    struct cp_origin origin = {.options = options, .own_target = own_target};
    uint64_t start = tool_clock_ns();
    bool copied = false, printed = true;

    if (!cp_source_open(&origin.source, options->source))
        return TOOL_EXIT_FAILED;
    if (origin_connect(&origin, address) && origin_open_copy(&origin, name) && origin_send(&origin))
        copied = origin_close_copy(&origin);
    cp_progress_end(&origin.progress);
    if (!copied)
        origin_abandon(&origin);
    else if (!options->quiet)
        printed = origin_print(&origin, name, tool_clock_to_seconds(tool_clock_ns() - start),
                               origin.source.digest);
    origin_close(&origin);
    return copied && printed ? TOOL_EXIT_OK : TOOL_EXIT_FAILED;
}

static bool origin_connect(struct cp_origin *origin, const char *address)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    hg_return_t ret;

    info.na_init_info.auth_key = origin->options->key;
    info.encrypt = origin->options->encrypt;
    origin->active_ns = tool_clock_ns();
    for (unsigned int i = 0; i < PARTS; i++)
        origin->parts[i].origin = origin;
    origin->hg_class = tool_endpoint_open(origin->options->init, false, &info);
    if (origin->hg_class == NULL ||
        !cp_protocol_register(origin->hg_class, NULL, NULL, NULL, &origin->ids))
        return false;
    cp_source_catch_bus_errors();
    origin->context = HG_Context_create(origin->hg_class);
    if (origin->context == NULL) {
        tool_error("cannot create a context; see the line before");
        return false;
    }
    ret = HG_Addr_lookup2(origin->hg_class, address, &origin->address);
    if (ret != HG_SUCCESS)
        tool_error("cannot reach a target at '%s': %s", address, HG_Error_to_string(ret));
    return ret == HG_SUCCESS && origin_offer_alive(origin);
}

/* Not read-only: a read-only descriptor may embed a copy of the number. */
static bool origin_offer_alive(struct cp_origin *origin)
{
    void *number = (void *) &origin->alive_number;
    hg_size_t size = CP_ALIVE_SIZE;
    hg_return_t ret =
        HG_Bulk_create(origin->hg_class, 1, &number, &size, HG_BULK_READWRITE, &origin->alive);

    if (ret != HG_SUCCESS)
        tool_error("cannot register memory: %s", HG_Error_to_string(ret));
    return ret == HG_SUCCESS;
}

static void origin_close(struct cp_origin *origin)
{
    for (unsigned int i = 0; i < PARTS; i++)
        part_withdraw(&origin->parts[i]);
    if (origin->handle != HG_HANDLE_NULL)
        (void) HG_Destroy(origin->handle);
    if (origin->alive != HG_BULK_NULL)
        (void) HG_Bulk_free(origin->alive);
    if (origin->address != HG_ADDR_NULL)
        (void) HG_Addr_free(origin->hg_class, origin->address);
    if (origin->context != NULL)
        (void) HG_Context_destroy(origin->context);
    if (origin->hg_class != NULL)
        (void) HG_Finalize(origin->hg_class);
    cp_source_close(&origin->source);
}

static bool origin_open_copy(struct cp_origin *origin, const char *name)
{
    cp_open_in_t in = {.name = name,
                       .size = origin->source.size,
                       .mode = origin->source.status.st_mode & 0777,
                       .force = origin->options->force,
                       .alive = origin->alive};
    cp_open_out_t out;
    hg_return_t ret;

    if (!origin_call(origin, origin->ids.open, &in))
        return false;
    ret = HG_Get_output(origin->handle, &out);
    if (ret != HG_SUCCESS) {
        origin_fail(origin, "cannot read the answer", HG_Error_to_string(ret));
        return false;
    }
    origin->opened = out.status == CP_OK;
    origin->session = out.session;
    if (!origin->opened)
        origin_fail(origin, "not copied", out.text);
    (void) HG_Free_output(origin->handle, &out);
    cp_progress_begin(&origin->progress, origin->source.size, origin->options->quiet);
    return origin->opened;
}

static bool origin_send(struct cp_origin *origin)
{
    while (origin->written < origin->source.size) {
        for (unsigned int i = 0; i < PARTS && origin->offered < origin->source.size; i++) {
            if (origin->parts[i].memory == NULL && !part_offer(&origin->parts[i]))
                return false;
        }
        if (!origin_progress(origin))
            return false;
        cp_progress_update(&origin->progress, origin->written);
    }
    return true;
}

static bool part_offer(struct origin_part *part)
{
    struct cp_origin *origin = part->origin;
    uint64_t rest = origin->source.size - origin->offered;
    cp_pull_in_t in = {.session = origin->session, .offset = origin->offered};
    hg_return_t ret;

    part->size = rest < origin->options->part_size ? rest : origin->options->part_size;
    part->memory = cp_source_map(&origin->source, origin->offered, part->size);
    if (part->memory == NULL) {
        origin->failed = true;
        return false;
    }
    ret = HG_Bulk_create(origin->hg_class, 1, &part->memory, &part->size, HG_BULK_READ_ONLY,
                         &part->bulk);
    if (ret == HG_SUCCESS)
        ret = HG_Create(origin->context, origin->address, origin->ids.pull, &part->handle);
    in.size = part->size;
    in.bulk = part->bulk;
    if (ret == HG_SUCCESS)
        ret = HG_Forward(part->handle, part_answered, part, &in);
    if (ret != HG_SUCCESS) {
        origin_fail(origin, "cannot offer a part of the file", HG_Error_to_string(ret));
        return false;
    }
    origin->outstanding++;
    origin->offered += part->size;
    return true;
}

static void part_withdraw(struct origin_part *part)
{
    if (part->handle != HG_HANDLE_NULL)
        (void) HG_Destroy(part->handle);
    if (part->bulk != HG_BULK_NULL)
        (void) HG_Bulk_free(part->bulk);
    if (part->memory != NULL)
        (void) munmap(part->memory, part->size);
    part->handle = HG_HANDLE_NULL;
    part->bulk = HG_BULK_NULL;
    part->memory = NULL;
}

static hg_return_t part_answered(const struct hg_cb_info *info)
{
    struct origin_part *part = info->arg;
    struct cp_origin *origin = part->origin;
    hg_return_t ret = info->ret;
    cp_pull_out_t out;

    origin->outstanding--;
    origin->active_ns = tool_clock_ns();
    if (ret == HG_SUCCESS)
        ret = HG_Get_output(part->handle, &out);
    if (ret != HG_SUCCESS) {
        origin->lost = true;
        origin_fail(origin, "the target does not answer", HG_Error_to_string(ret));
    } else {
        if (out.status == CP_OK)
            origin->written += part->size;
        else if (!origin->is_abandoned)
            origin_fail(origin, "not copied", out.text);
        (void) HG_Free_output(part->handle, &out);
    }
    part_withdraw(part);
    return HG_SUCCESS;
}

static bool origin_close_copy(struct cp_origin *origin)
{
    cp_close_in_t in = {.session = origin->session, .keep = true};
    XXH128_hash_t digest;
    cp_close_out_t out;
    hg_return_t ret;

    while (!cp_source_is_digested(&origin->source)) {
        if (!origin_progress(origin))
            return false;
    }
    if (!cp_source_finish(&origin->source, &digest))
        return false;
    in.digest_high = digest.high64;
    in.digest_low = digest.low64;
    if (!origin_call(origin, origin->ids.close, &in))
        return false;
    origin->opened = false; /* the target has ended the copy, whatever it answers */
    ret = HG_Get_output(origin->handle, &out);
    if (ret != HG_SUCCESS) {
        origin_fail(origin, "cannot read the answer", HG_Error_to_string(ret));
        return false;
    }
    if (out.status != CP_OK)
        origin_fail(origin, "not copied", out.text);
    (void) HG_Free_output(origin->handle, &out);
    return !origin->failed;
}

/* Reports an error if the file has changed; tells a target that is still there to drop the copy. */
static void origin_abandon(struct cp_origin *origin)
{
    cp_close_in_t in = {.session = origin->session, .keep = false};

    if (origin->opened && cp_source_changed(&origin->source))
        tool_error("'%s' was changed while it was copied", origin->source.path);
    origin->is_abandoned = true;
    /* The target answers the parts first, so it does not pull any more when they are unmapped. */
    if (origin->opened && !origin->lost)
        (void) origin_call(origin, origin->ids.close, &in);
    origin_cancel(origin);
}

/* Forwards an RPC and waits for its response, which is then in origin->handle. */
static bool origin_call(struct cp_origin *origin, hg_id_t id, void *in)
{
    hg_return_t ret;

    if (origin->handle != HG_HANDLE_NULL)
        (void) HG_Destroy(origin->handle);
    origin->handle = HG_HANDLE_NULL;
    origin->failed = false;
    ret = HG_Create(origin->context, origin->address, id, &origin->handle);
    if (ret == HG_SUCCESS)
        ret = HG_Forward(origin->handle, origin_answered, origin, in);
    if (ret != HG_SUCCESS) {
        origin_fail(origin, "cannot call the target", HG_Error_to_string(ret));
        return false;
    }
    origin->outstanding++;
    origin->active_ns = tool_clock_ns();
    while (origin->outstanding > 0) {
        if (!origin_progress(origin)) {
            origin_cancel(origin);
            return false;
        }
    }
    return !origin->failed;
}

static hg_return_t origin_answered(const struct hg_cb_info *info)
{
    struct cp_origin *origin = info->arg;

    origin->outstanding--;
    origin->active_ns = tool_clock_ns();
    if (info->ret != HG_SUCCESS) {
        origin->lost = true;
        if (info->ret == HG_NOENTRY)
            origin_fail(origin, "the RPC is unknown there", "is it a target of hg_cp?");
        else if (info->ret == HG_PERMISSION)
            origin_fail(origin, "the target refuses",
                        origin->options->key != NULL
                            ? "it has another key than this side, or none; see --key-file"
                            : "it wants a key, and this side has none; see --key-file");
        else
            origin_fail(origin, "the target does not answer", HG_Error_to_string(info->ret));
    }
    return HG_SUCCESS;
}

/* False if the copy cannot continue: an error was reported, or a signal arrived. */
static bool origin_progress(struct cp_origin *origin)
{
    unsigned int timeout_ms = origin->outstanding > 0 ? SLEEP_MS : DIGEST_SLEEP_MS;
    hg_return_t ret = tool_endpoint_progress(origin->context, timeout_ms);
    double silent = tool_clock_to_seconds(tool_clock_ns() - origin->active_ns);
    char text[128];

    atomic_fetch_add(&origin->alive_number, 1);
    if (ret != HG_SUCCESS) {
        origin_fail(origin, "no progress", HG_Error_to_string(ret));
    } else if (origin->own_target != NULL &&
               !tool_target_running(origin->own_target, text, sizeof(text))) {
        origin->lost = true;
        origin_fail(origin, "the target process", text);
    } else if (silent > CHANGED_S && !origin->is_abandoned && cp_source_changed(&origin->source)) {
        origin->failed = true; /* a transport may wait for bytes that are gone; reported later */
    } else if (origin->outstanding > 0 &&
               silent > (origin->is_abandoned ? ABANDON_S : origin->options->timeout)) {
        origin->lost = true;
        origin_fail(origin, "the target does not answer", "--timeout has passed");
    }
    return !origin->failed && (tool_signal_received() == 0 || origin->is_abandoned);
}

/* Afterwards nothing is in flight, so the memory can be unmapped. */
static void origin_cancel(struct cp_origin *origin)
{
    uint64_t end = tool_clock_ns() + CANCEL_S * TOOL_NS_PER_S;

    if (origin->outstanding == 0)
        return;
    if (origin->handle != HG_HANDLE_NULL)
        (void) HG_Cancel(origin->handle);
    for (unsigned int i = 0; i < PARTS; i++) {
        if (origin->parts[i].handle != HG_HANDLE_NULL)
            (void) HG_Cancel(origin->parts[i].handle);
    }
    origin->is_abandoned = true; /* later errors are consequences */
    while (origin->outstanding > 0 && tool_clock_ns() < end) {
        if (tool_endpoint_progress(origin->context, 10) != HG_SUCCESS)
            break;
    }
}

/* Only the first error is reported. */
static void origin_fail(struct cp_origin *origin, const char *what, const char *why)
{
    if (!origin->failed && !origin->is_abandoned) {
        cp_progress_end(&origin->progress);
        tool_error("%s: %s", what, why != NULL ? why : "");
    }
    origin->failed = true;
}

static bool origin_print(const struct cp_origin *origin, const char *name, double seconds,
                         XXH128_hash_t digest)
{
    char size[32];

    if (printf("%s: %s in %.3f s, %.1f MBps, XXH3-128 %016" PRIx64 "%016" PRIx64 "\n", name,
               tool_format_size(origin->source.size, size, sizeof(size)), seconds,
               (double) origin->source.size / 1e6 / seconds, (uint64_t) digest.high64,
               (uint64_t) digest.low64) > 0 &&
        fflush(stdout) == 0)
        return true;
    tool_error("'%s' was copied, but the line about it cannot be written: %s", name,
               strerror(errno));
    return false;
}
