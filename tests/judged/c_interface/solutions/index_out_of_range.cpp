int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    auto total = kc::view_of<float, 1>(outputs, 0, context);
    if (context->failed) return 1;
    total(total.size()) = 1;
    return 0;
}
