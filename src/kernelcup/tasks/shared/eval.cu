// The harness that KernelCup lends to tasks in CUDA C++ that name eval.cu and do not ship their own.
//
// `eval MODE CASES` judges custom_kernel over the cases in the file CASES, one to a line, and writes `key: value` lines
// to the pipe that POPCORN_FD names. MODE is test, benchmark or leaderboard. The task has
//
//   task.h         input_t, output_t, and ArgumentNames: the keys of a case in the order of generate_input's arguments
//   reference.cuh  static input_t generate_input(int or std::string, ...)
//                  static void check_implementation(TestReporter &, input_t, output_t)
//
// and the submission defines `output_t custom_kernel(input_t)`. Copy this file into a task's folder and change it: then
// that copy judges. Submission, checks and clock share one process: KernelCup calls such times self-measured.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

#include "utils.h"
// Above the task's own files, which may use TestReporter without including it.
#include "task.h"
#include "reference.cuh"

output_t custom_kernel(input_t data);

namespace {

constexpr int LEAST_RUNS = 3, MOST_RUNS = 100;
constexpr double MOST_SECONDS = 10.0, RELATIVE_ERROR = 0.001;

using Case = std::map<std::string, std::string>;
using Clock = std::chrono::steady_clock;

[[noreturn]] void refuse(const std::string &line, const std::string &why) {
    std::cerr << "bad case '" << line << "': " << why << std::endl;
    std::exit(EXIT_BAD_CASE);
}

std::string stripped(const std::string &text) {
    const auto first = text.find_first_not_of(" \t\r\n");
    if (first == std::string::npos) return "";
    return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

struct Listed {
    std::string line;
    Case values;
};

Listed parsed(const std::string &line) {
    Listed found{line, {}};
    size_t begin = 0;
    while (begin <= line.size()) {
        const size_t end = std::min(line.find(';', begin), line.size());
        const std::string part = line.substr(begin, end - begin);
        const size_t colon = part.find(':');
        if (colon == std::string::npos) refuse(line, "a part without a colon");
        found.values[stripped(part.substr(0, colon))] = stripped(part.substr(colon + 1));
        begin = end + 1;
    }
    return found;
}

// Mixes a case's seed with the secret of a ranked run: 31 bits (SplitMix64).
std::string mixed(const std::string &seed, const char *secret) {
    uint64_t x = std::strtoull(seed.c_str(), nullptr, 10) * 0x9e3779b97f4a7c15ull + std::strtoull(secret, nullptr, 10);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return std::to_string((x ^ (x >> 31)) >> 33);
}

std::vector<Listed> read_cases(const char *path, const char *secret) {
    std::ifstream file(path);
    std::vector<Listed> cases;
    for (std::string line; std::getline(file, line);) {
        if (stripped(line).empty()) continue;
        cases.push_back(parsed(stripped(line)));
        Case &values = cases.back().values;
        if (secret != nullptr && values.count("seed")) values["seed"] = mixed(values["seed"], secret);
    }
    return cases;
}

template <typename T> T argument(const Listed &given, const char *name) {
    const auto found = given.values.find(name);
    if (found == given.values.end()) refuse(given.line, std::string(name) + " is missing");
    if constexpr (std::is_integral_v<T>) {
        char *end = nullptr;
        const long long value = std::strtoll(found->second.c_str(), &end, 10);
        if (found->second.empty() || *end != '\0') refuse(given.line, std::string(name) + " is no integer");
        return static_cast<T>(value);
    } else {
        return T(found->second);
    }
}

template <typename... T, size_t... I>
input_t generated(input_t (*generate)(T...), const Listed &given, std::index_sequence<I...>) {
    static_assert(sizeof...(T) == ArgumentNames.size(), "ArgumentNames has one name for each argument");
    return generate(argument<std::decay_t<T>>(given, ArgumentNames[I])...);
}

template <typename... T> input_t generated(input_t (*generate)(T...), const Listed &given) {
    return generated(generate, given, std::index_sequence_for<T...>{});
}

input_t made(const Listed &given) { return generated(&generate_input, given); }

void settle() {
#if defined(__CUDACC__)
    CUDA_CHECK(cudaDeviceSynchronize());
#endif
}

void clear_cache() {
#if defined(__CUDACC__)
    static void *memory = nullptr;
    constexpr size_t bytes = size_t(256) << 20;
    if (memory == nullptr) CUDA_CHECK(cudaMalloc(&memory, bytes));
    CUDA_CHECK(cudaMemset(memory, 0, bytes));
#endif
    settle();
}

// Returns what is wrong, an empty text if nothing is.
std::string fault_of(const input_t &data, const output_t &output) {
    TestReporter reporter;
    check_implementation(reporter, data, output);
    if (reporter.has_passed()) return "";
    return reporter.message().empty() ? "the check failed" : reporter.message();
}

class Results {
public:
    explicit Results(int descriptor) : descriptor_(descriptor) {}

    template <typename T> void log(const std::string &key, const T &value) {
        std::ostringstream text;
        text.precision(17);
        text << value;
        std::string line = key + ": ";
        for (char each : text.str()) line += each == '\n' ? std::string("\\n") : std::string(1, each);
        line += '\n';
        for (size_t sent = 0; sent < line.size();) {
            const ssize_t count = write(descriptor_, line.data() + sent, line.size() - sent);
            if (count <= 0) std::exit(EXIT_NO_PIPE);
            sent += static_cast<size_t>(count);
        }
    }

private:
    int descriptor_;
};

bool test(Results &results, const std::vector<Listed> &cases) {
    results.log("test-count", cases.size());
    bool passed = true;
    for (size_t i = 0; i < cases.size(); i++) {
        const std::string prefix = "test." + std::to_string(i) + ".";
        results.log(prefix + "spec", cases[i].line);
        const input_t data = made(cases[i]);
        input_t given = data;
        settle();
        const output_t output = custom_kernel(std::move(given));
        settle();
        const std::string fault = fault_of(data, output);
        results.log(prefix + "status", fault.empty() ? "pass" : "fail");
        if (!fault.empty()) results.log(prefix + "error", fault);
        passed = passed && fault.empty();
    }
    return passed;
}

struct Statistics {
    double mean = 0, deviation = 0, error = 0;
};

Statistics statistics_of(const std::vector<double> &times) {
    Statistics found;
    for (double each : times) found.mean += each / times.size();
    for (double each : times) found.deviation += (each - found.mean) * (each - found.mean);
    found.deviation = times.size() > 1 ? std::sqrt(found.deviation / (times.size() - 1)) : 0;
    found.error = found.deviation / std::sqrt(double(times.size()));
    return found;
}

// Times a case; with `recheck` every call has an input of its own and is checked, else the first alone is. Returns what
// is wrong.
std::string timed(Listed given, bool recheck, std::vector<double> &times) {
    input_t data = made(given);
    const auto began = Clock::now();
    for (bool is_first = true;; is_first = false) {
        if (recheck && !is_first && given.values.count("seed")) {
            given.values["seed"] = mixed(given.values["seed"], "1");
            data = made(given);
        }
        input_t copy = data;
        clear_cache();
        const auto start = Clock::now();
        const output_t output = custom_kernel(std::move(copy));
        settle();
        const auto end = Clock::now();
        if (is_first || recheck) {
            const std::string fault = fault_of(data, output);
            if (!fault.empty()) return fault;
        }
        if (is_first) continue;
        times.push_back(std::max(1.0, std::chrono::duration<double, std::nano>(end - start).count()));
        const int runs = static_cast<int>(times.size());
        if (runs < LEAST_RUNS) continue;
        const Statistics found = statistics_of(times);
        const double seconds = std::chrono::duration<double>(end - began).count();
        if (found.error < RELATIVE_ERROR * found.mean || runs >= MOST_RUNS || seconds > MOST_SECONDS) return "";
    }
}

bool benchmark(Results &results, const std::vector<Listed> &cases, bool recheck) {
    results.log("benchmark-count", cases.size());
    bool passed = true;
    for (size_t i = 0; i < cases.size(); i++) {
        const std::string prefix = "benchmark." + std::to_string(i) + ".";
        results.log(prefix + "spec", cases[i].line);
        std::vector<double> times;
        const std::string fault = timed(cases[i], recheck, times);
        results.log(prefix + "status", fault.empty() ? "pass" : "fail");
        if (!fault.empty()) {
            results.log(prefix + "error", fault);
            passed = false;
            continue;
        }
        const Statistics found = statistics_of(times);
        results.log(prefix + "runs", times.size());
        results.log(prefix + "mean", found.mean);
        results.log(prefix + "std", found.deviation);
        results.log(prefix + "err", found.error);
        results.log(prefix + "best", *std::min_element(times.begin(), times.end()));
        results.log(prefix + "worst", *std::max_element(times.begin(), times.end()));
    }
    return passed;
}

} // namespace

int main(int argc, const char **argv) {
    const std::string mode = argc == 3 ? argv[1] : "";
    if (mode != "test" && mode != "benchmark" && mode != "leaderboard") return EXIT_USAGE;
    const char *descriptor = std::getenv("POPCORN_FD");
    if (descriptor == nullptr) return EXIT_NO_PIPE;
    Results results(std::atoi(descriptor));
    const std::vector<Listed> cases = read_cases(argv[2], std::getenv("POPCORN_SEED"));
    const bool passed = mode == "test" ? test(results, cases) : benchmark(results, cases, mode == "leaderboard");
    results.log("check", passed ? "pass" : "fail");
    return passed ? 0 : EXIT_VALIDATION_FAILED;
}
