/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of an earlier release: built from its frozen headers alone and linked against nothing
 * but the names that were exported then. It calls an RPC whose target pulls bulk data, and cancels
 * one that is not answered, over the init string that it is given:
 *     application INIT CORE PLUGIN
 * CORE and PLUGIN are the folders that the library and the plugin have to come from. */

#include <mercury.h>
#include <mercury_bulk.h>
#include <mercury_ext.h>
#include <mercury_macros.h>
#include <na.h>
#include <na_ext.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BULK_SIZE    (256 * 1024)
#define WAIT_SECONDS 20

MERCURY_GEN_PROC(pull_in_t, ((uint64_t) (size))((hg_bulk_t) (bulk))((int32_t) (number)))
MERCURY_GEN_PROC(pull_out_t, ((uint64_t) (sum))((int32_t) (number)))

/* An endpoint; origin and target of the RPC are two of one process. */
struct side {
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_id_t id;
};

/* What the target keeps between the call and its response. */
struct pull {
    hg_handle_t handle;
    hg_bulk_t local;
    unsigned char *data;
    pull_in_t in;
};

static void side_open(struct side *side, const char *init);
static void side_close(const struct side *side);
static void check_files(const struct side *side, const char *core, const char *plugin);
static hg_addr_t look_up(const struct side *from, const struct side *to);
static void call(const struct side *origin, const struct side *target, hg_addr_t addr);
static void cancel(const struct side *origin, hg_addr_t addr);
static hg_return_t canceled(const struct hg_cb_info *info);
static hg_return_t pull(hg_handle_t handle);
static hg_return_t pulled(const struct hg_cb_info *info);
static hg_return_t answered(const struct hg_cb_info *info);
static void check(const char *what, hg_return_t ret);
static void fail(const char *what, const char *why);

/* Ends the program, so that what was opened needs no second way out. */
#define CHECK(call) check(#call, call)

int main(int argc, char **argv)
{
    struct side origin, target;
    hg_addr_t addr;

    if (argc != 4)
        fail("usage", "application INIT CORE PLUGIN");
    side_open(&origin, argv[1]);
    side_open(&target, argv[1]);
    check_files(&origin, argv[2], argv[3]);
    addr = look_up(&origin, &target);
    call(&origin, &target, addr);
    cancel(&origin, addr);
    CHECK(HG_Addr_free(origin.hg_class, addr));
    side_close(&origin);
    side_close(&target);
    printf("ok: %s\n", argv[1]);
    return 0;
}

static void side_open(struct side *side, const char *init)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    info.na_init_info.max_contexts = 1;
    info.request_post_init = 16;
    info.checksum_level = HG_CHECKSUM_RPC_PAYLOAD;
    info.no_bulk_eager = HG_TRUE;
    info.no_overflow = true;
    side->hg_class =
        HG_Init_opt2(init, HG_TRUE, HG_VERSION(HG_VERSION_MAJOR, HG_VERSION_MINOR), &info);
    if (side->hg_class == NULL)
        fail("HG_Init_opt2", init);
    side->id = MERCURY_REGISTER(side->hg_class, "pull", pull_in_t, pull_out_t, pull);
    side->context = HG_Context_create(side->hg_class);
    if (side->id == 0 || side->context == NULL)
        fail("the endpoint", init);
}

static void side_close(const struct side *side)
{
    CHECK(HG_Context_destroy(side->context));
    CHECK(HG_Finalize(side->hg_class));
}

/* A test of old with new that was of new with new would pass for nothing. */
static void check_files(const struct side *side, const char *core, const char *plugin)
{
    const struct na_selection *selection = NA_Class_get_selection(HG_Class_get_na(side->hg_class));
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    int libraries = 0;

    if (maps == NULL)
        fail("/proc/self/maps", "cannot be read");
    while (fgets(line, sizeof(line), maps) != NULL) {
        const char *library = strstr(line, "/libamalgam-na.so");
        const char *path = strchr(line, '/');

        if (library == NULL)
            continue;
        libraries++;
        if (strncmp(path, core, strlen(core)) != 0 || path + strlen(core) != library)
            fail("the core is another one", path);
    }
    (void) fclose(maps);
    if (libraries == 0)
        fail("the core", "is not loaded");
    if (selection == NULL || strncmp(selection->plugin_path, plugin, strlen(plugin)) != 0 ||
        selection->plugin_path[strlen(plugin)] != '/')
        fail("the plugin is another one", selection != NULL ? selection->plugin_path : "(none)");
    printf("plugin ABI %u.%u, %s, %s+%s\n", NA_Plugin_get_abi_version() >> 16,
           NA_Plugin_get_abi_version() & 0xffff, selection->plugin_path, selection->class_name,
           selection->protocol_name);
}

static hg_addr_t look_up(const struct side *from, const struct side *to)
{
    char name[512];
    hg_size_t size = sizeof(name);
    hg_addr_t self, addr;

    CHECK(HG_Addr_self(to->hg_class, &self));
    CHECK(HG_Addr_to_string(to->hg_class, name, &size, self));
    CHECK(HG_Addr_free(to->hg_class, self));
    CHECK(HG_Addr_lookup2(from->hg_class, name, &addr));
    return addr;
}

static void call(const struct side *origin, const struct side *target, hg_addr_t addr)
{
    unsigned char *data = malloc(BULK_SIZE);
    void *segments[] = {data};
    const hg_size_t sizes[] = {BULK_SIZE};
    const time_t end = time(NULL) + WAIT_SECONDS;
    pull_in_t in = {BULK_SIZE, HG_BULK_NULL, -7};
    hg_handle_t handle;
    unsigned int count;
    int done = 0;

    if (data == NULL)
        fail("malloc", "no memory");
    memset(data, 3, BULK_SIZE);
    CHECK(HG_Bulk_create(origin->hg_class, 1, segments, sizes, HG_BULK_READ_ONLY, &in.bulk));
    CHECK(HG_Create(origin->context, addr, origin->id, &handle));
    CHECK(HG_Forward(handle, answered, &done, &in));
    while (!done && time(NULL) < end) {
        (void) HG_Progress(origin->context, 0);
        (void) HG_Progress(target->context, 0);
        while (HG_Trigger(origin->context, 0, 1, &count) == HG_SUCCESS && count > 0)
            ;
        while (HG_Trigger(target->context, 0, 1, &count) == HG_SUCCESS && count > 0)
            ;
    }
    if (!done)
        fail("HG_Forward", "no answer came");
    CHECK(HG_Destroy(handle));
    CHECK(HG_Bulk_free(in.bulk));
    free(data);
}

/* The target makes no progress meanwhile, so that the call ends in no other way. */
static void cancel(const struct side *origin, hg_addr_t addr)
{
    const hg_id_t id = MERCURY_REGISTER(origin->hg_class, "quiet", void, void, NULL);
    const time_t end = time(NULL) + WAIT_SECONDS;
    hg_handle_t handle;
    unsigned int count;
    int done = 0;

    CHECK(HG_Create(origin->context, addr, id, &handle));
    CHECK(HG_Forward(handle, canceled, &done, NULL));
    CHECK(HG_Cancel(handle));
    while (!done && time(NULL) < end) {
        (void) HG_Progress(origin->context, 0);
        while (HG_Trigger(origin->context, 0, 1, &count) == HG_SUCCESS && count > 0)
            ;
    }
    if (!done)
        fail("HG_Cancel", "the call did not end");
    CHECK(HG_Destroy(handle));
}

static hg_return_t canceled(const struct hg_cb_info *info)
{
    if (info->ret != HG_CANCELED)
        fail("HG_Cancel", HG_Error_to_string(info->ret));
    *(int *) info->arg = 1;
    return HG_SUCCESS;
}

/* At the target: fetch what the origin described. */
static hg_return_t pull(hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);
    struct pull *state = calloc(1, sizeof(*state));
    hg_size_t size;
    void *segment;

    if (state == NULL)
        fail("calloc", "no memory");
    state->handle = handle;
    CHECK(HG_Get_input(handle, &state->in));
    size = HG_Bulk_get_size(state->in.bulk);
    if (state->in.size != BULK_SIZE || size != BULK_SIZE || state->in.number != -7)
        fail("HG_Get_input", "the input is wrong");
    state->data = calloc(1, size);
    segment = state->data;
    CHECK(HG_Bulk_create(info->hg_class, 1, &segment, &size, HG_BULK_WRITE_ONLY, &state->local));
    CHECK(HG_Bulk_transfer(info->context, pulled, state, HG_BULK_PULL, info->addr, state->in.bulk,
                           0, state->local, 0, size, HG_OP_ID_IGNORE));
    return HG_SUCCESS;
}

static hg_return_t pulled(const struct hg_cb_info *info)
{
    struct pull *state = info->arg;
    pull_out_t out = {0, state->in.number};

    check("HG_Bulk_transfer", info->ret);
    if (info->type != HG_CB_BULK || info->info.bulk.size != BULK_SIZE ||
        info->info.bulk.local_handle != state->local)
        fail("HG_Bulk_transfer", "the callback was told something else");
    for (size_t i = 0; i < BULK_SIZE; i++)
        out.sum += state->data[i];
    CHECK(HG_Respond(state->handle, NULL, NULL, &out));
    CHECK(HG_Free_input(state->handle, &state->in));
    CHECK(HG_Bulk_free(state->local));
    CHECK(HG_Destroy(state->handle));
    free(state->data);
    free(state);
    return HG_SUCCESS;
}

static hg_return_t answered(const struct hg_cb_info *info)
{
    hg_handle_t handle = info->info.forward.handle;
    pull_out_t out;

    check("HG_Forward", info->ret);
    if (info->type != HG_CB_FORWARD)
        fail("HG_Forward", "the callback is of another type");
    CHECK(HG_Get_output(handle, &out));
    if (out.sum != 3ull * BULK_SIZE || out.number != -7)
        fail("HG_Get_output", "the output is wrong");
    CHECK(HG_Free_output(handle, &out));
    *(int *) info->arg = 1;
    return HG_SUCCESS;
}

static void check(const char *what, hg_return_t ret)
{
    if (ret != HG_SUCCESS)
        fail(what, HG_Error_to_string(ret));
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "application: %s: %s\n", what, why);
    exit(1);
}
