// Uses scratch twice, and its own names for the arguments.
int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    float *first = (float *)kc_scratch(context, 64), *second = (float *)kc_scratch(context, 64);
    if (first == second) return kc_fail(context, "the same memory twice");
    first[15] = second[15] = 1;
    const float *a = (const float *)inputs->tensors[0].data, *b = (const float *)inputs->tensors[1].data;
    float *c = (float *)outputs->tensors[0].data;
    for (int64_t i = 0; i < kc_numel(&outputs->tensors[0]); i++) c[i] = a[i] + b[i];
    return 0;
}
