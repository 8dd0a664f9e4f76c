/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of na_conformance. */

#include "na_conformance/options.h"

#include <string.h>

#include "common/tool_message.h"
#include "common/tool_options.h"

static const char help_text[] =
    "NAME\n"
    "    na_conformance - check that a transport plugin keeps the promises of na_plugin.h\n"
    "\n"
    "SYNOPSIS\n"
    "    na_conformance --plugin PATH --init STRING [--only CHECKS] [--skip CHECKS] [--fast]\n"
    "                   [--patience N] [--tap|--json]\n"
    "    na_conformance --list [--only CHECKS] [--json]\n"
    "\n"
    "DESCRIPTION\n"
    "    Loads a plugin file into a host of its own, which counts every completion and guards\n"
    "    every buffer and allocation, and checks one promise after the other, each in a process "
    "of\n"
    "    its own: one that crashes or hangs does not stop the others. Many checks start a second\n"
    "    process, and some kill it.\n"
    "\n"
    "    A check passes, fails or is skipped, with the reason. Checks have numbers and ids that\n"
    "    never change their meaning. Those below 100 are watched all the time: they fail when "
    "any\n"
    "    other check sees them broken.\n"
    "\n"
    "    What a plugin prints to stdout goes to stderr: the report stands alone.\n"
    "\n"
    "OPTIONS\n"
    "    --plugin PATH   the plugin's file, na_<name>.so\n"
    "    --init STRING   what to open with it, such as ofi+tcp or na+sm. Many endpoints are "
    "opened\n"
    "                    at once, so a port at the end of an address is left out\n"
    "    --only CHECKS   these only: numbers, ids or areas, separated by commas: 501,cancel,"
    "rma\n"
    "    --skip CHECKS   leave these out, and say so in the report\n"
    "    --fast          fewer messages and races, for every change; the report says how many\n"
    "    --patience N    wait N times as long before something is taken for hung, 1..100: for a\n"
    "                    machine that is slow. What a check waits for a processor, on a machine\n"
    "                    that is busy, does not count anyway\n"
    "    --list          show the checks, and run none\n"
    "    --tap           report by the Test Anything Protocol, version 13\n"
    "    --json          report as one JSON object\n"
    "    --log LEVEL     show what the plugin logs: 1 errors, 2 warnings, 3 information, 4 all\n"
    "    --help          print this text\n"
    "\n"
    "ENVIRONMENT\n"
    "    NA_PLUGIN_PATH  directories to search for plugins, separated by colons\n"
    "\n"
    "EXIT STATUS\n"
    "    0 nothing failed; 1 something did, or there was nothing to pass; 2 wrong command line\n";

enum option_id {
    OPTION_PLUGIN = TOOL_OPTION_FIRST,
    OPTION_INIT,
    OPTION_ONLY,
    OPTION_SKIP,
    OPTION_FAST,
    OPTION_PATIENCE,
    OPTION_LIST,
    OPTION_TAP,
    OPTION_JSON,
    OPTION_LOG,
    OPTION_PEER_CONTROL,
    OPTION_PEER_SHARED,
    OPTION_PEER_CONTEXTS,
    OPTION_PEER_PROGRESS
};

static const struct option long_options[] = {
    {"plugin", required_argument, NULL, OPTION_PLUGIN},
    {"init", required_argument, NULL, OPTION_INIT},
    {"only", required_argument, NULL, OPTION_ONLY},
    {"skip", required_argument, NULL, OPTION_SKIP},
    {"fast", no_argument, NULL, OPTION_FAST},
    {"patience", required_argument, NULL, OPTION_PATIENCE},
    {"list", no_argument, NULL, OPTION_LIST},
    {"tap", no_argument, NULL, OPTION_TAP},
    {"json", no_argument, NULL, OPTION_JSON},
    {"log", required_argument, NULL, OPTION_LOG},
    {"peer-control", required_argument, NULL, OPTION_PEER_CONTROL},
    {"peer-shared", required_argument, NULL, OPTION_PEER_SHARED},
    {"peer-contexts", required_argument, NULL, OPTION_PEER_CONTEXTS},
    {"peer-progress", required_argument, NULL, OPTION_PEER_PROGRESS},
    {"help", no_argument, NULL, TOOL_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static bool option_apply(void *settings, int id, const char *value);
static bool option_apply_peer(struct conf_options *options, int id, const char *value);
static bool options_finish(void *settings, int count, char *const arguments[]);

bool conf_options_parse(int argc, char *argv[], struct conf_options *options, int *exit_code)
{
    static const struct tool_options command_line = {help_text, long_options, option_apply,
                                                     options_finish};

    memset(options, 0, sizeof(*options));
    options->patience = 1;
    return tool_options_parse(&command_line, argc, argv, options, exit_code);
}

static bool option_apply(void *settings, int id, const char *value)
{
    struct conf_options *options = settings;

    switch (id) {
    case OPTION_PLUGIN:
        options->settings.plugin = value;
        return true;
    case OPTION_INIT:
        options->settings.init = value;
        return true;
    case OPTION_ONLY:
        options->only = value;
        return true;
    case OPTION_SKIP:
        options->skip = value;
        return true;
    case OPTION_FAST:
        options->settings.fast = true;
        return true;
    case OPTION_PATIENCE:
        return tool_parse_uint("--patience", value, 1, 100, &options->patience);
    case OPTION_LIST:
        options->list = true;
        return true;
    case OPTION_TAP:
        options->form = CONF_FORM_TAP;
        return true;
    case OPTION_JSON:
        options->form = CONF_FORM_JSON;
        return true;
    case OPTION_LOG:
        return tool_parse_uint("--log", value, 0, 4, &options->settings.log_level);
    default:
        return option_apply_peer(options, id, value);
    }
}

static bool option_apply_peer(struct conf_options *options, int id, const char *value)
{
    switch (id) {
    case OPTION_PEER_CONTROL:
        return tool_parse_uint("--peer-control", value, 3, 1 << 20, &options->control_fd);
    case OPTION_PEER_SHARED:
        return tool_parse_uint("--peer-shared", value, 3, 1 << 20, &options->shared_fd);
    case OPTION_PEER_CONTEXTS:
        return tool_parse_uint("--peer-contexts", value, 1, CONF_CONTEXTS_MAX,
                               &options->peer.contexts);
    default: /* OPTION_PEER_PROGRESS */
        return tool_parse_uint("--peer-progress", value, 0, 3, &options->peer.progress_mode);
    }
}

static bool options_finish(void *settings, int count, char *const arguments[])
{
    const struct conf_options *options = settings;

    if (count > 0) {
        tool_error("'%s' is one argument too many", arguments[0]);
        return false;
    }
    if (!options->list && (options->settings.plugin == NULL || options->settings.init == NULL)) {
        tool_error("--plugin and --init are needed: which file, and what to open with it");
        return false;
    }
    return true;
}
