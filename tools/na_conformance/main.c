/* SPDX-License-Identifier: BSD-3-Clause */
/* na_conformance: checks that a transport plugin keeps the promises of na_plugin.h. */

#include <sys/stat.h>
#include <unistd.h>

#include "common/tool_message.h"
#include "common/tool_process.h"
#include "common/tool_signal.h"
#include "na_conformance/options.h"
#include "na_conformance/report.h"
#include "na_conformance/runner.h"

static bool plugin_is_file(const char *path);

int main(int argc, char *argv[])
{
    static struct conf_results results; /* large for a stack */
    struct conf_options options;
    int exit_code;

    tool_message_set_name("na_conformance");
    if (!conf_options_parse(argc, argv, &options, &exit_code))
        return exit_code;
    conf_settings = options.settings;
    conf_patience = options.patience;
    if (options.control_fd != 0)
        return conf_peer_main((int) options.control_fd, (int) options.shared_fd, &options.peer);
    if (!conf_runner_choose(&results, options.only, options.skip))
        return TOOL_EXIT_USAGE;
    if (options.list)
        return conf_report_list(options.form, &results) ? TOOL_EXIT_OK : TOOL_EXIT_FAILED;
    if (!plugin_is_file(conf_settings.plugin))
        return TOOL_EXIT_USAGE;
    tool_signal_install();
    tool_process_raise_file_limit();
    conf_report_begin(options.form, &results);
    if (!conf_runner_run(&results, conf_report_check) || !conf_report_end(options.form, &results))
        return TOOL_EXIT_FAILED;
    if (tool_signal_received() != 0)
        return tool_signal_exit_code();
    return conf_report_count(&results, CONF_FAIL) == 0 && conf_report_count(&results, CONF_PASS) > 0
               ? TOOL_EXIT_OK
               : TOOL_EXIT_FAILED;
}

/* Opening another kind of file, for instance a pipe, may block for ever. */
static bool plugin_is_file(const char *path)
{
    struct stat status;

    if (access(path, R_OK) != 0) {
        tool_error("--plugin: %s cannot be read", path);
        return false;
    }
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) {
        tool_error("--plugin: %s is not a regular file", path);
        return false;
    }
    return true;
}
