"""Standings and their history: live for the managers of a leaderboard, frozen for others.

A device whose results are from several classes of machines has a ranking for each class, until these were shown to
agree (:mod:`kernelcup.app.machines.agreement`). No rank and no tie goes beyond a ranking.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from kernelcup import scoring
from kernelcup.app.boards import boards, visibility
from kernelcup.app.events.queries import teams
from kernelcup.app.results import places as cached
from kernelcup.app.results.queries import frozen_standings
from kernelcup.app.results.queries import standings as ranking
from kernelcup.domain import OPERATOR, Actor, Leaderboard, Ruling, Standing, TrustRule
from kernelcup.engine import Database, Session
from kernelcup.engine.rows import made_of
from kernelcup.errors import DeviceNeeded, UnknownDevice

MOST_APART = 100
"""So many results that stand apart from the ranking are shown at most."""


def standings(
    db: Database,
    board: str,
    device: str,
    *,
    host_class: str | None = None,
    viewer: Actor = OPERATOR,
    limit: int | None = None,
    offset: int = 0,
) -> list[Standing]:
    """Return the ranking of one (leaderboard, device), fastest first, or a page of it.

    Results that cannot be distinguished share a rank; see :func:`kernelcup.scoring.band_heads`. If classes of
    machines rank for themselves (:func:`classes`), one ranking follows the other.

    Args:
        board: The leaderboard.
        device: One of its devices.
        host_class: Only the ranking of this class of machines.
        viewer: The actor who looks. Unless they manage the leaderboard, they see a frozen one as it was at the
            freeze, and on a pseudonymous one other users under their pseudonyms, without file names.
        limit: The maximum number of places.
        offset: The number of places to skip.

    Raises:
        NotFound: The leaderboard does not exist for the viewer.
        UnknownDevice: The leaderboard does not have that device.
    """
    with db.read() as session:
        found = boards.find_board(session, board, viewer)
        name = board_device(found, device)
        return _page(session, found, name, host_class, viewer, limit=limit, offset=offset)


def _page(
    session: Session,
    board: Leaderboard,
    device: str,
    host_class: str | None,
    viewer: Actor,
    *,
    limit: int | None,
    offset: int,
) -> list[Standing]:
    is_frozen = shows_copy(session, board, viewer)
    every = _classes(session, board, device, frozen=is_frozen)
    of = host_class or (every[0] if len(every) == 1 else None)
    page = ranking.entries(
        session,
        board_id=board.id,
        device=device,
        frozen=is_frozen,
        host_class=of,
        limit=limit,
        offset=offset,
    )
    places: list[Standing] = []
    for host_class, part in groupby(page, key=_class_of):
        one = cached.Ranking(
            session=session, board_id=board.id, device=device, host_class=host_class, frozen=is_frozen
        )
        its = list(part)
        above = offset if of is not None else one.count(its[0].entry.order)
        places += _ranked(one, its, above)
    return _shown(session, board, _split(places, len(every) > 1), page, viewer)


def classes(db: Database, board: str, device: str, *, viewer: Actor = OPERATOR) -> list[str]:
    """Return the classes of machines that rank for themselves; none while the device has one ranking only.

    Raise like :func:`standings`.
    """
    with db.read() as session:
        found, name, frozen = seen(session, board, device, viewer)
        every = _classes(session, found, name, frozen=frozen)
    return every if len(every) > 1 else []


def rankings(
    db: Database,
    board: str,
    device: str,
    *,
    viewer: Actor = OPERATOR,
    limit: int | None = None,
    offset: int = 0,
) -> list[list[Standing]]:
    """Return the same page of each class's ranking, or of the only one. Raise like :func:`standings`."""
    every: list[str | None] = [*classes(db, board, device, viewer=viewer)] or [None]
    return [
        standings(db, board, device, host_class=each, viewer=viewer, limit=limit, offset=offset)
        for each in every
    ]


def count_places(
    db: Database, board: str, device: str, *, host_class: str | None = None, viewer: Actor = OPERATOR
) -> int:
    """Return the number of places on a device as the viewer sees it. Raise like :func:`standings`."""
    with db.read() as session:
        found, name, frozen = seen(session, board, device, viewer)
        return ranking.count(session, board_id=found.id, device=name, host_class=host_class, frozen=frozen)


def revision(db: Database, board: str, device: str, *, viewer: Actor = OPERATOR) -> int:
    """Return a value that changes whenever the viewer's ranking does. Raise like :func:`standings`."""
    with db.read() as session:
        found, name, frozen = seen(session, board, device, viewer)
        return ranking.revision(session, board_id=found.id, device=name, frozen=frozen)


def personal_best(
    db: Database,
    board: str,
    device: str,
    user: str,
    *,
    host_class: str | None = None,
    viewer: Actor = OPERATOR,
) -> Standing | None:
    """Return a user's standing, None for a user without a score. Of several classes it is the one with the best rank.

    While the leaderboard is frozen, the viewer's own standing is frozen too: ranking a later result among the
    others' earlier ones could put several users first.
    """
    with db.read() as session:
        found, name, is_frozen = seen(session, board, device, viewer)
        if (user_id := visibility.find_shown(session, found, user, viewer)) is None:
            return None
        user_id = teams.competitor(session, found.id, user_id) if found.event else user_id
        mine = ranking.stands(session, user_id=user_id, board_id=found.id, device=name, frozen=is_frozen)
        mine = [each for each in mine if host_class in (None, each.host_class)]
        places = _standings(session, found, mine, viewer, frozen=is_frozen)
    return min(places, key=lambda each: each.rank, default=None)


def find_place(
    db: Database,
    board: str,
    device: str,
    user: str,
    *,
    host_class: str | None = None,
    viewer: Actor = OPERATOR,
) -> tuple[str, int, int] | None:
    """Return the class, the number of places above and the submission of a user's best place; None without one.

    The user has the name that the viewer sees. Raise like :func:`standings`.
    """
    with db.read() as session:
        found, name, frozen = seen(session, board, device, viewer)
        if (user_id := visibility.find_shown(session, found, user, viewer)) is None:
            return None
        mine = ranking.stands(session, user_id=user_id, board_id=found.id, device=name, frozen=frozen)
        places = [
            (each.host_class if each.is_split else "", cached.PLACES.above(of, each.entry.order), each)
            for each in mine
            if host_class in (None, each.host_class)
            and (of := made_of(each, cached.Ranking, session=session, frozen=frozen))
        ]
        best = min(places, key=lambda place: place[1], default=None)
    return None if best is None else (best[0], best[1], best[2].entry.submission_id)


def personal_bests(
    session: Session, places: Sequence[tuple[Leaderboard, str]], user_id: int, *, viewer: Actor
) -> list[tuple[Leaderboard, str, Standing]]:
    """Return where a user stands on some (leaderboard, device) that the viewer sees, in each class's ranking."""
    copied = {board.id: shows_copy(session, board, viewer) for board, _ in places}
    every = {copy: ranking.stands(session, user_id=user_id, frozen=copy) for copy in set(copied.values())}
    found = []
    for board, device in places:
        is_frozen, key = copied[board.id], (board.id, device)
        mine = [each for each in every[is_frozen] if (each.board_id, each.device) == key]
        stands = _standings(session, board, mine, viewer, frozen=is_frozen)
        found += [(board, device, each) for each in stands]
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """A place that a submission holds, with those before and after it, None where there is none."""

    place: Standing
    before: Standing | None
    after: Standing | None


def places_of_submission(
    db: Database, board: str, devices: Sequence[str], submission_id: int, *, viewer: Actor = OPERATOR
) -> dict[str, Held]:
    """Return the places that a submission holds, by device. Raise ``NotFound`` as :func:`standings` does."""
    held = {}
    with db.read() as session:
        found = boards.find_board(session, board, viewer)
        is_frozen = shows_copy(session, found, viewer)
        # The leaderboard may have a device no more.
        for device in (each for each in devices if each in found.devices):
            mine = ranking.stands(
                session, submission_id=submission_id, board_id=found.id, device=device, frozen=is_frozen
            )
            if not mine:
                continue
            of = made_of(mine[0], cached.Ranking, session=session, frozen=is_frozen)
            first = max(cached.PLACES.above(of, mine[0].entry.order) - 1, 0)
            near = _page(session, found, device, of.host_class, viewer, limit=3, offset=first)
            for before, place, after in zip([None, *near], near, [*near[1:], None], strict=False):
                if place.submission_id == submission_id:
                    held[device] = Held(place=place, before=before, after=after)
    return held


def standings_apart(
    db: Database,
    board: str,
    device: str,
    why: Ruling,
    *,
    viewer: Actor = OPERATOR,
    limit: int = MOST_APART,
) -> list[Standing]:
    """Return each user's best that does not rank for one reason; none while a freeze hides it.

    Ranks are among these. It raises what :func:`standings` does.

    Args:
        why: ``LEVEL``: a level that the leaderboard does not rank; ``PRACTICE``: after the deadline.
    """
    with db.read() as session:
        found = boards.find_board(session, board, viewer)
        name = board_device(found, device)
        is_open = found.deadline is None if why is Ruling.PRACTICE else found.trust is TrustRule.ANY
        if is_open or shows_copy(session, found, viewer):
            return []
        since = visibility.hidden_since(found, viewer)
        page = ranking.apart(session, board_id=found.id, device=name, why=why, since=since, limit=limit)
        every = sorted({each.entry.host_class for each in page} | set(_classes(session, found, name)))
        return _among_themselves(session, found, page, every, viewer)


def count_waiting(
    db: Database, board: str, device: str, *, viewer: Actor = OPERATOR, under_way: bool = False
) -> int:
    """Return how many users have no place until a result of an earlier version of the task is judged again.

    With ``under_way`` only those whose result is being judged again. None are counted while a freeze hides it. It
    raises what :func:`standings` does.
    """
    with db.read() as session:
        found = boards.find_board(session, board, viewer)
        name = board_device(found, device)
        if shows_copy(session, found, viewer):
            return 0
        return ranking.count_waiting(session, board_id=found.id, device=name, under_way=under_way)


def board_device(board: Leaderboard, name: str | None) -> str:
    """Return a device in the leaderboard's spelling; None stands for its only one.

    Raise ``UnknownDevice`` or ``DeviceNeeded``.
    """
    if name is None and len(board.devices) > 1:
        raise DeviceNeeded(
            f"Which device? Leaderboard {board.name!r} has {', '.join(board.devices)}.",
            leaderboard=board.name,
            devices=board.devices,
        )
    name = board.devices[0] if name is None else name
    for device in board.devices:
        if device.lower() == name.lower():
            return device
    allowed = ", ".join(board.devices)
    raise UnknownDevice(f"Leaderboard {board.name!r} has no device {name!r}; it has {allowed}.")


def seen(session: Session, board: str, device: str, viewer: Actor) -> tuple[Leaderboard, str, bool]:
    """Return a leaderboard, its device in its own spelling, and whether the viewer sees the copy of a freeze."""
    found = boards.find_board(session, board, viewer)
    return found, board_device(found, device), shows_copy(session, found, viewer)


def shows_copy(session: Session, board: Leaderboard, viewer: Actor) -> bool:
    """Return whether the viewer sees the copy of the standings from the leaderboard's freeze.

    There is no copy until the first change after the freeze: the live standings are the frozen ones.
    """
    return visibility.hidden_since(board, viewer) is not None and frozen_standings.is_kept(session, board.id)


def _classes(session: Session, board: Leaderboard, device: str, *, frozen: bool = False) -> list[str]:
    return ranking.classes(session, board_id=board.id, device=device, frozen=frozen)


def _class_of(each: ranking.Ranked) -> str:
    return each.entry.host_class


def _ranked(of: cached.Ranking, part: Sequence[ranking.Ranked], above: int) -> list[Standing]:
    """Rank entries that follow each other in one ranking, with so many above them."""
    until = above + len(part) + 1  # the next place shows whether the last one is tied
    ranks = cached.PLACES.ranks(of, until)
    # The ranking may have become shorter meanwhile.
    after = ranks[above - 1] if 0 < above <= len(ranks) else None
    return scoring.ranked([each.entry for each in part], ranks[above:until], after=after)


def _split(places: Sequence[Standing], is_split: bool) -> Sequence[Standing]:
    """Return places that name their class only if it is not the only one."""
    return places if is_split else [dataclasses.replace(each, host_class="") for each in places]


def _standings(
    session: Session, board: Leaderboard, mine: Sequence[ranking.Stand], viewer: Actor, *, frozen: bool
) -> list[Standing]:
    """Rank a user's or a submission's entries among all others."""
    places: list[Standing] = []
    for each in mine:
        of = made_of(each, cached.Ranking, session=session, frozen=frozen)
        places += _split(_ranked(of, [each], cached.PLACES.above(of, each.entry.order)), each.is_split)
    return _shown(session, board, places, mine, viewer) if places else []


def _among_themselves(
    session: Session, board: Leaderboard, page: Sequence[ranking.Ranked], every: Sequence[str], viewer: Actor
) -> list[Standing]:
    places: list[Standing] = []
    for _, part in groupby(page, key=_class_of):
        entries = [each.entry for each in part]
        places += scoring.ranked(entries, list(scoring.band_heads(each.placed for each in entries)))
    return _shown(session, board, _split(places, len(every) > 1), page, viewer)


def _shown(
    session: Session,
    board: Leaderboard,
    places: Sequence[Standing],
    page: Sequence[ranking.Ranked],
    viewer: Actor,
) -> list[Standing]:
    """Return the standings with users as the viewer may see them."""
    masked, own = visibility.is_masked(board, viewer), viewer.user_id
    ids = {each.entry.user: each.user_id for each in page}
    names = visibility.shown_names(session, board, {ids[name]: name for name in ids}, viewer)
    return [
        dataclasses.replace(
            place,
            **dataclasses.asdict(names[ids[place.user]]),
            file_name="" if masked and ids[place.user] != own else place.file_name,
        )
        for place in places
    ]
