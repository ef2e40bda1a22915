"""Whose fault trouble with the clock is: right after a disturbed run a submission of ours is judged on the same device,
in fresh processes.

What a submission does decides whether its calls can be timed, so that it was not is no excuse for another try.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

from kernelcup_harness.core.plan import captures
from kernelcup_harness.protocol import (
    HarnessKind,
    JobSpec,
    Mode,
    Reason,
    SourceTree,
    StageName,
    StageReport,
    TrustLevel,
    Verdict,
    seeds,
)
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
DISTURBED = frozenset({"not_witnessed", "unreadable", "unsteady"})
"""Findings that a submission can bring about, and another program on the device as well."""


def blame(spec: JobSpec, folder: Path, record: Record, *, boxed: bool) -> None:
    """Say whose fault it is that a ranked job was disturbed, if it was; its processes have ended."""
    if spec.mode is not Mode.LEADERBOARD or not captures(spec) or not is_disturbed(record.stages):
        return
    began = time.monotonic()
    witnessed = bool(record.environment.get("clean_room", {}).get("witnessed"))
    try:
        folder.mkdir()
        found = trouble(spec, folder, witnessed=witnessed, boxed=boxed)
    except OSError as error:  # a full disk, for example, which must not cost the report
        found = str(error)
    record.stages[:] = [blamed(stage, found) for stage in record.stages]
    record.environment["own_job"] = found
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


def is_disturbed(stages: Sequence[StageReport]) -> bool:
    """Return whether the clock had trouble after the import, of which it is not known whose it is."""
    timings = [case.timing for stage in stages for case in stage.cases]
    audits = [each.audit for each in timings if each is not None and each.audit is not None]
    held = any(each.quarantines and each.code in DISTURBED for audit in audits for each in audit.findings)
    return held or any(is_machines(stage) for stage in stages)


def is_machines(stage: StageReport) -> bool:
    """Return whether a stage has failed by the machine's fault, as it seems, when the submission had been imported."""
    failed = stage.verdict is Verdict.INTERNAL_ERROR and stage.reason is Reason.MACHINE
    return failed and stage.name is not StageName.IMPORT


def blamed(stage: StageReport, trouble: str) -> StageReport:
    """Return a stage with the verdict that follows from what our own submission has met, empty for nothing.

    What is held and is not the machine's fault stays held.
    """
    if is_machines(stage) and not trouble:
        text = f"its calls could not be timed, though others can be on this device: {stage.message}"
        return dataclasses.replace(stage, verdict=Verdict.RUNTIME_ERROR, reason=Reason.UNTIMED, message=text)
    if stage.name is StageName.RANKED and trouble:
        text = f"the device does not time the judge's own calls either: {trouble}"
        return dataclasses.replace(stage, verdict=Verdict.INTERNAL_ERROR, reason=Reason.MACHINE, message=text)
    return stage
