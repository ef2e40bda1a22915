// What a task's reference.cuh may include as "utils.h". KernelCup lends it to tasks that name it and do not ship it.
#pragma once

#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

// Exit codes that the service understands.
enum : int {
    EXIT_USAGE = 2,
    EXIT_CUDA_FAILED = 110,
    EXIT_NO_PIPE = 111,
    EXIT_VALIDATION_FAILED = 112,
    EXIT_BAD_CASE = 113,
};

#if defined(__CUDACC__)
#include <cuda_runtime.h>

inline void cuda_check(cudaError_t status, const char *expression, const char *file, int line) {
    if (status == cudaSuccess) return;
    std::cerr << file << ":" << line << ": " << expression << ": " << cudaGetErrorString(status) << std::endl;
    std::exit(EXIT_CUDA_FAILED);
}

#define CUDA_CHECK(call) cuda_check((call), #call, __FILE__, __LINE__)
#endif

// Collects what a check finds. A check calls pass() once at its end, or fail() and returns.
class TestReporter {
public:
    TestReporter() = default;
    TestReporter(const TestReporter &) = delete;
    TestReporter &operator=(const TestReporter &) = delete;

    void pass() {
        if (state_ == State::Failed) misuse("pass() after fail()");
        state_ = State::Passed;
    }

    // The text of the failure is written to the stream that this returns.
    std::ostream &fail() {
        if (state_ == State::Passed) misuse("fail() after pass()");
        state_ = State::Failed;
        return text_;
    }

    // Fails unless both values are equal; returns whether they are.
    template <typename A, typename B> bool check_equal(const std::string &what, const A &value, const B &expected) {
        if (value == static_cast<A>(expected)) return true;
        fail() << what << ": " << value << ", expected " << expected;
        return false;
    }

    bool has_passed() const {
        if (state_ == State::Open) misuse("a check ended without pass() or fail()");
        return state_ == State::Passed;
    }

    std::string message() const { return text_.str(); }

private:
    enum class State { Open, Passed, Failed };

    [[noreturn]] static void misuse(const char *what) {
        std::cerr << "check_implementation: " << what << std::endl;
        std::exit(EXIT_BAD_CASE);
    }

    State state_ = State::Open;
    std::ostringstream text_;
};
