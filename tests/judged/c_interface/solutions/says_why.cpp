int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    return kc_fail(context, "%d tensors are %s", (int)inputs->tensor_count, "too many for me");
}
