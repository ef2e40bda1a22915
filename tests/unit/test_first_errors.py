"""The table of first errors: one error for each row, as it is met, and what its reader is told."""

from __future__ import annotations

import dataclasses

import pytest

from builders import make_report
from kernelcup.domain import OWN_JOB
from kernelcup.reporting import words
from kernelcup_harness.protocol import CaseResult, Mismatch, StageName, StageReport, Verdict
from kernelcup_harness.protocol.first_errors import advice, find, table

C_FILE = "submission.cu defines no function `int custom_kernel(const kc_args *inputs)`"
PY_FILE = "submission.py defines no function custom_kernel; it defines "


def missing(header: str) -> str:
    """Return what nvcc prints for a header that is not there."""
    return f"submission.cu:1:10: fatal error: {header}: No such file or directory"


ERRORS = [
    (
        "ModuleNotFoundError: No module named 'my_utils'",
        "my_utils.py lies beside your file, and was not sent.",
    ),
    ("ModuleNotFoundError: No module named 'triton'", "Triton is not installed on the machine that judged."),
    ("ModuleNotFoundError: No module named 'numba.cuda'", "numba is not in this leaderboard’s environment"),
    (missing("torch/extension.h"), "Extensions of PyTorch go through torch.utils.cpp_extension.load_inline"),
    (missing("cute/tensor.hpp"), "`libraries: [cutlass]`"),
    (missing("cublas_v2.h"), "`libraries: [cublas]`"),
    (missing("cublasLt.h"), "`libraries: [cublaslt]`"),
    (missing("cudnn.h"), "`libraries: [cudnn]`"),
    (missing("curand_kernel.h"), "`libraries: [curand]`"),
    (missing("cusparse.h"), "`libraries: [cusparse]`"),
    (missing("kittens.cuh"), "`libraries: [thunderkittens]`"),
    (missing("helper_cuda.h"), "belongs to NVIDIA’s samples"),
    (
        missing("mine.cuh"),
        "mine.cuh was not sent, and the compilers here do not have it. If it is a file of yours",
    ),
    (f"{C_FILE}; it defines solve", "Add, with your tensors in place of these: `int custom_kernel("),
    (f"{PY_FILE}solve", "`def custom_kernel(data): a, b = data"),
    (
        f"{PY_FILE}ModelNew",
        "`def custom_kernel(data): return model(*data)`",
    ),
    (
        "undefined reference to `custom_kernel'",
        "`kernelcup board template --lang cu` prints a starting point",
    ),
    ('error: conflicting declaration of "int custom_kernel"', "has another signature than the judge calls"),
    ("virtual memory exhausted: Cannot allocate memory", "The compiler ran out of memory."),
    ("OSError: CUDA_HOME environment variable is not set.", "load_inline compiles with nvcc"),
    (
        "RuntimeError: SymmetricMemory MemPool did not find backend for device type cuda",
        "Symmetric memory is not emulated",
    ),
    ("CUDA error: an illegal memory access was encountered", "A thread read or wrote outside of a tensor."),
    ("wrong only at sizes that 32 does not divide", "round the number of blocks up"),
    ("elements are wrong, 3 NaN", "float16 ends at 65504"),
    ("The file is not UTF-8 text: it is UTF-16.", "Save the file as UTF-8."),
    ("`nb.ipynb`: a submission has files that end in .py only.", "jupyter nbconvert --to script"),
    ("`README.md`: a submission has files that end in .py only.", "into a folder of their own"),
    ("modal.exception.AuthError: Token missing.", "Sign in with `modal token new`"),
    ("Unknown scheme for proxy URL URL('foo://a:9')", "socks5://HOST:PORT"),
    ("https://kc.org: 407 Proxy Authentication Required, through the proxy http://a:9", "NAME:PASSWORD@HOST"),
    ("https://kc.org: [SSL: WRONG_VERSION_NUMBER] wrong version number", "Use http:// in the address"),
    ("https://kc.org: [SSL: CERTIFICATE_VERIFY_FAILED], through the proxy http://a:9", "SSL_CERT_FILE"),
    ("https://kc.org: Connection refused, through the proxy http://a:9", "to the proxy http://a:9, which"),
    ("https://kc.org: [Errno -2] Name or service not known", "There is no such host"),
    ("http://127.0.0.1:8000: [Errno 111] Connection refused", "`kernelcup serve` starts a server"),
    ("https://kc.org answered 200, and not as a KernelCup server does", "a sign-in page of the network"),
]


@pytest.mark.parametrize(("text", "told"), ERRORS)
def test_a_first_error_says_what_it_means_and_what_to_do(text: str, told: str) -> None:
    assert told in advice(text, has="torch 2.13.0", beside={"my_utils.py"})


def test_each_row_of_the_table_has_its_error() -> None:
    assert [find(text, {"my_utils.py"}) for text, _ in ERRORS] == list(table())


def test_an_error_that_the_table_does_not_know_has_no_advice() -> None:
    assert advice("ValueError: x") == ""


def test_a_missing_package_is_told_with_what_the_environment_has() -> None:
    message = "ModuleNotFoundError: No module named 'numba'"
    environment = {"environment": {"name": "default", "packages": "numpy 2.3.1, torch 2.13.0"}}
    report = make_report(verdict=Verdict.RUNTIME_ERROR, message=message, environment=environment)
    assert "environment (numpy 2.3.1, torch 2.13.0)" in words.next_step(report)
    assert ("Packages", "numpy 2.3.1, torch 2.13.0") in list(words.environment(report))


def test_a_helper_that_lies_beside_the_file_is_named() -> None:
    message = "ModuleNotFoundError: No module named 'my_utils'"
    report = make_report(verdict=Verdict.RUNTIME_ERROR, message=message)
    assert words.next_step(report, beside={"my_utils.py"}).startswith("my_utils.py lies beside your file")
    assert "if my_utils is a file of yours" in words.next_step(report)


def case(index: int, size: int, *, nan: int | None = None) -> CaseResult:
    """Return a case, wrong where ``nan`` counts its NaN."""
    wrong = None
    if nan is not None:
        wrong = Mismatch(where="output", wrong=4, total=9, nan=nan, largest_error=None, first=[], rule="")
    verdict = Verdict.ACCEPTED if nan is None else Verdict.WRONG_ANSWER
    return CaseResult(index=index, parameters={"size": size, "seed": 7}, verdict=verdict, mismatch=wrong)


@pytest.mark.parametrize(
    ("cases", "told"),
    [
        ([case(0, 64), case(1, 100, nan=0)], "round the number of blocks up"),
        ([case(0, 64, nan=0), case(1, 128)], "Run this case on your own machine"),
        ([case(0, 63), case(1, 100, nan=0)], "Run this case on your own machine"),
        ([case(0, 100, nan=0)], "Run this case on your own machine"),
        ([case(0, 64, nan=4), case(1, 128, nan=0)], "float16 ends at 65504"),
    ],
)
def test_a_wrong_answer_is_explained_by_what_its_cases_share(cases: list[CaseResult], told: str) -> None:
    stage = StageReport(name=StageName.TEST, verdict=Verdict.WRONG_ANSWER, cases=cases)
    assert told in words.next_step(make_report(verdict=Verdict.WRONG_ANSWER, stages=[stage]))


def test_a_run_of_ones_own_is_not_told_to_run_on_ones_own_machine() -> None:
    report = make_report(verdict=Verdict.WRONG_ANSWER, stages=[])
    own = dataclasses.replace(report, job_id=OWN_JOB)
    assert "own machine" in words.next_step(report)
    about = "kernelcup task show mine"
    shown = "Print where the two answers differ. What is expected: kernelcup task show mine"
    assert words.next_step(own, about) == shown


def test_a_checker_that_rejects_is_not_explained_by_the_table() -> None:
    report = make_report(verdict=Verdict.REJECTED, message="undefined reference to `custom_kernel'")
    assert words.next_step(report) == words.NEXT[Verdict.REJECTED][0]
