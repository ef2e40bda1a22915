"""``kernelcup run``: judge a file here, without a database."""

from __future__ import annotations

import base64
import gzip
import io
import json
import shlex
import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli import exit_codes, logs, options, wiring
from kernelcup.cli.author.task_argument import Where, find_task_and_devices
from kernelcup.cli.compete import compiled
from kernelcup.cli.compete.submit import warn_near_misses
from kernelcup.cli.options import (
    AnyTaskArgument,
    ConfigOption,
    HarnessOption,
    JsonOption,
    LocalOption,
    ModeOption,
    ServerOption,
    SubmissionFile,
)
from kernelcup.domain import OWN_JOB, Device, Task
from kernelcup.errors import InvalidValue
from kernelcup_harness.protocol import HarnessKind, Mode, RunReport, SourceTree, Verdict, to_json

if TYPE_CHECKING:
    from kernelcup.config.settings import Config

LONGEST_TRACE_BYTES = 512 << 20


def run(
    task: AnyTaskArgument,
    file: SubmissionFile,
    mode: ModeOption = "test",
    device: Annotated[
        str | None, typer.Option("--device", "-d", help="H100, cpu, emulated...; default: the best here.")
    ] = None,
    harness: HarnessOption = None,
    seed: Annotated[
        str | None, typer.Option("--seed", help="Repeat a run from its revealed seed, 64 hex digits.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            help="With --mode profile: write the Chrome trace to this file (.gz: compressed); several "
            "cases get one file each: NAME-0.json and so on.",
        ),
    ] = None,
    show: Annotated[
        str | None,
        typer.Option(
            "--show",
            metavar="KINDS",
            help="Of CUDA C++, for the GPUs of the task and its leaderboard: resources, ptx, sass.",
        ),
    ] = None,
    as_json: JsonOption = False,
    server: ServerOption = None,
    local: LocalOption = False,
    config: ConfigOption = None,
) -> None:
    """Judge FILE against TASK on this machine.

    Shows the report and stores nothing. A leaderboard's hidden cases are left out. A file
    that every leaderboard would refuse, because of a directive or its name, is refused here too.
    CUDA C++ is compiled where there is no GPU, and not run.

    The exit code is that of the verdict, 0 for accepted; `kernelcup --help` lists all.
    """
    from kernelcup.app.submissions.submit import read_tree

    settings = wiring.load_config(config)
    chosen = wiring.pick_device(settings, device)
    wanted = options.read_mode(mode)
    check_trace(trace, wanted)
    kinds = compiled.read_show(show)
    judged_by, secret = options.read_harness(harness), check_seed(seed)
    wiring.check_order(task, file)
    found, devices = find_task_and_devices(task, Where(server=server, local=local, config=config))
    code = read_tree(*wiring.read_submission(file))
    check_as_submitted(code, found, judged_by)
    warn_near_misses(code.code)
    if show or compiled.lacks_gpu(code, chosen):
        made = compiled.compile_here(found, code, kinds, settings, devices)
        if not as_json:
            compiled.show(made, kinds)
        if made.error or compiled.lacks_gpu(code, chosen):
            raise compiled.end(made, as_json=as_json)
    meant = replace(found, devices=devices)
    report = judge(meant, code, wanted, chosen, judged_by, secret, settings=settings, quiet=as_json)
    if said := compiled.only_compiled(report):
        raise compiled.end_unrun(said, as_json=as_json)
    written = [] if trace is None else write_traces(report, trace)
    if as_json:
        typer.echo(json.dumps(as_object(found, chosen, report)))
    else:
        from kernelcup.cli.show import render, terminal
        from kernelcup.reporting.report import UNRANKED, blocks

        out = terminal.console()
        about = f"kernelcup task show {shlex.quote(task)}"
        beside = wiring.files_beside(file)
        known = blocks(report, ranking_by=found.ranking_by, about=about, held=UNRANKED, beside=beside)
        render.show(out, known)
        render.show_next(out, report)
        show_traces(report, trace, written)
        show_repeat(report, task, file, chosen)
    raise typer.Exit(exit_codes.VERDICTS[report.verdict])


def judge(
    task: Task,
    submission: SourceTree,
    mode: Mode,
    device: Device,
    harness: HarnessKind | None = None,
    seed: str | None = None,
    *,
    settings: Config,
    quiet: bool = False,
    say: Callable[[str], None] | None = None,
    test_twins: bool = False,
) -> RunReport:
    """Judge once with a progress line for each stage; ``quiet`` shows none. Raise ``LaunchError``.

    ``say`` is told of a wait for the device instead of the terminal.
    """
    from kernelcup.cli.show import render
    from kernelcup.tasks.job_spec import build_job_spec

    spec = build_job_spec(
        task,
        job_id=OWN_JOB,
        submission=submission,
        mode=mode,
        backend=device.backend,
        harness=harness,
        secret_seed=seed,
    )
    spec = replace(spec, rules=replace(spec.rules, test_twins=test_twins))
    settings = replace(settings, environ={**compiled.compile_for(task.devices), **settings.environ})
    logs.set_up()
    with render.StageLines(quiet=quiet) as lines:
        launcher = wiring.make_local(settings, say or lines.say)
        return launcher.run(spec, device, on_event=lines.take, cancelled=threading.Event()).report


def check_as_submitted(code: SourceTree, task: Task, harness: HarnessKind | None = None) -> None:
    """Raise the error for which any leaderboard with that task would refuse the files."""
    from kernelcup.app.submissions.admission import check_file_type
    from kernelcup.app.submissions.directives import parse_directives

    parse_directives(code.code)
    check_file_type(code.entry, task.accepted(harness or task.harness))


def check_seed(seed: str | None) -> str | None:
    """Return a seed of 64 hex digits. Raise ``InvalidValue``."""
    if seed is not None and (len(seed) != 64 or set(seed.lower()) - set("0123456789abcdef")):
        raise InvalidValue("--seed: expected 64 hex digits, as a report shows them")
    return seed


def check_trace(trace: Path | None, mode: Mode) -> None:
    """Raise ``InvalidValue`` if there will be no trace, or its folder does not exist."""
    if trace is None:
        return
    if mode is not Mode.PROFILE:
        raise InvalidValue("--trace: only --mode profile makes a trace")
    if trace.is_dir() or not trace.parent.is_dir():
        raise InvalidValue(f"--trace {trace}: expected a file in an existing folder")


def write_traces(report: RunReport, target: Path) -> list[Path]:
    """Write each case's trace, with the case's index in the name if there are several cases.

    Raise ``InvalidValue`` for a trace that cannot be unpacked: it comes from the submission.
    """
    cases = [case for stage in report.stages for case in stage.cases]
    ending = "".join(target.suffixes[-2:]) if target.suffix == ".gz" else target.suffix
    written = []
    for case in cases:
        if case.trace_gz64:
            path = target
            if len(cases) > 1:
                path = target.with_name(f"{target.name.removesuffix(ending)}-{case.index}{ending}")
            path.write_bytes(unpacked(case.trace_gz64, keep_packed=target.suffix == ".gz"))
            written.append(path)
    return written


def unpacked(trace_gz64: str, *, keep_packed: bool) -> bytes:
    """Return the decompressed bytes of a trace."""
    try:
        packed = base64.b64decode(trace_gz64, validate=True)
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            text = file.read(LONGEST_TRACE_BYTES + 1)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise InvalidValue(f"--trace: the submission's trace cannot be unpacked: {error}") from error
    if len(text) > LONGEST_TRACE_BYTES:
        raise InvalidValue(f"--trace: the submission's trace has more than {LONGEST_TRACE_BYTES:,} bytes")
    return packed if keep_packed else text


def show_traces(report: RunReport, target: Path | None, written: list[Path]) -> None:
    """Print where the traces are, or how to get them."""
    if any(case.trace_gz64 for stage in report.stages for case in stage.cases):
        if target is None:
            typer.echo("Keep the trace with --trace FILE.")
        for path in written:
            typer.echo(f"trace {path}   (open it at https://ui.perfetto.dev)")
    elif target is not None:
        typer.echo("The run left no trace.")


def show_repeat(report: RunReport, task: str, file: Path, device: Device) -> None:
    """Print the command that repeats a failed run with its seed."""
    if report.verdict is Verdict.ACCEPTED or not report.secret_seed:
        return
    options = ["--mode", report.mode.value, "--device", device.name, "--harness", report.harness.value]
    command = ["kernelcup", "run", task, str(file), *options, "--seed", report.secret_seed]
    typer.echo(f"Repeat it: {shlex.join(command)}")


def as_object(task: Task, device: Device, report: RunReport) -> dict[str, object]:
    """Return the object that ``--json`` prints: verdict, score, insights, and the report."""
    from kernelcup import scoring
    from kernelcup.reporting.insights import as_objects

    found = scoring.score(report, task.ranking_by)
    return {
        "verdict": report.verdict.value,
        **scoring.as_object(found),
        "trust": report.trust.value,
        "lessons": as_objects(report),
        "task": {"name": task.name, "content_hash": task.content_hash},
        "device": device.name,
        "report": to_json(report),
    }
