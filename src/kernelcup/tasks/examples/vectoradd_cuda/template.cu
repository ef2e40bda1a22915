//!POPCORN leaderboard vectoradd_cuda
__global__ void add(float *c, const float *a, const float *b, int64_t size) {
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < size) c[i] = a[i] + b[i];
}

int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    auto a = kc::view_of<float, 1>(inputs, 0, context), b = kc::view_of<float, 1>(inputs, 1, context);
    auto c = kc::view_of<float, 1>(outputs, 0, context);
    if (context->failed) return 1;
    const unsigned blocks = unsigned((a.size() + 255) / 256);
    add<<<blocks, 256, 0, kc::stream(context)>>>(c.data, a.data, b.data, a.size());
    return 0;
}
