/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of hg_info. */

#include "hg_info/info_options.h"

#include <limits.h>
#include <string.h>

#include "common/tool_message.h"
#include "common/tool_options.h"

static const char help_text[] =
    "NAME\n"
    "    hg_info - show the transport plugins of this machine, and what an init string picks\n"
    "\n"
    "SYNOPSIS\n"
    "    hg_info [--json]\n"
    "    hg_info --init STRING [--listen] [--json]\n"
    "    hg_info --check STRING\n"
    "\n"
    "DESCRIPTION\n"
    "    Without --init: loads every plugin in the search path and shows its file, version, ABI,\n"
    "    protocols, capabilities and limits, and for every file that was skipped the reason. "
    "Each\n"
    "    file is tried in a process of its own before: one that crashes is skipped, too.\n"
    "\n"
    "    With --init: opens an endpoint as a program would with that string, shows what was "
    "picked\n"
    "    and why everything else was not, and closes it. When it cannot be opened: the reason, "
    "and\n"
    "    what became of the plugin files.\n"
    "\n"
    "    With --check: opens it, too, and sends a message, an RPC, a pull and a push of 1 MiB to "
    "this "
    "process\n"
    "    and to a child, at the address of STRING; prints a line for each, with the reason where "
    "it\n"
    "    fails. What only makes transfers slower is in the log: HG_LOG_LEVEL=info.\n"
    "\n"
    "OPTIONS\n"
    "    --init STRING   init string, such as na+sm, ofi+tcp://host:port, ofi+verbs,ucx+all or "
    "auto\n"
    "    --listen        with --init: open it as a target, and show the address\n"
    "    --check STRING  whether an init string works\n"
    "    --json          print one JSON object\n"
    "    --help          print this text\n"
    "\n"
    "ENVIRONMENT\n"
    "    NA_PLUGIN_PATH  directories to search, separated by colons; <default> is the built-in "
    "place\n"
    "    HG_LOG_LEVEL    error, warning, info or debug\n"
    "\n"
    "EXIT STATUS\n"
    "    0 shown, and with --init it can be opened, with --check all works; 1 not;\n"
    "    2 wrong command line\n";

enum option_id {
    OPTION_INIT = TOOL_OPTION_FIRST,
    OPTION_LISTEN,
    OPTION_JSON,
    OPTION_CHECK,
    OPTION_ADDRESS_FD
};

static const struct option long_options[] = {
    {"init", required_argument, NULL, OPTION_INIT},
    {"listen", no_argument, NULL, OPTION_LISTEN},
    {"json", no_argument, NULL, OPTION_JSON},
    {"check", required_argument, NULL, OPTION_CHECK},
    {"address-fd", required_argument, NULL, OPTION_ADDRESS_FD},
    {"help", no_argument, NULL, TOOL_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static bool option_apply(void *settings, int id, const char *value);
static bool options_finish(void *settings, int count, char *const arguments[]);

bool info_options_parse(int argc, char *argv[], struct info_options *options, int *exit_code)
{
    static const struct tool_options command_line = {help_text, long_options, option_apply,
                                                     options_finish};

    memset(options, 0, sizeof(*options));
    return tool_options_parse(&command_line, argc, argv, options, exit_code);
}

static bool option_apply(void *settings, int id, const char *value)
{
    struct info_options *options = settings;

    switch (id) {
    case OPTION_INIT:
        options->init = value;
        return true;
    case OPTION_LISTEN:
        options->listen = true;
        return true;
    case OPTION_CHECK:
        options->check = value;
        return true;
    case OPTION_ADDRESS_FD: /* used by the child that --check starts */
        options->is_child =
            tool_parse_uint("--address-fd", value, 3, INT_MAX, &options->address_fd);
        return options->is_child;
    default: /* OPTION_JSON */
        options->json = true;
        return true;
    }
}

static bool options_finish(void *settings, int count, char *const arguments[])
{
    const struct info_options *options = settings;

    if (count > 0) {
        tool_error("'%s' is one argument too many", arguments[0]);
        return false;
    }
    if (options->listen && options->init == NULL) {
        tool_error("--listen needs --init");
        return false;
    }
    if (options->check != NULL && (options->init != NULL || options->json)) {
        tool_error("--check goes without --init and --json");
        return false;
    }
    if (options->is_child && options->check == NULL) {
        tool_error("--address-fd needs --check");
        return false;
    }
    return true;
}
