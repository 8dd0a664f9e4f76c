/* SPDX-License-Identifier: BSD-3-Clause */
/* hg_cp: copies a file from one process to another. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/tool_endpoint.h"
#include "common/tool_key.h"
#include "common/tool_message.h"
#include "common/tool_process.h"
#include "common/tool_signal.h"
#include "hg_cp/cp_options.h"
#include "hg_cp/cp_origin.h"
#include "hg_cp/cp_target.h"

/* How long a target may take to open its endpoint. */
#define TARGET_TIMEOUT_MS 60000U
#define CP_KEY_VARIABLE   "HG_CP_KEY"

static int copy_through_own_target(const struct cp_options *options);
static bool split_destination(const char *destination, const char *source, char **dir, char **name);
static const char *base_name(const char *path);
static bool start_target(const struct cp_options *options, const char *dir,
                         struct tool_target *target);

int main(int argc, char *argv[])
{
    struct cp_options options;
    struct tool_key key;
    int exit_code;

    tool_message_set_name("hg_cp");
    if (!cp_options_parse(argc, argv, &options, &exit_code))
        return exit_code;
    if (!tool_key_read(&key, options.key_file, CP_KEY_VARIABLE))
        return TOOL_EXIT_FAILED;
    options.key = key.text[0] != '\0' ? key.text : NULL;
    if (options.encrypt && options.key == NULL) {
        tool_error("--encrypt needs a key: see --key-file");
        return TOOL_EXIT_USAGE;
    }
    tool_signal_install();
    tool_endpoint_log();
    if (options.listen)
        return cp_target_run(&options);
    if (options.to != NULL)
        exit_code =
            cp_origin_run(&options, options.to,
                          options.name != NULL ? options.name : base_name(options.source), NULL);
    else
        exit_code = copy_through_own_target(&options);
    if (tool_signal_received() == 0 || exit_code == TOOL_EXIT_OK)
        return exit_code;
    tool_signal_note("nothing was copied");
    return tool_signal_exit_code();
}

static int copy_through_own_target(const struct cp_options *options)
{
    char *dir = NULL, *name = NULL, *init = tool_endpoint_origin_init(options->init);
    struct cp_options origin_options = *options;
    struct tool_target target = {.pid = 0};
    int exit_code = TOOL_EXIT_FAILED;

    origin_options.init = init;
    if (init != NULL && split_destination(options->name, options->source, &dir, &name) &&
        start_target(options, dir, &target))
        exit_code = cp_origin_run(&origin_options, target.address, name, &target);
    tool_target_stop(&target);
    free(init);
    free(dir);
    free(name);
    return exit_code;
}

/* Splits a destination: a directory keeps the file's name, anything else is the new file. */
static bool split_destination(const char *destination, const char *source, char **dir, char **name)
{
    const char *base = base_name(destination);
    struct stat status;

    if (stat(destination, &status) == 0 && S_ISDIR(status.st_mode)) {
        *dir = strdup(destination);
        *name = strdup(base_name(source));
    } else {
        size_t len = (size_t) (base - destination);

        *dir = len > 0 ? strndup(destination, len) : strdup(".");
        *name = strdup(base);
    }
    if (*dir == NULL || *name == NULL) {
        tool_error("no memory");
        return false;
    }
    if (stat(*dir, &status) == 0 && S_ISDIR(status.st_mode))
        return true;
    tool_error("cannot copy to '%s': there is no directory '%s'", destination, *dir);
    return false;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static bool start_target(const struct cp_options *options, const char *dir,
                         struct tool_target *target)
{
    char depth[16], block_size[24], timeout[32];
    const char *args[20];
    size_t count = 0;

    (void) snprintf(depth, sizeof(depth), "%u", options->depth);
    (void) snprintf(block_size, sizeof(block_size), "%" PRIu64, options->block_size);
    (void) snprintf(timeout, sizeof(timeout), "%f", options->timeout);
    args[count++] = "--listen";
    args[count++] = "--quiet";
    args[count++] = "--init";
    args[count++] = options->init;
    args[count++] = "--dir";
    args[count++] = dir;
    args[count++] = "--depth";
    args[count++] = depth;
    args[count++] = "--block-size";
    args[count++] = block_size;
    args[count++] = "--timeout";
    args[count++] = timeout;
    if (options->force)
        args[count++] = "--force";
    if (options->encrypt)
        args[count++] = "--encrypt";
    if (options->sync)
        args[count++] = "--sync";
    args[count] = NULL;
    /* Passed in the environment: the key file may be a pipe that has been read already. */
    if (options->key != NULL && setenv(CP_KEY_VARIABLE, options->key, 1) != 0) {
        tool_error("no memory");
        return false;
    }
    return tool_target_start(target, args, TARGET_TIMEOUT_MS);
}
