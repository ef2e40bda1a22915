"""What is kept of an accepted ranked run: the binary that was timed, and the machine code of its own kernels in words.

The binary is what the contestant exported and the timer replayed. It may be forged, so it is read and disassembled in a
sandbox, as a submission's process is.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kernelcup_harness.isolation import job_environment, processes, sandbox
from kernelcup_harness.protocol import KeptFile, RanKernel
from kernelcup_harness.protocol.profiles import BINARY, MEMORY, SASS
from kernelcup_harness.run.counters import packed
from kernelcup_harness.run.record import unpacked
from kernelcup_harness.submission.cuda import inspection
from kernelcup_harness.submission.port import NotCompiled
from kernelcup_harness.window import decoding, graph_data
from kernelcup_harness.wire.job_messages import Binary

LISTING_S = 20.0
"""Time for disassembling."""
MOST_LISTED_BYTES = 2 << 20
"""Larger images are not disassembled: they have the kernels of a library."""
MOST_OUTPUT = 32 << 20
MEMORY_BYTES = 4 << 30


def files(said: Binary, ran: Sequence[RanKernel], folder: Path, *, boxed: bool) -> list[KeptFile]:
    """Return the files to keep of a run.

    Args:
        said: What the timer has replayed, and what that reads beside its inputs, packed.
        ran: The kernels of a call, whose images are disassembled unless they are known to be a library's.
        folder: An empty folder.
        boxed: Whether processes get a sandbox.
    """
    binary, memory = unpacked(said.gz64), unpacked(said.memory_gz64)
    wanted = {each.image: each for each in ran if not each.origin}
    found = listed(binary, list(wanted), folder, boxed=boxed) if wanted else {}
    parts = [
        f"// machine code {image}, of {name_of(image, ran)}\n{text}"
        for image, text in found.items()
        if image in wanted and text
    ]
    kept = {BINARY: binary} | ({MEMORY: memory} if memory else {})
    kept |= {SASS: "\n".join(parts).encode()} if parts else {}
    return packed(kept, {BINARY: said.gz64, MEMORY: said.memory_gz64})


def name_of(image: str, ran: Sequence[RanKernel]) -> str:
    return ", ".join(dict.fromkeys(each.name for each in ran if each.image == image))


def listed(binary: bytes, images: Sequence[str], folder: Path, *, boxed: bool) -> Mapping[str, str]:
    """Return the listings of some images of a binary, by their hashes; none where there is no disassembler."""
    inner = folder / "files"
    inner.mkdir(parents=True)
    (inner / BINARY).write_bytes(binary)
    arguments = (job_environment.parent_id(boxed=boxed), ",".join(images))
    child = processes.start(
        processes.python_argv("kernelcup_harness.run.listing", "main", *arguments),
        cwd=inner,
        environment=processes.clean_environment(None if boxed else folder / "caches", os.environ),
        fds=[],
        keep_output=MOST_OUTPUT,
        cap_output=MOST_OUTPUT,
        box=sandbox.Sandbox(user_id=sandbox.CONTESTANT_ID, files=inner) if boxed else None,
    )
    job_environment.watch(child, time.monotonic() + LISTING_S, MEMORY_BYTES)
    assert child.stdout is not None
    try:
        found = json.loads(child.stdout.finish().text)
    except ValueError:
        return {}
    return {str(name): str(text) for name, text in found.items()} if isinstance(found, dict) else {}


def main(parent: str, images: str) -> None:
    """Disassemble images of the binary in the working folder, and write one JSON line. Runs in a sandbox."""
    processes.die_with_parent(int(parent))
    processes.limit_resources(MEMORY_BYTES)
    found = dict(disassembled(Path(BINARY).read_bytes(), frozenset(images.split(","))))
    sys.stdout.write(json.dumps(found) + "\n")


def disassembled(binary: bytes, wanted: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield hash and machine code in words of each wanted image; nothing of a binary that cannot be read."""
    try:
        codes = [each.code for each in decoding.decode(binary).images]
    except graph_data.BadGraph:
        return
    for code in codes:
        name = hashlib.sha256(code).hexdigest()[:16]
        if name not in wanted or len(code) > MOST_LISTED_BYTES:
            continue
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(code)
            file.flush()
            try:
                yield name, inspection.disassembled(Path(file.name))
            except NotCompiled:
                continue
