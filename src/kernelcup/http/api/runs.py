"""Runs and their artifacts."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from kernelcup.app.results import profile_files
from kernelcup.app.results.runs import show_run
from kernelcup.domain import Run
from kernelcup.errors import NotFound
from kernelcup.http.api.forms import ERRORS
from kernelcup.http.api.result_forms import RunOut
from kernelcup.http.dependencies import ActorDep, Db, Number
from kernelcup.http.middleware import API
from kernelcup.http.route import ApiRoute
from kernelcup_harness.protocol import dumps

BINARY = "application/octet-stream"

router = APIRouter(prefix=f"{API}/runs/{{run_id}}", tags=["runs"], route_class=ApiRoute, responses=ERRORS)


class ArtifactOut(BaseModel):
    """A file that belongs to a run."""

    name: str
    media_type: str
    size: int


@router.get("")
def show(run_id: Number, db: Db, actor: ActorDep) -> RunOut:
    """Show a run with its report, as far as you may see it."""
    return RunOut.of(show_run(db, run_id, viewer=actor))


@router.get("/artifacts")
def list_artifacts(run_id: Number, db: Db, actor: ActorDep) -> list[ArtifactOut]:
    """List the files of a run: its report, output, profiles, and what is kept of a ranked one."""
    run = show_run(db, run_id, viewer=actor).run
    found = artifacts(run)
    made = [ArtifactOut(name=name, media_type=kind, size=len(body)) for name, (kind, body) in found.items()]
    files = profile_files.files_of(run.report)
    return made + [ArtifactOut(name=each.name, media_type=BINARY, size=each.nbytes) for each in files]


@router.get("/artifacts/{name}", response_class=Response)
def get_artifact(run_id: Number, name: str, db: Db, actor: ActorDep) -> Response:
    """Download one file of a run."""
    run = show_run(db, run_id, viewer=actor).run
    found = artifacts(run)
    files = [each.name for each in profile_files.files_of(run.report)]
    if name not in found and name not in files:
        raise NotFound(f"Run {run_id} has no artifact {name!r}; it has {', '.join([*found, *files])}.")
    headers = {"Content-Disposition": f'attachment; filename="run-{run_id}-{name}"'}
    if name not in found:
        parts = profile_files.parts(db, run.report, name)
        return StreamingResponse(parts, media_type=BINARY, headers=headers)
    kind, body = found[name]
    return Response(body, media_type=kind, headers=headers)


def artifacts(run: Run) -> dict[str, tuple[str, bytes]]:
    """Return the files of a run by name, each with its media type."""
    text = "text/plain; charset=utf-8"
    report = run.report
    found = {"report.json": ("application/json", dumps(report).encode())}
    for name, output in (("stdout.txt", report.stdout), ("stderr.txt", report.stderr)):
        if output.text:
            found[name] = (text, output.text.encode("utf-8", "replace"))
    for stage in report.stages:
        for case in stage.cases:
            if case.profile:
                found[f"profile-{case.index}.txt"] = (text, case.profile.encode("utf-8", "replace"))
    return found
