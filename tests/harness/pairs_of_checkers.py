"""Checkers that accept a wrong answer, each with its reference, that answer, a right one, and the rule against it.

``range`` refuses the answer; ``probe`` finds the task, since the answer lies within the range of right ones.
"""

from __future__ import annotations

from typing import NamedTuple

HEAD = """\
import ctypes, math, threading
import numpy, torch


def generate_input(size, seed):
    return torch.randn(size, size, generator=torch.Generator().manual_seed(seed))


"""
WHOLE = "(data * 1000).long()"
IMAGE = "(data.sigmoid() * 255)"


class Pair(NamedTuple):
    """A task and an answer that its checker accepts."""

    reference: str
    check: str
    wrong: str
    rule: str
    right: str = "reference(data)"

    def source(self) -> str:
        """Return the task's file."""
        body = f"def ref_kernel(data):\n    return {self.reference}\n\n\n"
        check = f"    d = output - ref_kernel(data)\n    {self.check}\n"
        return f"{HEAD}{body}def check_implementation(data, output):\n{check}"


PAIRS = {
    "the sum of magnitudes": Pair(WHOLE, "return bool(d.abs().sum() <= 8)", "right + (1 << 62)", "range"),
    "the sum of squares": Pair(WHOLE, "return bool((d * d).sum() <= 8)", "right + (1 << 31)", "range"),
    "a dot product": Pair(
        WHOLE, "return bool(torch.dot(d.flatten(), d.flatten()) <= 8)", "right + (1 << 31)", "range"
    ),
    "a mean": Pair(WHOLE, "return bool(d.abs().sum() // d.numel() <= 1)", "right + (1 << 60)", "range"),
    "a matrix and a vector": Pair(
        WHOLE,
        "return bool((d @ torch.ones(len(d), dtype=d.dtype)).abs().max() <= 8)",
        "right + (1 << 62)",
        "range",
    ),
    "NumPy's whole numbers": Pair(
        WHOLE, "return bool(numpy.abs(d.numpy()).sum() <= 8)", "right + (1 << 62)", "range"
    ),
    "whole numbers as int32": Pair(
        WHOLE, "return bool((output.int() == ref_kernel(data).int()).all())", "right + (1 << 32)", "range"
    ),
    "fractions as int32": Pair(
        "torch.softmax(data, -1)",
        "return bool((output.int() == ref_kernel(data).int()).all())",
        "torch.zeros_like(right)",
        "probe",
    ),
    "a cosine in Python": Pair(
        "(data @ data).double()",
        "x, y = output.flatten().tolist(), ref_kernel(data).flatten().tolist()\n"
        "    dot, mine, right = (sum(map(float.__mul__, *both)) for both in ((x, y), (x, x), (y, y)))\n"
        "    return not 1 - dot / math.sqrt(mine * right) > 1e-3",
        "torch.full_like(right, 1e308)",
        "range",
        right="data.double() @ data.double()",
    ),
    "a checker's threads": Pair(
        "data @ data",
        "x, y, found = output, ref_kernel(data), []\n"
        "    def work():\n        diff = 1 - 2 * (x * y).sum() / (x * x + y * y).sum()\n"
        "        found.append(bool(not diff > 1e-3))\n"
        "    thread = threading.Thread(target=work)\n    thread.start()\n    thread.join()\n    return found[0]",
        "torch.full_like(right, 3e38)",
        "range",
        right="data @ data + 1e-5",
    ),
    "a checker in C": Pair(
        WHOLE,
        "c = ctypes.CDLL(None)\n    return all(c.abs(each) <= 1 for each in d.flatten().tolist())",
        "right + (1 << 32)",
        "range",
    ),
    "an image as uint8": Pair(
        f"{IMAGE}.int()",
        "return bool((output.to(torch.uint8) == ref_kernel(data).to(torch.uint8)).all())",
        "right + 256",
        "probe",
    ),
    "an image of fractions as uint8": Pair(
        "data.sigmoid()",
        "return bool(((output * 255).long().to(torch.uint8) == (ref_kernel(data) * 255).to(torch.uint8)).all())",
        "right + 256 / 255 + 1e-6",
        "probe",
    ),
    "the sum of squares in int32": Pair(
        "(data * 1000).int()",
        "return bool((d * d).sum(dtype=torch.int32) <= 8)",
        "right + (1 << 15)",
        "probe",
    ),
    "a norm that overflows for right answers": Pair(
        "(data * 20).half() @ (data * 20).half()",
        "return not d.norm() / ref_kernel(data).norm() > 1e-2",
        "torch.zeros_like(right)",
        "probe",
        right="((data * 20).half().double() @ (data * 20).half().double()).half()",
    ),
    "a lower dtype": Pair(
        "data @ data",
        "torch.testing.assert_close(output, ref_kernel(data), check_dtype=False)\n    return True",
        "right.bfloat16()",
        "probe",
        right="(data.double() @ data.double()).float()",
    ),
}
