"""Accept a submission: all checks in a fixed order, in the transaction that stores it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.boards.queries import task_versions
from kernelcup.app.machines import dispatchers
from kernelcup.app.operation import BOARD, Given, operation
from kernelcup.app.people.queries import users
from kernelcup.app.people.user_names import check_user_name
from kernelcup.app.rules import pauses
from kernelcup.app.rules.limits import check_limits
from kernelcup.app.submissions import admission
from kernelcup.app.submissions.admission import NewSubmission, admit, check_author, check_open
from kernelcup.app.submissions.directives import find_entry, near_misses, parse_directives
from kernelcup.app.submissions.queries import events, submissions
from kernelcup.domain import OPERATOR, Actor, Device, Leaderboard, Role, Submission
from kernelcup.engine import Database, Session
from kernelcup.errors import (
    IdempotencyMismatch,
    InvalidSubmission,
    InvalidValue,
    RegistrationNeeded,
    SignInNeeded,
    UserError,
)
from kernelcup.tasks.manifest.python_source import BrokenSource, parse
from kernelcup.tasks.manifest.size_limits import MAX_PYTHON_BYTES
from kernelcup.tasks.sources.submitted import LARGEST_BYTES, base_name, read_files
from kernelcup_harness.protocol import Mode, ProfileOptions, SourceTree, canonical_hash, is_pattern, to_json

LONGEST_KEY = 128


@dataclass(frozen=True, kw_only=True)
class _Request:
    """A request to submit, with its idempotency key."""

    user: str | Actor
    name: str
    key: str | None = None
    file_name: str
    content: bytes
    mode: Mode
    board: str | None
    devices: Sequence[str]
    client: str = ""
    now: datetime
    known: Sequence[Device]
    profile: ProfileOptions | None = None

    @cached_property
    def hash(self) -> str:
        """A hash of the request, so that a key cannot be reused for another one."""
        said: list[object] = [base_name(self.file_name), hashlib.sha256(self.content).hexdigest()]
        said += [self.mode.value, None if self.board is None else users.name_key(self.board)]
        if self.profile is not None:
            said.append(to_json(self.profile))
        return canonical_hash([*said, sorted(device.lower() for device in self.devices)])


def check_may_submit(db: Database, person: Actor, board: Leaderboard, *, now: datetime) -> None:
    """Raise what would refuse any submission of a person to a leaderboard, before it is written.

    Raises:
        SignInNeeded, Banned, NotOpenYet, DeadlinePassed, RegistrationNeeded: As for a submission.
    """
    if person.role is Role.NOBODY:
        raise SignInNeeded("Sign in first: a submission needs an account.")
    with db.read() as session:
        check_author(session, person)
        check_open(session, board, person=person, mode=Mode.TEST, now=now)


@dataclass(frozen=True, kw_only=True, slots=True)
class Obstacles:
    """What stands in the way of a submission before it is sent, in sentences."""

    refusals: tuple[str, ...]
    """Why it would be refused."""
    waits: tuple[str, ...]
    """Why it would be accepted and wait."""
    needs_registration: bool
    """Whether one of the refusals is that the person has not registered for the leaderboard's event."""


def obstacles(
    db: Database, person: Actor, board: Leaderboard, devices: Sequence[str], *, now: datetime
) -> Obstacles:
    """Return what stands in the way of a person's submissions to some devices of a leaderboard now."""
    with db.read() as session:
        stops = pauses.look(session)
        checks: list[Callable[[], object]] = [
            partial(admission.check_author, session, person),
            stops.check_service,
            partial(stops.check_board, board),
            partial(admission.check_open, session, board, person=person, mode=Mode.TEST, now=now),
            *(partial(stops.check_devices, [device]) for device in devices),
        ]
        errors = [error for check in checks if (error := _refusal(check)) is not None]
        served = {device for each in dispatchers.alive(session, now) for device in each.devices}
    missing = ", ".join(device for device in devices if device not in served)
    waits = [f"No machine with {missing} is connected: submissions wait until one is."] if missing else []
    return Obstacles(
        refusals=tuple(map(str, errors)),
        waits=tuple(waits),
        needs_registration=any(isinstance(each, RegistrationNeeded) for each in errors),
    )


def _refusal(check: Callable[[], object]) -> UserError | None:
    try:
        check()
    except UserError as error:
        return error
    return None


def submit(
    db: Database,
    *,
    user: str | Actor,
    file_name: str,
    content: bytes,
    mode: Mode,
    now: datetime,
    board: str | None = None,
    devices: Sequence[str] = (),
    idempotency_key: str | None = None,
    client: str = "",
    known_devices: Sequence[Device] = (),
    profile: ProfileOptions | None = None,
) -> Submission:
    """Accept a file, or a zip of several: once this returns, it will be judged.

    Checks happen in this order: identity, bans, the key, a pause of the service, size and encoding, directives,
    leaderboard and access to it, its size limit and pause, file type, opening and deadline, registration for its
    event, devices and their pauses, limits. Each refusal is a ``UserError`` with a code of its own. The checks happen
    in the transaction that stores the submission, which excludes other submissions of the same user; before it, only
    the file is read. A second opinion is asked for while the submission is judged.

    Args:
        user: The actor who submits, or the name of the user for whom the operator submits, who is created if
            needed.
        board: The leaderboard; by default the file's directive, else the only leaderboard.
        devices: The devices; by default the file's directive, else the leaderboard's only device.
        now: When the file arrived.
        idempotency_key: The same request with the same key returns the first submission again.
        client: The name of the client that it came from.
        known_devices: The configured devices; those without a GPU get no CUDA C++.
        profile: What to profile, in mode ``profile``.
    """
    from sqlalchemy.exc import IntegrityError  # not for a client, which reads files with this module

    ask = _Request(
        user=user,
        name=_check_person(user),
        key=None if idempotency_key is None else _check_key(idempotency_key),
        file_name=file_name,
        content=content,
        mode=mode,
        board=board,
        devices=devices,
        client=client,
        now=now,
        known=known_devices,
        profile=profile,
    )
    try:
        new = _read(ask)
    except InvalidSubmission:
        first = _refuse_early(db, ask)
        if first is not None:
            return first
        raise
    try:
        with db.write(durable=True) as session:
            return _store(session, ask, new)
    except IntegrityError:
        with db.read() as session:
            first = _first(session, _person(session, ask), ask)
        if first is None:
            raise
        return first  # stored by a concurrent transaction with the same key


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A file that would be accepted as a submission."""

    leaderboard: str
    devices: list[str]
    practice: bool
    """Whether it would be practice, after the deadline."""
    warnings: list[str]
    """What it would be accepted with, and what is probably meant otherwise: broken syntax, misspelt directives."""


@operation("POST", "/submissions/check", subject="submissions", tool="check")
def check(
    db: Database,
    actor: Actor,
    *,
    code: Annotated[str, Given(longest=LARGEST_BYTES, help="The text of the file.")],
    file_name: Annotated[str, Given(help="Its name.")] = "submission.py",
    board: Annotated[str | None, Given(key=BOARD, help="Default: as in the file.")] = None,
    devices: Annotated[Sequence[str], Given(longest=100, most=50, help="Default: as in the file.")] = (),
    mode: Annotated[Mode, Given(help="What it would be submitted for.")] = Mode.LEADERBOARD,
    now: datetime,
    known_devices: Sequence[Device] = (),
) -> Check:
    """Say whether a file would be accepted now, without submitting it. It is refused as a submission would be."""
    ask = _Request(
        user=actor,
        name=_check_person(actor),
        file_name=file_name,
        content=code.encode("utf-8", "surrogatepass"),
        mode=mode,
        board=board,
        devices=devices,
        now=now,
        known=known_devices,
    )
    new = _read(ask)
    with db.read() as session:
        check_author(session, actor)
        target, chosen, practice = _admit(session, ask, new, actor)
    tree = parse(code) if new.tree.entry.endswith(".py") and len(code) <= MAX_PYTHON_BYTES else None
    broken = [f"line {tree.position[0]}: {tree.text}"] if isinstance(tree, BrokenSource) else []
    warnings = [*broken, *near_misses(code)]
    return Check(leaderboard=target.name, devices=chosen, practice=practice, warnings=warnings)


def _refuse_early(db: Database, ask: _Request) -> Submission | None:
    """Make the checks that come before those of the file; return the key's earlier submission, if any."""
    with db.read() as session:
        person = _person(session, ask)
        check_author(session, person)
        first = _first(session, person, ask)
        if first is None:
            pauses.look(session).check_service()
        return first


def _read(ask: _Request) -> NewSubmission:
    """Return the parsed request. Raise ``InvalidSubmission``."""
    tree = read_tree(ask.file_name, ask.content)
    return NewSubmission(
        tree=tree,
        directives=parse_directives(tree.code),
        mode=ask.mode,
        board=ask.board,
        devices=ask.devices,
        known=ask.known,
    )


def read_tree(file_name: str, content: bytes) -> SourceTree:
    """Return the files of a submission: of one text, or of a zip. Raise ``InvalidSubmission``."""
    return find_entry(read_files(file_name, content))


def _check_person(user: str | Actor) -> str:
    if not isinstance(user, Actor):
        return check_user_name(user)
    access.account(user)
    return user.name


def _check_key(key: str) -> str:
    if not 1 <= len(key) <= LONGEST_KEY or not all(" " <= character <= "~" for character in key):
        raise InvalidValue(f"Idempotency key: expected 1 to {LONGEST_KEY} printable ASCII characters.")
    return key


def _store(session: Session, ask: _Request, new: NewSubmission) -> Submission:
    """Make all checks, and store the submission."""
    _share_board(session, new)
    if not isinstance(ask.user, Actor):
        users.get_or_create(session, ask.name, now=ask.now)
    person = _person(session, ask)
    assert person.user_id is not None
    check_author(session, person, lock=True)
    first = _first(session, person, ask)
    if first is not None:
        return first
    target, chosen, practice = _admit(session, ask, new, person)
    submission_id, queued = submissions.insert(
        session,
        board=target,
        user_id=person.user_id,
        code=new.tree,
        mode=new.mode,
        devices=chosen,
        now=ask.now,
        client=ask.client,
        idempotency_key=ask.key,
        request_hash=ask.hash if ask.key is not None else None,
        profile=ask.profile,
        practice=practice,
    )
    events.record_first(session, submission_id, "accepted", _accepted(new, chosen), None, ask.now)
    return Submission(
        id=submission_id,
        leaderboard=target.name,
        leaderboard_id=target.id,
        user=person.name,
        user_id=person.user_id,
        mode=new.mode,
        devices=tuple(chosen),
        file_name=new.tree.entry,
        code_hash=submissions.hash_of(new.tree),
        created_at=ask.now,
        client=ask.client,
        profile=ask.profile,
        new_jobs=tuple(queued),
    )


def _accepted(new: NewSubmission, chosen: list[str]) -> dict[str, object]:
    return {"devices": chosen, "mode": new.mode.value}


def _share_board(session: Session, new: NewSubmission) -> None:
    """Lock the leaderboard before the user, in the same order as ranking does; access to it is checked later."""
    name = new.board or new.directives.leaderboard
    if name is not None:
        submissions.share_board(session, name)


def _person(session: Session, ask: _Request) -> Actor:
    """Return the author of the submission, without an id if the operator names a new user."""
    if isinstance(ask.user, Actor):
        return ask.user
    new = Actor(user_id=None, name=ask.name, role=Role.PARTICIPANT, scopes=access.ALL_SCOPES)
    return users.find_actor(session, ask.name) or new


def _first(session: Session, person: Actor, ask: _Request) -> Submission | None:
    """Return the submission that the key was used for before, None if there is none.

    Raise ``IdempotencyMismatch`` if the request was another one.
    """
    if ask.key is None or person.user_id is None:
        return None
    used = submissions.of_key(session, user_id=person.user_id, key=ask.key)
    if used is None:
        return None
    submission_id, earlier = used
    if earlier != ask.hash:
        raise IdempotencyMismatch(
            f"The idempotency key {ask.key!r} was used for submission {submission_id}, another request."
        )
    return submissions.find(session, submission_id)


def _admit(
    session: Session, ask: _Request, new: NewSubmission, person: Actor
) -> tuple[Leaderboard, list[str], bool]:
    stops = pauses.look(session)
    stops.check_service()
    viewer = ask.user if isinstance(ask.user, Actor) else OPERATOR
    target, chosen, practice = admit(session, new, stops, person=person, viewer=viewer, now=ask.now)
    if ask.profile is not None:
        check_profile(session, target, ask.profile, new.mode)
    check_limits(session, target, chosen, person=person, mode=new.mode, now=ask.now, lock=True)
    return target, chosen, practice


def check_profile(session: Session, board: Leaderboard, asked: ProfileOptions, mode: Mode) -> None:
    """Raise ``InvalidValue`` for options of a profile that name nothing, or for another mode."""
    if mode is not Mode.PROFILE:
        raise InvalidValue("Only the mode `profile` has options of a profile.")
    count = len(task_versions.load(session, board.task_hash).benchmarks)
    if asked.benchmark is not None and not 0 <= asked.benchmark < count:
        raise InvalidValue(f"Benchmark {asked.benchmark}: this task has {count}, counted from 0.")
    if not is_pattern(asked.kernel):
        raise InvalidValue("The pattern of kernel names is no regular expression of at most 200 characters.")
    if asked.launches < 0:
        raise InvalidValue("The number of launches cannot be negative; 0 means all of them.")
