// Vector addition: inputs and the reference. Without a check of its own, answers are compared with the reference's.

// One value in [-1, 1) for each element, by SplitMix64: the same for the same seed, whatever the launch.
__global__ void fill(float *values, int64_t size, uint64_t seed) {
    for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < size; i += int64_t(gridDim.x) * blockDim.x) {
        uint64_t x = seed + uint64_t(i + 1) * 0x9e3779b97f4a7c15ull;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
        values[i] = float((x ^ (x >> 31)) >> 40) / 8388608.0f - 1.0f;
    }
}

__global__ void add(float *c, const float *a, const float *b, int64_t size) {
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < size) c[i] = a[i] + b[i];
}

int generate_input(const kc_case *parameters, uint64_t seed, kc_args *inputs, kc_context *context) {
    const int64_t size = kc_parameter_int(parameters, "size", context);
    const char *names[] = {"a", "b"};
    for (int i = 0; i < 2; i++) {
        kc_tensor *made = kc_new_tensor(context, inputs, names[i], KC_FLOAT32, KC_DEVICE, 1, &size);
        if (context->failed) return 1;
        fill<<<1024, 256, 0, kc::stream(context)>>>(static_cast<float *>(made->data), size, 2 * seed + i);
    }
    return 0;
}

int ref_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    auto a = kc::view_of<float, 1>(inputs, 0, context), b = kc::view_of<float, 1>(inputs, 1, context);
    kc_tensor *c = kc_new_tensor(context, outputs, "c", KC_FLOAT32, KC_DEVICE, 1, a.shape);
    if (context->failed) return 1;
    add<<<unsigned((a.size() + 255) / 256), 256, 0, kc::stream(context)>>>(static_cast<float *>(c->data), a.data, b.data, a.size());
    return 0;
}
