"""Leaderboards and submissions whose kernels use tensor maps: a copy, and a product by wgmma.

Each kernel is there twice, by the bulk copy engine and plainly, and each of them as reference and as submission.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "gpu"
REFERENCES = {"double": "reference.cu", "product": "reference.cuh"}
"""By board: the single file of a leaderboard, and one that is a header."""
INPUTS = {
    "double": """
    const int64_t shape[] = {256, 64 * size};
    kc_tensor *made[] = {kc_new_tensor(context, inputs, "", KC_FLOAT32, KC_DEVICE, 2, shape)};
    if (context->failed) return 1;
    fill<<<64, 256, 0, (cudaStream_t)context->stream>>>((float *)made[0]->data, kc_numel(made[0]), seed);""",
    "product": """
    const int64_t shape[] = {64 * size, 64 * size};
    for (int i = 0; i < 2; i++) {
        kc_tensor *made = kc_new_tensor(context, inputs, i ? "b" : "a", KC_BFLOAT16, KC_DEVICE, 2, shape);
        if (context->failed) return 1;
        fill<<<64, 256, 0, (cudaStream_t)context->stream>>>((__nv_bfloat16 *)made->data, kc_numel(made), seed + i);
    }""",
}
LEADERBOARD = """
template <typename Element>
__global__ void fill(Element *values, int64_t count, uint64_t seed) {
    for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
        uint64_t x = seed + uint64_t(i + 1) * 0x9e3779b97f4a7c15ull;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
        values[i] = Element(float((x ^ (x >> 31)) >> 40) / 8388608.0f - 1.0f);
    }
}

int generate_input(const kc_case *parameters, uint64_t seed, kc_args *inputs, kc_context *context) {
    const int64_t size = kc_parameter_int(parameters, "size", context);INPUTS
    return 0;
}

int ref_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    const kc_tensor *last = &inputs->tensors[inputs->tensor_count - 1];
    const int64_t shape[] = {inputs->tensors[0].shape[0], inputs->tensor_count > 1 ? last->shape[0] : last->shape[1]};
    kc_tensor *output = kc_new_tensor(context, outputs, "", KC_FLOAT32, KC_DEVICE, 2, shape);
    return context->failed ? 1 : HOW(inputs, output, context);
}
"""
SUBMISSION = """
int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    return HOW(inputs, &outputs->tensors[0], context);
}
"""


def kernels(board: str) -> str:
    """Return the kernels of a board."""
    return (FOLDER / f"tma_{board}.cuh").read_text(encoding="utf-8")


def reference(board: str, how: str) -> str:
    """Return a leaderboard's file; ``how`` is ``by_tma`` or ``plainly``."""
    return kernels(board) + LEADERBOARD.replace("INPUTS", INPUTS[board]).replace("HOW", how)


def submission(board: str, how: str) -> str:
    """Return a submission."""
    return kernels(board) + SUBMISSION.replace("HOW", how)
