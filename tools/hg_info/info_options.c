/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of hg_info. */

#include "hg_info/info_options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "common/tool_message.h"

static const char help_text[] =
    "NAME\n"
    "    hg_info - show the transport plugins of this machine, and what an init string picks\n"
    "\n"
    "SYNOPSIS\n"
    "    hg_info [--json]\n"
    "    hg_info --init STRING [--listen] [--json]\n"
    "\n"
    "DESCRIPTION\n"
    "    Without --init: loads every plugin in the search path and shows its file, version, ABI,\n"
    "    protocols, capabilities and limits, and for every file that was skipped the reason.\n"
    "\n"
    "    With --init: opens an endpoint as a program would with that string, shows what was "
    "picked\n"
    "    and why everything else was not, and closes it. When it cannot be opened: the reason, "
    "and\n"
    "    what became of the plugin files.\n"
    "\n"
    "OPTIONS\n"
    "    --init STRING   init string, such as na+sm, ofi+tcp://host:port, ofi+verbs,ucx+all or "
    "auto\n"
    "    --listen        with --init: open it as a target, and show the address\n"
    "    --json          print one JSON object\n"
    "    --help          print this text\n"
    "\n"
    "ENVIRONMENT\n"
    "    NA_PLUGIN_PATH  directories to search, separated by colons; <default> is the built-in "
    "place\n"
    "    HG_LOG_LEVEL    error, warning, info or debug\n"
    "\n"
    "EXIT STATUS\n"
    "    0 shown, and with --init it can be opened; 1 not; 2 wrong command line\n";

enum option_id {
    OPTION_INIT = 256,
    OPTION_LISTEN,
    OPTION_JSON,
    OPTION_HELP
};

static const struct option long_options[] = {
    {"init", required_argument, NULL, OPTION_INIT},
    {"listen", no_argument, NULL, OPTION_LISTEN},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

bool info_options_parse(int argc, char *argv[], struct info_options *options, int *exit_code)
{
    int id;

    memset(options, 0, sizeof(*options));
    *exit_code = TOOL_EXIT_USAGE;
    opterr = 0;
    while ((id = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
        switch (id) {
        case OPTION_INIT:
            options->init = optarg;
            break;
        case OPTION_LISTEN:
            options->listen = true;
            break;
        case OPTION_JSON:
            options->json = true;
            break;
        case OPTION_HELP:
            *exit_code = fputs(help_text, stdout) >= 0 ? TOOL_EXIT_OK : TOOL_EXIT_FAILED;
            return false;
        case ':':
            (void) tool_usage_error("%s needs a value", argv[optind - 1]);
            return false;
        default:
            (void) tool_usage_error("%s is not an option", argv[optind - 1]);
            return false;
        }
    }
    if (optind < argc) {
        (void) tool_usage_error("'%s' is one argument too many", argv[optind]);
        return false;
    }
    if (options->listen && options->init == NULL) {
        (void) tool_usage_error("--listen needs --init");
        return false;
    }
    return true;
}
