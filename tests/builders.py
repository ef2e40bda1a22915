"""Things that are valid unless a test says otherwise."""

from __future__ import annotations

import dataclasses
import io
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import update

from kernelcup.app.boards.boards import create_board
from kernelcup.app.people.queries import users
from kernelcup.app.queue.queries import jobs
from kernelcup.app.submissions.queries import screenings
from kernelcup.app.submissions.submissions import get_code
from kernelcup.app.submissions.submit import submit
from kernelcup.domain import Actor, Device, Job, Leaderboard, Role, Scope, Score, Submission, Task
from kernelcup.engine.database import Database
from kernelcup.scoring import Entry
from kernelcup.screen.findings import Screening
from kernelcup.tables import UserRow
from kernelcup_harness.protocol import (
    Audit,
    Backend,
    CaseResult,
    Finding,
    HarnessKind,
    JobSpec,
    Mode,
    RunReport,
    SourceTree,
    StageName,
    StageReport,
    Timing,
    TrustLevel,
    Verdict,
)
from kernelcup_harness.protocol.calibration import DeviceCalibration

if TYPE_CHECKING:
    from kernelcup.app.submissions.screening import Look

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)

REFERENCE = """\
import torch


def generate_input(size: int, seed: int) -> torch.Tensor:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(size, device="cuda", generator=generator)


def ref_kernel(data: torch.Tensor) -> torch.Tensor:
    return data * 2


def check_implementation(data: torch.Tensor, output: torch.Tensor) -> str:
    return "" if torch.equal(ref_kernel(data), output) else "not the double"
"""

SUBMISSION = """\
def custom_kernel(data):
    return data * 2
"""


def make_task(**overrides: Any) -> Task:
    """Return a task that doubles a tensor."""
    values: dict[str, Any] = {
        "name": "double",
        "description": "Double every element.",
        "sources": {"reference.py": REFERENCE},
        "tests": [{"size": 16, "seed": 1}],
        "benchmarks": [{"size": 1024, "seed": 2}],
    }
    return Task(**(values | overrides))


def make_device(**overrides: Any) -> Device:
    """Return a device with one slot that is served by the fake launcher."""
    values: dict[str, Any] = {"name": "H100", "backend": Backend.CUDA, "launcher": "fake"}
    return Device(**(values | overrides))


def make_spec(**overrides: Any) -> JobSpec:
    """Return a job in test mode."""
    values: dict[str, Any] = {
        "job_id": "1.1",
        "mode": Mode.TEST,
        "backend": Backend.EMULATED,
        "harness": HarnessKind.STANDARD,
        "sources": {"reference.py": REFERENCE},
        "submission": SUBMISSION,
        "tests": [{"size": 16, "seed": 1}],
    }
    return JobSpec(**with_trees(values | overrides))


def with_trees(values: dict[str, Any]) -> dict[str, Any]:
    """Return a job's fields with texts of submissions as trees of one file."""
    found = {"submission": "submission.py", "rival": "rival.py"}
    return values | {
        field: SourceTree.of(values[field], name)
        for field, name in found.items()
        if isinstance(values.get(field), str)
    }


def make_audit(score_ns: float, **overrides: Any) -> Audit:
    """Return the audit of a captured case."""
    values: dict[str, Any] = {
        "captured": True,
        "score_ns": score_ns,
        "level": TrustLevel.WITNESSED,
    }
    return Audit(**(values | overrides))


def make_case(time_ns: float | None = 1000.0, **overrides: Any) -> CaseResult:
    """Return an accepted case with equal samples."""
    values: dict[str, Any] = {
        "index": 0,
        "parameters": {"size": 1024, "seed": 2},
        "verdict": Verdict.ACCEPTED,
        "timing": None if time_ns is None else Timing(samples_ns=[time_ns] * 10),
    }
    return CaseResult(**(values | overrides))


def make_stage(cases: Sequence[CaseResult], **overrides: Any) -> StageReport:
    """Return an accepted ranked stage with all its cases."""
    values: dict[str, Any] = {
        "name": StageName.RANKED,
        "verdict": Verdict.ACCEPTED,
        "planned_cases": len(cases),
        "cases": list(cases),
    }
    return StageReport(**(values | overrides))


NOT_REPLAYED = "its calls are not replayed: it uses JAX, which queues functions of the host"


def make_wall_report(time_ns: float = 8e4, **overrides: Any) -> RunReport:
    """Return a ranked run on a GPU whose calls could not be captured: 80 us by the wall clock, 55 us of it overhead."""
    why = Finding(code="not_replayed", text=NOT_REPLAYED)
    audit = make_audit(time_ns, captured=False, level=TrustLevel.WALL_CLOCK, findings=[why])
    timing = Timing(samples_ns=[time_ns] * 5, own_ns=[2.1e4] * 5, overhead_ns=5.5e4, audit=audit)
    values = {"stages": [make_stage([make_case(timing=timing)])], "trust": TrustLevel.WALL_CLOCK}
    return make_report(**(values | overrides))


def make_report(times_ns: Sequence[float] = (1000.0,), **overrides: Any) -> RunReport:
    """Return an accepted ranked run with one benchmark for each time."""
    cases = [make_case(time_ns, index=index) for index, time_ns in enumerate(times_ns)]
    values: dict[str, Any] = {
        "job_id": "1.1",
        "mode": Mode.LEADERBOARD,
        "backend": Backend.CUDA,
        "harness": HarnessKind.STANDARD,
        "verdict": Verdict.ACCEPTED,
        "stages": [make_stage(cases)],
        "trust": TrustLevel.WITNESSED,
    }
    return RunReport(**(values | overrides))


def make_calibration(canary_ns: float = 100.0, **changes: Any) -> DeviceCalibration:
    """Return the calibration of an H100 with this canary."""
    values: dict[str, Any] = {
        "backend": Backend.CUDA,
        "device_name": "NVIDIA H100",
        "driver": "580.1",
        "torch": "2.11",
        "at": NOW.isoformat(),
        "copy_bytes_per_s": 2.8e12,
        "read_bytes_per_s": 3.0e12,
        "matrix_flops_per_s": {"fp16": 7e14},
        "l2_bytes": 50 << 20,
        "launch_ns": 2000.0,
        "canary_ns": canary_ns,
    }
    return DeviceCalibration(**(values | changes))


def make_entry(**overrides: Any) -> Entry:
    """Return a scored run of ada."""
    values: dict[str, Any] = {
        "user": "ada",
        "submission_id": 1,
        "submitted_at": NOW,
        "file_name": "kernel.py",
        "trust": "witnessed",
        "comparable": True,
    }
    parts = {each.name for each in dataclasses.fields(Score)} & overrides.keys()
    score = Score(**{"score_s": 1e-6, **{name: overrides.pop(name) for name in parts}})
    return Entry(**(values | {"score": score} | overrides))


def make_board(db: Database, **overrides: Any) -> Leaderboard:
    """Store a leaderboard that takes one device."""
    values: dict[str, Any] = {
        "name": "double",
        "task": make_task(),
        "devices": ["H100"],
        "creator": "grace",
        "now": NOW,
    }
    return create_board(db, **(values | overrides))


def make_submission(db: Database, **overrides: Any) -> Submission:
    """Store a ranked submission by ada, and its jobs."""
    values: dict[str, Any] = {
        "user": "ada",
        "file_name": "kernel.py",
        "content": SUBMISSION.encode(),
        "mode": Mode.LEADERBOARD,
        "now": NOW,
    }
    return submit(db, **(values | overrides))


def look_at(db: Database, submission: Submission, look: Look | None = None) -> Screening:
    """Have a second opinion look at a submission, as dispatchers do while it is judged."""
    from fakes import find_words

    found = (look or find_words)(get_code(db, submission.id).text)
    with db.write() as session:
        screenings.insert_if_absent(session, submission.id, found)
    return found


def zip_of(files: Mapping[str, bytes]) -> bytes:
    """Return a zip of these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def make_actor(db: Database, name: str, role: Role = Role.PARTICIPANT) -> Actor:
    """Store a user, or give one a role, and return them with all scopes."""
    with db.write() as session:
        user_id = users.get_or_create(session, name, now=NOW)
        session.execute(update(UserRow).where(UserRow.id == user_id).values(role=role.value))
    return Actor(user_id=user_id, name=name, role=role, scopes=frozenset(Scope))


def jobs_of(db: Database, submission_id: int) -> list[Job]:
    """Return the stored jobs of a submission."""
    with db.read() as session:
        return jobs.of_submission(session, submission_id)
