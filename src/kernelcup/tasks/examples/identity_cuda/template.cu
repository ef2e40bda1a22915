//!POPCORN leaderboard identity_cuda
#include "task.h"
#include "utils.h"

__global__ void copy(float *to, const float *from, size_t size) {
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < size) to[i] = from[i];
}

output_t custom_kernel(input_t data) {
    output_t answer(data.size());
    const size_t bytes = data.size() * sizeof(float);
    float *from, *to;
    CUDA_CHECK(cudaMalloc(&from, bytes));
    CUDA_CHECK(cudaMalloc(&to, bytes));
    CUDA_CHECK(cudaMemcpy(from, data.data(), bytes, cudaMemcpyHostToDevice));
    copy<<<(data.size() + 255) / 256, 256>>>(to, from, data.size());
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(answer.data(), to, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(from));
    CUDA_CHECK(cudaFree(to));
    return answer;
}
