"""Screen C++ and CUDA text, either a whole submission or a string inside a Python file."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from kernelcup.screen.findings import Lines, Spot, Tag

LOOKS_NATIVE = re.compile(
    r'#\s{0,9}include|__global__|__device__|\bextern\s{1,9}"C"|\btorch::|\bat::|\bPYBIND11_MODULE|\bvoid\s{1,9}\w{1,99}\s{0,9}\('
    r"|\bint\s{1,9}\w{1,99}\s{0,9}\(|\bstatic\s{1,9}\w"
)

_RULES = (
    (
        "subprocess",
        Tag.SUBPROCESS,
        "Native code starts processes.",
        r"(?<![.\w])(?:v?fork|posix_spawnp?|exec[lv]p?e?|system|popen)\s{0,9}\(",
    ),
    (
        "memory",
        Tag.PROCESS_MEMORY,
        "Native code reaches for the memory or the libraries of the process.",
        (
            r"\b(?:dlv?sym|dlm?open|dl_iterate_phdr|_r_debug|link_map|mprotect|pkey_mprotect|mseal|ptrace|process_vm_\w+"
            r"|LD_PRELOAD|LD_AUDIT|_dl_\w+|syscall)\b|/proc/|\bconstructor\s{0,9}(?:\(\s{0,9}\d{0,9}\s{0,9}\)\s{0,9})?\)\s{0,9}\)"
        ),
    ),
    (
        "timer",
        Tag.TIMER_PATCH,
        "Native code names the function that reads CUDA's timer.",
        r"\b(?:cuda|cu|hip)EventElapsedTime\w*",
    ),
    (
        "pasting",
        Tag.OBFUSCATION,
        "Puts the name of a CUDA function together from pieces.",
        r"\b(?:cuda|cu|hip)\w{0,99}[ \t]*##|##[ \t]*\w{0,99}(?:Event|Elapsed|Stream|Synchronize|Launch|Mem|cuda)",
    ),
    (
        "streams",
        Tag.STREAMS,
        "Native code makes streams or host callbacks.",
        (
            r"\b(?:cudaStreamNonBlocking|cudaStreamCreate\w*|cuStreamCreate\w*|hipStreamCreate\w*|getStreamFromPool"
            r"|cudaLaunchHostFunc|cuLaunchHostFunc|cudaStreamAddCallback)"
        ),
    ),
    (
        "threads",
        Tag.THREADS,
        "Native code starts threads.",
        r"\bstd::(?:j?thread|async)\b|\bpthread_create\b|\bthrd_create\b|\btimer_create\b|\bsetitimer\b",
    ),
    (
        "network",
        Tag.NETWORK,
        "Native code uses the network.",
        r"\bsockaddr\w*|\bgetaddrinfo\b|\bsocket\s{0,9}\(",
    ),
    (
        "files",
        Tag.FILES,
        "Native code opens files.",
        r"\b(?:fopen|ofstream|fstream|memfd_create|shm_open|openat)\b",
    ),
    (
        "environment",
        Tag.ENVIRONMENT,
        "Native code reads the environment.",
        r"\b(?:secure_)?getenv\b|\bsetenv\b",
    ),
    (
        "python",
        Tag.DYNAMIC_EXECUTION,
        "Native code runs or searches Python.",
        r"\bpy::(?:exec|eval|module_?::import|globals)\b|\bPy(?:Run|Eval|Frame|Import|Code|Marshal)_\w+",
    ),
    (
        "replay",
        Tag.POINTER_REPLAY,
        "Native code keeps things under an address.",
        r"\b(?:unordered_)?map\s{0,9}<\s{0,9}(?:const\s{1,9})?(?:\w{1,64}(?:::\w{1,64})?\s{0,9}\*|uintptr_t|std::uintptr_t|intptr_t)",
    ),
)
_BY_GROUP = {group: (tag, text) for group, tag, text, _ in _RULES}
_PATTERN = re.compile("|".join(f"(?P<{group}>{pattern})" for group, _, _, pattern in _RULES))
_CONTINUED = re.compile(r"\\\n")


def scan(text: str) -> Iterator[Spot]:
    """Yield the findings in a C++ or CUDA text, with their places in it."""
    lines = Lines(text)
    if "\\\n" not in text:
        for match in _PATTERN.finditer(text):
            yield _spot(match, *lines.place(match.start()))
        return
    # A backslash at the end of a line may split a name in two.
    cuts = [match.start() for match in _CONTINUED.finditer(text)]
    starts = [cut - 2 * number for number, cut in enumerate(cuts)]
    for match in _PATTERN.finditer(_CONTINUED.sub("", text)):
        before = bisect_left(starts, match.start() + 1)
        yield _spot(match, *lines.place(match.start() + 2 * before))


def _spot(match: re.Match[str], line: int, column: int) -> Spot:
    tag, text = _BY_GROUP[match.lastgroup or ""]
    return Spot(line, column, tag, text)
