#include <stdexcept>
#include <vector>

static std::vector<int> table = [] { return std::vector<int>(1000, 7); }();

extern "C" void *malloc_of_my_own(size_t bytes) { return ::operator new(bytes); }

int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    try {
        table.at(5000) = 1;
    } catch (const std::out_of_range &) {
        table[0] = 3;
    }
    const float *a = (const float *)inputs->tensors[0].data, *b = (const float *)inputs->tensors[1].data;
    float *total = (float *)outputs->tensors[0].data;
    int64_t count = 0;
    for (int64_t i = 0; i < kc_numel(&outputs->tensors[0]); i++) {
        total[i] = a[i] + (float)inputs->scalars[0].real * b[i];
        count += total[i] > 0;
    }
    outputs->scalars[0].integer = count;
    printf("counted %lld\n", (long long)count);
    return 0;
}
