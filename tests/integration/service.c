/* SPDX-License-Identifier: BSD-3-Clause */
/* The target and origin sides of the service that integration tests run. */
#include "service.h"

#include "child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One RPC that pulls the caller's memory `rounds` times before it answers. */
struct pull {
    struct service *service;
    hg_handle_t handle;
    pull_in_t in;
    hg_bulk_t local;
    unsigned char *buffer;
    uint32_t rounds_left;
};

struct echo_call {
    int done;
    hg_return_t status;
    uint64_t number;
};

static hg_return_t echo_handler(hg_handle_t handle);
static hg_return_t pull_handler(hg_handle_t handle);
static hg_return_t silent_handler(hg_handle_t handle);
static hg_return_t pull_round(struct pull *pull);
static hg_return_t pull_done(const struct hg_cb_info *info);
static void pull_answer(struct pull *pull, hg_return_t status);
static hg_return_t echo_done(const struct hg_cb_info *info);

bool service_open(struct service *service, const char *init_string, bool listen)
{
    return service_open_with_key(service, init_string, listen, NULL);
}

bool service_open_with_key(struct service *service, const char *init_string, bool listen,
                           const char *key)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    memset(service, 0, sizeof(*service));
    info.na_init_info.auth_key = key;
    service->hg_class = HG_Init_opt2(init_string, listen, HG_VERSION(2, 4), &info);
    if (service->hg_class == NULL)
        return false;
    service->context = HG_Context_create(service->hg_class);
    if (service->context == NULL) {
        HG_Finalize(service->hg_class);
        return false;
    }
    service->echo =
        MERCURY_REGISTER(service->hg_class, "echo", echo_in_t, echo_out_t, echo_handler);
    service->pull =
        MERCURY_REGISTER(service->hg_class, "pull", pull_in_t, pull_out_t, pull_handler);
    service->silent =
        MERCURY_REGISTER(service->hg_class, "silent", echo_in_t, echo_out_t, silent_handler);
    HG_Register_data(service->hg_class, service->echo, service, NULL);
    HG_Register_data(service->hg_class, service->pull, service, NULL);
    return true;
}

bool service_close(struct service *service)
{
    const hg_return_t context = HG_Context_destroy(service->context);
    const hg_return_t hg_class = HG_Finalize(service->hg_class);

    return context == HG_SUCCESS && hg_class == HG_SUCCESS;
}

void service_run(struct service *service, const int *done, int timeout_ms)
{
    const long long end = now_ms() + timeout_ms;

    while ((done == NULL || *done == 0) && now_ms() < end) {
        unsigned int count = 0;

        do {
            if (HG_Trigger(service->context, 0, 16, &count) != HG_SUCCESS)
                count = 0;
        } while (count > 0);
        if (done == NULL || *done == 0)
            HG_Progress(service->context, 50);
    }
}

hg_return_t service_echo(struct service *service, hg_addr_t address, uint64_t number,
                         const char *text, int timeout_ms)
{
    echo_in_t in = {.number = number, .text = text};
    struct echo_call call = {0, HG_TIMEOUT, 0};
    hg_handle_t handle;
    hg_return_t ret = HG_Create(service->context, address, service->echo, &handle);

    if (ret != HG_SUCCESS)
        return ret;
    ret = HG_Forward(handle, echo_done, &call, &in);
    if (ret == HG_SUCCESS) {
        service_run(service, &call.done, timeout_ms);
        if (call.done == 0) {
            HG_Cancel(handle);
            service_run(service, &call.done, 5000);
            call.status = HG_TIMEOUT;
        }
        ret = call.status;
        if (ret == HG_SUCCESS && call.number != number + strlen(text))
            ret = HG_PROTOCOL_ERROR;
    }
    HG_Destroy(handle);
    return ret;
}

static hg_return_t echo_done(const struct hg_cb_info *info)
{
    struct echo_call *call = info->arg;
    echo_out_t out;

    call->status = info->ret;
    if (info->ret == HG_SUCCESS) {
        call->status = HG_Get_output(info->info.forward.handle, &out);
        if (call->status == HG_SUCCESS) {
            call->number = out.number + out.length;
            HG_Free_output(info->info.forward.handle, &out);
        }
    }
    call->done = 1;
    return HG_SUCCESS;
}

bool service_print_address(struct service *service)
{
    char text[256];
    hg_size_t size = sizeof(text);
    hg_addr_t self;
    bool ok;

    if (HG_Addr_self(service->hg_class, &self) != HG_SUCCESS)
        return false;
    ok = HG_Addr_to_string(service->hg_class, text, &size, self) == HG_SUCCESS;
    HG_Addr_free(service->hg_class, self);
    if (ok) {
        printf("%s\n", text);
        fflush(stdout);
    }
    return ok;
}

static hg_return_t echo_handler(hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);
    struct service *service = HG_Registered_data(info->hg_class, info->id);
    echo_in_t in;
    echo_out_t out;
    hg_return_t ret = HG_Get_input(handle, &in);

    if (ret == HG_SUCCESS) {
        out.number = in.number;
        out.length = strlen(in.text);
        ret = HG_Respond(handle, NULL, NULL, &out);
        HG_Free_input(handle, &in);
        service->echoes++;
    }
    HG_Destroy(handle);
    return ret;
}

static hg_return_t silent_handler(hg_handle_t handle)
{
    return HG_Destroy(handle);
}

static hg_return_t pull_handler(hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);
    struct pull *pull = calloc(1, sizeof(*pull));
    hg_return_t ret;

    pull->service = HG_Registered_data(info->hg_class, info->id);
    pull->handle = handle;
    ret = HG_Get_input(handle, &pull->in);
    if (ret != HG_SUCCESS) {
        HG_Destroy(handle);
        free(pull);
        return ret;
    }
    pull->service->pulls_started++;
    pull->rounds_left = pull->in.rounds;
    hg_size_t size = HG_Bulk_get_size(pull->in.memory);
    void *buffer = pull->buffer = calloc(1, size);
    ret = HG_Bulk_create(info->hg_class, 1, &buffer, &size, HG_BULK_READWRITE, &pull->local);
    if (ret == HG_SUCCESS)
        ret = pull_round(pull);
    if (ret != HG_SUCCESS)
        pull_answer(pull, ret);
    return HG_SUCCESS;
}

static hg_return_t pull_round(struct pull *pull)
{
    const struct hg_info *info = HG_Get_info(pull->handle);

    return HG_Bulk_transfer(info->context, pull_done, pull, HG_BULK_PULL, info->addr,
                            pull->in.memory, 0, pull->local, 0, HG_Bulk_get_size(pull->in.memory),
                            HG_OP_ID_IGNORE);
}

static hg_return_t pull_done(const struct hg_cb_info *info)
{
    struct pull *pull = info->arg;
    hg_return_t ret = info->ret;

    if (ret == HG_SUCCESS && --pull->rounds_left > 0)
        ret = pull_round(pull);
    else if (ret == HG_SUCCESS)
        pull_answer(pull, HG_SUCCESS);
    if (ret != HG_SUCCESS)
        pull_answer(pull, ret);
    return HG_SUCCESS;
}

static void pull_answer(struct pull *pull, hg_return_t status)
{
    pull_out_t out = {.status = (int32_t) status, .sum = 0};

    if (status == HG_SUCCESS) {
        pull->service->pulls_ok++;
        for (hg_size_t i = 0; i < HG_Bulk_get_size(pull->local); i++)
            out.sum += pull->buffer[i];
    } else {
        pull->service->pulls_failed++;
    }
    HG_Respond(pull->handle, NULL, NULL, &out);
    HG_Bulk_free(pull->local);
    HG_Free_input(pull->handle, &pull->in);
    HG_Destroy(pull->handle);
    free(pull->buffer);
    free(pull);
}
