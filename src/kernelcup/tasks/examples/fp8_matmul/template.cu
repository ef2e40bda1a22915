//!POPCORN leaderboard fp8_matmul
// A tile of 16 x 16 for each block, element by element: a place to start from.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

__global__ void multiply(__nv_bfloat16 *c, const __nv_fp8_e4m3 *a, const __nv_fp8_e4m3 *b, const float *a_scale,
                         const float *b_scale, int m, int n, int k) {
    __shared__ float left[16][17], right[16][17];
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    const int other = blockIdx.x * 16 + threadIdx.y, blocks = k / 128;
    float sum = 0;
    for (int block = 0; block < blocks; block++) {
        float part = 0;
        for (int at = block * 128; at < block * 128 + 128; at += 16) {
            left[threadIdx.y][threadIdx.x] = row < m ? float(a[int64_t(row) * k + at + threadIdx.x]) : 0.0f;
            right[threadIdx.y][threadIdx.x] = float(b[int64_t(other) * k + at + threadIdx.x]);
            __syncthreads();
            for (int i = 0; i < 16; i++) part += left[threadIdx.y][i] * right[threadIdx.x][i];
            __syncthreads();
        }
        if (row < m) sum += part * a_scale[row * blocks + block] * b_scale[column / 128 * blocks + block];
    }
    if (row < m) c[int64_t(row) * n + column] = __float2bfloat16(sum);
}

int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    auto a = kc::view_of<__nv_fp8_e4m3, 2>(inputs, 0, context), b = kc::view_of<__nv_fp8_e4m3, 2>(inputs, 1, context);
    auto a_scale = kc::view_of<float, 2>(inputs, 2, context), b_scale = kc::view_of<float, 2>(inputs, 3, context);
    auto c = kc::view_of<__nv_bfloat16, 2>(outputs, 0, context);
    if (context->failed) return 1;
    const int m = int(a.shape[0]), n = int(b.shape[0]), k = int(a.shape[1]);
    const dim3 blocks(n / 16, (m + 15) / 16);
    multiply<<<blocks, dim3(16, 16), 0, kc::stream(context)>>>(c.data, a.data, b.data, a_scale.data, b_scale.data, m, n, k);
    return 0;
}
