"""Jobs with CUDA C++ behind the C interface: their verdicts, times beside the profiler's, and seconds to a verdict.

    python benchmarks/cuda_jobs.py FOLDER [--seconds 470] [--runs 3] [--only add,triton]

Writes one JSON line a job to ``FOLDER/time-cuda-jobs.jsonl`` and ends with 1 if a job had another outcome than the one
named here. Needs torch, Triton and nvcc. ``tests/gpu/test_gpu_cuda.py`` runs the same jobs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from time_common import Log, compact, environment, facts, options, warm

from kernelcup_harness.protocol import Backend, HarnessKind, JobSpec, MeasureRules, Mode, SourceTree

SIZES = (1 << 20, 1 << 24)
REFERENCE = """\
import torch

def generate_input(size, seed):
    generator = torch.Generator("cuda").manual_seed(seed)
    return tuple(torch.randn(size, generator=generator, device="cuda") for _ in range(2))

def ref_kernel(data):
    return data[0] + data[1]

def check_implementation(data, output):
    return "" if torch.equal(ref_kernel(data), output) else "not the sum"
"""
IN_PLACE = """\
import torch

def generate_input(size, seed):
    return torch.randn(size, generator=torch.Generator("cuda").manual_seed(seed), device="cuda")

def ref_kernel(data):
    data.mul_(2)

def check_implementation(data, output):
    return "" if torch.equal(data * 2, output) else "not the double"
"""
VIEWS = """\
#include <stdexcept>
using In = kc::view<const float, 1>;
using Out = kc::view<float, 1>;
"""
ENTRY = "int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context)"
ADD_KERNEL = """\
__global__ void add(const float4 *a, const float4 *b, float4 *c, int64_t count) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i >= count) return;
    float4 x = a[i], y = b[i];
    c[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}
"""
POINTERS = """\
    const float4 *a = (const float4 *)inputs->tensors[0].data, *b = (const float4 *)inputs->tensors[1].data;
    float4 *c = (float4 *)outputs->tensors[0].data;
    int64_t count = kc_numel(&outputs->tensors[0]) / 4;
    int blocks = (int)((count + 255) / 256);
    cudaStream_t stream = (cudaStream_t)context->stream;
"""
ADD = f"""{ADD_KERNEL}{ENTRY} {{
{POINTERS}
    add<<<blocks, 256, 0, stream>>>(a, b, c, count);
    return 0;
}}
"""
SCRATCH = f"""{ADD_KERNEL}
__global__ void twice(const float4 *a, float4 *out, int64_t count) {{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < count) out[i] = a[i];
}}
{ENTRY} {{
{POINTERS}
    float4 *copy = (float4 *)kc_scratch(context, count * sizeof(float4));
    if (copy == NULL) return 1;
    twice<<<blocks, 256, 0, stream>>>(a, copy, count);
    add<<<blocks, 256, 0, stream>>>(copy, b, c, count);
    return 0;
}}
"""
MALLOC = f"""{ADD_KERNEL}{ENTRY} {{
{POINTERS}
    float4 *copy = NULL;
    KC_CUDA(cudaMalloc(&copy, count * sizeof(float4)));
    KC_CUDA(cudaMemcpyAsync(copy, a, count * sizeof(float4), cudaMemcpyDeviceToDevice, stream));
    add<<<blocks, 256, 0, stream>>>(copy, b, c, count);
    KC_CUDA(cudaStreamSynchronize(stream));
    KC_CUDA(cudaFree(copy));
    return 0;
}}
"""
DOUBLE = f"""__global__ void twice(float *data, int64_t count) {{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < count) data[i] *= 2.0f;
}}
{ENTRY} {{
    kc_tensor *data = kc_tensor_at(inputs, 0, context);
    if (data == NULL || outputs->tensor_count != 0) return kc_fail(context, "not in place");
    int64_t count = kc_numel(data);
    twice<<<(count + 255) / 256, 256, 0, (cudaStream_t)context->stream>>>((float *)data->data, count);
    return 0;
}}
"""
OUTSIDE = f"""{VIEWS}
__global__ void add(In a, In b, Out c) {{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    c(i) = a(i) + b(i + 1);
}}
{ENTRY} {{
    auto a = kc::view_of<const float, 1>(inputs, 0, context), b = kc::view_of<const float, 1>(inputs, 1, context);
    auto c = kc::view_of<float, 1>(outputs, 0, context);
    if (context->failed) return 1;
    add<<<c.size() / 256, 256, 0, kc::stream(context)>>>(a, b, c);
    return 0;
}}
"""
TRITON = """\
import torch, triton
import triton.language as tl

@triton.jit
def add(a, b, c, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + at, tl.load(a + at, at < n) + tl.load(b + at, at < n), at < n)

def custom_kernel(data):
    a, b = data
    c = torch.empty_like(a)
    add[(triton.cdiv(a.numel(), 1024),)](a, b, c, a.numel(), BLOCK=1024)
    return c
"""
NVRTC = '''\
import torch

add = torch.cuda._compile_kernel("""
extern "C" __global__ void add(const float *a, const float *b, float *c, long long count) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < count) c[i] = a[i] + b[i];
}
""", "add")

def custom_kernel(data):
    a, b = data
    c = torch.empty_like(a)
    add(((a.numel() + 255) // 256, 1, 1), (256, 1, 1), (a, b, c, a.numel()))
    return c
'''


def body(text: str) -> str:
    """Return a submission whose function only does this."""
    return f"{VIEWS}{ENTRY} {{ {text} }}\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A submission, and what has to come of it."""

    text: str
    entry: str = "submission.cu"
    mode: Mode = Mode.LEADERBOARD
    reference: str = REFERENCE
    verdict: str = "accepted"
    reason: str = ""
    replayed: bool | None = None
    """Whether its calls are replayed; None if it does not get so far."""
    says: str = ""
    """A part of its message."""
    rival: str = ""
    """A Python submission on the same board to be measured against."""


TEST, RUNTIME = Mode.TEST, "runtime_error"
JOBS = {
    "add": Job(text=ADD, replayed=True),
    "add-test": Job(text=ADD, mode=TEST),
    "triton": Job(text=TRITON, entry="submission.py", replayed=True),
    "nvrtc": Job(text=NVRTC, entry="submission.py", replayed=True),
    "add-against-triton": Job(text=ADD, replayed=True, rival=TRITON),
    "scratch": Job(text=SCRATCH, replayed=True),
    "in-place": Job(text=DOUBLE, reference=IN_PLACE, replayed=True),
    "cuda-malloc": Job(text=MALLOC, replayed=False),
    "default-stream": Job(text=ADD.replace("256, 0, stream", "256"), replayed=False),
    "does-not-compile": Job(
        text=ADD.replace("a[i]", "a[j]"), verdict="compile_error", reason="compile", says="submission.cu(4)"
    ),
    "returns-7": Job(
        text=body("return 7;"), verdict=RUNTIME, reason="exception", says="returned 7", mode=TEST
    ),
    "throws": Job(
        text=body('throw std::runtime_error("no");'),
        verdict=RUNTIME,
        reason="exception",
        says="no",
        mode=TEST,
    ),
    "too-many-threads": Job(
        text=ADD.replace("blocks, 256", "blocks, 4096"),
        verdict=RUNTIME,
        reason="exception",
        says="CUDA: invalid",
        mode=TEST,
    ),
    "out-of-range": Job(text=OUTSIDE, verdict=RUNTIME, reason="exception", says="assert", mode=TEST),
    "wild-pointer": Job(
        text=ADD.replace("(a, b, c, count)", "(a + (1ll << 40), b, c, count)"),
        verdict=RUNTIME,
        reason="exception",
        says="illegal memory access",
        mode=TEST,
    ),
    "leaves-it-blank": Job(text=body("return 0;"), verdict="wrong_answer", reason="differs", mode=TEST),
}
LONGEST_TEST_S, LONGEST_NVCC_S = 4.0, 2.0
NOISE, MOST_LESS_NS = 0.015, 1_500.0
"""How far a ranked time may lie from the profiler's, as a share, and how much below it beside that: the profiler counts
0.5 to 1.1 us more, from the launch of the first block and to the end of the last kernel's writes."""


def spec_of(name: str, **changes: Any) -> JobSpec:
    """Return a job of the list."""
    job = JOBS[name]
    cases = [{"size": size, "seed": 7 + number} for number, size in enumerate(SIZES)]
    spec = JobSpec(
        job_id=f"cuda-{name}",
        mode=job.mode,
        backend=Backend.CUDA,
        harness=HarnessKind.STANDARD,
        sources={"reference.py": job.reference},
        private_files=["reference.py"],
        submission=SourceTree.of(job.text, job.entry),
        rival=SourceTree.of(job.rival, "rival.py") if job.rival else None,
        tests=cases[:1] if job.mode is not Mode.TEST else cases,
        benchmarks=cases,
        rules=MeasureRules(stage_budget_s=4.0),
    )
    return replace(spec, **changes)


def faults(name: str, report: dict[str, Any], profiler_ns: dict[int, float]) -> list[str]:
    """Return what is not as it has to be."""
    job, room = JOBS[name], report["environment"].get("clean_room", {})
    text = report["message"] + "".join(
        case["message"] for stage in report["stages"] for case in stage["cases"]
    )
    found = {
        f"{report['verdict']}, not {job.verdict}: {text[:300]}": report["verdict"] != job.verdict,
        f"reason {report['reason']}": job.reason not in ("", report["reason"]),
        f"does not say {job.says!r}: {text[:600]}": job.says not in text,
        f"replayed {room}": job.replayed is not None and room.get("replayed") is not job.replayed,
    }
    for size, score in scores(report).items():
        other = profiler_ns.get(size)
        if other is not None and not (1 - NOISE) * other - MOST_LESS_NS <= score <= (1 + NOISE) * other:
            found[f"{size}: {score:.0f} ns, the profiler {other:.0f}"] = True
    return [text for text, wrong in found.items() if wrong]


def scores(report: dict[str, Any]) -> dict[int, float]:
    """Return the ranked times by size, in nanoseconds."""
    cases = report["stages"][-1]["cases"] if report["stages"] else []
    timed = [case for case in cases if case["timing"] and case["timing"]["audit"]]
    return {case["parameters"]["size"]: case["timing"]["audit"]["score_ns"] for case in timed}


def profiled(name: str) -> dict[str, dict[int, float]]:
    """Return the profiler's times of a submission in an ordinary process by size, in nanoseconds: of its calls as they
    are made, and of a graph of each, which is what is replayed."""
    done = subprocess.run(
        [sys.executable, __file__, "inside", name],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    found = json.loads(lines[-1])
    return {
        way: {int(size): statistics.median(times) for size, times in each.items()}
        for way, each in found.items()
    }


def inside(name: str) -> None:
    """Print the profiler's times: no part of the harness but what compiles and calls."""
    import torch
    from clean_room_bias import captured
    from clean_room_bias import profiled as times_of

    from kernelcup_harness.core.answer import Form
    from kernelcup_harness.isolation.job_environment import CUDA_FOLDER, compiler_environment
    from kernelcup_harness.submission import languages

    job, found = JOBS[name], {"calls": {}, "graphs": {}}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ |= compiler_environment(Backend.CUDA, os.environ) | {
            CUDA_FOLDER: folder,
            "KERNELCUP_BACKEND": "cuda",
        }
        Path(job.entry).write_text(job.text)
        call = languages.of(job.entry).load(Path(folder, job.entry))
        for size in SIZES:
            inputs = [[torch.randn(size, device="cuda") for _ in range(2)] for _ in range(4)]
            if hasattr(call, "expect"):
                call.expect(Form.of(inputs[0][0], in_place=False).described)
            calls = [lambda each=each: call(tuple(each)) for each in inputs]
            for each in calls:
                each()
            found["calls"][size] = times_of(calls)
            found["graphs"][size] = times_of([graph.replay for graph in captured(calls)])
    print(json.dumps(found), flush=True)


def main() -> int:
    """Run what is missing, show it, and return 1 if something is not as it has to be."""
    chosen = options(__doc__, runs=1, only="")
    log, wrong = Log(chosen, "cuda-jobs"), 0
    names = chosen.only.split(",") if chosen.only else list(JOBS)
    profiler = {name: profiled(name) for name in ("add", "triton") if name in names}
    known = facts(Backend.CUDA)
    with warm(Backend.CUDA) as runners:
        for name in names:
            for _ in log.missing(chosen.runs, name=name):
                if not runners.left:
                    runners.fill(3)
                seconds, report = runners.run(spec_of(name, device=known))
                bad = faults(name, report, profiler.get(name, {}).get("graphs", {}))
                build_s = report["phases"].get("build", 0.0)
                if name == "add-test" and (seconds > LONGEST_TEST_S or build_s > LONGEST_NVCC_S):
                    bad.append(f"a verdict in {seconds:.2f} s, of which nvcc {build_s:.2f}")
                wrong += bool(bad)
                room = report["environment"].get("clean_room", {})
                log.add(
                    name=name,
                    seconds=seconds,
                    faults=bad,
                    room=room,
                    profiler=profiler.get(name),
                    report=compact(report),
                )
                log.say(f"{name}: {'; '.join(bad) or 'as expected'}: {report['verdict']} {report['trust']}, "
                        f"{seconds:.2f} s, build {build_s:.2f}, {room.get('reason')}, ns {scores(report)}, "
                        f"profiler {profiler.get(name)}")  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        inside(sys.argv[2])
    else:
        sys.exit(main())
