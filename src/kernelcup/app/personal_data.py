"""A user's data: export it, and delete the account."""

from __future__ import annotations

import tempfile
import zipfile
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.access import Entry
from kernelcup.app.operation import Archive, Given, operation, parts_of
from kernelcup.app.people import accounts
from kernelcup.app.people.accounts import Name
from kernelcup.app.people.queries import audit_log, personal_data, users
from kernelcup.app.queue import lifecycle
from kernelcup.app.submissions import submissions, withdrawal
from kernelcup.domain import Actor, Role, Scope
from kernelcup.domain.answers import User
from kernelcup.engine import Database
from kernelcup.errors import Banned, Forbidden, InvalidValue, NotFound, ScopeMissing

GONE = "this account was deleted"


@operation("GET", "/users/{name}/export", "account export", subject="users", is_slow=True, is_aside=True)
def export_account(db: Database, actor: Actor, name: Name) -> Archive:
    """Export a user's data as a zip: your own; admins can export anyone's.

    It has the profile, identities, tokens without their secrets, memberships, limits and notifications, and each
    submission with its code and its results, as far as the user may see them.
    """
    from pydantic_core import to_json  # a command that exports nothing does without

    user = accounts.get_user(db, actor, name)
    with db.read() as session:
        itself = users.find_actor(session, user.name) or actor
        viewer = actor if user.id == actor.user_id else itself
        account = {"user": user, **personal_data.own_rows(session, user.id)}
        numbers = personal_data.submission_ids(session, user.id)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed when its parts were read
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("account.json", to_json(account, indent=1))
        for number in numbers:
            with suppress(NotFound, Forbidden):  # deleted meanwhile, or on a leaderboard that the user left
                shown = submissions.show_submission(db, number, viewer=viewer)
                jobs = tuple(replace(job, counted=None) for job in shown.jobs)  # the report stands beside it
                archive.writestr(f"{number}/submission.json", to_json(replace(shown, jobs=jobs), indent=1))
                for path, text in submissions.get_code(db, number, viewer=viewer).files.items():
                    archive.writestr(f"{number}/code/{path}", text)
    return Archive(name=f"{user.name}.zip", parts=parts_of(file))


@operation("DELETE", "/users/{name}", "account delete", subject="users", is_slow=True)
def delete_account(
    db: Database,
    actor: Actor,
    name: Name,
    *,
    confirm: Annotated[str, Given(options=("--confirm",), help="The user's name again, as confirmation.")],
    with_submissions: Annotated[
        bool,
        Given(key="submissions", options=("--submissions",), help="Delete or withdraw submissions, too."),
    ] = False,
    entry: Entry,
    now: datetime,
) -> User:
    """Delete an account permanently, and return what is left: your own; admins can delete anyone's.

    Identities, tokens, sessions, memberships and notifications are deleted, waiting and running jobs are cancelled.
    Results stay under a pseudonym, which also replaces the name in the log. Who signs in again gets another account.

    Raises:
        SignInNeeded, Forbidden, ScopeMissing: The actor may not do this.
        Banned: A banned user cannot come back with another account.
        NotFound: There is no user of that name.
        InvalidValue: The name was not confirmed; nothing was deleted.
        Conflict: It is the last admin.
    """
    access.require(actor, Scope.SUBMIT)
    if entry.by == "acting":
        raise ScopeMissing("A bot cannot delete an account; use the web site or the command line.")
    user = accounts.get_user(db, actor, name)
    if confirm.strip() != user.name:
        raise InvalidValue(f"Confirm with the user's name {user.name!r}; nothing was deleted.")
    if user.id == actor.user_id and user.banned_at is not None and user.ban_reason != GONE:
        raise Banned("You are banned and cannot delete your account; ask an admin.")
    with db.write() as session:  # from here on nothing is submitted
        accounts.check_not_last_admin(session, actor, user)
        users.set_ban(session, user.id, at=now, reason=GONE)
        numbers = personal_data.submission_ids(session, user.id) if with_submissions else []
    author = Actor(user_id=user.id, name=user.name, role=Role.PARTICIPANT, scopes=access.ALL_SCOPES)
    for number in numbers:
        with suppress(NotFound, Forbidden):  # under review, or on a leaderboard that the user left
            withdrawal.delete_submission(db, number, by=author, now=now)
    with db.write(durable=True) as session:
        for submission_id, job_id in personal_data.open_jobs(session, user.id):
            lifecycle.cancel_jobs(session, submission_id, [job_id], now=now, reason=GONE)
        pseudonym = personal_data.forget(session, user, now)
        by = replace(actor, name=pseudonym) if actor.user_id == user.id else actor
        audit_log.record(session, by, "user.delete", f"user:{pseudonym}", {}, now)
    return replace(user, name=pseudonym, shown_name="", identities=())
