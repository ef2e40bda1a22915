#include "reference.cpp"

int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    auto given = kc::view_of<float, 2>(kc_find_tensor(inputs, NAME), context);
    auto answer = kc::view_of<float, 2>(outputs, 0, context);
    if (context->failed) return 1;
    for (int64_t row = 0; row < given.shape[0]; row++)
        for (int64_t column = 0; column < given.shape[1]; column++) answer(row, column) = FACTOR * given(row, column);
    kc_find_scalar(outputs, "count")->integer = given.size();
    return 0;
}
