/* SPDX-License-Identifier: BSD-3-Clause */
/* Each measurement of hg_perf prints sane JSON, and nothing of it stays behind. */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tool_run.h"

#include <cmocka.h>

static const char *hg_perf;
static struct tool_run run;

/* Parses the output and checks what every measurement of operations promises. */
static struct json_object *sane_result(void)
{
    struct json_object *object;
    double p50, p99, max;

    assert_int_equal(run.code, 0);
    object = tool_run_json(&run);
    p50 = tool_json_number(object, "latency_us.p50");
    p99 = tool_json_number(object, "latency_us.p99");
    max = tool_json_number(object, "latency_us.max");
    assert_true(tool_json_number(object, "rate_per_s") > 0);
    assert_true(tool_json_number(object, "bandwidth_MBps") > 0);
    assert_true(p50 > 0 && p50 <= p99 && p99 <= max);
    assert_int_equal((int) tool_json_number(object, "errors"), 0);
    return object;
}

static void rpc_measures_round_trips(void **state)
{
    struct json_object *object;

    (void) state;
    tool_run(&run, hg_perf, "rpc", "--seconds", "0.2", "--json");
    object = sane_result();
    assert_string_equal(tool_json_string(object, "params.init"), "na+sm");
    assert_int_equal((int) tool_json_number(object, "params.size"), 8);
    (void) json_object_put(object);
}

static void rpc_measures_busy_with_many_in_flight(void **state)
{
    (void) state;
    tool_run(&run, hg_perf, "rpc", "--busy", "--in-flight", "32", "--seconds", "0.2", "--json");
    (void) json_object_put(sane_result());
}

static void rpc_measures_payloads_larger_than_a_message(void **state)
{
    (void) state;
    tool_run(&run, hg_perf, "rpc", "--size", "256k", "--in-flight", "2", "--seconds", "0.2",
             "--json");
    (void) json_object_put(sane_result());
}

static void rpc_measures_threads_with_a_context_each(void **state)
{
    (void) state;
    tool_run(&run, hg_perf, "rpc", "--threads", "2", "--seconds", "0.2", "--json");
    (void) json_object_put(sane_result());
}

static void rpc_says_what_the_memory_of_a_peer_is(void **state)
{
    struct json_object *object;

    (void) state;
    tool_run(&run, hg_perf, "rpc", "--clients", "24", "--processes", "4", "--seconds", "0.3",
             "--json");
    object = sane_result();
    assert_int_equal((int) tool_json_number(object, "params.processes"), 4);
    (void) tool_json_number(object, "peer_memory_bytes.total");
    assert_true(tool_json_number(object, "peer_memory_bytes.shared") > 0);
    (void) json_object_put(object);
}

static void bulk_measures_pull_and_push(void **state)
{
    (void) state;
    tool_run(&run, hg_perf, "bulk", "--size", "1M", "--seconds", "0.2", "--json");
    (void) json_object_put(sane_result());
    tool_run(&run, hg_perf, "bulk", "--push", "--size", "100001", "--in-flight", "4", "--seconds",
             "0.2", "--json");
    (void) json_object_put(sane_result());
}

static void bulk_relates_itself_to_the_machines_limits(void **state)
{
    struct json_object *object;

    (void) state;
    tool_run(&run, hg_perf, "bulk", "--with-limits", "--seconds", "0.2", "--json");
    object = sane_result();
    assert_true(tool_json_number(object, "limits.memcpy_MBps") > 0);
    assert_true(tool_json_number(object, "limits.cacheline_rtt_us") > 0);
    (void) tool_json_at(object, "ratio_to_process_vm");
    (void) json_object_put(object);
}

static void na_measures_messages_put_and_get(void **state)
{
    (void) state;
    tool_run(&run, hg_perf, "na", "--seconds", "0.2", "--json");
    (void) json_object_put(sane_result());
    tool_run(&run, hg_perf, "na", "--op", "put", "--size", "64k", "--seconds", "0.2", "--json");
    (void) json_object_put(sane_result());
    tool_run(&run, hg_perf, "na", "--op", "get", "--in-flight", "4", "--busy", "--seconds", "0.2",
             "--json");
    (void) json_object_put(sane_result());
}

static void idle_measures_the_time_of_a_waiting_target(void **state)
{
    struct json_object *object;

    (void) state;
    tool_run(&run, hg_perf, "idle", "--seconds", "0.5", "--json");
    assert_int_equal(run.code, 0);
    object = tool_run_json(&run);
    assert_true(tool_json_number(object, "target_cpu_percent") >= 0);
    assert_true(tool_json_number(object, "target_cpu_percent") < 50);
    (void) json_object_put(object);
}

static void limits_measure_the_machine(void **state)
{
    struct json_object *object;

    (void) state;
    tool_run(&run, hg_perf, "limits", "--seconds", "0.2", "--json");
    assert_int_equal(run.code, 0);
    object = tool_run_json(&run);
    assert_true(tool_json_number(object, "cacheline_rtt_us") > 0);
    assert_true(tool_json_number(object, "cacheline_bounce_us") > 0);
    assert_true(tool_json_number(object, "eventfd_rtt_us") > 0);
    assert_true(tool_json_number(object, "memcpy_MBps") > 0);
    (void) tool_json_at(object, "process_vm_readv_MBps"); /* null where it is refused */
    assert_int_equal(json_object_array_length(tool_json_at(object, "by_size")), 5);
    (void) json_object_put(object);
}

static void sweep_writes_json_and_a_plot(void **state)
{
    char dir[64], name[128], path[160], text[32] = "";
    struct json_object *object;
    FILE *file;

    (void) state;
    tool_temp_dir(dir, sizeof(dir));
    (void) snprintf(name, sizeof(name), "%s/plot", dir);
    tool_run(&run, hg_perf, "sweep", "--sizes", "8,1k", "--depths", "1,4", "--seconds", "0.05",
             "--output", name);
    assert_int_equal(run.code, 0);
    (void) snprintf(path, sizeof(path), "%s.json", name);
    object = json_object_from_file(path);
    assert_non_null(object);
    assert_int_equal(json_object_array_length(tool_json_at(object, "points")), 4);
    (void) json_object_put(object);
    (void) snprintf(path, sizeof(path), "%s.svg", name);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    (void) fclose(file);
    assert_int_equal(strncmp(text, "<svg ", 5), 0);
    tool_temp_dir_remove(dir);
}

static void uses_a_target_that_runs_already(void **state)
{
    static struct tool_run target;
    char address[512];

    (void) state;
    tool_run_start(&target, hg_perf, "rpc", "--listen", NULL);
    tool_run_first_line(&target, address, sizeof(address));
    tool_run(&run, hg_perf, "rpc", "--target", address, "--seconds", "0.1", "--json");
    (void) json_object_put(sane_result());
    tool_run(&run, hg_perf, "bulk", "--target", address, "--seconds", "0.1", "--json");
    (void) json_object_put(sane_result());
    assert_int_equal(kill(target.pid, SIGTERM), 0);
    tool_run_wait(&target, 10);
    assert_int_equal(target.code, 0);
}

static void fails_in_time_when_the_target_is_killed(void **state)
{
    static struct tool_run target;
    char address[512];

    (void) state;
    tool_run_start(&target, hg_perf, "rpc", "--listen", NULL);
    tool_run_first_line(&target, address, sizeof(address));
    tool_run_start(&run, hg_perf, "rpc", "--target", address, "--seconds", "60", "--json", NULL);
    usleep(700000);
    assert_int_equal(kill(target.pid, SIGKILL), 0);
    tool_run_wait(&target, 10);
    tool_run_wait(&run, 20);
    assert_int_equal(run.code, 1);
    assert_true(strlen(run.err) > 0);
}

static void a_signal_ends_all_its_processes(void **state)
{
    pid_t children[16];
    unsigned int count;

    (void) state;
    tool_run_start(&run, hg_perf, "rpc", "--clients", "3", "--seconds", "60", NULL);
    usleep(700000);
    count = tool_children(run.pid, children, 16);
    assert_int_equal(count, 4); /* three origins and the target */
    assert_int_equal(kill(run.pid, SIGINT), 0);
    tool_run_wait(&run, 20);
    assert_int_equal(run.code, 128 + SIGINT);
    for (unsigned int i = 0; i < count; i++)
        assert_int_equal(kill(children[i], 0), -1);
}

static void refuses_wrong_command_lines_with_code_2(void **state)
{
    (void) state;
    tool_run(&run, hg_perf, "fly");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_perf, "rpc", "--size", "4");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_perf, "rpc", "--in-flight", "0");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_perf, "rpc", "--seconds", "soon");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_perf);
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_perf, "--help");
    assert_int_equal(run.code, 0);
    assert_non_null(strstr(run.out, "--in-flight"));
}

static void says_why_a_transport_cannot_be_used(void **state)
{
    (void) state;
    tool_run(&run, hg_perf, "rpc", "--init", "nosuch+proto", "--seconds", "0.1");
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.err, "nosuch+proto"));
}

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rpc_measures_round_trips),
        cmocka_unit_test(rpc_measures_busy_with_many_in_flight),
        cmocka_unit_test(rpc_measures_payloads_larger_than_a_message),
        cmocka_unit_test(rpc_measures_threads_with_a_context_each),
        cmocka_unit_test(rpc_says_what_the_memory_of_a_peer_is),
        cmocka_unit_test(bulk_measures_pull_and_push),
        cmocka_unit_test(bulk_relates_itself_to_the_machines_limits),
        cmocka_unit_test(na_measures_messages_put_and_get),
        cmocka_unit_test(idle_measures_the_time_of_a_waiting_target),
        cmocka_unit_test(limits_measure_the_machine),
        cmocka_unit_test(sweep_writes_json_and_a_plot),
        cmocka_unit_test(uses_a_target_that_runs_already),
        cmocka_unit_test(fails_in_time_when_the_target_is_killed),
        cmocka_unit_test(a_signal_ends_all_its_processes),
        cmocka_unit_test(refuses_wrong_command_lines_with_code_2),
        cmocka_unit_test(says_why_a_transport_cannot_be_used),
    };

    if (argc != 2)
        return 2;
    hg_perf = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
