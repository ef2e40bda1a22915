"""Whose fault trouble with the clock is: right after a disturbed run a submission of ours is judged on the same device,
in fresh processes.

What a submission does decides whether its calls can be timed, so that it was not is no excuse for another try.
"""

from __future__ import annotations

import time
from pathlib import Path

from kernelcup_harness.core.plan import captures
from kernelcup_harness.protocol import HarnessKind, JobSpec, Mode, SourceTree, TrustLevel, seeds
from kernelcup_harness.run.record import Record
from kernelcup_harness.run.standard import StandardRun

REFERENCE = """\
import torch


def generate_input(size, seed):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randint(0, 1 << 20, (size,), generator=generator, device="cuda")


def ref_kernel(data):
    return data * 2


def check_implementation(data, output):
    return "" if torch.equal(ref_kernel(data), output) else "not the double"
"""
SUBMISSION = "def custom_kernel(data):\n    return data * 2\n"
SIZE = 1 << 20


def blame(spec: JobSpec, folder: Path, record: Record, *, boxed: bool) -> None:
    """Say whose fault it is that a ranked job was disturbed, if it was; its processes have ended."""
    if spec.mode is not Mode.LEADERBOARD or not captures(spec) or not record.is_disturbed:
        return
    began = time.monotonic()
    folder.mkdir()
    witnessed = bool(record.environment.get("clean_room", {}).get("witnessed"))
    record.blame(trouble(spec, folder, witnessed=witnessed, boxed=boxed))
    record.phases["own job"] = time.monotonic() - began


def trouble(spec: JobSpec, folder: Path, *, witnessed: bool, boxed: bool) -> str:
    """Return what our submission meets on this device, empty for nothing.

    Args:
        spec: The disturbed job.
        folder: An empty folder.
        witnessed: Whether the device's counters were open to it.
        boxed: Whether there is a sandbox.
    """
    own = JobSpec(
        job_id=f"{spec.job_id}-own",
        mode=Mode.LEADERBOARD,
        backend=spec.backend,
        harness=HarnessKind.STANDARD,
        submission=SourceTree.of(SUBMISSION, "submission.py"),
        sources={"reference.py": REFERENCE},
        private_files=["reference.py"],
        benchmarks=[{"size": SIZE, "seed": 1}],
        sandbox=spec.sandbox,
        environment=spec.environment,
    )
    secret = seeds.draw_secret()
    record = Record(own, seeds.commitment(secret), lambda _event: None)
    StandardRun(own, secret, folder, record, boxed=boxed).run()
    report = record.report(secret=secret, duration_s=0.0)
    if not record.is_good:
        return report.message
    if report.quarantine:
        return report.quarantine[0].text
    if witnessed and report.trust is not TrustLevel.WITNESSED:
        return "its times are not witnessed"
    return ""
