// Multiplies bfloat16 matrices a [m, k] and b [n, k] to float32 [m, n]: tiles by the bulk copy engine, wgmma by hand.
// m and n are multiples of 64, k too.
#include <cuda.h>
#include <cuda_bf16.h>

constexpr int TILE = 64;
constexpr uint32_t TILE_BYTES = TILE * TILE * 2;

// Rows of 128 bytes, swizzled by 128 bytes: groups of eight rows lie 1024 bytes apart.
__device__ uint64_t descriptor(uint32_t address) {
    return uint64_t((address & 0x3ffff) >> 4) | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

__device__ void multiply_tile(float (&d)[32], uint64_t a, uint64_t b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b));
}

__device__ void load_tile(uint32_t memory, const CUtensorMap *map, int column, int row, uint32_t full) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(memory), "l"(map), "r"(column), "r"(row), "r"(full)
                 : "memory");
}

__global__ void __launch_bounds__(128) multiply_tiles(const __grid_constant__ CUtensorMap a,
                                                      const __grid_constant__ CUtensorMap b, float *c, int n, int k) {
    __shared__ alignas(1024) unsigned char left[TILE_BYTES], right[TILE_BYTES];
    __shared__ alignas(8) uint64_t barrier;
    const int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    const uint32_t full = uint32_t(__cvta_generic_to_shared(&barrier));
    const uint32_t at_left = uint32_t(__cvta_generic_to_shared(left));
    const uint32_t at_right = uint32_t(__cvta_generic_to_shared(right));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    float d[32] = {};
    uint32_t parity = 0;
    for (int at = 0; at < k; at += TILE, parity ^= 1) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(2 * TILE_BYTES)
                         : "memory");
            load_tile(at_left, &a, at, row, full);
            load_tile(at_right, &b, at, column, full);
        }
        for (uint32_t done = 0; !done;)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                         "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(full), "r"(parity) : "memory");
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int step = 0; step < TILE / 16; step++)
            multiply_tile(d, descriptor(at_left + 32 * step), descriptor(at_right + 32 * step));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        __syncthreads();
    }
    const int lane = threadIdx.x % 32, first = row + threadIdx.x / 32 * 16 + lane / 4;
    for (int i = 0; i < 8; i++) {
        const int from = column + 8 * i + lane % 4 * 2;
        for (int part = 0; part < 4; part++)
            c[int64_t(first + part / 2 * 8) * n + from + part % 2] = d[4 * i + part];
    }
}

static int map_of(CUtensorMap *map, const kc_tensor *tensor) {
    const cuuint64_t size[] = {cuuint64_t(tensor->shape[1]), cuuint64_t(tensor->shape[0])};
    const cuuint64_t stride[] = {cuuint64_t(tensor->shape[1]) * 2};
    const cuuint32_t box[] = {TILE, TILE}, step[] = {1, 1};
    return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, tensor->data, size, stride, box, step,
                                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static int by_tma(const kc_args *inputs, kc_tensor *output, kc_context *context) {
    CUtensorMap a, b;
    if (map_of(&a, &inputs->tensors[0]) || map_of(&b, &inputs->tensors[1])) return kc_fail(context, "no tensor map");
    const int m = int(output->shape[0]), n = int(output->shape[1]), k = int(inputs->tensors[0].shape[1]);
    multiply_tiles<<<dim3(n / TILE, m / TILE), 128, 0, (cudaStream_t)context->stream>>>(
        a, b, (float *)output->data, n, k);
    return 0;
}

__global__ void multiply_plainly(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int n, int k) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int i = 0; i < k; i++)
        sum += __bfloat162float(a[int64_t(row) * k + i]) * __bfloat162float(b[int64_t(column) * k + i]);
    c[int64_t(row) * n + column] = sum;
}

static int plainly(const kc_args *inputs, kc_tensor *output, kc_context *context) {
    const int m = int(output->shape[0]), n = int(output->shape[1]), k = int(inputs->tensors[0].shape[1]);
    multiply_plainly<<<dim3(n / 16, m / 16), dim3(16, 16), 0, (cudaStream_t)context->stream>>>(
        (const __nv_bfloat16 *)inputs->tensors[0].data, (const __nv_bfloat16 *)inputs->tensors[1].data,
        (float *)output->data, n, k);
    return 0;
}
