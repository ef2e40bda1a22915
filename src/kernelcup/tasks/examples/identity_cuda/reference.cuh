#pragma once
#include <random>
#include "task.h"
#include "utils.h"
static input_t generate_input(int seed, int size) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> values(0, 1);
    input_t data(size);
    for (float &each : data) each = values(random);
    return data;
}
static output_t ref_kernel(input_t data) { return data; }
static void check_implementation(TestReporter &reporter, input_t data, output_t output) {
    const output_t expected = ref_kernel(data);
    if (!reporter.check_equal("size", output.size(), expected.size())) return;
    for (size_t i = 0; i < expected.size(); i++)
        if (output[i] != expected[i]) {
            reporter.fail() << "element " << i << " is " << output[i] << ", expected " << expected[i];
            return;
        }
    reporter.pass();
}
