"""A process under emulation: requests for a GPU are answered by the processor, or refused in words.

Importing torch is most of the work, so one process imports it, and each text below is tried in a copy of that.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from harness_runs import SOURCE

PROGRAM = f"""
import json, os, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {str(SOURCE)!r})
from kernelcup_harness.device.emulated import emulation
emulation.install()
assert "torch" not in sys.modules
import torch
assert torch.ones(2, device="cuda").is_cuda, "it is patched when it is imported"
emulation.install()
assert torch.ones(2, device="cuda").is_cuda and torch.ones(2).to("cuda").is_cuda
answers = {{}}
def ask(name, question):
    try:
        answer = question()
        answers[name] = answer if answer is True else repr(answer)
    except BaseException as error:
        answers[name] = f"{{type(error).__name__}}: {{error}}"[:300]
for program, (text, *arguments) in json.load(sys.stdin).items():
    pid = os.fork()
    if pid == 0:
        sys.argv[1:] = arguments
        exec(text)
        print(json.dumps({{program: answers}}), flush=True)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, program
"""


def answers_to(texts: dict[str, list[str]]) -> dict[str, dict[str, Any]]:
    """Run programs under emulation, each with its arguments, and return what they have found."""
    finished = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    found: dict[str, dict[str, Any]] = {}
    for line in finished.stdout.splitlines():
        found |= json.loads(line) if line.startswith("{") else {}
    return found


def not_true(answers: dict[str, Any]) -> dict[str, Any]:
    return {name: answer for name, answer in answers.items() if answer is not True}


TORCH = r"""
import copy, io, threading
from concurrent.futures import ThreadPoolExecutor
import torch
from torch import nn

x = torch.arange(4.0, device="cuda")
cuda = torch.device("cuda")
def placed(value):
    return value.is_cuda and str(value.device) == "cuda:0" and value.device == torch.device("cuda:0")
def on_host(value):
    return not value.is_cuda and value.is_cpu and value.device == torch.device("cpu") and value.get_device() == -1

factories = {
    "empty": lambda **k: torch.empty(2, **k),
    "zeros": lambda **k: torch.zeros(2, **k),
    "ones": lambda **k: torch.ones((2,), **k),
    "full": lambda **k: torch.full((2,), 1.5, **k),
    "rand": lambda **k: torch.rand(2, **k),
    "randn": lambda **k: torch.randn(2, **k),
    "randint": lambda **k: torch.randint(0, 9, (2,), **k),
    "randperm": lambda **k: torch.randperm(2, **k),
    "arange": lambda **k: torch.arange(2, **k),
    "linspace": lambda **k: torch.linspace(0, 1, 2, **k),
    "eye": lambda **k: torch.eye(2, **k),
    "tensor": lambda **k: torch.tensor([1, 2], **k),
    "as_tensor": lambda **k: torch.as_tensor([1, 2], **k),
    "empty_strided": lambda **k: torch.empty_strided((2,), (1,), **k),
    "empty_like": lambda **k: torch.empty_like(x, **k),
    "rand_like": lambda **k: torch.rand_like(x, **k),
    "new_zeros": lambda **k: x.new_zeros(2, **k),
    "new_tensor": lambda **k: x.new_tensor([1.0], **k),
}
for name, make in factories.items():
    for device in ("cuda", "cuda:0", cuda, torch.device("cuda", 0), x.device, 0):
        ask(f"{name} on {device!r}", lambda: placed(make(device=device)))
ask("pinned factory", lambda: on_host(torch.empty(2, pin_memory=True)))
ask("pinned", lambda: on_host(torch.empty(2).pin_memory()))
ask("fp8", lambda: placed(torch.ones(2, device="cuda").to(torch.float8_e4m3fn)))

moves = {
    "to name": lambda v: v.to("cuda"),
    "to device": lambda v: v.to(cuda),
    "to keyword": lambda v: v.to(device="cuda"),
    "to both": lambda v: v.to("cuda", torch.float16),
    "to keywords": lambda v: v.to(device=cuda, dtype=torch.float16, non_blocking=True),
    "to another's": lambda v: v.to(torch.zeros(1, device="cuda")),
    "to number": lambda v: v.to(0),
    "cuda": lambda v: v.cuda(),
    "cuda number": lambda v: v.cuda(0, non_blocking=True),
    "type": lambda v: v.type(torch.cuda.FloatTensor),
}
steps = {
    "to dtype": lambda v: v.to(torch.int32),
    "to nothing": lambda v: v.to(non_blocking=True),
    "type of elements": lambda v: v.type(torch.float16),
    "half": lambda v: v.half(),
    "arithmetic": lambda v: v * 2 + 1,
    "in place": lambda v: v.add_(1),
    "view": lambda v: v.view(2, 2).t(),
    "deepcopy": lambda v: copy.deepcopy(v),
    "new": lambda v: v.new_zeros(3),
    "like": lambda v: torch.zeros_like(v),
    "index": lambda v: v[torch.tensor([0, 1], device=v.device)],
    "indices on the host": lambda v: torch.tensor([5.0, 6], device=v.device)[torch.tensor([0, 1])],
    "part": lambda v: v[1:],
    "in a tuple": lambda v: v.max(0)[1],
    "stacked": lambda v: torch.stack([v, v]),
    "gathered": lambda v: v.unsqueeze(0).gather(1, torch.zeros(1, 1, dtype=torch.int64, device=v.device)),
    "copied": lambda v: torch.tensor(v),
    "beside a number on the host": lambda v: v * torch.tensor(2.0),
}
for name, move in moves.items():
    ask(name, lambda: placed(move(torch.ones(4))) and placed(move(torch.ones(4, device="cuda"))))
for name, step in steps.items():
    ask(name, lambda: placed(step(torch.ones(4, device="cuda"))))
    ask(name + " on the host", lambda: on_host(step(torch.ones(4))))
def summed_in_float32():
    first, second = (torch.randn(*shape, device="cuda").half() for shape in ((64, 2048), (2048, 64)))
    expected = (first.float() @ second.float()).half()
    found = [first @ second, torch.mm(first, second), torch.bmm(first[None], second[None])[0]]
    found.append(nn.functional.linear(first, second.T))
    return all(placed(each) and torch.equal(each, expected) for each in found)
ask("half products", summed_in_float32)
ask("values", lambda: (x.cpu() * 2).tolist() == [0.0, 2.0, 4.0, 6.0] and x.cpu().numpy().tolist() == [0, 1, 2, 3])

def generated():
    make = lambda: torch.rand(5, device="cuda", generator=torch.Generator(device="cuda").manual_seed(2**63 - 1))
    return torch.equal(make(), make())
ask("generator", generated)
ask("generator state", lambda: torch.Generator("cuda").set_state(torch.Generator("cuda").get_state()) is not None)
ask("generator type", lambda: isinstance(torch.default_generator, torch.Generator))
ask("seeded", lambda: torch.cuda.manual_seed(1) is None and torch.cuda.manual_seed_all(1) is None)

modules = {
    "module cuda": lambda: nn.Linear(4, 2).cuda(),
    "module to": lambda: nn.Linear(4, 2).to("cuda"),
    "module to keyword": lambda: nn.Linear(4, 2).to(device=cuda, dtype=torch.float32),
    "module made there": lambda: nn.Linear(4, 2, device="cuda"),
    "module eval": lambda: nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)).cuda().eval(),
}
for name, make in modules.items():
    ask(name, lambda: placed(next(make().parameters())) and placed(make()(x[None])))

def with_device():
    with torch.device("cuda"):
        return placed(torch.ones(2)) and placed(nn.Linear(1, 1).weight)
ask("with device", with_device)
ask("out of a with", lambda: on_host(torch.zeros(2)))
def default_device():
    torch.set_default_device("cuda")
    try:
        return placed(torch.ones(2)) and placed(nn.Linear(1, 1).weight)
    finally:
        torch.set_default_device(None)
ask("default device", default_device)
ask("after the default device", lambda: on_host(torch.ones(2)) and placed(torch.ones(2, device="cuda")))
def autocast(dtype):
    with torch.autocast("cuda", dtype=dtype):
        return (torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")).dtype is dtype
ask("autocast", lambda: autocast(torch.bfloat16))
def inference():
    with torch.inference_mode(), torch.no_grad():
        return placed(torch.ones(2, device="cuda"))
ask("inference mode", inference)
def backward():
    weight = torch.ones(2, device="cuda", requires_grad=True)
    (weight * x[:2]).sum().backward()
    return placed(weight.grad) and weight.grad.tolist() == [0.0, 1.0]
ask("backward", backward)

def in_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(placed(torch.ones(2, device="cuda"))))
    thread.start(); thread.join()
    return found == [True]
ask("thread", in_thread)
class Worker(threading.Thread):
    found = False
    def run(self):
        try:
            self.found = placed(torch.ones(2, device="cuda"))
        except Exception:
            pass
def in_own_thread():
    worker = Worker(); worker.start(); worker.join()
    return worker.found
ask("thread of an own class", in_own_thread)
def in_pool():
    with ThreadPoolExecutor(2) as pool:
        return all(pool.map(lambda _: placed(torch.ones(2, device="cuda")), range(4)))
ask("pool", in_pool)

ask("available", lambda: torch.cuda.is_available() and torch.cuda.device_count() == 1)
ask("name", lambda: "emulated" in torch.cuda.get_device_name())
ask("capability", lambda: list(torch.cuda.get_device_capability()) == [9, 0])
ask("properties", lambda: torch.cuda.get_device_properties("cuda").multi_processor_count >= 1)
ask("current device", lambda: torch.cuda.current_device() == 0)
ask("memory", lambda: torch.cuda.memory_allocated() == 0 and len(torch.cuda.mem_get_info()) == 2)
ask("idle", lambda: torch.cuda.synchronize() is None and torch.cuda.empty_cache() is None)
def device_context():
    with torch.cuda.device(0):
        return placed(torch.ones(2, device="cuda"))
ask("device context", device_context)
def events():
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record(); sum(range(1000)); end.record(); end.synchronize()
    return end.query() and 0 < start.elapsed_time(end) < 1000
ask("events", events)
def unrecorded():
    try:
        torch.cuda.Event().elapsed_time(torch.cuda.Event())
    except RuntimeError:
        return True
ask("events without a record", unrecorded)
def streams():
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        event = stream.record_event()
    torch.cuda.current_stream().wait_event(event)
    return stream.query() and stream.cuda_stream == 0
ask("streams", streams)
ask("not capturing", lambda: torch.cuda.is_current_stream_capturing() is False)
ask("no accelerator", lambda: not torch.accelerator.is_available() and torch.accelerator.current_accelerator() is None)
ask("recurrent module", lambda: placed(nn.LSTM(4, 2, device="cuda")(x.view(1, 1, 4))[0]))
def ranges():
    torch.cuda.nvtx.range_push("a"); torch.cuda.nvtx.range_pop()
    with torch.cuda.nvtx.range("b"):
        return True
ask("nvtx", ranges)
def settings():
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    return True
ask("settings", settings)
def round_trip():
    buffer = io.BytesIO(); torch.save(x, buffer); buffer.seek(0)
    return placed(torch.load(buffer, map_location="cuda"))
ask("save and load", round_trip)
"""


REFUSED = r"""
import torch
from torch.utils import cpp_extension
from kernelcup_harness.submission.cuda import inline
inline.install()
inline.find_nvcc = lambda environ: None
ask("graph", lambda: torch.cuda.CUDAGraph())
def capture():
    with torch.cuda.graph(None):
        pass
ask("capture", capture)
ask("graphed", lambda: torch.cuda.make_graphed_callables(None, ()))
ask("inline CUDA", lambda: cpp_extension.load_inline(name="a", cpp_sources="", cuda_sources="__global__ void f() {}"))
ask("inline CUDA in a list", lambda: cpp_extension.load_inline("a", [""], ["__global__ void f() {}"]))
ask("CUDA file", lambda: cpp_extension.load(name="a", sources=[sys.argv[1]]))
from torch.utils.cpp_extension import load_inline
ask("by name", lambda: load_inline(name="a", cpp_sources="", cuda_sources="x"))
"""


INLINE = r"""
import os
os.environ |= {"CUDA_HOME": sys.argv[1], "TORCH_EXTENSIONS_DIR": sys.argv[2], "TORCH_CUDA_ARCH_LIST": "8.9;9.0a"}
from torch.utils import cpp_extension
from kernelcup_harness.submission.cuda import inline
inline.install()
def compiled(source, **more):
    return lambda: cpp_extension.load_inline(name="a", cpp_sources="", cuda_sources=source, **more)
ask("right", compiled("int right;", extra_cuda_cflags=["-lineinfo"]))
ask("right again", compiled("int right;", extra_cuda_cflags=["-lineinfo"]))
ask("in a list, without headers", compiled(["int a;", "int b;"], no_implicit_headers=True))
ask("wrong", compiled("int WRONG;"))
ask("lacks a header of the toolkit", compiled("int LACKS;"))
ask("lacks a header of its own", compiled("int FORGOT;"))
ask("CUDA file", lambda: cpp_extension.load(name="a", sources=[sys.argv[3], "b.cpp"]))
"""
# It says what it was given, and of the words in the source what nvcc would.
NVCC = r"""#!/bin/sh
echo "$@" >> "$(dirname "$0")/given"
for word; do case "$word" in *.cu) source="$word" ;; esac; done
cat "$source" >> "$(dirname "$0")/sources"
if grep -q WRONG "$source"; then echo "$source(4): error: nope" >&2; exit 2; fi
if grep -q LACKS "$source"; then echo "a.h:1:1: fatal error: cusparse.h: No such file or directory" >&2; exit 1; fi
if grep -q FORGOT "$source"; then echo "a.h:1:1: fatal error: mine.h: No such file or directory" >&2; exit 1; fi
"""


COMPILE = r"""
import os
os.environ["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] = "0"  # for one kernel it takes longer
import torch
x = torch.arange(4.0, device="cuda")
double = torch.compile(lambda a: a * 2 + 1)
ask("compile", lambda: double(x).tolist() == [1.0, 3.0, 5.0, 7.0])
ask("on the device", lambda: str(double(x).device) == "cuda:0")
ask("on the host", lambda: str(double(x.cpu()).device) == "cpu")
@torch.compile(backend="aot_eager")
def with_buffer(a):
    return a + torch.ones(4, device="cuda")
ask("with a buffer of its own", lambda: str(with_buffer(x).device) == "cuda:0")
module = torch.compile(torch.nn.Linear(4, 2).cuda(), backend="aot_eager")
ask("module", lambda: str(module(x).device) == "cuda:0" and isinstance(module, torch.nn.Module))
"""


PLACES = r"""
import io, copy
import numpy, torch
from torch import nn
x = torch.arange(4.0, device="cuda")
def both(value):
    return "cuda" if value.device.type == "cuda" and value.is_cuda else "cpu" if value.is_cpu else "neither"
ask("from numpy", lambda: both(torch.from_numpy(numpy.ones(3))) == "cpu")
ask("from a buffer", lambda: both(torch.frombuffer(bytearray(4), dtype=torch.uint8)) == "cpu")
ask("type's name", lambda: x.type() == "torch.cuda.FloatTensor" and x.cpu().type() == "torch.FloatTensor")
ask("to numpy by force", lambda: x.numpy(force=True).tolist() == [0, 1, 2, 3])
ask("a copy on the host is one", lambda: x.cpu().add_(1).tolist() != x.tolist())
ask("the host's own is not copied", lambda: (lambda y: y.cpu() is y and y.to("cpu") is y)(torch.ones(2)))
ask("copy in", lambda: both(torch.zeros(4, device="cuda").copy_(torch.ones(4))) == "cuda")
ask("copy out", lambda: both(torch.zeros(4).copy_(x)) == "cpu")
ask("write from the host", lambda: x.clone().__setitem__(slice(0, 2), torch.ones(2)) is None)
ask("meta", lambda: str(torch.zeros(2, device="meta").device) == "meta")
def trained(device):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).to(device)
    steps = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        steps.zero_grad()
        model(torch.rand(8, 4, device=device)).sum().backward()
        steps.step()
    state = next(iter(steps.state.values()))
    return {both(model[0].weight), both(model[0].weight.grad), both(model[1].running_mean), both(state["exp_avg"])}
ask("training there", lambda: trained("cuda") == {"cuda"})
ask("training here", lambda: trained("cpu") == {"cpu"})
def packed(lengths):
    rows = nn.utils.rnn.pack_padded_sequence(torch.rand(2, 5, 4, device="cuda"), lengths, batch_first=True)
    rows, _ = nn.LSTM(4, 3, batch_first=True).cuda()(rows)
    values, lengths = nn.utils.rnn.pad_packed_sequence(rows, batch_first=True)
    return both(values) == "cuda" and both(lengths) == both(rows.batch_sizes) == "cpu"
ask("packed by a list", lambda: packed([5, 3]))
ask("packed by lengths on the host", lambda: packed(torch.tensor([5, 3])))
def refused(name, words, call):
    try:
        call()
    except Exception as error:
        ask(name, lambda: words in str(error) or str(error))
    else:
        ask(name, lambda: "not refused")
two = "found at least two devices, cuda:0 and cpu!"
on_device = torch.tensor([5, 3]).cuda()
refused("packed by lengths there", "should be a 1D CPU int64 tensor, but got 1D cuda:0", lambda: packed(on_device))
refused("concatenated", two, lambda: torch.cat([x, torch.ones(1)]))
refused("out", two, lambda: torch.add(x, x, out=torch.empty(4)))
refused("in place", two, lambda: torch.ones(4).add_(x))
refused("a number of the device", two, lambda: torch.ones(4) * x[0])
refused("compared", two, lambda: torch.equal(x, x.cpu()))
refused("einsum", two, lambda: torch.einsum("i,i->", x, torch.ones(4)))
refused("assert_close", "cuda:0 != cpu", lambda: torch.testing.assert_close(x, x.cpu()))
there = torch.Generator("cuda")
refused("a generator there", "Expected a 'cpu' device type", lambda: torch.rand(2, generator=there))
def saved(value, **options):
    buffer = io.BytesIO(); torch.save(value, buffer); buffer.seek(0)
    return both(torch.load(buffer, **options))
ask("saved there", lambda: saved(x) == "cuda")
ask("saved here", lambda: saved(x.cpu()) == "cpu")
ask("saved there, wanted here", lambda: saved(x, map_location="cpu") == "cpu")
"""


TRITON = r"""
import triton
ask("driver device", lambda: str(triton.runtime.driver.active.get_active_torch_device()) == "cuda:0")
ask("driver target", lambda: triton.runtime.driver.active.get_current_target().warp_size == 32)
import kernel
import torch
ask("kernel", lambda: kernel.double(torch.arange(100.0, device="cuda")).tolist() == [2.0 * i for i in range(100)])
ask("autotuned", lambda: kernel.tuned_double(torch.ones(300, device="cuda")).sum().item() == 600)
ask("do_bench", lambda: triton.testing.do_bench(lambda: kernel.double(torch.ones(4, device="cuda"))) >= 0)
ask("cdiv", lambda: triton.cdiv(5, 2) == 3)
"""

TRITON_KERNEL = r"""
import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(source, target, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at, mask=at < n) * 2, mask=at < n)


tuned_kernel = triton.autotune(
    configs=[triton.Config({"BLOCK": size}, num_warps=4) for size in (64, 128)], key=["n"]
)(double_kernel)


def double(x):
    target = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 32),)](x, target, x.numel(), BLOCK=32)
    return target


def tuned_double(x):
    target = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, target, x.numel())
    return target
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a compiler, a kernel in CUDA and one in Triton."""
    folder = tmp_path_factory.mktemp("emulated")
    nvcc = folder / "cuda/bin/nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(NVCC)
    nvcc.chmod(0o755)
    (folder / "kernel.cu").write_text("int of_a_file;")
    (folder / "kernel.py").write_text(TRITON_KERNEL)
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, dict[str, Any]]:
    """What all programs have found."""
    texts = {
        "torch": [TORCH],
        "places": [PLACES],
        "refused": [REFUSED, str(folder / "kernel.cu")],
        "inline": [INLINE, *(str(folder / name) for name in ("cuda", "built", "kernel.cu"))],
    }
    if importlib.util.find_spec("triton") is not None:
        texts["triton"] = [f"sys.path.insert(0, {str(folder)!r})\n{TRITON}"]
    return answers_to(texts)


@pytest.mark.dear("the first of this file imports torch in a process of its own and runs all programs")
@pytest.mark.parametrize(("program", "count"), [("torch", 130), ("places", 26), ("triton", 6)])
def test_requests_for_a_gpu_are_answered_and_tensors_stay_where_they_would_be_beside_one(
    found: dict[str, dict[str, Any]], program: str, count: int
) -> None:
    if program == "triton" and program not in found:
        pytest.skip("needs Triton")
    assert len(found[program]) >= count
    assert not_true(found[program]) == {}


@pytest.mark.jobs
def test_torch_compile_works() -> None:
    found = answers_to({"compile": [COMPILE]})["compile"]
    assert not_true(found) == {}
    assert len(found) == 5


def test_what_needs_a_gpu_is_refused_with_the_reason(found: dict[str, dict[str, Any]]) -> None:
    assert len(found["refused"]) == 7
    for name, answer in found["refused"].items():
        assert "real GPU" in str(answer), name


def test_inline_cuda_is_compiled_for_the_devices_that_are_meant_and_not_run(
    found: dict[str, dict[str, Any]], folder: Path
) -> None:
    told = found["inline"]
    not_run = "compiled, not run: no GPU here (sm_89, sm_90a)"
    for name in ("right", "right again", "in a list, without headers", "CUDA file"):
        assert not_run in str(told[name]), (name, told[name])
    assert "cuda.cu(4): error: nope" in str(told["wrong"])
    assert "it needs cusparse.h, which this machine does not have" in str(
        told["lacks a header of the toolkit"]
    )
    assert "mine.h" in str(told["lacks a header of its own"])
    given = (folder / "cuda/bin/given").read_text().splitlines()
    # What was compiled once is known.
    assert len(given) == 6
    assert "-gencode=arch=compute_89,code=sm_89 -gencode=arch=compute_90a,code=sm_90a" in given[0]
    assert "-lineinfo" in given[0]
    sources = (folder / "cuda/bin/sources").read_text()
    assert "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\nint right;" in sources
    assert "int right;int a;\nint b;" in sources
