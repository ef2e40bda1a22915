"""The kernels' shares of the time of five submissions, by the timer and by CUPTI: run it on a GPU machine.

    python3 benchmarks/own_shares.py FOLDER

Needs torch and Triton, and the list of the libraries' machine code for the origins (``python3 -m kernelcup_harness
--origins`` with ``KERNELCUP_ENVIRONMENTS`` set). Writes ``FOLDER/own-shares.json``.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from time_common import ROOT, about, environment, run_cold

from kernelcup_harness.protocol import Backend, HarnessKind, JobSpec, MeasureRules, Mode, SourceTree

REFERENCE = """\
import torch


def generate_input(seed):
    chance = torch.Generator("cuda").manual_seed(seed)
    return tuple(torch.randn(4096, 4096, generator=chance, device="cuda").half() for _ in range(3))


def ref_kernel(data):
    a, b, c = data
    return RIGHT


def check_implementation(data, output):
    right = ref_kernel(data).float()
    error = ((output.float() - right).abs() / (8 + right.abs())).max().item()
    return "" if error <= 0.05 else f"off by {error:.3g}"
"""
TRITON = """\
import torch, triton
import triton.language as tl


@triton.jit
def fma(a, b, c, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(a + at) * tl.load(b + at) + tl.load(c + at))


@triton.jit
def relu(a, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.maximum(tl.load(a + at), 0.0))


def run(kernel, *tensors):
    out = torch.empty_like(tensors[0])
    kernel[(out.numel() // 2048,)](*tensors, out, BLOCK=2048)
    return out


def custom_kernel(data):
    a, b, c = data
    return ANSWER
"""
CUDA = """\
#include <cuda_fp16.h>
__global__ void fma2(const __half2 *a, const __half2 *b, const __half2 *c, __half2 *out, int64_t count) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < count) out[i] = __hfma2(a[i], b[i], c[i]);
}
__global__ void relu2(const __half2 *a, __half2 *out, int64_t count) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < count) out[i] = __hmax2(a[i], __float2half2_rn(0.0f));
}
int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    auto at = [](const kc_args *args, int i) { return (__half2 *)args->tensors[i].data; };
    int64_t count = kc_numel(&outputs->tensors[0]) / 2;
    __half2 *between = (__half2 *)kc_scratch(context, count * sizeof(__half2));
    if (between == NULL) return 1;
    int blocks = (int)((count + 255) / 256);
    cudaStream_t stream = (cudaStream_t)context->stream;
    fma2<<<blocks, 256, 0, stream>>>(at(inputs, 0), at(inputs, 1), at(inputs, 2), between, count);
    relu2<<<blocks, 256, 0, stream>>>(between, at(outputs, 0), count);
    return 0;
}
"""
SUM, PRODUCT = "(a * b + c).relu()", "(a[:, :1024] @ b[:1024]).relu() * c + c"
SUBMISSIONS = {
    "own": (CUDA, SUM),
    "triton": (TRITON.replace("ANSWER", "run(relu, run(fma, a, b, c))"), SUM),
    "half": (TRITON.replace("ANSWER", "run(fma, run(relu, a[:, :1024] @ b[:1024]), c, c)"), PRODUCT),
    "cublas": (TRITON.replace("ANSWER", "torch.addmm(c, a, b)"), "a @ b + c"),
    "aten": (TRITON.replace("ANSWER", SUM), SUM),
}
ROUNDS = 60


def spec_of(name: str) -> JobSpec:
    """Return a ranked job on a board that asks for own kernels, so that each case's kernels are timed."""
    text, right = SUBMISSIONS[name]
    return JobSpec(
        job_id=f"own-share-{name}",
        mode=Mode.LEADERBOARD,
        backend=Backend.CUDA,
        harness=HarnessKind.STANDARD,
        sources={"reference.py": REFERENCE.replace("RIGHT", right)},
        private_files=["reference.py"],
        submission=SourceTree.of(text, entry_of(name)),
        tests=[{"seed": 11}],
        benchmarks=[{"seed": 12}],
        rules=MeasureRules(stage_budget_s=4.0),
        own_share=0.5,
    )


def entry_of(name: str) -> str:
    """Return the name of a submission's file."""
    return "submission.cu" if name == "own" else "submission.py"


def profiled(name: str) -> dict[str, float]:
    """Return CUPTI's share of each kernel of a submission in an ordinary process, by its name."""
    argv = [sys.executable, __file__, "inside", name]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, env=environment(), check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def inside(name: str) -> None:
    """Print CUPTI's shares: of graphs, with a cold L2 cache, as the timer replays them."""
    import torch
    from clean_room_bias import HIDING_CYCLES, SWEEP_BYTES, captured

    from kernelcup_harness.core.answer import Form
    from kernelcup_harness.isolation.job_environment import CUDA_FOLDER, compiler_environment
    from kernelcup_harness.submission import languages

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ |= compiler_environment(Backend.CUDA, os.environ) | {
            CUDA_FOLDER: folder,
            "KERNELCUP_BACKEND": "cuda",
        }
        path = Path(folder, entry_of(name))
        path.write_text(SUBMISSIONS[name][0])
        call = languages.of(path.name).load(path)
        data = tuple(torch.randn(4096, 4096, device="cuda").half() for _ in range(3))
        if hasattr(call, "expect"):
            call.expect(Form.of(data[0], in_place=False).described)
        call(data)
        (graph,) = captured([lambda: call(data)])
        sweep = torch.empty(SWEEP_BYTES, dtype=torch.uint8, device="cuda")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as recorded:
            for _ in range(ROUNDS):
                sweep.fill_(1)
                torch.cuda._sleep(HIDING_CYCLES)
                graph.replay()
                torch.cuda.synchronize()
    times: dict[str, list[float]] = defaultdict(list)
    for each in recorded.events():
        if each.device_type == torch.autograd.DeviceType.CUDA and not each.name.lower().startswith("mem"):
            times[each.name].append(each.time_range.elapsed_us())
    spent = {
        kernel: statistics.median(each) * len(each) / ROUNDS
        for kernel, each in times.items()
        if "spin_kernel" not in kernel and "FillFunctor<unsigned char>" not in kernel
    }
    print(json.dumps({kernel: each / sum(spent.values()) for kernel, each in spent.items()}), flush=True)


def main(folder: Path) -> None:
    """Judge and profile each submission; write both shares."""
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {**about(Backend.CUDA), "submissions": {}}
    for name in SUBMISSIONS:
        try:
            seconds, report = run_cold(spec_of(name))
            keys = ("name", "origin", "share", "launches", "registers", "image")
            line = {
                "seconds": seconds,
                **{key: report[key] for key in ("verdict", "message", "trust", "quarantine")},
                "timer": [{key: each[key] for key in keys} for each in report["ran"]],
                "room": report["environment"].get("clean_room"),
            }
            found["submissions"][name] = line
            line["cupti"] = profiled(name)
        except Exception as error:
            found["submissions"].setdefault(name, {})["error"] = f"{type(error).__name__}: {error}"[-1500:]
        print(name, json.dumps(found["submissions"][name], indent=1), flush=True)
        (folder / "own-shares.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    inside(sys.argv[2]) if sys.argv[1] == "inside" else main(Path(sys.argv[1]).resolve())
