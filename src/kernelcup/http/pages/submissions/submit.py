"""Submit in a browser: a file, or the text in the page."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, File, Form, Query, Request, Response, UploadFile
from fastapi.responses import RedirectResponse

from kernelcup.app.boards import boards
from kernelcup.app.submissions import handout
from kernelcup.app.submissions import submissions as service
from kernelcup.app.submissions.admission import is_cuda, without_gpu
from kernelcup.app.submissions.submit import check_may_submit, obstacles, submit
from kernelcup.domain import LARGEST_ID, Actor, Leaderboard, Task
from kernelcup.engine.database import Database
from kernelcup.errors import InvalidFiles, KernelCupError, NotFound, RegistrationNeeded, UserError
from kernelcup.http import errors
from kernelcup.http.dependencies import ActorDep, Db, Now, PlatformDep
from kernelcup.http.pages.rendering import address, render
from kernelcup.http.pages.route import PageRoute
from kernelcup.http.pages.submissions.submissions import LIVE_EVENTS, Followed, followed
from kernelcup.http.state import Platform
from kernelcup.tasks.sources.submitted import LARGEST_BYTES, SUFFIXES, ZIP_NAME, is_zip, pack
from kernelcup.tasks.starter import find_template
from kernelcup_harness.protocol import Mode, SourceTree, canonical_hash

STAY = "stay"

router = APIRouter(route_class=PageRoute)

MODES = (
    (Mode.TEST, "Test", "is it right?"),
    (Mode.BENCHMARK, "Benchmark", "how fast is it?"),
    (Mode.PROFILE, "Profile", "where does the time go?"),
    (Mode.LEADERBOARD, "Ranked", "takes its place in the ranking"),
)
Known = Annotated[int | None, Query(ge=1, le=LARGEST_ID)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """The content of the form."""

    code: SourceTree
    devices: tuple[str, ...]
    mode: Mode
    is_template: bool = False
    """Whether the text is untouched, so that a draft may replace it."""


@router.get("/b/{name}/submit")
def show_form(
    name: str,
    request: Request,
    platform: PlatformDep,
    actor: ActorDep,
    now: Now,
    device: Annotated[str, Query(max_length=100)] = "",
    mode: Mode = Mode.TEST,
    template: Annotated[str, Query(max_length=100)] = "",
    source: Annotated[int | None, Query(alias="from", ge=1, le=LARGEST_ID)] = None,
    after: Known = None,
) -> Response:
    """Show the form, with a template in it or the text of an earlier submission."""
    board = boards.get_board(platform.db, name, actor)
    try:
        check_may_submit(platform.db, actor, board, now=now)
    except RegistrationNeeded:
        return RedirectResponse(f"{address('/e', board.event)}#take-part", 303)
    task = handout.hand_out(platform.db, name, actor).task
    devices = _devices(board, device)
    if source is not None or after is not None:
        filled = _of_earlier(platform.db, source or after or 0, actor, devices=devices, mode=mode)
    else:
        filled = _of_template(task, template, devices=devices, mode=mode)
    follow = None if after is None else followed(platform.db, after, actor, now)
    return _render(request, board, task, filled, live=follow)


@router.post("/b/{name}/submit")
def send(
    name: str,
    request: Request,
    platform: PlatformDep,
    db: Db,
    actor: ActorDep,
    now: Now,
    mode: Annotated[Mode, Form()],
    device: Annotated[list[str] | None, Form()] = None,
    code: Annotated[str, Form()] = "",
    file_name: Annotated[str, Form(max_length=1000)] = "",
    then: Annotated[str, Form(max_length=20)] = "",
    more_name: Annotated[list[str] | None, Form()] = None,
    more_code: Annotated[list[str] | None, Form()] = None,
    upload: Annotated[list[UploadFile | str] | None, File()] = None,
    form_key: Annotated[str, Form(max_length=100)] = "",
) -> Response:
    """Accept a submission, once however often it is sent; show a refusal beside the form."""
    board = boards.get_board(db, name, actor)
    others = list(zip(more_name or (), more_code or (), strict=False))
    # Browsers end the lines of a text area as mail does.
    texts = [
        (each, text.replace("\r\n", "\n")) for each, text in [(file_name or "submission.py", code), *others]
    ]
    chosen_name, content = "submission.py", b""
    try:
        chosen_name, content = _sent(
            texts, [each for each in upload or () if not isinstance(each, str) and each.filename]
        )
        made = submit(
            db,
            user=actor,
            file_name=chosen_name,
            content=content,
            mode=mode,
            now=now,
            board=board.name,
            devices=device or (),
            idempotency_key=_key(form_key, board, chosen_name, content, mode, device or ()),
            client="web",
            known_devices=platform.config.devices,
        )
    except UserError as error:
        if isinstance(error, NotFound):
            raise
        shown = dict(texts)
        if not shown[texts[0][0]] and not is_zip(chosen_name, content):
            shown = {chosen_name: content.decode("utf-8", "replace")}
        filled = Filled(
            code=SourceTree(entry=next(iter(shown)), files=shown), devices=tuple(device or ()), mode=mode
        )
        task = handout.hand_out(db, name, actor).task
        return _render(request, board, task, filled, error=error)
    return RedirectResponse(
        f"/b/{board.name}/submit?after={made.id}" if then == STAY else f"/s/{made.id}", 303
    )


def _sent(texts: Sequence[tuple[str, str]], uploads: Sequence[UploadFile]) -> tuple[str, bytes]:
    """Return the name and content that were sent, several as a zip; chosen files take precedence over texts.

    Raise ``InvalidFiles`` for a name that is used twice or that no zip can hold.
    """
    typed = [(name, text.encode("utf-8", "surrogatepass")) for name, text in texts]
    sent = [(each.filename or "", each.file.read(LARGEST_BYTES + 1)) for each in uploads] or typed
    if len(sent) == 1:
        return sent[0]
    files = dict(sent)
    if len(files) < len(sent):
        raise InvalidFiles("Two of the files have the same name.")
    return ZIP_NAME, pack(files)


def _key(
    form_key: str, board: Leaderboard, name: str, content: bytes, mode: Mode, devices: Sequence[str]
) -> str | None:
    """Return the idempotency key of a sent form, None from a form without a key.

    The content is part of the key: going back and changing the form makes another submission.
    """
    if not form_key:
        return None
    sent = [form_key, board.name, name, hashlib.sha256(content).hexdigest(), mode.value, sorted(devices)]
    return f"web:{canonical_hash(sent)}"


def _devices(board: Leaderboard, wanted: str) -> tuple[str, ...]:
    found = tuple(each for each in board.devices if each.lower() == wanted.lower())
    return found or board.devices[:1]


def _of_template(task: Task, wanted: str, *, devices: tuple[str, ...], mode: Mode) -> Filled:
    # Without a choice, none in a language that the devices may lack.
    language = find_template(task, task.templates, wanted or task.lang.value) or ""
    code = task.templates.get(language, "")
    tree = SourceTree.of(code, task.submission_name_of(code))
    return Filled(code=tree, devices=devices, mode=mode, is_template=not wanted)


def _of_earlier(db: Database, number: int, actor: Actor, *, devices: tuple[str, ...], mode: Mode) -> Filled:
    """Fill the form with an earlier submission. Raises like showing that submission."""
    code = service.get_code(db, number, viewer=actor)
    earlier = service.show_submission(db, number, viewer=actor)
    return Filled(code=code, devices=earlier.devices or devices, mode=mode)


def _render(
    request: Request,
    board: Leaderboard,
    task: Task,
    filled: Filled,
    *,
    live: Followed | None = None,
    error: KernelCupError | None = None,
) -> Response:
    platform: Platform = request.app.state.platform
    told = None if error is None else errors.body_of(error)
    actor: Actor = request.state.actor
    now = platform.clock()
    has_gpu = without_gpu(board.devices, platform.config.devices) != set(board.devices)
    if told is not None:
        told = errors.next_step(told["code"]) | told
    return render(
        request,
        "submit.html",
        status=200 if error is None else errors.status_of(error),
        headers=None if error is None else {"Cache-Control": "no-store"} | errors.headers_of(error),
        board=board,
        task=task,
        filled=filled,
        modes=MODES,
        endings=[
            ending
            for each in task.accepted(board.harness)
            for ending in each.endings
            if has_gpu or not is_cuda(ending)
        ],
        templates={
            name: text
            for name, text in task.templates.items()
            if has_gpu or not is_cuda(task.submission_name_of(text))
        },
        suffixes=[each for each in SUFFIXES if has_gpu or not is_cuda(each)],
        obstacles=obstacles(platform.db, actor, board, board.devices, now=now),
        now=now,
        largest=min(board.max_file_bytes or LARGEST_BYTES, LARGEST_BYTES),
        error=told,
        followed=live,
        live_events=LIVE_EVENTS,
        stay=STAY,
        form_key=secrets.token_urlsafe(16),
    )
