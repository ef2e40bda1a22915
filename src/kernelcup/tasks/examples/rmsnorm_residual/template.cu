//!POPCORN leaderboard rmsnorm_residual
// One block for each row.
#include <cuda_bf16.h>

constexpr int THREADS = 256;

__global__ void norm(__nv_bfloat16 *y, __nv_bfloat16 *h, const __nv_bfloat16 *x, const __nv_bfloat16 *residual,
                     const __nv_bfloat16 *weight, int hidden) {
    __shared__ float partial[THREADS / 32];
    const int64_t row = blockIdx.x * int64_t(hidden);
    float sum = 0;
    for (int i = threadIdx.x; i < hidden; i += THREADS) {
        const float total = __bfloat162float(x[row + i]) + __bfloat162float(residual[row + i]);
        sum += total * total;
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (float each : partial) sum += each;
    const float scale = rsqrtf(sum / hidden + 1e-5f);
    for (int i = threadIdx.x; i < hidden; i += THREADS) {
        const float total = __bfloat162float(x[row + i]) + __bfloat162float(residual[row + i]);
        h[row + i] = __float2bfloat16(total);
        y[row + i] = __float2bfloat16(total * scale * __bfloat162float(weight[i]));
    }
}

int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    auto x = kc::view_of<__nv_bfloat16, 2>(inputs, 0, context), residual = kc::view_of<__nv_bfloat16, 2>(inputs, 1, context);
    auto weight = kc::view_of<__nv_bfloat16, 1>(inputs, 2, context);
    auto y = kc::view_of<__nv_bfloat16, 2>(outputs, 0, context), h = kc::view_of<__nv_bfloat16, 2>(outputs, 1, context);
    if (context->failed) return 1;
    norm<<<unsigned(x.shape[0]), THREADS, 0, kc::stream(context)>>>(y.data, h.data, x.data, residual.data, weight.data,
                                                                     int(x.shape[1]));
    return 0;
}
