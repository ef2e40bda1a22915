"""The first errors that people make with tensors on a GPU, and what PyTorch, Triton or the judge says of each.

One job has a case for each: the same job on the emulated device and on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelcup_harness.protocol import Backend, HarnessKind, JobSpec, Mode, SourceTree, Verdict

TWO_DEVICES = (
    r"RuntimeError: Expected all tensors to be on the same device, but "
    r"(found at least two devices, cuda:0 and cpu!|got \w+ is on cpu, different from other tensors on cuda:0)"
)
NO_NUMPY = (
    r"TypeError: can't convert cuda:0 device type tensor to numpy\. "
    r"Use Tensor\.cpu\(\) to copy the tensor to host memory first\."
)


@dataclass(frozen=True, kw_only=True)
class FirstError:
    """One mistake: the body of a function of ``x``, a float32 tensor on the device, that should return ``2 * x``."""

    name: str
    body: str
    says: str
    """A pattern of the message; empty for a right answer."""
    verdict: Verdict = Verdict.RUNTIME_ERROR


FIRST_ERRORS = [
    FirstError(
        name="a buffer without a device",
        body="y = torch.zeros(x.shape)\n    return y + x + x",
        says=TWO_DEVICES,
    ),
    FirstError(
        name="a constant without a device",
        body="return x * torch.full(x.shape, 2.0)",
        says=TWO_DEVICES,
    ),
    FirstError(
        name="a model on the host",
        body="return torch.nn.Linear(x.shape[1], 4)(x)",
        # A GPU names the argument.
        says=f"{TWO_DEVICES}|same device, but got mat1 is on cuda:0, different from other tensors on cpu",
    ),
    FirstError(
        name="a .cpu() that was left in",
        body="return (x + x).cpu()",
        says="output is on cpu; expected on cuda",
        verdict=Verdict.WRONG_ANSWER,
    ),
    FirstError(
        name="an answer from NumPy",
        body="return torch.from_numpy(x.cpu().numpy() * 2)",
        says="output is on cpu; expected on cuda",
        verdict=Verdict.WRONG_ANSWER,
    ),
    FirstError(
        name="numpy() of a device tensor", body="return torch.from_numpy(x.numpy() * 2).cuda()", says=NO_NUMPY
    ),
    FirstError(
        name="a NumPy function on a device tensor",
        body="import numpy\n    return torch.as_tensor(numpy.asarray(x) * 2, device='cuda')",
        says=NO_NUMPY,
    ),
    FirstError(
        name="a Triton kernel that loads from the host",
        body="return doubled(torch.ones(x.shape), torch.empty_like(x))",
        says=r"ValueError: Pointer argument( \(at 0\))? cannot be accessed from Triton \(cpu tensor\?\)",
    ),
    FirstError(
        name="device indices into a table on the host",
        body="table = torch.arange(4.0)\n    return x + table[torch.zeros(4, dtype=torch.int64, device='cuda')]",
        says=r"RuntimeError: indices should be either on cpu or on the same device as the indexed tensor \(cpu\)",
    ),
    FirstError(
        name="a generator on the host",
        body="return x + torch.rand(x.shape, device='cuda', generator=torch.Generator().manual_seed(1))",
        says=r"RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'",
    ),
    FirstError(
        name="two dtypes in a product",
        body="return x @ torch.eye(4, device='cuda', dtype=torch.float16)",
        says=r"RuntimeError: expected m(at)?1 and m(at)?2 to have the same dtype, but got: float != (c10::)?Half",
    ),
    FirstError(
        name="shapes that do not fit",
        body="return x @ torch.zeros(3, 4, device='cuda')",
        says=r"RuntimeError: mat1 and mat2 shapes cannot be multiplied \(8x4 and 3x4\)",
    ),
    FirstError(
        name="an answer of another shape",
        body="return (x + x)[1:]",
        says=r"output has shape \[7, 4\]; expected \[8, 4\]",
        verdict=Verdict.WRONG_ANSWER,
    ),
    FirstError(
        name="no return",
        body="y = x + x",
        says="output is None; expected a tensor",
        verdict=Verdict.WRONG_ANSWER,
    ),
    FirstError(
        name="a single number on the host",
        body="return x * torch.tensor(2.0)",
        says="",
        verdict=Verdict.ACCEPTED,
    ),
]

REFERENCE = """\
import torch


def generate_input(number, seed):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.rand(8, 4, device="cuda", generator=generator), number


def ref_kernel(data):
    return data[0] * 2


def check_implementation(data, output):
    return torch.allclose(ref_kernel(data), output)
"""

SUBMISSION = """\
import torch
import triton
import triton.language as tl


@triton.jit
def double(source, target, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at) * 2)


def doubled(source, target):
    double[(1,)](source, target, BLOCK=32)
    return target


{functions}


def custom_kernel(data):
    return {table}[data[1]](data[0])
"""


def first_errors_job(backend: Backend) -> JobSpec:
    """Return the job that makes all mistakes, one a case."""
    names = [f"mistake_{number}" for number in range(len(FIRST_ERRORS))]
    functions = [f"def {name}(x):\n    {each.body}" for name, each in zip(names, FIRST_ERRORS, strict=True)]
    code = SUBMISSION.format(functions="\n\n\n".join(functions), table=f"[{', '.join(names)}]")
    return JobSpec(
        job_id="first-errors",
        mode=Mode.TEST,
        backend=backend,
        harness=HarnessKind.STANDARD,
        sources={"reference.py": REFERENCE},
        private_files=["reference.py"],
        submission=SourceTree.of(code),
        tests=[{"number": number, "seed": number} for number in range(len(names))],
        benchmarks=[{"number": 0, "seed": 1}],
    )
