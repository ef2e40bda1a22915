"""Names of people."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime

from kernelcup.domain import Actor, Role, Scope
from kernelcup.errors import InvalidValue
from kernelcup.storage import users
from kernelcup.storage.database import Database

LONGEST_NAME = 64

# Who "nobody" and "operator" are is fixed, and the audit log tells them by name; the others are words of URLs.
_RESERVED = frozenset({"nobody", "operator", "me", ".", ".."})

# Their letters look alike: in a name that mixes them, one stands for another.
_LOOKALIKE_SCRIPTS = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"})


# Letters, marks and signs that show nothing, or nothing by themselves, although Unicode counts them as printable.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def ensure_user(db: Database, name: str, *, now: datetime) -> str:
    """Make the user unless there is one, and return the name as it was first written."""
    checked = check_user_name(name)
    with db.write() as session:
        users.get_or_create(session, checked, now=now)
        found = users.find(session, checked)
    return found[1] if found else checked


def creator_here(db: Database, login: str) -> str:
    """Return whose a leaderboard is that a machine's login makes and that names nobody.

    Theirs, if the login is a user's name. Else the only admin's, since a login such as ``root`` is nobody
    who competes; without one a user of that name is made.
    """
    with db.read() as session:
        known = users.find(session, login)
        return known[1] if known is not None else users.only_admin(session) or login


def actor_of(db: Database, name: str) -> Actor:
    """Return the person of that name with all scopes, for doors that need no token.

    A name that nobody has yet is a participant without submissions.
    """
    with db.read() as session:
        return users.find_actor(session, name) or Actor(
            user_id=None, name=name, role=Role.PARTICIPANT, scopes=frozenset(Scope)
        )


def check_user_name(name: str) -> str:
    """Return the normalised name. Raise ``InvalidValue`` if it cannot be one."""
    normal = unicodedata.normalize("NFC", name)
    if not normal or len(normal) > LONGEST_NAME:
        raise InvalidValue(f"User name {name!r}: expected 1 to {LONGEST_NAME} characters.")
    if not normal.isprintable() or normal != normal.strip():
        raise InvalidValue(f"User name {name!r}: expected printable characters, no blanks at its ends.")
    if has_invisible(normal):
        raise InvalidValue(f"User name {name!a}: it has characters that cannot be seen; leave them out.")
    return normal


def check_account_name(name: str) -> str:
    """Return the normalised name for somebody who can sign in. Raise ``InvalidValue``.

    Beside what all names must be, it is usable in a URL and nobody's of whom the audit log speaks.
    """
    normal = check_user_name(name)
    if "/" in normal or "\\" in normal:
        raise InvalidValue(f"User name {name!r}: a slash is not allowed.")
    if len(_scripts(normal) & _LOOKALIKE_SCRIPTS) > 1:
        raise InvalidValue(f"User name {name!r}: letters of several alphabets, which look alike.")
    if users.name_key(normal) in _RESERVED:
        raise InvalidValue(f"User name {name!r} is reserved; choose another.")
    return normal


def has_invisible(name: str) -> bool:
    """Return whether a name has characters that nobody can see, so that it looks like another one."""
    return _INVISIBLE.search(name) is not None


def is_account_name(name: str) -> bool:
    """Return whether :func:`check_account_name` would take a name."""
    try:
        check_account_name(name)
    except InvalidValue:
        return False
    return True


def _scripts(name: str) -> set[str]:
    return {unicodedata.name(letter, "").partition(" ")[0] for letter in name if letter.isalpha()}
