"""User names."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator
from datetime import datetime

from kernelcup.app.people.queries import personal_data, users
from kernelcup.domain import Actor, Role, Scope
from kernelcup.domain.answers import Identity
from kernelcup.engine import Database, Session
from kernelcup.errors import InvalidValue

LONGEST_NAME = 64
LONGEST_SHOWN = 32

_PROVIDER = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_SUBJECT = re.compile(r"[!-~]{1,128}")

# The audit log uses "nobody" and "operator" for fixed actors; the others are parts of URLs.
_RESERVED = frozenset({"nobody", "operator", "kernelcup", "me", ".", ".."})

# Their letters look alike, so a name that mixes them could imitate another one.
_LOOKALIKE_SCRIPTS = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"})


# Letters, marks and signs that are invisible, at least by themselves, although Unicode counts them as printable.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)

# What shows an emoji in colour or joins it to the next one: invisible, but between emoji it imitates nothing.
_EMOJI = "\u2190-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
_JOINT = re.compile(f"((?<=[{_EMOJI}])(?:\ufe0f?\u200d(?=[{_EMOJI}])|\ufe0f))")


def ensure_user(db: Database, name: str, *, now: datetime) -> str:
    """Create the user unless it exists, and return the name in its first spelling."""
    checked = check_user_name(name)
    with db.write() as session:
        users.get_or_create(session, checked, now=now)
        found = users.find_name(session, checked)
    return found[1] if found else checked


def creator_here(db: Database, login: str) -> str:
    """Return the name of the creator for a leaderboard that a machine's login creates without naming one.

    That is the login if it is a user's name. Otherwise it is the only admin, since a login like ``root`` does not
    compete; without a single admin it is the login, as the name of a new user.
    """
    with db.read() as session:
        known = users.find_name(session, login)
        return known[1] if known is not None else users.only_admin(session) or login


def make_with_free_name(session: Session, identity: Identity, now: datetime) -> int:
    """Create a user with a name made of an identity's login, with a number if it is taken, and return their id."""
    proposed = proposed_names(identity.login, identity.provider)
    made = (users.create(session, name, role=Role.PARTICIPANT, now=now) for name in proposed)
    return next(each for each in made if each is not None)


def checked_identity(provider: str, subject: str, login: str) -> Identity:
    """Return an identity with a login that can be shown. Raise ``InvalidValue``."""
    if not _PROVIDER.fullmatch(provider):
        raise InvalidValue("Sign-in provider: expected 1 to 32 of a-z, 0-9, _ and -, starting with a letter.")
    if not _SUBJECT.fullmatch(subject):
        raise InvalidValue("Subject at a sign-in provider: expected 1 to 128 printable ASCII characters.")
    shown = "".join(letter for letter in login if letter.isprintable()).strip()[:LONGEST_NAME]
    return Identity(provider=provider, subject=subject, login=shown or f"{provider}-{subject}"[:LONGEST_NAME])


def actor_of(db: Database, name: str) -> Actor:
    """Return the actor of that name with all scopes, for entry points that need no token.

    An unknown name gives a participant without submissions.
    """
    with db.read() as session:
        return users.find_actor(session, name) or Actor(
            user_id=None, name=name, role=Role.PARTICIPANT, scopes=frozenset(Scope)
        )


def check_user_name(name: str) -> str:
    """Return the normalised name: letters, digits, ``-``, ``_`` and ``.``. Raise ``InvalidValue``."""
    normal = unicodedata.normalize("NFC", name)
    if not normal or len(normal) > LONGEST_NAME:
        raise InvalidValue(f"User name {name!r}: expected 1 to {LONGEST_NAME} characters.")
    if has_invisible(normal):
        raise InvalidValue(f"User name {name!a}: it contains invisible characters; leave them out.")
    if not all(map(_is_of_names, normal)):
        raise InvalidValue(f"User name {name!r}: expected letters, digits, '-', '_' and '.'.")
    return normal


def check_account_name(name: str) -> str:
    """Return the normalised name for a user who can sign in. Raise ``InvalidValue``.

    In addition to the rules for all names, its letters are of one alphabet, and it is not reserved for the audit log.
    """
    normal = check_user_name(name)
    _check_unmistakable(f"User name {name!r}", users.name_key(normal))
    return normal


def as_account_name(text: str) -> str:
    """Return a text with a ``-`` in place of each character that no account's name has."""
    return "".join(letter if _is_of_names(letter) else "-" for letter in text)


def check_shown_name(name: str) -> str:
    """Return the normalised shown name of a user, which may have spaces and emoji. Raise ``InvalidValue``."""
    normal = unicodedata.normalize("NFC", name)
    if not 1 <= len(normal) <= LONGEST_SHOWN:
        raise InvalidValue(f"Shown name {name!a}: expected 1 to {LONGEST_SHOWN} characters.")
    if _visible(normal) != normal:
        raise InvalidValue(f"Shown name {name!a}: it contains invisible characters; leave them out.")
    if normal != " ".join(normal.split()) or unicodedata.category(normal[0]).startswith("M"):
        raise InvalidValue(f"Shown name {name!r}: expected words with one space between them.")
    _check_unmistakable(f"Shown name {name!r}", users.name_key(normal))
    return normal


def as_shown_name(display_name: str) -> str:
    """Return the shown name that a text from elsewhere makes without its invisible characters, empty for none."""
    words = " ".join(_visible(unicodedata.normalize("NFC", " ".join(display_name.split()))).split())
    try:
        return check_shown_name(_visible(words[:LONGEST_SHOWN]).rstrip())
    except InvalidValue:
        return ""


def has_invisible(name: str) -> bool:
    """Return whether a name has invisible characters, with which it could look like another name."""
    return _INVISIBLE.search(name) is not None


def is_account_name(name: str) -> bool:
    """Return whether :func:`check_account_name` accepts a name."""
    try:
        check_account_name(name)
    except InvalidValue:
        return False
    return True


def proposed_names(login: str, instead: str) -> Iterator[str]:
    """Yield names for the account of a person who has this name elsewhere, the best first.

    Args:
        login: The name there, of any characters.
        instead: What to begin with where no name can be made of it.
    """
    plain = as_account_name(login)
    stem = plain if is_account_name(plain) else f"{plain}-1"
    if not is_account_name(stem):
        stem = instead
    for number in itertools.count(1):
        ending = "" if number == 1 else f"-{number}"
        yield check_account_name(stem[: LONGEST_NAME - len(ending)].strip() + ending)


def _is_of_names(letter: str) -> bool:
    """Return whether a character may be in an account's name; marks are parts of the letters of many scripts."""
    return letter.isalnum() or letter in "-_." or unicodedata.category(letter).startswith("M")


def _check_unmistakable(what: str, folded: str) -> None:
    if len(_scripts(folded) & _LOOKALIKE_SCRIPTS) > 1:
        raise InvalidValue(f"{what}: it mixes letters of several alphabets, which look alike.")
    if folded in _RESERVED or folded.startswith(personal_data.DELETED):
        raise InvalidValue(f"{what} is reserved; choose another.")


def _visible(name: str) -> str:
    """Return a name without characters that are invisible, direct the writing or have no meaning of their own."""
    parts = _JOINT.split(name)
    parts[::2] = ["".join(filter(_is_visible, part)) for part in parts[::2]]
    return "".join(parts)


def _is_visible(letter: str) -> bool:
    return letter == " " or (unicodedata.category(letter)[0] in "LMNPS" and not has_invisible(letter))


def _scripts(name: str) -> set[str]:
    return {unicodedata.name(letter, "").partition(" ")[0] for letter in name if letter.isalpha()}
