"""The errors that people meet first: what each means and what to do, found by the text of the error."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

C_FUNCTION = "int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context)"
_NO_HEADER = r"fatal error: (?P<name>%s)[^\n]*: No such file or directory"
_NO_MODULE = r"ModuleNotFoundError: No module named '(?P<name>\w+)"


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstError:
    """One kind of error. Texts may name the pattern's groups, and ``{has}``: what the environment has."""

    pattern: str
    """Searched for in the text of the error, of any case, over several lines."""
    means: str
    do: str
    is_beside: bool = False
    """Whether it is meant only if a Python file of that name lies beside the submission."""
    is_all: bool = False
    """Whether a compiler's own lines add nothing."""


TABLE = (
    FirstError(
        pattern=_NO_MODULE,
        is_beside=True,
        means="{name}.py lies beside your file, and was not sent.",
        do="Send the folder instead of the file.",
    ),
    FirstError(
        pattern=r"(?:No module named|import of) '?triton\b",
        means="Triton is not installed on the machine that judged.",
        do="Its operator can install it with `pip install triton`; `kernelcup doctor` lists what else is missing.",
    ),
    FirstError(
        pattern=_NO_MODULE,
        means="{name} is not in this leaderboard’s environment{has}.",
        do="Do without it; if {name} is a file of yours, send it too, as a folder or a zip.",
    ),
    FirstError(
        pattern=_NO_HEADER % r"(?:torch|ATen|c10|pybind11)/",
        means="A .cu file includes kernelcup.h here, and nothing of PyTorch.",
        do="Extensions of PyTorch go through torch.utils.cpp_extension.load_inline in a .py file.",
    ),
    *(
        FirstError(
            pattern=_NO_HEADER % header,
            means=f"{{name}} is a header of {library}, which is not among the libraries of this task.",
            do=f"Do without it, or ask the leaderboard’s creator for `libraries: [{library}]`.",
        )
        for library, header in {
            "cutlass": "(?:cutlass|cute)/",
            "cublas": "cublas_v2",
            "cublaslt": "cublasLt",
            "cudnn": "cudnn",
            "curand": "curand",
            "cusparse": "cusparse",
            "thunderkittens": "(?:kittens|thunderkittens)",
        }.items()
    ),
    FirstError(
        pattern=_NO_HEADER % "(?:helper_|exception)",
        means="{name}* belongs to NVIDIA’s samples, which no toolkit installs.",
        do="Copy what you use of it into your file.",
    ),
    FirstError(
        pattern=_NO_HEADER % r"[^:\s]+",
        means="{name} was not sent, and the compilers here do not have it.",
        do="If it is a file of yours, send the folder.",
    ),
    FirstError(
        pattern=r"defines no function `int custom_kernel.*defines [^.\n]*\bsolve\b",
        is_all=True,
        means="It is written for a contest that calls solve.",
        do="Add, with your tensors in place of these: `" + C_FUNCTION + " {{ "
        "auto t = inputs->tensors; solve((float *)t[0].data, (float *)t[1].data, "
        "(float *)outputs->tensors[0].data, (int)kc_numel(t)); return 0; }}`.",
    ),
    FirstError(
        pattern=r"defines no function custom_kernel.*defines [^.\n]*\bsolve\b",
        means="It is written for a contest that calls solve.",
        do="Add, with your tensors in place of these: `def custom_kernel(data): a, b = data; "
        "out = torch.empty_like(a); solve(a, b, out, a.numel()); return out`.",
    ),
    FirstError(
        pattern=r"defines no function custom_kernel.*defines [^.\n]*\bModelNew\b",
        means="It is written for KernelBench.",
        do="Add two lines: `model = ModelNew().cuda()` and `def custom_kernel(data): return model(*data)`.",
    ),
    FirstError(
        pattern=r"undefined reference to [`']custom_kernel'|defines no function `int custom_kernel",
        is_all=True,
        means="The file defines no function `" + C_FUNCTION + "`.",
        do="Define it; `kernelcup board template --lang cu` prints a starting point.",
    ),
    FirstError(
        pattern=r"(conflict|ambiguat|overload).*custom_kernel|custom_kernel.*different",
        means="The function has another signature than the judge calls.",
        do="It has to be `" + C_FUNCTION + "`.",
    ),
    FirstError(
        pattern=r"Killed signal terminated|out of memory allocating|virtual memory exhausted",
        means="The compiler ran out of memory.",
        do="Instantiate fewer templates, or in several files.",
    ),
    FirstError(
        pattern=r"CUDA_HOME environment variable is not set|Error building extension.*nvcc: not found",
        means="load_inline compiles with nvcc, which this machine does not have.",
        do="Submit to a device with a GPU; here `pip install '.[cuda]'` brings nvcc.",
    ),
    FirstError(
        pattern=r"illegal memory access|misaligned address",
        means="A thread read or wrote outside of a tensor.",
        do="Compare the index with the size in the kernel: the last block reaches beyond a size that it does not "
        "divide.",
    ),
    FirstError(
        pattern=r"wrong only at sizes that 32 does not divide",
        means="Only sizes that 32 does not divide are wrong.",
        do="The last block is incomplete there: round the number of blocks up, and compare the index with the size.",
    ),
    FirstError(
        pattern=r"elements are wrong, \d+ (NaN|infinite)",
        means="Where a value should be finite, it is NaN or infinite.",
        do="float16 ends at 65504 and exp of float32 at 88: accumulate in float32, subtract the maximum before exp, "
        "and load what lies outside as the neutral value.",
    ),
    FirstError(
        pattern=r"is not UTF-8 text: it is UTF-16",
        means="Some editors and PowerShell’s `>` save UTF-16.",
        do="Save the file as UTF-8.",
    ),
    FirstError(
        pattern=r"\.ipynb",
        means="A notebook is no source file.",
        do="Write its cells to one: jupyter nbconvert --to script NOTEBOOK.",
    ),
    FirstError(
        pattern=r"a submission has files that end in",
        means="A folder is sent as it lies on the disk, but for hidden files.",
        do="Put the files of the kernel into a folder of their own, and send that.",
    ),
    FirstError(
        pattern=r"\bAuthError\b|Token missing\. Could not authenticate client",
        means="Modal knows no account here.",
        do="Sign in with `modal token new`, or set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET.",
    ),
    FirstError(
        pattern=r"Unknown scheme for proxy URL|Proxy protocol must be|Invalid port",
        means="A proxy of the environment has an address that cannot be used.",
        do="Set HTTPS_PROXY, HTTP_PROXY and ALL_PROXY to http://HOST:PORT or socks5://HOST:PORT, or unset them.",
    ),
    FirstError(
        pattern=r"407 Proxy Authentication Required",
        means="The proxy wants a name and a password.",
        do="Write them into HTTPS_PROXY: http://NAME:PASSWORD@HOST:PORT.",
    ),
    FirstError(
        pattern=r"WRONG_VERSION_NUMBER|record layer failure",
        means="What answers there speaks no TLS.",
        do="Use http:// in the address, if the server has no certificate.",
    ),
    FirstError(
        pattern=r"CERTIFICATE_VERIFY_FAILED",
        means="The certificate is not from an authority that this machine trusts: the server’s own, or that of a "
        "firewall in between.",
        do="Name the authority’s file in SSL_CERT_FILE.",
    ),
    FirstError(
        pattern=r"through the proxy (?P<name>\S+)",
        means="The request went to the proxy {name}, which the environment names.",
        do="Correct HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, or name the server’s host in NO_PROXY.",
    ),
    FirstError(
        pattern=r"Name or service not known|nodename nor servname|Temporary failure in name resolution",
        means="There is no such host, or this machine reaches no name server.",
        do="Compare the address, and whether this machine is online.",
    ),
    FirstError(
        pattern=r"answered (200|30\d|403|511), and not as a KernelCup server does",
        means="Something else answers there: a sign-in page of the network, a proxy, or another site.",
        do="Open the address in a browser.",
    ),
)


def find(text: str, beside: Collection[str] = ()) -> FirstError | None:
    """Return the first row of the table that an error's text matches.

    Args:
        text: The error.
        beside: The names of the files that lie where the submission was, and were not sent.
    """
    return next((row for row, _ in _matches(text, beside)), None)


def advice(text: str, *, has: str = "", beside: Collection[str] = ()) -> str:
    """Return what an error means and what to do, empty if the table does not know it.

    Args:
        text: The error.
        has: The packages of the environment.
        beside: The names of the files that lie where the submission was, and were not sent.
    """
    for row, found in _matches(text, beside):
        named = {**found.groupdict(""), "has": f" ({has})" if has else ""}
        return f"{row.means} {row.do}".format(**named)
    return ""


def _matches(text: str, beside: Collection[str]) -> Iterator[tuple[FirstError, re.Match[str]]]:
    for row in TABLE:
        found = re.search(row.pattern, text, re.IGNORECASE | re.DOTALL)
        if found is not None and (not row.is_beside or f"{found['name']}.py" in beside):
            yield row, found
