"""Standings and their history: live for the managers of a leaderboard, frozen for others."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from kernelcup import scoring
from kernelcup.domain import OPERATOR, Actor, Leaderboard, Standing, TrustRule
from kernelcup.errors import Conflict, InvalidValue, UnknownDevice
from kernelcup.services.boards import visibility
from kernelcup.services.boards.boards import find_board, find_managed
from kernelcup.services.results import news as news_of_results
from kernelcup.services.results.places import PLACES
from kernelcup.storage.boards import boards
from kernelcup.storage.engine.database import Database
from kernelcup.storage.people import audit_log
from kernelcup.storage.results import frozen_standings
from kernelcup.storage.results import standings as ranking
from kernelcup.storage.results.standings import Ranked, Record, State

MOST_APART = 100
"""So many results that stand apart from the ranking are shown at most."""


def standings(
    db: Database,
    board: str,
    device: str,
    *,
    viewer: Actor = OPERATOR,
    limit: int | None = None,
    offset: int = 0,
) -> list[Standing]:
    """Return the ranking of one (leaderboard, device), fastest first, or a page of it.

    Results that cannot be distinguished share a rank; see :func:`kernelcup.scoring.band_heads`.

    Args:
        db: The database.
        board: The leaderboard.
        device: One of its devices.
        viewer: The actor who looks. Unless they manage the leaderboard, they see a frozen one as it was at the
            freeze, and on a pseudonymous one other users under their pseudonyms, without file names.
        limit: The maximum number of places.
        offset: The number of places to skip.

    Raises:
        NotFound: The leaderboard does not exist for the viewer.
        UnknownDevice: The leaderboard does not have that device.
    """
    with db.read() as session:
        found = find_board(session, board, viewer)
        name = board_device(found, device)
        is_frozen = shows_copy(session, found, viewer)
        page = ranking.entries(
            session, board_id=found.id, device=name, frozen=is_frozen, limit=limit, offset=offset
        )
        if not page:
            return []
        until = offset + len(page) + 1  # the next place shows whether the last one is tied
        ranks = PLACES.ranks(session, board_id=found.id, device=name, frozen=is_frozen, until=until)
        places = scoring.ranked(
            [each.entry for each in page], ranks[offset:until], after=ranks[offset - 1] if offset else None
        )
        return _shown(session, found, places, page, viewer)


def frozen_since(db: Database, board: str, *, viewer: Actor, now: datetime) -> datetime | None:
    """Return the time of the freeze if the viewer sees frozen standings, None if they see the live ones."""
    with db.read() as session:
        since = visibility.hidden_since(find_board(session, board, viewer), viewer)
    return since if since is not None and since <= now else None


def count_places(db: Database, board: str, device: str, *, viewer: Actor = OPERATOR) -> int:
    """Return the number of users in a ranking as the viewer sees it. Raise like :func:`standings`."""
    with db.read() as session:
        found = find_board(session, board, viewer)
        name = board_device(found, device)
        return ranking.count(
            session, board_id=found.id, device=name, frozen=shows_copy(session, found, viewer)
        )


def state(db: Database, board: str, device: str, *, viewer: Actor = OPERATOR) -> State:
    """Return a value that changes whenever the viewer's ranking does. Raise like :func:`standings`."""
    with db.read() as session:
        found = find_board(session, board, viewer)
        return ranking.state(
            session,
            board_id=found.id,
            device=board_device(found, device),
            frozen=shows_copy(session, found, viewer),
        )


def personal_best(
    db: Database,
    board: str,
    device: str,
    user: str,
    *,
    viewer: Actor = OPERATOR,
) -> Standing | None:
    """Return a user's standing, None for a user without a score.

    While the leaderboard is frozen, the viewer's own standing is frozen too: ranking a later result among the
    others' earlier ones could put several users first.
    """
    with db.read() as session:
        found = find_board(session, board, viewer)
        name, user_id = board_device(found, device), visibility.find_shown(session, found, user, viewer)
        if user_id is None:
            return None
        is_frozen = shows_copy(session, found, viewer)
        entries = ranking.entries(session, board_id=found.id, device=name, frozen=is_frozen, user_id=user_id)
        if not entries:
            return None
        return _standing(session, found, name, entries[0], viewer, frozen=is_frozen)


def personal_bests(
    session: Session, places: Sequence[tuple[Leaderboard, str]], user_id: int, *, viewer: Actor
) -> list[tuple[Leaderboard, str, Standing]]:
    """Return where a user stands on some (leaderboard, device) that the viewer sees; elsewhere they do not."""
    live = ranking.entries_of_user(session, user_id)
    every = {board.id: board for board, _ in places}
    copied = {board.id for board in every.values() if shows_copy(session, board, viewer)}
    found = []
    for board, device in places:
        is_frozen = board.id in copied
        mine = live.get((board.id, device))
        if is_frozen:
            kept = ranking.entries(session, board_id=board.id, device=device, frozen=True, user_id=user_id)
            mine = kept[0] if kept else None
        standing = None if mine is None else _standing(session, board, device, mine, viewer, frozen=is_frozen)
        if standing is not None:
            found.append((board, device, standing))
    return found


def places_of_submission(
    db: Database, board: str, devices: Sequence[str], submission_id: int, *, viewer: Actor = OPERATOR
) -> dict[str, Standing]:
    """Return the places that a submission holds, by device. Raise ``NotFound`` as :func:`standings` does."""
    found = {}
    with db.read() as session:
        its = find_board(session, board, viewer)
        is_frozen = shows_copy(session, its, viewer)
        for device in devices:
            if device not in its.devices:
                continue  # the leaderboard has it no more
            held = ranking.entries(
                session, board_id=its.id, device=device, frozen=is_frozen, submission_id=submission_id
            )
            place = _standing(session, its, device, held[0], viewer, frozen=is_frozen) if held else None
            if place is not None:
                found[device] = place
    return found


def neighbours(
    db: Database, board: str, device: str, submission_id: int, *, viewer: Actor = OPERATOR
) -> tuple[Standing | None, Standing | None]:
    """Return the places before and after that of a submission, None where there is none.

    Raise ``NotFound`` as :func:`standings` does.
    """
    with db.read() as session:
        found = find_board(session, board, viewer)
        name, is_frozen = board_device(found, device), shows_copy(session, found, viewer)
        held = ranking.entries(
            session, board_id=found.id, device=name, frozen=is_frozen, submission_id=submission_id
        )
        if not held:
            return None, None
        key = (held[0].entry.ranked_s, submission_id)
        above = ranking.count(session, board_id=found.id, device=name, frozen=is_frozen, above=key)
    near = standings(db, board, device, viewer=viewer, limit=3, offset=max(above - 1, 0))
    at = next((at for at, each in enumerate(near) if each.submission_id == submission_id), None)
    if at is None:
        return None, None  # the ranking changed meanwhile
    return near[at - 1] if at else None, near[at + 1] if at + 1 < len(near) else None


def unranked_standings(
    db: Database, board: str, device: str, *, viewer: Actor = OPERATOR, limit: int = MOST_APART
) -> list[Standing]:
    """Return each user's best of a level that the leaderboard does not rank; none while a freeze hides it.

    Ranks are among these. It raises what :func:`standings` does.
    """
    with db.read() as session:
        found = find_board(session, board, viewer)
        name = board_device(found, device)
        if found.trust is TrustRule.ANY or shows_copy(session, found, viewer):
            return []
        page = ranking.unranked(session, board_id=found.id, device=name, limit=limit)
        return _among_themselves(session, found, page, viewer)


def count_waiting(db: Database, board: str, device: str, *, viewer: Actor = OPERATOR) -> int:
    """Return how many users have no place until a result of an earlier version of the task is judged again.

    None are counted while a freeze hides it. It raises what :func:`standings` does.
    """
    with db.read() as session:
        found = find_board(session, board, viewer)
        name = board_device(found, device)
        if shows_copy(session, found, viewer):
            return 0
        return ranking.count_waiting(session, board_id=found.id, device=name)


def history(
    db: Database,
    board: str,
    device: str,
    *,
    viewer: Actor = OPERATOR,
    user: str | None = None,
    before_id: int | None = None,
    limit: int = 100,
) -> list[Record]:
    """Return the improvements of users' bests, newest first.

    Unless the viewer manages the leaderboard, other users' improvements are limited to those before the freeze,
    under the names of the standings.
    """
    with db.read() as session:
        found = find_board(session, board, viewer)
        name = board_device(found, device)
        user_id = None if user is None else visibility.find_shown(session, found, user, viewer)
        if user is not None and user_id is None:
            return []
        records = ranking.history(
            session,
            board_id=found.id,
            device=name,
            user_id=user_id,
            before_id=before_id,
            limit=limit,
            until=visibility.hidden_since(found, viewer),
            always=viewer.user_id,
        )
        names = visibility.shown_names(session, found, {each.user_id: each.user for each in records}, viewer)
    masked = visibility.is_masked(found, viewer)
    return [
        dataclasses.replace(each, user=names[each.user_id], user_id=0 if masked else each.user_id)
        for each in records
    ]


def freeze(db: Database, actor: Actor, board: str, at: datetime, now: datetime) -> Leaderboard:
    """Freeze a leaderboard at a given time for everyone but its managers, until it is unveiled.

    Raises:
        Conflict: It is already frozen.
        InvalidValue: The time has passed: past standings are not kept.
    """
    if at < now:
        raise InvalidValue(f"{at:%Y-%m-%d %H:%M:%S} UTC has passed: a leaderboard can freeze now or later.")
    with db.write(durable=True) as session:
        boards.lock(session, board)
        found = find_managed(session, board, actor)
        if found.freeze_at is not None and found.freeze_at <= now:
            raise Conflict(f"Leaderboard {found.name!r} is frozen already; unveil it first.")
        frozen_standings.set_freeze(session, found.id, at)
        frozen_standings.keep(session, found.id, now)
        audit_log.record(session, actor, "board.freeze", f"board:{found.name}", {"at": at.isoformat()}, now)
        return find_board(session, found.name)


def unveil(db: Database, actor: Actor, board: str, now: datetime) -> Leaderboard:
    """End the freeze of a leaderboard. Raise ``Conflict`` if it has none."""
    with db.write(durable=True) as session:
        boards.lock(session, board)
        found = find_managed(session, board, actor)
        if found.freeze_at is None:
            raise Conflict(f"Leaderboard {found.name!r} is not frozen.")
        news_of_results.unveil(session, found, now)
        frozen_standings.set_freeze(session, found.id, None)
        audit_log.record(session, actor, "board.unveil", f"board:{found.name}", {}, now)
        return find_board(session, found.name)


def board_device(board: Leaderboard, name: str) -> str:
    """Return a device's name in the leaderboard's spelling. Raise ``UnknownDevice``."""
    for device in board.devices:
        if device.lower() == name.lower():
            return device
    allowed = ", ".join(board.devices)
    raise UnknownDevice(f"Leaderboard {board.name!r} has no device {name!r}; it has {allowed}.")


def shows_copy(session: Session, board: Leaderboard, viewer: Actor) -> bool:
    """Return whether the viewer sees the copy of the standings from the leaderboard's freeze.

    There is no copy until the first change after the freeze: the live standings are the frozen ones.
    """
    return visibility.hidden_since(board, viewer) is not None and frozen_standings.is_kept(session, board.id)


def _standing(
    session: Session, board: Leaderboard, device: str, mine: Ranked, viewer: Actor, *, frozen: bool
) -> Standing | None:
    place = _place_among(session, board, device, mine, frozen=frozen)
    return None if place is None else _shown(session, board, [place], [mine], viewer)[0]


def _place_among(
    session: Session, board: Leaderboard, device: str, mine: Ranked, *, frozen: bool
) -> Standing | None:
    """Rank one entry among all others."""
    key = (mine.entry.ranked_s, mine.entry.submission_id)
    above = ranking.count(session, board_id=board.id, device=device, frozen=frozen, above=key)
    ranks = PLACES.ranks(session, board_id=board.id, device=device, frozen=frozen, until=above + 2)
    places = scoring.ranked([mine.entry], ranks[above : above + 2], after=ranks[above - 1] if above else None)
    return places[0] if places else None  # the ranking became shorter meanwhile


def _among_themselves(
    session: Session, board: Leaderboard, page: Sequence[Ranked], viewer: Actor
) -> list[Standing]:
    entries = [each.entry for each in page]
    places = scoring.ranked(entries, list(scoring.band_heads(each.placed for each in entries)))
    return _shown(session, board, places, page, viewer)


def _shown(
    session: Session,
    board: Leaderboard,
    places: Sequence[Standing],
    page: Sequence[Ranked],
    viewer: Actor,
) -> list[Standing]:
    """Return the standings with users as the viewer may see them."""
    if not visibility.is_masked(board, viewer):
        return list(places)
    ids = {each.entry.user: each.user_id for each in page}
    names = visibility.shown_names(session, board, {ids[name]: name for name in ids}, viewer)
    own = viewer.user_id
    return [
        dataclasses.replace(
            place,
            user=names[ids[place.user]],
            file_name=place.file_name if ids[place.user] == own else "",
        )
        for place in places
    ]
