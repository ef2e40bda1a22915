"""Judge one job on a provider's machine. This file travels alone: it imports the standard library only.

``python3 remote_job.py EVENT OUTCOME`` is for a checkout: EVENT is a JSON file with the packed order as ``inputs.job``,
OUTCOME the file to write. The harnesses lie beside this file, each as ``HASH.zip``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

SOURCES = frozenset({".py", ".cu", ".h", ".ptx", ".toml"})
"""Suffixes of the files that the harness is made of."""
PACKAGE = "kernelcup_harness"
# The harness gets these variables and no other: a provider's tokens are in the environment as well.
PASSED_ON = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "CC", "CXX")
PASSED_ON_PREFIXES = ("CUDA_", "NVIDIA_", "ROCR_", "HIP_", "TORCH_CUDA_ARCH_LIST")
TAIL = 2000

Outcome = dict[str, Any]


def pack(value: Any) -> str:
    """Return a JSON value as compressed text."""
    return base64.b64encode(zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 9)).decode()


def unpack(text: str) -> Any:
    """Return the value that :func:`pack` was given."""
    return json.loads(zlib.decompress(base64.b64decode(text, validate=True)))


def judge(order: Any, bundle: bytes) -> Outcome:
    """Judge an order with the harness in a zip, and return the outcome as ``kernelcup.launchers.outcomes`` reads it.

    The order has ``spec``, ``harness`` (the hash that the zip must have) and ``limit_s``. The outcome has in
    addition ``events``.
    """
    with tempfile.TemporaryDirectory(prefix="kernelcup-") as name:
        with zipfile.ZipFile(BytesIO(bundle)) as archive:
            archive.extractall(name)
        found = harness_hash(Path(name) / PACKAGE)
        if found != order["harness"]:
            return failed("BadReport", f"the harness here is {found[:12]}, not {order['harness'][:12]}")
        outcome = run(order, name)
        return {**outcome, "harness": found} if "report" in outcome else outcome


def run(order: Any, folder: str) -> Outcome:
    """Run the harness in a folder on an order."""
    command = (sys.executable, "-P", "-m", PACKAGE, "--die-with-parent", "--events", "-")
    environ = {
        key: value
        for key, value in os.environ.items()
        if key in PASSED_ON or key.startswith(PASSED_ON_PREFIXES)
    }
    with subprocess.Popen(
        command,
        env={**environ, "PYTHONPATH": folder},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as child:
        try:
            written, log = child.communicate(json.dumps(order["spec"]).encode(), timeout=order["limit_s"])
        except subprocess.TimeoutExpired:
            return failed("LaunchTimeout", f"the harness made no report within {order['limit_s']:.0f} s")
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
    return read(written, log.decode("utf-8", "replace")[-TAIL:], child.returncode)


def read(written: bytes, log: str, code: int) -> Outcome:
    """Return the outcome that the harness's output stands for."""
    try:
        lines = [json.loads(line) for line in written.splitlines() if line.strip()]
        events = [line for line in lines if "event" in line]
        reports = [line["report"] for line in lines if "report" in line]
    except (ValueError, RecursionError, TypeError) as error:
        return failed("BadReport", f"the harness wrote no JSON ({error}); its log: {log or '-'}")
    if len(reports) != 1:
        return failed("BadReport", f"the harness ended with {code} and no report; its log: {log or '-'}")
    return {"report": reports[0], "unfit": None, "facts": None, "events": events}


def failed(kind: str, text: str) -> Outcome:
    """Return the outcome of a job that was not judged."""
    return {"error": kind, "text": text}


def harness_hash(package: Path) -> str:
    """Return what ``kernelcup.launchers.bundle.harness_hash`` returns for an unpacked harness."""
    digest = hashlib.sha256()
    files = [path for path in package.rglob("*") if path.suffix in SOURCES]
    for path in sorted(files, key=lambda path: path.relative_to(package).as_posix()):
        name, content = path.relative_to(package).as_posix().encode(), path.read_bytes()
        digest.update(b"%d %s %d\n" % (len(name), name, len(content)))
        digest.update(content)
    return digest.hexdigest()


def judge_text(job: str, bundle: str) -> str:
    """Judge a packed order with a harness in base64; return the outcome as JSON."""
    return json.dumps(judge(unpack(job), base64.b64decode(bundle)))


def main(event: str, target: str) -> int:
    """Judge the order in an event, and write the outcome."""
    order = unpack(json.loads(Path(event).read_text(encoding="utf-8"))["inputs"]["job"])
    harness = Path(__file__).resolve().with_name(f"{order['harness']}.zip")
    if harness.is_file():
        outcome = judge(order, harness.read_bytes())
    else:
        text = f"the repository has no harness {order['harness'][:12]}: `kernelcup runner deploy` again, and push"
        outcome = failed("LaunchError", text)
    Path(target).write_text(json.dumps(outcome), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
