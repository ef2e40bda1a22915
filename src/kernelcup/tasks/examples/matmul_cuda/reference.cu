// Matrix product: inputs, and a reference that adds up in double precision.
#include <cuda_fp16.h>

// One value in [-1, 1) for each element, by SplitMix64.
__global__ void fill(__half *values, int64_t size, uint64_t seed) {
    for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < size; i += int64_t(gridDim.x) * blockDim.x) {
        uint64_t x = seed + uint64_t(i + 1) * 0x9e3779b97f4a7c15ull;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
        values[i] = __float2half(float((x ^ (x >> 31)) >> 40) / 8388608.0f - 1.0f);
    }
}

// Tiles of 16 x 16 in shared memory.
__global__ void multiply(__half *c, const __half *a, const __half *b, int64_t m, int64_t n, int64_t k) {
    __shared__ float left[16][17], right[16][17];
    const int64_t row = blockIdx.y * 16ll + threadIdx.y, column = blockIdx.x * 16ll + threadIdx.x;
    double sum = 0;
    for (int64_t at = 0; at < k; at += 16) {
        const int64_t x = at + threadIdx.x, y = at + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && x < k ? __half2float(a[row * k + x]) : 0.0f;
        right[threadIdx.y][threadIdx.x] = y < k && column < n ? __half2float(b[y * n + column]) : 0.0f;
        __syncthreads();
        for (int i = 0; i < 16; i++) sum += double(left[threadIdx.y][i]) * double(right[i][threadIdx.x]);
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = __double2half(sum);
}

int generate_input(const kc_case *parameters, uint64_t seed, kc_args *inputs, kc_context *context) {
    const int64_t m = kc_parameter_int(parameters, "m", context), n = kc_parameter_int(parameters, "n", context);
    const int64_t k = kc_parameter_int(parameters, "k", context);
    const int64_t shapes[2][2] = {{m, k}, {k, n}};
    const char *names[] = {"a", "b"};
    for (int i = 0; i < 2; i++) {
        kc_tensor *made = kc_new_tensor(context, inputs, names[i], KC_FLOAT16, KC_DEVICE, 2, shapes[i]);
        if (context->failed) return 1;
        fill<<<1024, 256, 0, kc::stream(context)>>>(static_cast<__half *>(made->data), kc_numel(made), 2 * seed + i);
    }
    return 0;
}

int ref_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    auto a = kc::view_of<__half, 2>(inputs, 0, context), b = kc::view_of<__half, 2>(inputs, 1, context);
    const int64_t shape[] = {a.shape[0], b.shape[1]};
    kc_tensor *c = kc_new_tensor(context, outputs, "c", KC_FLOAT16, KC_DEVICE, 2, shape);
    if (context->failed) return 1;
    const dim3 blocks(unsigned((shape[1] + 15) / 16), unsigned((shape[0] + 15) / 16));
    multiply<<<blocks, dim3(16, 16), 0, kc::stream(context)>>>(
        static_cast<__half *>(c->data), a.data, b.data, shape[0], shape[1], a.shape[1]);
    return 0;
}
