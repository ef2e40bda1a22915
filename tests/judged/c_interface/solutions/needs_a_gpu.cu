__global__ void nothing() {}
int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    nothing<<<1, 1, 0, kc::stream(context)>>>();
    return 0;
}
