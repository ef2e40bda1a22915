"""What a leaderboard asks for: statement, rules, code, and all of it to take along."""

from __future__ import annotations

import io
import zipfile

from fastapi import APIRouter, Request, Response

from kernelcup.app.submissions.handout import hand_out, packages_of
from kernelcup.domain import Task
from kernelcup.errors import NotFound
from kernelcup.http.dependencies import ActorDep, Db, Now, PlatformDep
from kernelcup.http.pages.boards.boards import head_of
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute
from kernelcup.reporting.rules import rules_of
from kernelcup.tasks.starter import find_template
from kernelcup.tasks.writer import figures_of, files_of, template_files
from kernelcup_harness.protocol import Parameters, Work

ZIPPED_AT = (2020, 1, 1, 0, 0, 0)
"""Equal tasks make equal archives."""

router = APIRouter(route_class=PageRoute)


@router.get("/b/{name}/statement")
def show_statement(name: str, request: Request, db: Db, actor: ActorDep, now: Now) -> Response:
    """Show what is asked for: the statement, the cases, the limits."""
    head = head_of(db, name, "", viewer=actor, now=now)
    handed = hand_out(db, name, actor)
    task = handed.task
    return render(
        request,
        "statement.html",
        head=head,
        current="statement",
        task=task,
        hidden=handed.hidden_tests + handed.hidden_benchmarks,
        benchmarks=_rows(task.benchmarks, task.work),
        tests=_rows(task.tests, []),
    )


@router.get("/b/{name}/rules")
def show_rules(
    name: str, request: Request, db: Db, actor: ActorDep, now: Now, platform: PlatformDep
) -> Response:
    """Show what holds on a leaderboard."""
    head = head_of(db, name, "", viewer=actor, now=now)
    task = hand_out(db, name, actor).task
    config = platform.config
    has = packages_of(db, head.board, task, known_devices=config.devices, home=config.data_dir)
    return render(
        request,
        "rules.html",
        head=head,
        current="rules",
        rules=rules_of(head.board, task, has),
        limits=task.limits,
    )


@router.get("/b/{name}/code")
def show_code(name: str, request: Request, db: Db, actor: ActorDep, now: Now) -> Response:
    """Show the reference, the templates and the task's other files."""
    head = head_of(db, name, "", viewer=actor, now=now)
    task = hand_out(db, name, actor).task
    return render(
        request,
        "code.html",
        head=head,
        current="code",
        task=task,
        templates=_templates(task),
        size=len(_zip(task)),
    )


@router.get("/b/{name}/figures/{file:path}")
def show_figure(name: str, file: str, db: Db, actor: ActorDep) -> Response:
    """Send a figure of the statement."""
    figures = figures_of(hand_out(db, name, actor).task)
    if file not in figures:
        raise NotFound(f"{name} has no figure {file!r}.")
    kind = "image/png" if file.lower().endswith(".png") else "image/jpeg"
    return Response(figures[file], media_type=kind)


@router.get("/b/{name}/task.zip")
def download_task(name: str, db: Db, actor: ActorDep) -> Response:
    """Send the task as a folder that can be run and submitted to; hidden cases are not in it."""
    task = hand_out(db, name, actor).task
    told = {"Content-Disposition": f'attachment; filename="{task.name}.zip"'}
    return Response(_zip(task), media_type="application/zip", headers=told)


@router.get("/b/{name}/templates/{language}")
def download_template(name: str, language: str, db: Db, actor: ActorDep) -> Response:
    """Send a starting point for a submission."""
    task = hand_out(db, name, actor).task
    wanted = find_template(task, task.templates, language)
    if wanted is None:
        known = ", ".join(task.templates) or "none"
        raise NotFound(f"{task.name} has no template for {language!r}; it has {known}.")
    told = {"Content-Disposition": f'attachment; filename="{_file_name(task, wanted)}"'}
    return Response(task.templates[wanted], media_type="text/plain; charset=utf-8", headers=told)


def _rows(
    cases: list[Parameters], work: list[Work]
) -> tuple[list[str], list[tuple[list[object], Work | None]]]:
    """Return the names of all parameters, and each case's values and declared work."""
    names = list(dict.fromkeys(name for case in cases for name in case if name != "seed"))
    declared: list[Work | None] = [*work, *([None] * (len(cases) - len(work)))]
    rows = [
        ([case.get(name, "") for name in names], each) for case, each in zip(cases, declared, strict=False)
    ]
    return names, rows


def _templates(task: Task) -> list[tuple[str, str, str]]:
    """Return language, file name and text of each template."""
    return [(language, _file_name(task, language), text) for language, text in task.templates.items()]


def _file_name(task: Task, language: str) -> str:
    return template_files(task)[language].rsplit("/", 1)[-1]


def _zip(task: Task) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files_of(task).items():
            entry = zipfile.ZipInfo(f"{task.name}/{name}", ZIPPED_AT)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()
