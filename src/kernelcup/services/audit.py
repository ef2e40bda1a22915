"""Who used which right: written by every service that uses one, read by those who manage."""

from __future__ import annotations

from kernelcup.domain import Actor, Role, Scope
from kernelcup.services import access
from kernelcup.storage import audit
from kernelcup.storage.audit import AuditEntry, record
from kernelcup.storage.database import Database

__all__ = ["AuditEntry", "entries", "record"]


def entries(
    db: Database,
    actor: Actor,
    *,
    target: str | None = None,
    action: str | None = None,
    before_id: int | None = None,
    limit: int = 50,
) -> list[AuditEntry]:
    """Return what was done, the newest first: for admins all, for creators what is about their boards.

    Raises:
        SignInNeeded, Forbidden, ScopeMissing: They may not see it.
    """
    sees_all = actor.role is Role.ADMIN
    # An admin without the scope is refused: what is about their own boards would look like all there is.
    access.require(actor, Scope.ADMIN if sees_all else Scope.MANAGE, role=Role.CREATOR)
    with db.read() as session:
        return audit.page(
            session,
            target=target,
            action=action,
            before_id=before_id,
            limit=limit,
            of_creator=None if sees_all else (actor.user_id or 0),
        )
