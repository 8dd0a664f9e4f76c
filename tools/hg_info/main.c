/* SPDX-License-Identifier: BSD-3-Clause */
/* hg_info: shows the transport plugins of this machine, and what an init string picks. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/tool_message.h"
#include "hg_info/info_check.h"
#include "hg_info/info_options.h"
#include "hg_info/info_report.h"

static void info_watch(void);
static void info_on_signal(int number);
static void info_on_exit(void);
static bool info_open(const struct info_options *options, struct info_report *report,
                      na_class_t **na_class);
static void info_fill_endpoint(na_class_t *na_class, bool listen, struct info_endpoint *endpoint);

int main(int argc, char *argv[])
{
    static struct info_report report; /* large for a stack */
    size_t path_size = sizeof(report.search_path);
    struct na_plugin_record *records = NULL;
    struct info_options options;
    na_class_t *na_class = NULL;
    na_return_t ret;
    int exit_code;

    tool_message_set_name("hg_info");
    if (!info_options_parse(argc, argv, &options, &exit_code))
        return exit_code;
    exit_code = TOOL_EXIT_OK;
    info_watch();
    if (options.is_child)
        return info_check_target(options.check, (int) options.address_fd);
    if (options.check != NULL)
        return info_check(options.check);
    /* The report has all errors; the library's log would repeat them. */
    NA_Set_log_level("none");
    if (options.init != NULL && !info_open(&options, &report, &na_class))
        exit_code = TOOL_EXIT_FAILED;
    /* With an init string, only the records of plugins considered for it are of interest. */
    ret = NA_Plugin_get_records(options.init == NULL ? NA_LOADER_LOAD_ALL : 0, &records);
    if (ret == NA_SUCCESS)
        ret = NA_Plugin_get_search_path(report.search_path, &path_size);
    report.records = records;
    if (ret != NA_SUCCESS)
        tool_error("cannot list the plugins: %s", NA_Error_to_string(ret));
    if (ret != NA_SUCCESS || !(options.json ? info_print_json(&report) : info_print(&report)))
        exit_code = TOOL_EXIT_FAILED;
    NA_Plugin_free_records(records);
    if (na_class != NULL)
        (void) NA_Finalize(na_class);
    return exit_code;
}

/* Installs handlers that name the plugin whose code crashes this process. */
static void info_watch(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS};
    struct sigaction action = {.sa_handler = info_on_signal, .sa_flags = (int) SA_RESETHAND};

    (void) sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        (void) sigaction(numbers[i], &action, NULL);
    (void) atexit(info_on_exit);
}

/* Raises the signal again; with SA_RESETHAND that ends the process. */
static void info_on_signal(int number)
{
    info_on_exit();
    (void) raise(number);
}

static void info_on_exit(void)
{
    static const char before[] = "hg_info: the process is ended by code of the plugin ";
    static const char after[] = "; move that file away, and report it to the plugin's maker\n";
    const char *file = NA_Plugin_get_current();

    if (file == NULL)
        return;
    if (write(STDERR_FILENO, before, sizeof(before) - 1) < 0 ||
        write(STDERR_FILENO, file, strlen(file)) < 0 ||
        write(STDERR_FILENO, after, sizeof(after) - 1) < 0)
        _exit(TOOL_EXIT_FAILED);
}

static bool info_open(const struct info_options *options, struct info_report *report,
                      na_class_t **na_class)
{
    na_return_t ret = NA_Initialize_reason(options->init, options->listen, NA_VERSION(6, 0), NULL,
                                           na_class, report->reason, sizeof(report->reason));

    report->init = options->init;
    report->opened = ret == NA_SUCCESS;
    if (!report->opened) {
        if (report->reason[0] == '\0')
            (void) snprintf(report->reason, sizeof(report->reason), "%s", NA_Error_to_string(ret));
        *na_class = NULL;
        return false;
    }
    report->selection = NA_Class_get_selection(*na_class);
    info_fill_endpoint(*na_class, options->listen, &report->endpoint);
    return true;
}

static void info_fill_endpoint(na_class_t *na_class, bool listen, struct info_endpoint *endpoint)
{
    size_t size = sizeof(endpoint->address);
    na_context_t *context = NA_Context_create(na_class);
    na_addr_t *self = NULL;

    endpoint->max_unexpected_size = NA_Msg_get_max_unexpected_size(na_class);
    endpoint->max_expected_size = NA_Msg_get_max_expected_size(na_class);
    endpoint->max_segments = NA_Mem_handle_get_max_segments(na_class);
    if (context != NULL) {
        endpoint->waits_by_descriptor = NA_Poll_get_fd(na_class, context) >= 0;
        (void) NA_Context_destroy(na_class, context);
    }
    if (!listen || NA_Addr_self(na_class, &self) != NA_SUCCESS)
        return;
    if (NA_Addr_to_string(na_class, endpoint->address, &size, self) != NA_SUCCESS)
        endpoint->address[0] = '\0';
    NA_Addr_free(na_class, self);
}
