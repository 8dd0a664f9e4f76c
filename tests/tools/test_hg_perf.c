/* SPDX-License-Identifier: BSD-3-Clause */
/* Each measurement of hg_perf prints plausible JSON and leaves nothing behind. */

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

/* Parses the output and checks the values that each measurement of operations reports. */
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
    tool_run(&run, hg_perf, TEST_INIT, "rpc", "--seconds", "0.2", "--json");
    object = sane_result();
    assert_string_equal(tool_json_string(object, "params.init"), test_init_string());
    assert_int_equal((int) tool_json_number(object, "params.size"), 8);
    (void) json_object_put(object);
}

static void rpc_measures_busy_with_many_in_flight(void **state)
{
    (void) state;
    tool_run(&run, hg_perf, TEST_INIT, "rpc", "--busy", "--in-flight", "32", "--seconds", "0.2",
             "--json");
    (void) json_object_put(sane_result());
}

static void rpc_measures_in_each_loop(void **state)
{
    static const char *const loops[] = {"trigger-all", "trigger-one", "event", "request"};

    (void) state;
    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
        struct json_object *object;

        tool_run(&run, hg_perf, TEST_INIT, "rpc", "--loop", loops[i], "--in-flight", "8",
                 "--seconds", "0.1", "--json");
        object = sane_result();
        assert_string_equal(tool_json_string(object, "params.loop"), loops[i]);
        (void) json_object_put(object);
    }
    tool_run(&run, hg_perf, TEST_INIT, "bulk", "--loop", "event", "--busy", "--seconds", "0.1",
             "--json");
    (void) json_object_put(sane_result());
}

static void rpc_measures_payloads_larger_than_a_message(void **state)
{
    (void) state;
    tool_run(&run, hg_perf, TEST_INIT, "rpc", "--size", "256k", "--in-flight", "2", "--seconds",
             "0.2", "--json");
    (void) json_object_put(sane_result());
}

/* There are no more operations than starts in the measured time. */
static void every_spaces_operations(void **state)
{
    struct json_object *object;

    (void) state;
    tool_run(&run, hg_perf, TEST_INIT, "rpc", "--every", "1000", "--seconds", "0.2", "--json");
    object = sane_result();
    assert_in_range((uint64_t) tool_json_number(object, "count"), 1, 201);
    (void) json_object_put(object);
}

static void rpc_measures_threads_with_a_context_each(void **state)
{
    (void) state;
    tool_run(&run, hg_perf, TEST_INIT, "rpc", "--threads", "2", "--seconds", "0.2", "--json");
    (void) json_object_put(sane_result());
}

static void rpc_says_what_the_memory_of_a_peer_is(void **state)
{
    struct json_object *object;

    (void) state;
    tool_run(&run, hg_perf, TEST_INIT, "rpc", "--clients", "24", "--processes", "4", "--seconds",
             "0.3", "--json");
    object = sane_result();
    assert_int_equal((int) tool_json_number(object, "params.processes"), 4);
    (void) tool_json_number(object, "peer_memory_bytes.total");
    if (test_is_sm())
        assert_true(tool_json_number(object, "peer_memory_bytes.shared") > 0);
    (void) json_object_put(object);
}

static void rpc_says_what_the_memory_of_each_context_is(void **state)
{
    struct json_object *object;
    double total, each;

    (void) state;
    tool_run(&run, hg_perf, TEST_INIT, "rpc", "--threads", "4", "--seconds", "0.2", "--json");
    object = sane_result();
    total = tool_json_number(object, "peer_memory_bytes.total");
    each = tool_json_number(object, "peer_memory_bytes.total_per_context");
    assert_int_equal((int) tool_json_number(object, "peer_memory_bytes.contexts"), 4);
    assert_true(each * 4 > total - 8 && each * 4 < total + 8);
    (void) json_object_put(object);
}

static void bulk_measures_pull_and_push(void **state)
{
    struct json_object *object;
    double each;

    (void) state;
    tool_run(&run, hg_perf, TEST_INIT, "bulk", "--size", "1M", "--seconds", "0.2", "--json");
    (void) json_object_put(sane_result());
    tool_run(&run, hg_perf, TEST_INIT, "bulk", "--push", "--size", "100001", "--in-flight", "4",
             "--seconds", "0.2", "--json");
    (void) json_object_put(sane_result());
    /* The bandwidth counts the bytes of all transfers of an RPC. */
    tool_run(&run, hg_perf, TEST_INIT, "bulk", "--transfers", "10", "--size", "64k", "--seconds",
             "0.2", "--json");
    object = sane_result();
    each = tool_json_number(object, "bandwidth_MBps") / tool_json_number(object, "rate_per_s");
    assert_true(each > 0.655 && each < 0.656);
    (void) json_object_put(object);
}

/* The median of a value lies between its minimum and its maximum over the rounds. */
static void sane_spread(struct json_object *object, const char *name)
{
    double median = tool_json_number(object, name);
    char path[128];

    (void) snprintf(path, sizeof(path), "spread.%s.min", name);
    assert_true(tool_json_number(object, path) <= median);
    (void) snprintf(path, sizeof(path), "spread.%s.max", name);
    assert_true(tool_json_number(object, path) >= median);
}

static void bulk_relates_itself_to_the_machines_limits_round_by_round(void **state)
{
    struct json_object *object, *limits;

    (void) state;
    tool_run(&run, hg_perf, TEST_INIT, "bulk", "--with-limits", "--seconds", "0.2", "--json");
    object = sane_result();
    limits = tool_json_at(object, "limits");
    assert_true(tool_json_number(object, "repetitions") >= 3);
    assert_int_equal((int) tool_json_number(limits, "repetitions"),
                     (int) tool_json_number(object, "repetitions"));
    assert_true(tool_json_number(limits, "memcpy_MBps") > 0);
    assert_true(tool_json_number(limits, "cacheline_rtt_us") > 0);
    sane_spread(limits, "memcpy_MBps");
    sane_spread(limits, "cacheline_rtt_us");
    sane_spread(object, "rate_per_s");
    sane_spread(object, "bandwidth_MBps");
    if (test_is_sm())
        (void) tool_json_at(object, "spread.ratio_to_process_vm.min"); /* null where refused */
    (void) json_object_put(object);
}

static void rpc_relates_itself_to_cache_lines_within_one_machine_alone(void **state)
{
    struct json_object *object, *ratio;

    (void) state;
    tool_run(&run, hg_perf, TEST_INIT, "rpc", "--busy", "--with-limits", "--seconds", "0.2",
             "--json");
    object = sane_result();
    if (test_is_sm()) {
        sane_spread(object, "cacheline_round_trips");
        sane_spread(object, "cacheline_bounces");
    } else if (json_object_object_get_ex(object, "cacheline_round_trips", &ratio)) {
        sane_spread(object, "cacheline_round_trips"); /* another transport within a machine */
    }
    (void) json_object_put(object);
}

/* Some transports take long to open. */
static unsigned int wait_for_children(unsigned int count, pid_t children[16])
{
    unsigned int found = 0;

    for (unsigned int i = 0; i < 2000 && found < count; i++) {
        usleep(10000);
        found = tool_children(run.pid, children, 16);
    }
    assert_int_equal(found, count);
    return found;
}

static void targets_have_the_tools_name_in_the_process_list(void **state)
{
    char path[64], name[32] = "";
    pid_t children[16];
    unsigned int count;

    (void) state;
    tool_run_start(&run, hg_perf, TEST_INIT, "rpc", "--seconds", "60", NULL);
    count = wait_for_children(2, children);
    usleep(200000);
    for (unsigned int i = 0; i < count; i++) {
        FILE *file;

        (void) snprintf(path, sizeof(path), "/proc/%d/comm", (int) children[i]);
        file = fopen(path, "re");
        assert_non_null(file);
        assert_non_null(fgets(name, sizeof(name), file));
        (void) fclose(file);
        assert_string_equal(name, "hg_perf\n");
    }
    assert_int_equal(kill(-run.pid, SIGINT), 0);
    tool_run_wait(&run, 20);
    assert_int_equal(run.code, 128 + SIGINT);
}

static void na_measures_messages_put_and_get(void **state)
{
    (void) state;
    tool_run(&run, hg_perf, TEST_INIT, "na", "--seconds", "0.2", "--json");
    (void) json_object_put(sane_result());
    tool_run(&run, hg_perf, TEST_INIT, "na", "--op", "put", "--size", "64k", "--seconds", "0.2",
             "--json");
    (void) json_object_put(sane_result());
    tool_run(&run, hg_perf, TEST_INIT, "na", "--op", "get", "--in-flight", "4", "--busy",
             "--seconds", "0.2", "--json");
    (void) json_object_put(sane_result());
}

static void idle_measures_the_time_of_a_waiting_target(void **state)
{
    struct json_object *object;

    (void) state;
    tool_run(&run, hg_perf, TEST_INIT, "idle", "--seconds", "0.5", "--json");
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
    assert_true(tool_json_number(object, "repetitions") >= 3);
    sane_spread(object, "cacheline_rtt_us");
    sane_spread(object, "eventfd_rtt_us");
    sane_spread(object, "memcpy_MBps");
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
    tool_run(&run, hg_perf, TEST_INIT, "sweep", "--sizes", "8,1k", "--depths", "1,4", "--seconds",
             "0.05", "--output", name);
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
    tool_run_start(&target, hg_perf, TEST_INIT, "rpc", "--listen", NULL);
    tool_run_first_line(&target, address, sizeof(address));
    tool_run(&run, hg_perf, TEST_INIT, "rpc", "--target", address, "--seconds", "0.1", "--json");
    (void) json_object_put(sane_result());
    tool_run(&run, hg_perf, TEST_INIT, "bulk", "--target", address, "--seconds", "0.1", "--json");
    (void) json_object_put(sane_result());
    assert_int_equal(kill(target.pid, SIGTERM), 0);
    tool_run_wait(&target, 10);
    assert_int_equal(target.code, 128 + SIGTERM);
}

static void run_with_a_target_killed_after(useconds_t us)
{
    static struct tool_run target;
    char address[512];

    tool_run_start(&target, hg_perf, TEST_INIT, "rpc", "--listen", NULL);
    tool_run_first_line(&target, address, sizeof(address));
    tool_run_start(&run, hg_perf, TEST_INIT, "rpc", "--target", address, "--seconds", "60",
                   "--json", NULL);
    usleep(us);
    assert_int_equal(kill(target.pid, SIGKILL), 0);
    tool_run_wait(&target, 10);
    tool_run_wait(&run, 20);
    assert_int_equal(run.code, 1);
    assert_true(strlen(run.err) > 0);
}

/* The report covers the time until the failure, and not the time that was asked for. */
static void fails_in_time_when_the_target_is_killed(void **state)
{
    struct json_object *object;
    double count, seconds;

    (void) state;
    run_with_a_target_killed_after(1500000);
    if (run.out[0] == '\0') /* a slow machine: the target was killed before anything was measured */
        run_with_a_target_killed_after(10000000);
    object = tool_run_json(&run);
    count = tool_json_number(object, "count");
    seconds = tool_json_number(object, "measured_s");
    assert_true(count > 0 && seconds > 0 && seconds < 15);
    assert_true(tool_json_number(object, "rate_per_s") * seconds > count * 0.99);
    assert_true(tool_json_number(object, "rate_per_s") * seconds < count * 1.01);
    (void) json_object_put(object);
}

static void a_signal_ends_all_its_processes(void **state)
{
    pid_t children[16];
    unsigned int count;

    (void) state;
    tool_run_start(&run, hg_perf, TEST_INIT, "rpc", "--clients", "3", "--seconds", "60", NULL);
    count = wait_for_children(4, children); /* three origins and the target */
    usleep(300000);
    assert_int_equal(kill(-run.pid, SIGINT), 0); /* Ctrl-C signals the whole process group */
    tool_run_wait(&run, 20);
    assert_int_equal(run.code, 128 + SIGINT);
    assert_int_equal(tool_count_lines(run.err), 1);
    assert_string_equal(run.out, "");
    for (unsigned int i = 0; i < count; i++)
        assert_int_equal(kill(children[i], 0), -1);
}

static void refuses_wrong_command_lines_with_code_2(void **state)
{
    (void) state;
    tool_run(&run, hg_perf, TEST_INIT, "fly");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_perf, TEST_INIT, "rpc", "--size", "4");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_perf, TEST_INIT, "rpc", "--in-flight", "0");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_perf, TEST_INIT, "rpc", "--every", "50", "--in-flight", "2");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_perf, TEST_INIT, "rpc", "--seconds", "soon");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_perf);
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_perf, "rpc", "--push");
    assert_int_equal(run.code, 2);
    assert_non_null(strstr(run.err, "--push means nothing to rpc"));
    tool_run(&run, hg_perf, "sweep", "--size", "8");
    assert_int_equal(run.code, 2);
    assert_non_null(strstr(run.err, "--sizes"));
    tool_run(&run, hg_perf, "rpc", "bulk");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_perf, "rpc", "--loop", "round");
    assert_int_equal(run.code, 2);
    assert_non_null(strstr(run.err, "trigger-all, trigger-one, event and request are"));
    tool_run(&run, hg_perf, "na", "--loop", "event");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_perf, "rpc", "--loop", "trigger-one", "--clients", "2");
    assert_int_equal(run.code, 2);
    tool_run(&run, hg_perf, TEST_INIT, "--help");
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
        cmocka_unit_test(rpc_measures_in_each_loop),
        cmocka_unit_test(rpc_measures_payloads_larger_than_a_message),
        cmocka_unit_test(every_spaces_operations),
        cmocka_unit_test(rpc_measures_threads_with_a_context_each),
        cmocka_unit_test(rpc_says_what_the_memory_of_a_peer_is),
        cmocka_unit_test(bulk_measures_pull_and_push),
        cmocka_unit_test(rpc_says_what_the_memory_of_each_context_is),
        cmocka_unit_test(rpc_relates_itself_to_cache_lines_within_one_machine_alone),
        cmocka_unit_test(na_measures_messages_put_and_get),
        cmocka_unit_test(idle_measures_the_time_of_a_waiting_target),
        cmocka_unit_test(uses_a_target_that_runs_already),
        cmocka_unit_test(fails_in_time_when_the_target_is_killed),
        cmocka_unit_test(a_signal_ends_all_its_processes),
    };
    /* Tests that do not depend on the transport. */
    const struct CMUnitTest of_the_tool[] = {
        cmocka_unit_test(bulk_relates_itself_to_the_machines_limits_round_by_round),
        cmocka_unit_test(targets_have_the_tools_name_in_the_process_list),
        cmocka_unit_test(limits_measure_the_machine),
        cmocka_unit_test(sweep_writes_json_and_a_plot),
        cmocka_unit_test(refuses_wrong_command_lines_with_code_2),
        cmocka_unit_test(says_why_a_transport_cannot_be_used),
    };
    int failed;

    if (argc != 2)
        return 2;
    hg_perf = argv[1];
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (test_is_sm())
        failed += cmocka_run_group_tests(of_the_tool, NULL, NULL);
    return failed;
}
