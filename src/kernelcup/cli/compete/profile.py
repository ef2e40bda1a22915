"""``kernelcup profile``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelcup.cli import wiring
from kernelcup.cli.backend.base import Ask, Backend
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.compete.submissions import content, finish
from kernelcup.cli.options import JsonOption, SubmissionFile, UserOption
from kernelcup.cli.show.output import plain
from kernelcup.errors import InvalidValue, NotFound
from kernelcup_harness.protocol import Counters, Mode, ProfileOptions, Sections


@with_backend
def profile(
    backend: Backend,
    file: SubmissionFile,
    board: Annotated[
        str | None,
        typer.Option("--board", "-b", help="Leaderboard; default: `#!POPCORN leaderboard NAME` in the file."),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", "--gpu", "-d", help="Default: as in the file.")
    ] = None,
    benchmark: Annotated[
        int | None, typer.Option("--benchmark", min=0, help="Index of the benchmark; default: the last one.")
    ] = None,
    kernel: Annotated[
        str, typer.Option("--kernel", help="Only kernels with such a name (regular expression).")
    ] = "",
    launches: Annotated[
        int, typer.Option("--launches", min=0, help="Profile at most this many launches; 0: all of the call.")
    ] = 0,
    sections: Annotated[str, typer.Option("--sections", help="ncu's set: basic, detailed or full.")] = "full",
    against: Annotated[
        int | None, typer.Option("--against", help="Say what has changed since this submission's profile.")
    ] = None,
    files: Annotated[
        Path | None, typer.Option("--files", help="Keep the report of ncu and its pages in this folder.")
    ] = None,
    user: UserOption = None,
    as_json: JsonOption = False,
) -> None:
    """Profile one call of FILE, and say what limits its kernels.

    Waits for the result. It never scores. Exit codes as for `kernelcup run`.
    """
    if sections not in [*Sections]:
        raise InvalidValue(f"--sections {sections}: expected {', '.join(Sections)}")
    before = [] if against is None else counters_of(backend, against)
    if files is not None and not files.is_dir():
        raise InvalidValue(f"--files {files}: expected an existing folder")
    options = ProfileOptions(
        benchmark=benchmark, kernel=kernel, launches=launches, sections=Sections(sections)
    )
    name, sent = wiring.read_submission(file)
    ask = Ask(
        file_name=name,
        content=sent,
        mode=Mode.PROFILE,
        board=board,
        devices=() if device is None else (device,),
        user=user,
        profile=options,
    )
    backend.check_judges()
    submission = backend.submit(ask)
    if not as_json:
        typer.echo(plain(f"submission {submission.id} to {submission.leaderboard}"))
    backend.judge(submission, quiet=as_json)
    try:
        finish(backend, submission.id, as_json=as_json, silent=False)
    finally:
        if not as_json:
            follow_up(backend, submission.id, before, files)


def follow_up(backend: Backend, submission_id: int, before: list[Counters], files: Path | None) -> None:
    """Print what has changed, and write the files of a profile."""
    from kernelcup.reporting.bottlenecks import explain

    job = backend.submission(submission_id).jobs[0]
    found = job.report.counters if job.report is not None else None
    if found is None:
        return
    if before:
        typer.echo(plain("\n".join(["", "Since then:", *explain.differences(before[0], found)])))
    for each in found.files if files is not None else []:
        target = Path(files or "", f"{submission_id}-{each.name}")
        target.write_bytes(content(backend, job, each.name))
        typer.echo(plain(f"wrote {target}"))
    if found.files and files is None:
        typer.echo("Keep the report of ncu and its pages with --files FOLDER.")


def counters_of(backend: Backend, submission_id: int) -> list[Counters]:
    """Return the counters of a submission's profile. Raise ``NotFound`` without any."""
    reports = [job.report for job in backend.submission(submission_id).jobs]
    found = [each.counters for each in reports if each is not None and each.counters is not None]
    if not any(each.kernels for each in found):
        raise NotFound(f"Submission {submission_id} has no profile with counters.")
    return found
