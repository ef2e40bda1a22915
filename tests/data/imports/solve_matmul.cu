#include <cuda_runtime.h>

__global__ void multiply(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || column >= K) return;
    float sum = 0.0f;
    for (int i = 0; i < N; i++) sum += A[row * N + i] * B[i * K + column];
    C[row * K + column] = sum;
}

// A, B and C are pointers to device memory.
extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 threads(16, 16), blocks((K + 15) / 16, (M + 15) / 16);
    multiply<<<blocks, threads>>>(A, B, C, M, N, K);
    cudaDeviceSynchronize();
}
