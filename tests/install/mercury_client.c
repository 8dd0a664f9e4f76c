/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program as it is written for Mercury, also compiled as C++14. It is origin and target in one
 * process, and waits with the utilities.
 */
#include <mercury.h>
#include <mercury_atomic.h>
#include <mercury_macros.h>
#include <mercury_poll.h>
#include <mercury_request.h>
#include <mercury_thread_mutex.h>
#include <mercury_time.h>
#include <na.h>
#include <stdio.h>

#if HG_VERSION_MAJOR != 2 || HG_VERSION_MINOR != 4 || NA_VERSION_MAJOR != 6
#    error "the headers are of another version"
#endif

/* A Boost.Preprocessor name that mercury_macros.h does not need itself. */
#define PARTS               (whole)(part)
#define NAME(r, data, elem) static int BOOST_PP_CAT(count_, elem);
BOOST_PP_SEQ_FOR_EACH(NAME, , PARTS)

MERCURY_GEN_PROC(add_in_t, ((int32_t) (a))((int32_t) (b)))
MERCURY_GEN_PROC(add_out_t, ((int32_t) (sum)))

static hg_return_t add(hg_handle_t handle)
{
    add_in_t in;
    add_out_t out;

    if (HG_Get_input(handle, &in) == HG_SUCCESS) {
        out.sum = in.a + in.b;
        HG_Respond(handle, NULL, NULL, &out);
        HG_Free_input(handle, &in);
        count_part++;
    }
    return HG_Destroy(handle);
}

static hg_return_t added(const struct hg_cb_info *info)
{
    add_out_t out;

    if (info->ret == HG_SUCCESS && HG_Get_output(info->info.forward.handle, &out) == HG_SUCCESS) {
        count_whole = out.sum;
        HG_Free_output(info->info.forward.handle, &out);
    }
    hg_request_complete((hg_request_t *) info->arg);
    return HG_SUCCESS;
}

static int progress(unsigned int timeout, void *arg)
{
    return HG_Progress((hg_context_t *) arg, timeout) == HG_SUCCESS ? HG_UTIL_SUCCESS
                                                                    : HG_UTIL_FAIL;
}

static int trigger(unsigned int timeout, unsigned int *flag, void *arg)
{
    return HG_Trigger((hg_context_t *) arg, timeout, 1, flag) == HG_SUCCESS ? HG_UTIL_SUCCESS
                                                                            : HG_UTIL_FAIL;
}

static int use_utilities(void)
{
    static hg_thread_mutex_t mutex = HG_THREAD_MUTEX_INITIALIZER;
    static hg_atomic_int32_t counter = HG_ATOMIC_VAR_INIT(1);
    hg_poll_set_t *poll_set = hg_poll_create();
    hg_time_t now;

    hg_thread_mutex_lock(&mutex);
    hg_atomic_incr32(&counter);
    hg_thread_mutex_unlock(&mutex);
    return hg_time_get_current(&now) == HG_UTIL_SUCCESS && hg_atomic_get32(&counter) == 2 &&
           hg_poll_destroy(poll_set) == HG_UTIL_SUCCESS;
}

int main(void)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    hg_class_t *hg_class = HG_Init_opt("na+sm", HG_TRUE, &info);
    hg_context_t *context = hg_class != NULL ? HG_Context_create(hg_class) : NULL;
    hg_request_class_t *request_class = hg_request_init(progress, trigger, context);
    hg_request_t *request = hg_request_create(request_class);
    hg_handle_t handle = HG_HANDLE_NULL;
    hg_addr_t addr = HG_ADDR_NULL;
    add_in_t in = {2, 3};
    unsigned int flag = 0;
    hg_id_t id;

    if (context == NULL || !use_utilities())
        return 1;
    id = MERCURY_REGISTER(hg_class, "add", add_in_t, add_out_t, add);
    if (HG_Addr_self(hg_class, &addr) != HG_SUCCESS ||
        HG_Create(context, addr, id, &handle) != HG_SUCCESS ||
        HG_Forward(handle, added, request, &in) != HG_SUCCESS)
        return 1;
    hg_request_wait(request, 10000, &flag);
    HG_Destroy(handle);
    HG_Addr_free(hg_class, addr);
    hg_request_destroy(request);
    hg_request_finalize(request_class, NULL);
    HG_Context_destroy(context);
    HG_Finalize(hg_class);
    printf("flag %u, sum %d, calls %d\n", flag, count_whole, count_part);
    return flag == 1 && count_whole == 5 && count_part == 1 ? 0 : 1;
}
