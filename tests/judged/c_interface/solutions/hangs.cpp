int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    for (volatile int i = 0;; i = i + 1) {}
}
