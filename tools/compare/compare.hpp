/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The common part of the programs in this folder: the command line, the processes, the period in
 * which requests are counted, and the line of JSON that is printed. The target of a program,
 * serve(), answers requests of --size bytes with --reply bytes; the origin, drive(), sends the
 * requests. Both use the measured library as its documentation suggests.
 */

#ifndef AMALGAM_COMPARE_HPP
#define AMALGAM_COMPARE_HPP

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A process is ended after this many seconds; every measurement is shorter. */
constexpr unsigned COMPARE_TIME_LIMIT = 60;

struct compare_options {
    std::string transport = "tcp"; /* tcp or ipc; for compare_amalgam an init string */
    std::string mode;              /* for compare_amalgam, which has several modes */
    uint64_t size = 8, reply = 8;
    unsigned in_flight = 1; /* for each client */
    unsigned clients = 1, processes = 1;
    double seconds = 0.3;
    bool busy = false;
    unsigned pause_us =
        0; /* between an answer and the next request, so that both sides go to sleep */
};

inline void compare_check(bool good, const char *what)
{
    if (good)
        return;
    std::fprintf(stderr, "%s\n", what);
    std::_Exit(1);
}

inline uint64_t compare_now()
{
    timespec time;

    (void) clock_gettime(CLOCK_MONOTONIC, &time);
    return uint64_t(time.tv_sec) * 1000000000 + uint64_t(time.tv_nsec);
}

/* Results that an origin process passes to its parent. */
struct compare_result {
    std::atomic<bool> ready;
    uint64_t count;
    double seconds, p50_us, p99_us;
};

/* The period in which requests are counted. A warm-up of a fifth of its length comes first. */
class compare_window
{
  public:
    compare_window(const compare_options &options, compare_result &result,
                   const std::atomic<bool> &started)
        : options_(options), result_(result), started_(started)
    {
        samples_.reserve(1 << 21);
    }

    /* Waits until all origin processes have connected, and opens the window. */
    void open()
    {
        result_.ready = true;
        while (!started_)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        from_ = compare_now() + uint64_t(options_.seconds * 0.2e9);
        until_ = from_ + uint64_t(options_.seconds * 1e9);
    }

    /* Counts a request that was sent at `start` and answered at `now`. False: the window is
     * closed, and the caller sends no further request. */
    bool complete(uint64_t start, uint64_t now)
    {
        if (from_ == 0)
            return false;
        if (now < from_ || warm_ < bursts(WARM_BURSTS)) {
            warm_++;
            return true;
        }
        if (first_ == 0) {
            first_ = last_ = now;
            return true;
        }
        if (closed_)
            return false;
        if (options_.pause_us > 0)
            (void) usleep(options_.pause_us);
        count_++;
        last_ = now;
        if (samples_.size() < samples_.capacity())
            samples_.push_back(uint32_t(std::min<uint64_t>(now - start, UINT32_MAX)));
        closed_ = now >= until_ && count_ >= bursts(COUNTED_BURSTS);
        return !closed_;
    }

    void close()
    {
        compare_check(count_ > 0, "nothing completed in the time");
        result_.count = count_;
        result_.seconds = double(last_ - first_) / 1e9;
        result_.p50_us = quantile(0.5);
        result_.p99_us = quantile(0.99);
    }

  private:
    /* Requests in flight complete in bursts. The window stays open until COUNTED_BURSTS are
     * counted, so that a slow contender has a result of more than one burst. The first WARM_BURSTS
     * are not counted, because they allocate the memory that later bursts use again. */
    static constexpr uint64_t WARM_BURSTS = 2, COUNTED_BURSTS = 4;

    uint64_t bursts(uint64_t count) const
    {
        return count * options_.in_flight;
    }

    double quantile(double part)
    {
        auto at = samples_.begin() + std::ptrdiff_t(double(samples_.size() - 1) * part);

        std::nth_element(samples_.begin(), at, samples_.end());
        return *at / 1e3;
    }

    const compare_options &options_;
    compare_result &result_;
    const std::atomic<bool> &started_;
    std::vector<uint32_t> samples_;
    uint64_t from_ = 0, until_ = 0, first_ = 0, last_ = 0, warm_ = 0, count_ = 0;
    bool closed_ = false;
};

struct compare_program {
    const char *name;
    std::string version;
    /* The target: passes its address to the function, and answers requests until SIGTERM. */
    void (*serve)(const compare_options &, const std::function<void(const std::string &)> &);
    /* The origin: connects the clients, opens the window, and keeps requests in flight until the
     * window closes. */
    void (*drive)(const compare_options &, const std::string &address, compare_window &);
};

inline compare_options compare_parse(int argc, char **argv)
{
    compare_options options;

    for (int i = 1; i + 1 < argc; i += 2) {
        std::string name = argv[i], value = argv[i + 1];

        if (name == "--transport")
            options.transport = value;
        else if (name == "--mode")
            options.mode = value;
        else if (name == "--size")
            options.size = std::stoull(value);
        else if (name == "--reply")
            options.reply = std::stoull(value);
        else if (name == "--in-flight")
            options.in_flight = unsigned(std::stoul(value));
        else if (name == "--clients")
            options.clients = unsigned(std::stoul(value));
        else if (name == "--processes")
            options.processes = unsigned(std::stoul(value));
        else if (name == "--seconds")
            options.seconds = std::stod(value);
        else if (name == "--pause")
            options.pause_us = unsigned(std::stoul(value));
        else if (name == "--busy")
            options.busy = value == "1";
        else
            compare_check(false,
                          "options: --transport tcp|ipc --size --reply --in-flight --clients "
                          "--processes --seconds --pause --busy 0|1");
    }
    options.processes = std::min(options.processes, options.clients);
    return options;
}

inline void compare_print(const compare_program &program, double rate, double p50, double p99)
{
    std::printf("{\"name\": \"%s\", \"version\": \"%s\", \"rate_per_s\": %.1f, \"p50_us\": %.3f, "
                "\"p99_us\": %.3f}\n",
                program.name, program.version.c_str(), rate, p50, p99);
}

/* Forks a process that runs body. It is killed when its parent ends, because a busy process that is
 * left behind would disturb later measurements. */
inline pid_t compare_fork(const std::function<void()> &body)
{
    pid_t parent = getpid(), child = fork();

    compare_check(child >= 0, "fork");
    if (child != 0)
        return child;
    compare_check(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent,
                  "the parent is gone");
    (void) alarm(COMPARE_TIME_LIMIT);
    body();
    std::_Exit(0);
}

/* Starts the target, and returns its process and its address. */
inline pid_t compare_start_target(const compare_options &options, const compare_program &program,
                                  std::string &address)
{
    int ends[2];
    char text[8192];

    compare_check(pipe(ends) == 0, "pipe");
    pid_t target = compare_fork([&] {
        program.serve(options, [&](const std::string &own) {
            compare_check(write(ends[1], own.data(), own.size()) > 0, "write");
        });
    });
    (void) close(ends[1]);
    ssize_t length = read(ends[0], text, sizeof(text));
    compare_check(length > 0, "no target");
    address.assign(text, size_t(length));
    return target;
}

/* Runs a target and options.processes origins. Each is a process of its own, which is forked
 * before the library is used. */
inline int compare_main(int argc, char **argv, const compare_program &program)
{
    compare_options options = compare_parse(argc, argv);
    std::vector<pid_t> origins;
    std::string address;
    rlimit files;
    int status, failed = 0;
    double rate = 0;

    (void) alarm(COMPARE_TIME_LIMIT);
    (void) getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void) setrlimit(RLIMIT_NOFILE, &files);
    void *memory =
        mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    compare_check(memory != MAP_FAILED, "mmap");
    auto *started = static_cast<std::atomic<bool> *>(memory);
    auto *results = reinterpret_cast<compare_result *>(started + 64);
    pid_t target = compare_start_target(options, program, address);
    for (unsigned i = 0; i < options.processes; i++) {
        origins.push_back(compare_fork([&, i] {
            compare_options own = options;
            own.clients = options.clients / options.processes +
                          (i < options.clients % options.processes ? 1 : 0);
            compare_window window(own, results[i], *started);
            program.drive(own, address, window);
            window.close();
        }));
    }
    for (unsigned i = 0; i < options.processes; i++) {
        while (!results[i].ready && waitpid(origins[i], &status, WNOHANG) == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    *started = true;
    for (unsigned i = 0; i < options.processes; i++) {
        failed += waitpid(origins[i], &status, 0) != origins[i] || status != 0;
        rate += results[i].seconds > 0 ? double(results[i].count) / results[i].seconds : 0;
    }
    (void) kill(target, SIGTERM);
    (void) waitpid(target, &status, 0);
    compare_check(failed == 0, "an origin failed");
    compare_print(program, rate, results[0].p50_us, results[0].p99_us);
    return 0;
}

#endif /* AMALGAM_COMPARE_HPP */
