/* SPDX-License-Identifier: BSD-3-Clause */
/* One-way RPCs: the origin's callback runs when an event is sent, and the target does not
 * respond. Messages from one context to another keep their order. So if one thread triggers, and
 * inputs fit a message, the response to a later RPC shows that the events before it were handled.
 * events --listen na+sm events ADDRESS            sends 10000 events */
#include "example.h"

#define EVENTS 10000
#define DEPTH  32 /* number of events being sent at a time */

MERCURY_GEN_PROC(event_t, ((uint32_t) (number))((uint64_t) (value)))
MERCURY_GEN_PROC(count_out_t, ((uint64_t) (count)))

static uint64_t handled; /* at the target */

static hg_return_t event(hg_handle_t handle)
{
    event_t in;
    hg_return_t ret = HG_Get_input(handle, &in);

    if (ret == HG_SUCCESS) {
        handled++;
        ret = HG_Free_input(handle, &in);
    }
    HG_Destroy(handle); /* the only reference: there will be no response */
    return ret;
}

static hg_return_t count(hg_handle_t handle)
{
    count_out_t out = {handled};

    handled = 0;
    return example_answer(handle, &out);
}

struct sender {
    event_t next;
    unsigned int running;
    hg_return_t ret; /* the first error */
};

static void send_next(struct sender *sender, hg_handle_t handle);

static hg_return_t sent(const struct hg_cb_info *info)
{
    struct sender *sender = info->arg;

    sender->running--;
    if (sender->ret == HG_SUCCESS)
        sender->ret = info->ret;
    send_next(sender, info->info.forward.handle);
    return HG_SUCCESS;
}

/* A callback forwards its handle again, so DEPTH handles send any number of events. */
static void send_next(struct sender *sender, hg_handle_t handle)
{
    if (sender->next.number == EVENTS || sender->ret != HG_SUCCESS)
        return;
    sender->next.value = sender->next.number * 3;
    sender->ret = HG_Forward(handle, sent, sender, &sender->next);
    if (sender->ret == HG_SUCCESS) {
        sender->next.number++;
        sender->running++;
    }
}

static void send_events(const struct example *example, hg_addr_t target, hg_id_t id)
{
    struct sender sender = {{0, 0}, 0, HG_SUCCESS};
    hg_handle_t handles[DEPTH];

    for (int i = 0; i < DEPTH; i++) {
        CHECK(HG_Create(example->context, target, id, &handles[i]));
        send_next(&sender, handles[i]);
    }
    while (sender.running > 0)
        example_progress(example->context);
    CHECK(sender.ret);
    for (int i = 0; i < DEPTH; i++)
        CHECK(HG_Destroy(handles[i]));
}

int main(int argc, char **argv)
{
    struct example example;
    bool is_target = example_open(&example, argc, argv, NULL);
    hg_id_t event_id = MERCURY_REGISTER(example.hg_class, "event", event_t, void, event);
    hg_id_t count_id = MERCURY_REGISTER(example.hg_class, "count", void, count_out_t, count);

    CHECK(HG_Registered_disable_response(example.hg_class, event_id, HG_TRUE));
    if (is_target) {
        example_serve(&example);
    } else {
        hg_addr_t target;
        hg_handle_t handle;
        count_out_t out;

        CHECK(HG_Addr_lookup2(example.hg_class, argv[1], &target));
        send_events(&example, target, event_id);
        CHECK(HG_Create(example.context, target, count_id, &handle));
        CHECK(example_call(example.context, handle, NULL));
        CHECK(HG_Get_output(handle, &out));
        printf("%llu events handled\n", (unsigned long long) out.count);
        CHECK(HG_Free_output(handle, &out));
        CHECK(HG_Destroy(handle));
        CHECK(HG_Addr_free(example.hg_class, target));
    }
    example_close(&example);
    return 0;
}
