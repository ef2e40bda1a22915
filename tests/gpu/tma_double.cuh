// Doubles a float32 matrix [rows, columns], tile by tile, with tensor maps and the bulk copy engine, by hand.
#include <cuda.h>

constexpr int TILE_ROWS = 32, TILE_COLUMNS = 64;

__global__ void double_tiles(const __grid_constant__ CUtensorMap source, const __grid_constant__ CUtensorMap target) {
    __shared__ alignas(128) float tile[TILE_ROWS * TILE_COLUMNS];
    __shared__ alignas(8) uint64_t barrier;
    const int column = blockIdx.x * TILE_COLUMNS, row = blockIdx.y * TILE_ROWS;
    const uint32_t full = uint32_t(__cvta_generic_to_shared(&barrier));
    const uint32_t memory = uint32_t(__cvta_generic_to_shared(tile));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(uint32_t(sizeof tile))
                     : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];" ::"r"(memory), "l"(&source), "r"(column), "r"(row), "r"(full)
                     : "memory");
    }
    __syncthreads();
    for (uint32_t done = 0; !done;)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(full) : "memory");
    for (int i = threadIdx.x; i < TILE_ROWS * TILE_COLUMNS; i += blockDim.x) tile[i] *= 2;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&target),
                     "r"(column), "r"(row), "r"(memory) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

static int map_of(CUtensorMap *map, const kc_tensor *tensor) {
    const cuuint64_t size[] = {cuuint64_t(tensor->shape[1]), cuuint64_t(tensor->shape[0])};
    const cuuint64_t stride[] = {cuuint64_t(tensor->shape[1]) * 4};
    const cuuint32_t box[] = {TILE_COLUMNS, TILE_ROWS}, step[] = {1, 1};
    return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, tensor->data, size, stride, box, step,
                                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static int by_tma(const kc_args *inputs, kc_tensor *output, kc_context *context) {
    CUtensorMap source, target;
    if (map_of(&source, &inputs->tensors[0]) || map_of(&target, output)) return kc_fail(context, "no tensor map");
    const dim3 blocks(unsigned((output->shape[1] + TILE_COLUMNS - 1) / TILE_COLUMNS),
                      unsigned((output->shape[0] + TILE_ROWS - 1) / TILE_ROWS));
    double_tiles<<<blocks, 128, 0, (cudaStream_t)context->stream>>>(source, target);
    return 0;
}

__global__ void double_plainly(const float *source, float *target, int64_t count) {
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < count) target[i] = 2 * source[i];
}

static int plainly(const kc_args *inputs, kc_tensor *output, kc_context *context) {
    const int64_t count = kc_numel(output);
    double_plainly<<<unsigned((count + 255) / 256), 256, 0, (cudaStream_t)context->stream>>>(
        (const float *)inputs->tensors[0].data, (float *)output->data, count);
    return 0;
}
