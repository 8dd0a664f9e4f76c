/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The soak: whatever is dropped, delayed, reordered, cancelled or killed, every operation that was
 * accepted ends once, in time, with the right data, and nothing is left of it.
 *
 *     test_integration_soak [--rpcs=N] [--bulks=N] [--kills=N] [--seed=N] [--window=N] [--peers=N]
 *                           [--seconds=N] [--faults=OPTIONS] [--target-faults=OPTIONS] [INIT]
 *
 * The origin, opened as fault+INIT://?OPTIONS, keeps `window` operations going with `peers` target
 * processes: RPCs of many sizes, transfers of the targets' memory, RPCs that make targets
 * transfer its memory. Each has a random deadline, a random cancel or both. At even distances a
 * target is killed by SIGKILL and started again at its address. Without INIT it is
 * AMALGAM_TEST_INIT, or na+sm. `seconds` is a limit for the time, 0 for none.
 *
 * ctest runs a short form. The long one, for each of na+sm, ofi+tcp, ucx+tcp and bmi+tcp:
 *
 *     test_integration_soak --rpcs=1000000 --bulks=100000 --kills=100 --seed=7 --seconds=0 ofi+tcp
 *
 * The report's sums are of issued operations; "refused" are calls that returned an error, to which
 * no callback belongs. The exit code is 0 if the report shows nothing wrong, 1 otherwise, 2 for
 * wrong arguments.
 */
#include "soak.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LATE_MS         1000
#define LEAKED_BYTES    (4 << 20) /* pools that grow late; a leak in each RPC is more */
#define DEFAULT_FAULTS  "drop=0.01&delay_us=0:300&reorder=0.05&cancel_fails=0.3&cancel_us=30000"
#define DEFAULT_SECONDS 60

static bool parse(int argc, char **argv, struct soak_options *options);
static bool parse_number(const char *text, uint64_t *value_p);
static void print_sums(const char *name, const struct soak_sums *sums);
static bool sums_are_right(const struct soak_sums *sums);
static bool report_print(const struct soak_options *options, const struct soak_report *report);

int main(int argc, char **argv)
{
    struct soak_options options;
    struct soak_report report = {0};

    if (argc == 5 && strcmp(argv[1], "target") == 0)
        return soak_target_main(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
    if (!parse(argc, argv, &options))
        return 2;
    if (!soak_origin_run(&options, &report)) {
        (void) fprintf(stderr, "the soak over %s could not begin\n", options.init);
        return 1;
    }
    return report_print(&options, &report) ? 0 : 1;
}

static bool parse(int argc, char **argv, struct soak_options *options)
{
    uint64_t window = 64, peers = 2, seconds = DEFAULT_SECONDS;
    const struct {
        const char *name;
        uint64_t *number;
        char *text;
        size_t size;
    } known[] = {
        {"--rpcs=", &options->rpcs, NULL, 0},
        {"--bulks=", &options->bulks, NULL, 0},
        {"--kills=", &options->kills, NULL, 0},
        {"--seed=", &options->seed, NULL, 0},
        {"--window=", &window, NULL, 0},
        {"--peers=", &peers, NULL, 0},
        {"--seconds=", &seconds, NULL, 0},
        {"--faults=", NULL, options->faults, sizeof(options->faults)},
        {"--target-faults=", NULL, options->target_faults, sizeof(options->target_faults)},
        {"", NULL, options->init, sizeof(options->init)},
    };

    *options = (struct soak_options){.rpcs = 3000, .bulks = 300, .kills = 2, .seed = 1};
    (void) snprintf(options->init, sizeof(options->init), "%s", test_init_string());
    (void) snprintf(options->faults, sizeof(options->faults), "%s", DEFAULT_FAULTS);
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        const char *value;

        while (strncmp(argv[i], known[k].name, strlen(known[k].name)) != 0)
            k++;
        value = argv[i] + strlen(known[k].name);
        if (strncmp(value, "--", 2) == 0 ||
            (known[k].number != NULL ? !parse_number(value, known[k].number)
                                     : strlen(value) >= known[k].size)) {
            (void) fprintf(stderr, "%s: what is this? See the top of test_soak.c\n", argv[i]);
            return false;
        }
        if (known[k].text != NULL)
            (void) snprintf(known[k].text, known[k].size, "%s", value);
    }
    if (window == 0 || window > SOAK_WINDOW_MAX || peers == 0 || peers > SOAK_PEERS_MAX ||
        seconds > UINT32_MAX) {
        (void) fprintf(stderr, "--window is 1 to %d, --peers 1 to %d\n", SOAK_WINDOW_MAX,
                       SOAK_PEERS_MAX);
        return false;
    }
    options->window = (uint32_t) window;
    options->peers = (uint32_t) peers;
    options->seconds = (uint32_t) seconds;
    return true;
}

static bool parse_number(const char *text, uint64_t *value_p)
{
    char *end;

    *value_p = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0';
}

static void print_sums(const char *name, const struct soak_sums *sums)
{
    printf("%s issued %" PRIu64 " = succeeded %" PRIu64 " + cancelled %" PRIu64
           " + timed out %" PRIu64 " + failed %" PRIu64 "; refused %" PRIu64 ", again %" PRIu64
           "\n",
           name, sums->issued, sums->succeeded, sums->cancelled, sums->timed_out, sums->failed,
           sums->refused, sums->again);
}

static bool sums_are_right(const struct soak_sums *sums)
{
    return sums->issued == sums->succeeded + sums->cancelled + sums->timed_out + sums->failed;
}

/* Returns whether the report shows no error. */
static bool report_print(const struct soak_options *options, const struct soak_report *report)
{
    const bool has_leaked_memory = report->leaked_bytes > LEAKED_BYTES;
    const uint64_t leaked =
        (uint64_t) (report->leaked_handles + report->leaked_bulks + report->leaked_addresses) +
        (report->leaked_descriptors > 0) + has_leaked_memory + !report->is_closed +
        report->targets_unclean;
    const bool has_issued = options->seconds != 0 || (report->rpc.issued >= options->rpcs &&
                                                      report->bulk.issued >= options->bulks);
    const bool is_right = leaked == 0 && report->lost == 0 && report->twice == 0 &&
                          report->digests_wrong == 0 && report->touched == 0 &&
                          report->progress_errors == 0 && report->latest_ms <= LATE_MS &&
                          sums_are_right(&report->rpc) && sums_are_right(&report->bulk) &&
                          report->rpc.succeeded > 0 && has_issued;

    printf("soak over %s, seed %" PRIu64 ", %s\n", options->init, options->seed, options->faults);
    print_sums("RPCs:", &report->rpc);
    print_sums("bulk:", &report->bulk);
    printf("lost %" PRIu64 ", twice %" PRIu64 ", leaked %" PRIu64 " (handles %" PRId64
           ", bulk handles %" PRId64 ", addresses %" PRId64 ", descriptors %" PRId64
           ", memory %" PRId64 " bytes, class %s, targets %" PRIu64 ")\n",
           report->lost, report->twice, leaked, report->leaked_handles, report->leaked_bulks,
           report->leaked_addresses, report->leaked_descriptors, report->leaked_bytes,
           report->is_closed ? "closed" : "open", report->targets_unclean);
    printf("digests wrong %" PRIu64 " of %" PRIu64 ", withdrawn memory touched %" PRIu64
           ", progress errors %" PRIu64 ", latest %" PRIu64 " ms after a deadline, kills %" PRIu64
           "\n%s\n",
           report->digests_wrong, report->digests, report->touched, report->progress_errors,
           report->latest_ms, report->kills, is_right ? "right" : "WRONG");
    return is_right;
}
