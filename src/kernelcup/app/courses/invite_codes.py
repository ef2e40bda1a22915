"""The form of invite codes and pseudonyms."""

from __future__ import annotations

import secrets
from typing import Annotated

from kernelcup.app.boards.visibility import UNNAMED
from kernelcup.app.courses.queries import members
from kernelcup.app.operation import Given
from kernelcup.app.people.user_names import has_invisible
from kernelcup.domain.answers import Course
from kernelcup.engine import Session
from kernelcup.errors import Conflict, InvalidValue, NotFound

Code = Annotated[str, Given(metavar="CODE", help="The code, in any spelling.")]
MOST_INVITES = 10_000
LONGEST_LABEL = 200
LONGEST_PSEUDONYM = 64

# Without I, L, O and U, which look like other letters or spell words. 20 letters have 100 random bits.
_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LOOKALIKES = str.maketrans("ILO", "110", " -\t")
_GROUPS, _GROUP_LENGTH = 4, 5


def new_code() -> str:
    """Return a random code that cannot be guessed and is easy to type, for example ``7K2QF-...``."""
    groups = ("".join(secrets.choice(_LETTERS) for _ in range(_GROUP_LENGTH)) for _ in range(_GROUPS))
    return "-".join(groups)


def normal_code(text: str) -> str:
    """Return a typed code in its normal form."""
    plain = text.strip().upper().translate(_LOOKALIKES)
    return "-".join(plain[start : start + _GROUP_LENGTH] for start in range(0, len(plain), _GROUP_LENGTH))


def check_label(label: str, what: str = "Label") -> None:
    """Raise ``InvalidValue`` if a code or a person cannot have this label, name or group."""
    if len(label) > LONGEST_LABEL or not label.isprintable():
        raise InvalidValue(f"{what} {label!r}: expected at most {LONGEST_LABEL} printable characters.")


def check_pseudonym(pseudonym: str) -> None:
    """Raise ``InvalidValue`` if the name cannot be a pseudonym."""
    fits = 1 <= len(pseudonym) <= LONGEST_PSEUDONYM and pseudonym.isprintable()
    if not fits or pseudonym != pseudonym.strip() or has_invisible(pseudonym):
        raise InvalidValue(
            f"Pseudonym {pseudonym!r}: expected 1 to {LONGEST_PSEUDONYM} visible, printable characters."
        )
    if pseudonym.lower().split()[0] == UNNAMED:
        raise InvalidValue(
            f"Pseudonym {pseudonym!r}: {UNNAMED!r} and a number is the name of users without one."
        )


def check_free(
    session: Session, course: Course, pseudonym: str | None, *, besides: int | None = None
) -> None:
    """Raise ``Conflict`` if another user has the pseudonym in the course."""
    owner = None if pseudonym is None else members.with_pseudonym(session, course.id, pseudonym)
    if owner is not None and owner != besides:
        raise Conflict(f"The pseudonym {pseudonym!r} is already taken in course {course.name!r}.")


def no_invite() -> NotFound:
    """Return the error for a code that does not exist, or not for the actor."""
    return NotFound("There is no such invite code.")
