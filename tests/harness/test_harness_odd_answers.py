"""Honest files that answer in unusual ways are right: by a real contestant, the real wire and the real checks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from inside import closing_memory, working_in
from test_harness_contestant import Bench

from builders import make_spec
from kernelcup_harness.core.check import Checks, Place
from kernelcup_harness.core.task import TaskCode
from kernelcup_harness.protocol import CheckStyle, SampleName, StageName

PLACE = Place(StageName.RANKED, 0, {"size": 12})
SAMPLES = [SampleName(input=number) for number in range(4)]

TASK = """
import collections
import numpy as np
import torch

Top = collections.namedtuple("Top", "values indices")

def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))

def generate_input(size, seed):
    x = drawn(seed, 8, size)
    return {data}

def ref_kernel(data):
    {reference}

def near(right, given):
    if isinstance(right, (list, tuple)):
        return all(near(*both) for both in zip(right, given, strict=True))
    if isinstance(right, dict):
        return all(near(right[key], given[key]) for key in right)
    if torch.is_tensor(right):
        right, given = right.to_dense(), given.to_dense()
    right, given = torch.as_tensor(right).double(), torch.as_tensor(given).double()
    return torch.allclose(right, given, rtol=0.02, atol=0.02)

def check_implementation(data, output):
    right = ref_kernel(data)
    right = data if right is None else right
    # Containers of derived classes are plain ones in answers.
    return isinstance(right, type(output)) and near(right, output)
"""
TASKS = {
    "twice": ("x", "return data * 2"),
    "transposed": ("x", "return data.t()"),
    "copy": ("x", "return data.clone()"),
    "parts": ("x", "return data * 2, {'top': data.argmax(1), 'total': float(data.sum())}"),
    "top": ("x", "return Top(*torch.topk(data, 3))"),
    "pair": ("x", "return torch.max(data, dim=1)"),
    "state": (
        "collections.OrderedDict(w=x, b=x[0])",
        "return collections.OrderedDict(w=data['w'] * 2, b=data['b'])",
    ),
    "positive": ("x", "return data[data > 0.5]"),
    "sum": ("x", "return data.sum()"),
    "one": ("x", "return data.sum(dim=(0, 1), keepdim=True)"),
    "number": ("x", "return float(data.sum())"),
    "count": ("x", "return int((data > 0).sum())"),
    "truth": ("x", "return data > 0"),
    "yes": ("x", "return bool(data.sum() > 0)"),
    "array": ("x.numpy()", "return data * 2"),
    "numpy": ("x.numpy()", "return np.float32(data.max())"),
    "ragged": (
        "[drawn(seed + n, 1 + (seed + n) % 5) for n in range(4)]",
        "return [each * 2 for each in data]",
    ),
    "given": ("(x, torch.empty(8, size))", "return torch.mul(data[0], 2, out=data[1])"),
    "ignored": ("(x, torch.empty(8, size))", "return data[0] * 2"),
    "out": ("(x, x.flip(0), torch.empty(8, size), size)", "torch.add(data[0], data[1], out=data[2])"),
    "in place": ("x", "data.mul_(2)"),
    "step": (
        "{'x': x, 'step': 3, 'rate': 0.5}",
        "data['step'] += 1; data['x'] -= data['rate'] / data['step']",
    ),
    "rare": ("x", "return data[(data > 2) & (data.sum() > 0)]"),
    "product": (
        "(torch.where(x > 1, x, 0).to_sparse_csr(), drawn(seed, size))",
        "return torch.mv(data[0].to_dense(), data[1])",
    ),
    "scaled": ("torch.where(x > 1, x, 0).to_sparse_csr()", "return data * 2"),
    "entries": ("torch.where(x > 1, x, 0).to_sparse_coo()", "return data * 2"),
    "update": ("{'x': x, 'sum': torch.zeros(8), 'spare': torch.empty(3)}", "data['sum'] += data['x'].sum(1)"),
}
OUT = "a, b, c, n = data\n    torch.add(a, b, out=c)\n    "
ODD = [
    # Sparse tensors, given and returned
    ("product", "return data[0] @ data[1]"),
    ("product", "a, x = data; return (a.to_sparse_coo().coalesce() @ x)"),
    ("scaled", "return data + data"),
    ("scaled", "return (data.to_dense() * 2).to_sparse_csr()"),
    ("entries", "return torch.sparse_coo_tensor(data.indices(), data.values() * 2, data.shape)"),
    (
        "entries",
        "i, v = data.indices(), data.values(); return torch.sparse_coo_tensor(i.flip(1), v.flip(0) * 2, (8, 12))",
    ),
    (
        "entries",
        "i, v = data.indices(), data.values(); return torch.sparse_coo_tensor(i.repeat(1, 2), v.repeat(2), (8, 12))",
    ),
    # Views, strides, and what is lazy
    ("twice", "return (data.t() * 2).t()"),
    ("twice", "return torch.cat([data * 2, data])[:8]"),
    ("twice", "return (torch.stack([data, data], 2) * 2)[:, :, 0]"),
    ("twice", "return torch._neg_view(data * -2)"),
    ("twice", "return torch.nn.Parameter(data * 2)"),
    ("twice", "return (data.requires_grad_() * 2)"),
    ("twice", "return torch.view_as_complex(torch.stack([data, data], 2) * 2).real"),
    ("transposed", "return data.t().contiguous()"),
    ("transposed", "return data.t() + 0"),
    ("copy", "return data.flip(0).flip(0)"),
    # Scratch space in the input of a task that does not work in place
    ("twice", "y = data * 2; data.zero_(); return y"),
    # Other kinds of containers, numbers and records
    ("parts", "return [data + data, {'total': data.sum(), 'top': data.argmax(1)}]"),
    ("parts", "return data * 2, {'total': np.float64(data.sum()), 'top': data.argmax(1).numpy()}"),
    (
        "parts",
        "return (data * 2).numpy(), collections.OrderedDict(total=data.sum().view(1), top=data.argmax(1))",
    ),
    ("top", "return torch.topk(data, 3)"),
    ("top", "return list(torch.topk(data, 3))"),
    ("top", "return Mine(*torch.topk(data, 3))"),
    ("top", "v, i = torch.topk(data, 3); return {'indices': i, 'values': v}"),
    ("pair", "return data.max(1).values, data.argmax(1)"),
    ("pair", "return Mine(data.max(1).values, data.argmax(1))"),
    ("state", "return {'b': data['b'].clone(), 'w': data['w'] * 2}"),
    ("state", "return collections.defaultdict(list, w=data['w'] * 2, b=data['b'].clone())"),
    ("rare", "return torch.masked_select(data, (data > 2) & (data.sum() > 0))"),
    ("positive", "return torch.masked_select(data, data > 0.5)"),
    ("sum", "return float(data.sum())"),
    ("sum", "return data.numpy().sum()"),
    ("one", "return data.sum().item()"),
    ("number", "return data.sum()"),
    ("number", "return data.numpy().sum()"),
    ("count", "return (data > 0).sum()"),
    ("count", "return float((data > 0).sum())"),
    ("yes", "return data.sum() > 0"),
    ("yes", "return data.numpy().sum() > 0"),
    ("numpy", "return float(data.max())"),
    ("array", "return torch.from_numpy(data) * 2"),
    ("array", "return (data.T * 2).T[:, ::1]"),
    ("array", "return (torch.from_numpy(data) * 2).bfloat16()"),
    # Other dtypes
    ("twice", "return (data * 2).half()"),
    ("twice", "return (data * 2).bfloat16()"),
    ("twice", "return data.double().numpy() * 2"),
    ("truth", "return (data > 0).to(torch.uint8)"),
    ("pair", "v, i = data.max(1); return v.double(), i.to(torch.int64)"),
    # Ragged inputs
    ("ragged", "return tuple(each + each for each in data)"),
    ("ragged", "flat = torch.cat(data) * 2; return flat.split([len(each) for each in data])"),
    # Places for the output
    ("given", "data[1].copy_(data[0] * 2); return data[1]"),
    ("given", "return data[0] * 2"),
    ("ignored", "data[1].copy_(data[0] * 2); return data[1]"),
    ("ignored", "return torch.mul(data[0], 2, out=data[1])"),
    # In place, with and without something returned
    ("out", f"{OUT}"),
    ("out", f"{OUT}return c"),
    ("out", f"{OUT}return data"),
    ("out", f"{OUT}return 0"),
    ("out", "data[2].numpy()[...] = data[0].numpy() + data[1].numpy()"),
    ("in place", "data += data"),
    ("in place", "return data.mul_(2)"),
    ("step", "data['step'] += 1; data['x'] -= data['rate'] / data['step']"),
    ("step", "data['x'].sub_(0.125); data['step'] = torch.tensor(4)"),
    ("update", "data['sum'].copy_(data['x'].sum(1))"),
    ("update", "data['sum'] = data['x'].sum(1); return data"),
]
SUBMISSION = """
import collections
import numpy as np
import torch

Mine = collections.namedtuple("Mine", "values indices")

def custom_kernel(data):
    {body}
"""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A judge and a contestant in a folder of its own."""
    monkeypatch.syspath_prepend(str(tmp_path))
    with working_in(tmp_path, {"submission.py": ""}), closing_memory():
        made = Bench()
        yield made
        made.close()
    sys.modules.pop("odd_task", None)


def fault_of(bench: Bench, task: str, body: str) -> str:
    """Return the first fault of a submission's answers to several inputs, empty for none."""
    data, reference = TASKS[task]
    Path("odd_task.py").write_text(TASK.format(data=data, reference=reference))
    code = TaskCode("odd_task", CheckStyle.DATA_OUTPUT, Path.cwd())
    checks = Checks(code, bytes(32), make_spec())
    assert bench.load(SUBMISSION.format(body=body))["type"] == "ready"
    for sample in SAMPLES:
        given, form = checks.make_input(PLACE, sample), checks.form(PLACE)
        fault = checks.fault(PLACE, sample, given, bench.caller.call(given, form, timeout_s=60.0))
        if fault is not None:
            return f"{fault.reason.value}: {fault.text}"
    return ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("task", "body"), ODD)
def test_an_honest_answer_of_an_odd_kind_is_right(bench: Bench, task: str, body: str) -> None:
    assert fault_of(bench, task, body) == ""


WRONG = [
    ("twice", "return data", "aliased: "),
    ("product", "return (data[0] @ data[1]).to_sparse()", "form: output has layout torch.sparse_coo"),
    ("scaled", "return data.to_dense() * 2", "form: output has layout torch.strided"),
    ("scaled", "return data.to_sparse_coo() * 2", "form: output has layout torch.sparse_coo"),
    ("scaled", "return (data * 2).double()", "form: output has dtype torch.float64; expected torch.float32"),
    ("scaled", "return data", "aliased: "),
    ("scaled", "return data * 3", "differs: "),
    ("scaled", "return data * float('nan')", "differs: NaN or infinite in output.values(), where"),
    (
        "entries",
        "return torch.sparse_coo_tensor(data.indices()[:, :1], data.values()[:1] * 2, (8, 12))",
        "differs: ",
    ),
    ("copy", "return data", "aliased: "),
    ("copy", "return data.view(-1).view(8, 12)", "aliased: "),
    ("twice", "return (data * 2).view(1, 8, 12)", "form: output has shape [1, 8, 12]"),
    ("twice", "return [data * 2]", "form: output is a list; expected a tensor"),
    ("twice", "return (data * 2).long()", "form: output has dtype torch.int64; expected torch.float32"),
    ("twice", "return (data * 2).to(torch.float8_e5m2)", "form: output has dtype torch.float8_e5m2"),
    ("pair", "v, i = data.max(1); return v, i.int()", "form: output[1] has dtype torch.int32"),
    ("pair", "v, i = data.max(1); return v, i.float()", "form: output[1] has dtype torch.float32"),
    ("truth", "return (data > 0).float()", "form: output has dtype torch.float32; expected torch.bool"),
    ("parts", "return data * 2, {'top': data.argmax(1)}", "form: output[1] has keys ['top']"),
    ("pair", "return (data.max(1).values,)", "form: output has 1 items; expected 2"),
    ("count", "return 0.5", "form: output is a float; expected a int"),
    ("number", "return data", "form: output is a Tensor; expected a float"),
    ("positive", "return data[:0, 0]", "form: output has shape [0]"),
    # The answers to the first inputs are empty.
    ("rare", "return data[:0, 0]", "form: output has shape [0]; expected [1]"),
    ("step", "data['x'].sub_(0.125)", "differs: "),
    ("step", "data['x'].sub_(0.125); data['step'] = 5", "differs: "),
    ("out", "pass", "range: this task works in place: the answer has to be written into data[2]"),
    ("out", "return data[0] + data[1]", "range: this task works in place"),
    ("out", f"{OUT}data[0].zero_()", "writes_input: tensor 0 of the input was changed"),
    ("in place", "return data * 2", "differs: this task works in place"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("task", "body", "text"), WRONG)
def test_an_answer_of_a_wrong_kind_is_told_why(bench: Bench, task: str, body: str, text: str) -> None:
    assert fault_of(bench, task, body).startswith(text)


def test_every_task_has_odd_answers() -> None:
    assert {task for task, _ in ODD} == set(TASKS)
