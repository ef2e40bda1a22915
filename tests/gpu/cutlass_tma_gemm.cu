// A matrix product by CUTLASS for Hopper: tiles by the bulk copy engine, wgmma. For sizes that are multiples of eight.
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cuda_fp16.h>

namespace {

using Element = cutlass::half_t;
using Row = cutlass::layout::RowMajor;
using Tile = cute::Shape<cute::_128, cute::_128, cute::_64>;
using Cluster = cute::Shape<cute::_1, cute::_1, cute::_1>;
constexpr int ALIGNED = 8;

using Epilogue = cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, Element, Row, ALIGNED, Element, Row, ALIGNED,
    cutlass::epilogue::collective::EpilogueScheduleAuto>::CollectiveOp;
using Stages = cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(typename Epilogue::SharedStorage))>;
using Mainloop = cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, Row, ALIGNED, Element, Row, ALIGNED, float, Tile,
    Cluster, Stages, cutlass::gemm::collective::KernelScheduleAuto>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

}  // namespace

int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    auto a = kc::view_of<__half, 2>(inputs, 0, context), b = kc::view_of<__half, 2>(inputs, 1, context);
    auto c = kc::view_of<__half, 2>(outputs, 0, context);
    if (context->failed) return 1;
    const int m = int(a.shape[0]), n = int(b.shape[1]), k = int(a.shape[1]);
    auto *left = reinterpret_cast<Element *>(a.data), *right = reinterpret_cast<Element *>(b.data);
    auto *answer = reinterpret_cast<Element *>(c.data);
    const auto of_a = cute::make_stride(int64_t(k), cute::_1{}, int64_t(0));
    const auto of_b = cute::make_stride(cute::_1{}, int64_t(n), int64_t(0));
    const auto of_c = cute::make_stride(int64_t(n), cute::_1{}, int64_t(0));
    Gemm gemm;
    const cutlass::Status status = gemm({cutlass::gemm::GemmUniversalMode::kGemm, {m, n, k, 1},
        {left, of_a, right, of_b}, {{1.0f, 0.0f}, answer, of_c, answer, of_c}}, nullptr, kc::stream(context));
    return status == cutlass::Status::kSuccess ? 0 : kc_fail(context, "CUTLASS: %s", cutlassGetStatusString(status));
}
