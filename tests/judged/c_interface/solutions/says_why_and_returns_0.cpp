int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    kc_fail(context, "forgot to return it");
    return 0;
}
