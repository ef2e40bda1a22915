int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    return kc_tensor_at(inputs, 9, context) == NULL;
}
