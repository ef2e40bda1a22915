"""A leaderboard's task."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from kernelcup.app.boards import boards
from kernelcup.app.submissions.handout import hand_out
from kernelcup.domain import Language
from kernelcup.errors import NotFound
from kernelcup.http.api.forms import TEXT, DefinitionOut, FileOut, TaskOut
from kernelcup.http.dependencies import ActorDep, Db
from kernelcup.http.route import ApiRoute
from kernelcup.tasks.public_code import judging_code, our_code
from kernelcup.tasks.starter import find_template

router = APIRouter(prefix="/leaderboards/{name}", tags=["tasks"], route_class=ApiRoute)
shared = APIRouter(tags=["tasks"], route_class=ApiRoute)


@router.get("/task")
def show_task(name: str, db: Db, actor: ActorDep) -> TaskOut:
    """Show a leaderboard's task: statement, cases, limits. Hidden cases are counted."""
    return TaskOut.of(boards.visible_task(db, name, viewer=actor))


@router.get("/task/definition")
def show_definition(name: str, db: Db, actor: ActorDep) -> DefinitionOut:
    """Show the whole task, as `kernelcup board get` writes it to a folder. Hidden cases are left out."""
    return DefinitionOut.of(hand_out(db, name, actor))


@router.get("/task/files/{file:path}")
def show_file(name: str, file: str, db: Db, actor: ActorDep) -> FileOut:
    """Show one of the task's files, for example its reference."""
    task = boards.get_task(db, name, viewer=actor)
    if file not in task.sources:
        raise NotFound(f"{task.name} has no file {file!r}; it has {', '.join(sorted(task.sources))}.")
    return FileOut(name=file, text=task.sources[file])


@router.get("/templates/{language}")
def show_template(name: str, language: str, db: Db, actor: ActorDep) -> FileOut:
    """Show a starting point for a submission, with the leaderboard's directives."""
    task = hand_out(db, name, actor).task
    wanted = find_template(task, task.templates, language)
    if wanted is None:
        raise NotFound(
            f"{task.name} has no template for {language!r}; it has {', '.join(task.templates) or 'none'}."
        )
    return FileOut(name=wanted, text=task.templates[wanted])


@router.get("/starter", response_class=Response, responses=TEXT)
def show_starter(name: str, db: Db, actor: ActorDep) -> PlainTextResponse:
    """Return the first template, ready to submit."""
    task = hand_out(db, name, actor).task
    if not task.templates:
        raise NotFound(f"{task.name} has no template.")
    return PlainTextResponse(next(iter(task.templates.values())))


@router.get("/harness")
def show_harness(name: str, db: Db, actor: ActorDep) -> list[FileOut]:
    """Show the judging code: ours, or the task's own. No part of the evaluation is hidden."""
    board = boards.get_board(db, name, viewer=actor)
    texts = judging_code(boards.get_task(db, name, viewer=actor), board.harness)
    return [FileOut(name=file, text=text) for file, text in texts.items()]


@shared.get("/harness")
def show_our_harness(_actor: ActorDep, language: Language = Language.PYTHON) -> list[FileOut]:
    """Show the standard harness. The first file is an overview for submissions in `language`."""
    return [FileOut(name=file, text=text) for file, text in our_code(language).items()]
