"""Make and update the leaderboards of a git repository's problem sets."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from kernelcup.domain import Actor, Device, Role, Scope, Visibility
from kernelcup.errors import Conflict, InvalidTask, InvalidValue, NotFound, UserError
from kernelcup.services import access
from kernelcup.services import boards as board_rules
from kernelcup.services.board_changes import BoardChanges, UpdatePreview, preview_update, update_board
from kernelcup.services.deadlines import parse_deadline
from kernelcup.services.task_git import FOLDER, fetch_problems
from kernelcup.storage import audit, boards
from kernelcup.storage.database import Database
from kernelcup.tasks.problem_set import ProblemEntry, survey_problem_set
from kernelcup.tasks.roots import ENDINGS
from kernelcup_harness.protocol import HarnessKind

ANY_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Skipped:
    """A leaderboard that stays as it is."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SyncError:
    """A problem of which no leaderboard could be made or updated."""

    name: str
    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SyncResult:
    """What a sync did, or would do."""

    commit: str
    preview: bool
    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    errors: list[SyncError] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class SyncOptions:
    """How a sync treats each problem."""

    force: bool = False
    """Also change leaderboards whose results can then not be compared, and take away devices in use."""
    preview: bool = False
    """Only say what would happen."""
    prefix: str = ""
    """Put before the name of each leaderboard."""
    creator: str | None = None
    """Whose the new leaderboards are, where the operator asks."""
    visibility: Visibility | None = None
    """None makes new ones public and leaves others as they are."""
    harness: HarnessKind | None = None
    """Whose code judges new ones; None is ours wherever it can."""
    rejudge: bool = False
    """Judge results again that can no longer be compared."""
    known_devices: Sequence[Device] | None = None


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
    """Make those leaderboards of a repository that are missing, and update those whose task changed.

    Each problem stands for itself: what is wrong with one is told and stops no other.

    Args:
        problem_set: The set's file name with or without ending; None is all of them.

    Raises:
        SignInNeeded, Forbidden, ScopeMissing: The actor may not make leaderboards.
        InvalidValue: The repository or the branch cannot be used.
        NotFound: There is no such branch or problem set.
    """
    access.require(actor, Scope.MANAGE, role=Role.CREATOR)
    chosen = options or SyncOptions()
    with tempfile.TemporaryDirectory(prefix="kernelcup-sync-") as folder:
        root = Path(folder) / FOLDER
        commit = fetch_problems(actor, repository, branch, root)
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


class _Sync:
    """One run over the problem sets."""

    def __init__(
        self, db: Database, actor: Actor, options: SyncOptions, now: datetime, result: SyncResult
    ) -> None:
        self.db = db
        self.actor = actor
        self.options = options
        self.now = now
        self.result = result
        self.done: set[str] = set()

    def problem_set(self, path: Path) -> None:
        """Bring all leaderboards of a set up to date."""
        try:
            survey = survey_problem_set(path, shown=Path(FOLDER) / path.name)
        except InvalidTask as error:
            self.result.errors.append(SyncError(name=path.stem, error=str(error)))
            return
        for broken in survey.broken:
            text = "\n".join(map(str, broken.problems))
            self.result.errors.append(SyncError(name=broken.name, error=text))
        for entry in survey.problem_set.problems:
            self.problem(entry)

    def problem(self, entry: ProblemEntry) -> None:
        """Bring one leaderboard up to date."""
        name = f"{self.options.prefix}{entry.name}"
        try:
            if name.lower() in self.done:
                raise Conflict(f"Another problem has the name {name!r} too.")
            self.done.add(name.lower())
            deadline = parse_deadline(entry.deadline, ANY_TIME) if entry.deadline else None
            if self.exists(name):
                self.update(name, entry, deadline)
            else:
                self.create(name, entry, deadline)
        except UserError as error:
            self.result.errors.append(SyncError(name=name, error=str(error)))

    def exists(self, name: str) -> bool:
        """Tell whether the name is taken. Raise unless the leaderboard is the actor's to change."""
        with self.db.read() as session:
            if boards.find(session, name) is None:
                return False
            board_rules.find_managed(session, name, self.actor)
            return True

    def create(self, name: str, entry: ProblemEntry, deadline: datetime | None) -> None:
        """Make a leaderboard."""
        if deadline is not None and deadline <= self.now:
            self.skip(name, f"its deadline {deadline:%Y-%m-%d %H:%M:%S} UTC is over")
            return
        options = self.options
        harness = options.harness or board_rules.propose_harness(entry.task)
        if harness is HarnessKind.OWN and options.harness is None:
            raise InvalidValue(
                "only its own harness can judge it, and results would be marked self-measured; "
                "ask for the harness 'own' if you want that"
            )
        board_rules.check_board_name(name)
        devices = board_rules.choose_devices(entry.devices, options.known_devices)
        board_rules.check_harness(entry.task, harness)
        if not options.preview:
            board_rules.create_board(
                self.db,
                name=name,
                task=entry.task,
                devices=devices,
                creator=self.creator(),
                now=self.now,
                harness=harness,
                deadline=deadline,
                visibility=options.visibility or Visibility.PUBLIC,
            )
        self.result.created.append(name)

    def creator(self) -> str | Actor:
        """Return whose the new leaderboards are."""
        if self.actor.user_id is None and self.options.creator is not None:
            return self.options.creator
        return self.actor

    def update(self, name: str, entry: ProblemEntry, deadline: datetime | None) -> None:
        """Change a leaderboard, if there is anything to change and nothing speaks against it."""
        options = self.options
        changes = BoardChanges(devices=entry.devices)
        if deadline is not None:
            changes = dataclasses.replace(changes, deadline=deadline)
        if options.visibility is not None:
            changes = dataclasses.replace(changes, visibility=options.visibility)
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
            update_board(
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
            )
        self.result.updated.append(name)

    def skip(self, name: str, reason: str) -> None:
        """Note that a leaderboard stays as it is."""
        self.result.skipped.append(Skipped(name=name, reason=reason))

    def log(self, repository: str, branch: str) -> None:
        """Note who synced what, unless nothing was done."""
        if self.options.preview:
            return
        detail = {
            "branch": branch,
            "commit": self.result.commit,
            "created": self.result.created,
            "updated": self.result.updated,
        }
        with self.db.write() as session:
            audit.record(session, self.actor, "problems.sync", f"repository:{repository}", detail, self.now)


def _against(seen: UpdatePreview, *, force: bool) -> str | None:
    """Return why a leaderboard is left as it is, None if nothing speaks against the change."""
    if not seen.changes_anything:
        return "no changes"
    if force:
        return None
    if seen.needs_rejudge:
        return f"its results could not be compared any more ({'; '.join(seen.reasons)}); needs force"
    if seen.removed_in_use:
        return f"there are submissions on {', '.join(seen.removed_in_use)}; needs force"
    return None
