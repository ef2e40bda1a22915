"""Create and update leaderboards from the problem sets of a git repository."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from kernelcup.app import access
from kernelcup.app.boards import boards as board_rules
from kernelcup.app.boards import git_source
from kernelcup.app.boards.changes import UpdatePreview, preview_update, update_board
from kernelcup.app.boards.deadlines import parse_deadline
from kernelcup.app.boards.judgeable import TaskTrial, check_judgeable
from kernelcup.app.boards.judging import choose_judging
from kernelcup.app.boards.queries import boards
from kernelcup.app.boards.settings import KEEP, SETTINGS, BoardChanges, Keep
from kernelcup.app.operation import Given, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.clean_text import listed
from kernelcup.domain import Actor, BoardSettings, Device, Role, Scope, Visibility
from kernelcup.engine import Database
from kernelcup.errors import Conflict, InvalidTask, InvalidValue, NotFound, UserError
from kernelcup.names import check_board_name
from kernelcup.tasks.problem_set import ProblemEntry, survey_problem_set
from kernelcup.tasks.sources.roots import ENDINGS
from kernelcup_harness.protocol import HarnessKind

NO_CHANGES = "no changes"
ANY_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Skipped:
    """A leaderboard that stays as it is."""

    name: str
    reason: str
    is_over: bool = False
    """Whether its deadline has passed, so that there is nothing to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SyncError:
    """A problem whose leaderboard could not be created or updated."""

    name: str
    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A note about a leaderboard that is new or has a new version of its task."""

    name: str
    note: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SyncResult:
    """The outcome of a sync or of its preview."""

    commit: str
    preview: bool
    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    errors: list[SyncError] = field(default_factory=list)
    left_standings: list[str] = field(default_factory=list)
    """Updated leaderboards whose earlier results left the standings until they are judged again."""
    devices_left_out: list[Skipped] = field(default_factory=list)
    """Devices that were left out of a leaderboard, and why."""

    notes: list[Note] = field(default_factory=list)
    """How new leaderboards are judged, and what trying tasks has shown."""

    @property
    def is_complete(self) -> bool:
        """Return whether every problem that is not over has a leaderboard that matches the repository."""
        return not self.errors and all(each.reason == NO_CHANGES or each.is_over for each in self.skipped)


@dataclass(frozen=True, kw_only=True, slots=True)
class SyncOptions:
    """How a sync treats each problem."""

    force: bool = False
    """Also make changes after which results cannot be compared, remove devices in use, and take checkers that accept
    wrong answers."""
    preview: bool = False
    """Only report what would happen."""
    prefix: str = ""
    """A prefix for the name of each leaderboard."""
    creator: str | None = None
    """The creator of new leaderboards, if the operator runs the sync."""
    visibility: Visibility | None = None
    """None makes new leaderboards public and leaves others as they are."""
    harness: HarnessKind | None = None
    """The harness of new leaderboards; None chooses the standard one if the task's own solutions pass under it."""
    rejudge: bool = False
    """Judge results again if they can no longer be compared."""
    devices: Sequence[str] = ()
    """Replaces the devices that each problem names."""
    deadline: datetime | Keep | None = KEEP
    """Replaces the deadline of each problem; None means no deadline."""
    known_devices: Sequence[Device] | None = None
    trial: TaskTrial | None = None
    """Tries the tasks; None if that cannot be done here."""
    say: Callable[[str], None] = lambda _text: None
    """Is told what became of each problem as soon as it is done."""


_KEPT = "Replaces each problem's own deadline; null removes it; if omitted, each keeps its own."
_DEADLINE = [
    replace(each, given=replace(each.given, help=_KEPT)) for each in SETTINGS if each.name == "deadline"
]


@operation("POST", "/problem-sets/sync", subject="administration", is_slow=True, is_aside=True)
def sync(
    db: Database,
    actor: Actor,
    repository: Annotated[str, Given(longest=500, help="An https URL.")],
    branch: Annotated[str, Given(help="Its branch.")] = "main",
    problem_set: Annotated[str | None, Given(help="Name of one `problems/*.yaml`; default: all.")] = None,
    force: Annotated[
        bool,
        Given(
            help="Also apply changes after which entries must be judged again, and take checkers that accept wrong "
            "answers."
        ),
    ] = False,
    preview: Annotated[bool, Given(help="Change nothing; return what would change.")] = False,
    devices: Annotated[
        Sequence[str], Given(longest=100, most=50, help="Replaces the devices that each problem names.")
    ] = (),
    changes: Annotated[BoardChanges | None, Given(parts=tuple(_DEADLINE), help="The deadline.")] = None,
    harness: Annotated[
        HarnessKind | None,
        Given(
            help="Harness of new leaderboards; null: the standard one if the task's own solutions pass under it."
        ),
    ] = None,
    *,
    now: datetime,
    known_devices: Sequence[Device],
    trial: TaskTrial | None,
    creator: str | None = None,
    **others: Any,
) -> SyncResult:
    """Create and update leaderboards from a git repository. Each person may run one sync at a time."""
    options = SyncOptions(
        force=force,
        preview=preview,
        devices=devices,
        deadline=(changes or BoardChanges()).get("deadline", KEEP),
        harness=harness,
        known_devices=known_devices,
        trial=trial,
        creator=creator,
        **others,
    )
    return sync_problem_set(
        db, actor, repository=repository, branch=branch, problem_set=problem_set, options=options, now=now
    )


def sync_problem_set(
    db: Database,
    actor: Actor,
    *,
    repository: str,
    now: datetime,
    branch: str = "main",
    problem_set: str | None = None,
    options: SyncOptions | None = None,
) -> SyncResult:
    """Create the missing leaderboards of a repository, and update those whose task changed.

    Problems are independent: an error in one is reported and does not stop the others.

    Args:
        problem_set: The set's file name with or without suffix; None means all sets.

    Raises:
        SignInNeeded, Forbidden, ScopeMissing: The actor may not create leaderboards.
        InvalidValue: The repository or the branch cannot be used, or a device that was asked for is unknown.
        NotFound: The branch or the problem set does not exist.
    """
    access.require(actor, Scope.MANAGE, role=Role.CREATOR)
    chosen = options or SyncOptions()
    if chosen.devices:
        board_rules.choose_devices(chosen.devices, chosen.known_devices)
    with tempfile.TemporaryDirectory(prefix="kernelcup-sync-") as folder:
        root = Path(folder) / git_source.FOLDER
        commit = git_source.fetch_problems(actor, repository, branch, root)
        result = SyncResult(commit=commit, preview=chosen.preview)
        sync = _Sync(db, actor, chosen, now, result)
        for path in _sets(root, problem_set):
            sync.problem_set(path)
    if result.created or result.updated:
        sync.log(repository, branch)
    return result


def _sets(root: Path, wanted: str | None) -> Iterator[Path]:
    found = {path.stem: path for path in sorted(root.iterdir()) if path.suffix in ENDINGS and path.is_file()}
    if wanted is None:
        if not found:
            raise NotFound("The repository has no problem sets (problems/*.yaml).")
        return iter(found.values())
    stem = Path(wanted).stem if Path(wanted).suffix in ENDINGS else wanted
    if stem not in found:
        raise NotFound(f"There is no problem set {wanted!r}; there are: {', '.join(found) or 'none'}.")
    return iter([found[stem]])


@dataclass(frozen=True, slots=True)
class _Sync:
    """One run over the problem sets."""

    db: Database
    actor: Actor
    options: SyncOptions
    now: datetime
    result: SyncResult
    done: set[str] = field(default_factory=set)

    def problem_set(self, path: Path) -> None:
        """Bring all leaderboards of a set up to date."""
        try:
            survey = survey_problem_set(path, shown=Path(git_source.FOLDER) / path.name)
        except InvalidTask as error:
            self.result.errors.append(SyncError(name=path.stem, error=str(error)))
            return
        for broken in survey.broken:
            self.result.errors.append(SyncError(name=broken.name, error=listed(broken.problems)))
        for entry in survey.problem_set.problems:
            self.problem(entry)

    def problem(self, entry: ProblemEntry) -> None:
        """Bring one leaderboard up to date."""
        name = f"{self.options.prefix}{entry.name}"
        try:
            if name.lower() in self.done:
                raise Conflict(f"Another problem has the name {name!r} too.")
            self.done.add(name.lower())
            if self.exists(name):
                self.update(name, entry, self.deadline(entry))
            else:
                self.create(name, entry, self.deadline(entry))
        except UserError as error:
            self.result.errors.append(SyncError(name=name, error=str(error)))
        if not self.options.preview:
            self.options.say(f"{name}: {self.outcome(name)}")

    def outcome(self, name: str) -> str:
        """Return in a word what became of a problem."""
        result = self.result
        if name in result.created:
            return "created"
        if name in result.updated:
            return "updated"
        return "skipped" if any(each.name == name for each in result.skipped) else "error"

    def deadline(self, entry: ProblemEntry) -> datetime | Keep | None:
        """Return a problem's deadline: the requested one, else its own, else the leaderboard's current one."""
        if self.options.deadline is not KEEP:
            return self.options.deadline
        return parse_deadline(entry.deadline, ANY_TIME) if entry.deadline else KEEP

    def devices(self, name: str, entry: ProblemEntry) -> list[str]:
        """Return the devices that can judge a problem here, and add the others to the result.

        Raise ``InvalidValue`` if no device can judge it.
        """
        known = self.options.known_devices
        usable, reasons = list[str](), list[str]()
        for wanted in self.options.devices or entry.devices:
            try:
                chosen = board_rules.choose_devices([wanted], known)
                check_judgeable(entry.task, chosen, known)
                usable += chosen
            except InvalidValue as error:
                reasons.append(str(error))
        if reasons and not usable:
            raise InvalidValue(" ".join(dict.fromkeys(reasons)))
        self.result.devices_left_out.extend(Skipped(name=name, reason=reason) for reason in reasons)
        return board_rules.choose_devices(usable, known)

    def exists(self, name: str) -> bool:
        """Return whether the name is taken. Raise unless the actor may change that leaderboard."""
        with self.db.read() as session:
            if boards.find(session, name) is None:
                return False
            board_rules.find_managed(session, name, self.actor)
            return True

    def create(self, name: str, entry: ProblemEntry, wanted: datetime | Keep | None) -> None:
        """Create a leaderboard."""
        deadline = None if isinstance(wanted, Keep) else wanted
        if deadline is not None and deadline <= self.now:
            why = f"its deadline {deadline:%Y-%m-%d %H:%M:%S} UTC has passed; another one can be given"
            self.skip(name, why, is_over=True)
            return
        options = self.options
        check_board_name(name)
        devices = self.devices(name, entry)
        if options.preview:
            notes = choose_judging(entry.task, options.harness, devices, None).notes[:1]
        else:
            new = board_rules.NewBoard(
                name=name,
                task=entry.task,
                devices=devices,
                creator=(options.creator if self.actor.user_id is None else None) or self.actor,
                harness=options.harness,
                settings=BoardSettings(deadline=deadline, visibility=options.visibility or Visibility.PUBLIC),
            )
            made = board_rules.make_board(
                self.db, new, now=self.now, trial=options.trial, force=options.force
            )
            notes = made.notes
        self.result.created.append(name)
        self.result.notes.extend(Note(name=name, note=note) for note in notes)

    def update(self, name: str, entry: ProblemEntry, deadline: datetime | Keep | None) -> None:
        """Change a leaderboard, if there is anything to change and no reason against it."""
        options = self.options
        changes = BoardChanges(devices=self.devices(name, entry), deadline=deadline)
        if options.visibility is not None:
            changes["visibility"] = options.visibility
        seen = preview_update(
            self.db,
            self.actor,
            name,
            task=entry.task,
            changes=changes,
            now=self.now,
            known_devices=options.known_devices,
        )
        reason = _against(seen, force=options.force)
        if reason is not None:
            self.skip(name, reason)
            return
        if not options.preview:
            notes = update_board(
                self.db,
                self.actor,
                name,
                task=entry.task,
                changes=changes,
                expected=seen.fingerprint,
                rejudge=options.rejudge,
                force=options.force,
                now=self.now,
                known_devices=options.known_devices,
                trial=options.trial,
            ).notes
            self.result.notes.extend(Note(name=name, note=note) for note in notes)
        self.result.updated.append(name)
        if seen.needs_rejudge and not options.rejudge:
            self.result.left_standings.append(name)

    def skip(self, name: str, reason: str, *, is_over: bool = False) -> None:
        """Record that a leaderboard stays as it is."""
        self.result.skipped.append(Skipped(name=name, reason=reason, is_over=is_over))

    def log(self, repository: str, branch: str) -> None:
        """Write the sync to the audit log, unless it is a preview."""
        if self.options.preview:
            return
        detail = {
            "branch": branch,
            "commit": self.result.commit,
            "created": self.result.created,
            "updated": self.result.updated,
        }
        with self.db.write() as session:
            audit_log.record(
                session, self.actor, "problems.sync", f"repository:{repository}", detail, self.now
            )


def _against(seen: UpdatePreview, *, force: bool) -> str | None:
    """Return why a leaderboard is left as it is, None if it may be changed."""
    if not seen.changes_anything:
        return NO_CHANGES
    if force:
        return None
    if seen.needs_rejudge:
        return f"its results could not be compared any more ({'; '.join(seen.reasons)}); needs force"
    if seen.removed_in_use:
        return f"there are submissions on {', '.join(seen.removed_in_use)}; needs force"
    return None
