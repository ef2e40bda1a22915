int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    auto total = kc::view_of<double, 2>(outputs, 0, context);
    return context->failed ? 1 : (int)total.data[0];
}
