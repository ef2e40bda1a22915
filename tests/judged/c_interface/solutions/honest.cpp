#include "kernelcup.h"

int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    auto a = kc::view_of<const float, 1>(kc_find_tensor(inputs, "a"), context);
    auto b = kc::view_of<const float, 1>(inputs, 1, context);
    auto total = kc::view_of<float, 1>(outputs, 0, context);
    kc_scalar *scale = kc_find_scalar(inputs, "scale");
    if (context->failed || scale == nullptr || inputs->scalar_count != 3) return kc_fail(context, "not this input");
    float *sums = static_cast<float *>(kc_scratch(context, a.size() * sizeof(float)));
    if (sums == nullptr) return 1;
    int64_t count = 0;
    for (int64_t i = 0; i < a.size(); i++) {
        sums[i] = a(i) + static_cast<float>(scale->real) * b(i);
        total(i) = sums[i];
        count += total(i) > 0;
    }
    outputs->scalars[0].integer = count;
    return 0;
}
