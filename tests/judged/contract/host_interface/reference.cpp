#include <cstring>
#include <shape.h>

int generate_input(const kc_case *parameters, uint64_t seed, kc_args *inputs, kc_context *context) {
    const int64_t shape[] = {kc_parameter_int(parameters, "rows", context), kc_parameter_int(parameters, "columns", context)};
    const bool is_signed = !std::strcmp(kc_parameter_text(parameters, "kind", context), "signed");
    kc_tensor *made = kc_new_tensor(context, inputs, NAME, KC_FLOAT32, KC_DEVICE, 2, shape);
    if (context->failed) return 1;
    uint64_t state = seed;
    for (int64_t i = 0; i < kc_numel(made); i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const float value = float(state >> 40) / 16777216.0f;
        static_cast<float *>(made->data)[i] = is_signed ? value - 0.5f : value;
    }
    return kc_new_int(context, inputs, "factor", FACTOR);
}

int ref_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    const kc_tensor *given = kc_find_tensor(inputs, NAME);
    const double factor = double(kc_find_scalar(inputs, "factor")->integer);
    kc_tensor *made = kc_new_tensor(context, outputs, "scaled", KC_FLOAT32, KC_DEVICE, 2, given->shape);
    if (context->failed) return 1;
    for (int64_t i = 0; i < kc_numel(given); i++)
        static_cast<float *>(made->data)[i] = float(factor * static_cast<const float *>(given->data)[i]);
    return kc_new_int(context, outputs, "count", kc_numel(given));
}

int check_implementation(const kc_args *inputs, const kc_args *expected, const kc_args *actual, kc_context *context);
