"""Results of an older clock and of the present one never rank together."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import sqlalchemy as sa

from builders import NOW, make_board, make_report, make_submission
from fakes import FakeClock
from kernelcup.clocks import PAST, Clock, clock_of
from kernelcup.domain import NOBODY, OPERATOR, DuelOutcome, TrustRule
from kernelcup.services.boards.boards import check_proofs, delete_board, get_board
from kernelcup.services.queue import lifecycle
from kernelcup.services.results import duels, reviews
from kernelcup.services.results.duel_list import list_duels
from kernelcup.services.results.leader import beside
from kernelcup.services.results.rejudge import rejudge_board
from kernelcup.services.results.standings import (
    freeze,
    history,
    older_standings,
    personal_best,
    standings,
    unveil,
)
from kernelcup.services.submissions.submissions import list_submissions, show_submission
from kernelcup.services.submissions.withdrawal import delete_submission
from kernelcup.storage.engine import migrate
from kernelcup.storage.engine.database import Database
from kernelcup.storage.people import audit_log
from kernelcup.storage.tables import OlderBestRow, RunRow
from kernelcup_harness.protocol import Backend, DuelResult, HarnessKind, TrustLevel
from older_clocks import load_old_database, set_apart

TIED = DuelResult(ratio=1.0, low=0.99, high=1.01, verdict="tied", blocks=20)


@pytest.fixture
def db(empty_url: str) -> Iterator[Database]:
    """A database that the code of 7def2fc has made, upgraded."""
    load_old_database(empty_url)
    with Database.open(empty_url) as found:
        assert migrate.current_revision(found) == "0006"
        migrate.upgrade(found)
        yield found


def told(places) -> list[tuple[int, str, int]]:
    return [(each.rank, each.user, round(each.score_s * 1e9)) for each in places]


def judge_next(db: Database, clock: FakeClock, device: str, time_ns: float, **facts) -> int:
    """Judge what is next, as this version does it, and return its submission."""
    lease = lifecycle.claim_next(db, owner="me", lease_s=60.0, devices=[device], now=clock())
    assert lease is not None
    submission = show_submission(db, lease.job.submission_id).submission
    with db.read() as session:
        rival = duels.find_rival(session, lease.job, submission, get_board(db, submission.leaderboard))
    assert rival is None
    clock.advance(3)
    facts = {"backend": Backend.CPU, "trust": TrustLevel.WALL_CLOCK} | facts
    lifecycle.finish(
        db, lease, report=make_report([time_ns], **facts), harness_hash="", machine="box", now=clock()
    )
    return submission.id


def logs_of(db: Database, board: str) -> list[dict[str, object]]:
    """Return what upgrades have told a leaderboard's log, oldest first."""
    with db.read() as session:
        entries = audit_log.page(
            session,
            target=f"board:{board}",
            action="board.older_clock",
            before_id=None,
            limit=9,
            of_creator=None,
        )
    assert {each.actor for each in entries} <= {"upgrade"}
    return [each.detail for each in reversed(entries)]


def log_of(db: Database, board: str) -> dict[str, object]:
    (entry,) = logs_of(db, board)
    return entry


@pytest.mark.parametrize("device", ["cpu", "emulated", "H100"])
def test_results_of_an_older_clock_stand_apart(db, device: str) -> None:
    assert standings(db, "loose", device) == []
    assert told(older_standings(db, "loose", device)) == [(1, "ada", 1000), (2, "bob", 2000)]
    assert personal_best(db, "loose", device, "ada") is None
    assert history(db, "loose", device) == []


def test_results_that_the_older_version_judged_for_real_stand_apart(db) -> None:
    for device in ("cpu", "emulated"):
        assert standings(db, "real", device) == []
        assert {each.user for each in older_standings(db, "real", device)} == {"ada", "bob"}


def test_a_result_of_a_gpu_ranks_once_it_is_judged_again(db) -> None:
    clock = FakeClock(NOW.replace(year=2031))
    rejudge_board(db, OPERATOR, "loose", device="H100", only_best=True, now=clock())
    facts = {"backend": Backend.CUDA, "trust": TrustLevel.REPLAYED}
    judge_next(db, clock, "H100", 1500, **facts)
    assert told(standings(db, "loose", "H100")) == [(1, "ada", 1500)]
    assert told(older_standings(db, "loose", "H100")) == [(1, "bob", 2000)]
    # By the wall clock, of the same standings.
    judge_next(db, clock, "H100", 70_000, **facts | {"trust": TrustLevel.WALL_CLOCK})
    assert told(standings(db, "loose", "H100")) == [(1, "ada", 1500), (2, "bob", 70_000)]
    assert older_standings(db, "loose", "H100") == []


def test_a_task_s_own_harness_has_its_own_clock_and_its_results_rank(db) -> None:
    assert told(standings(db, "own", "cpu")) == [(1, "ada", 1000)]
    assert older_standings(db, "own", "cpu") == []


@pytest.mark.parametrize("only_best", [True, False])
def test_results_rank_again_as_they_are_judged_again(db, only_best: bool) -> None:
    clock = FakeClock(NOW.replace(year=2031))
    plan = rejudge_board(db, OPERATOR, "loose", device="cpu", only_best=only_best, now=clock())
    # The third, which was not proven, stood for nobody.
    assert plan.jobs == plan.older_clock == (2 if only_best else 3)
    assert told(older_standings(db, "loose", "cpu")) == [(1, "ada", 1000), (2, "bob", 2000)]
    judge_next(db, clock, "cpu", 70_000)
    assert told(standings(db, "loose", "cpu")) == [(1, "ada", 70_000)]
    assert told(older_standings(db, "loose", "cpu")) == [(1, "bob", 2000)]
    judge_next(db, clock, "cpu", 60_000)
    assert told(standings(db, "loose", "cpu")) == [(1, "bob", 60_000), (2, "ada", 70_000)]
    assert older_standings(db, "loose", "cpu") == []


def test_a_rejudge_of_bests_takes_the_older_best_of_somebody_with_a_new_result(db) -> None:
    clock = FakeClock(NOW.replace(year=2031))
    make_submission(db, board="loose", devices=["cpu"], user="ada", now=clock())
    judge_next(db, clock, "cpu", 90_000)
    plan = rejudge_board(db, OPERATOR, "loose", device="cpu", only_best=True, dry_run=True, now=clock())
    assert (plan.jobs, plan.older_clock, plan.standing) == (3, 2, 1)


def test_a_new_result_stands_alone_however_fast_older_ones_were(db) -> None:
    clock = FakeClock(NOW.replace(year=2031))
    make_submission(db, board="loose", devices=["cpu"], user="cyd", now=clock())
    judge_next(db, clock, "cpu", 90_000)
    assert told(standings(db, "loose", "cpu")) == [(1, "cyd", 90_000)]
    assert [each.user for each in history(db, "loose", "cpu")] == ["cyd"]
    assert len(older_standings(db, "loose", "cpu")) == 2


def test_an_author_reads_why_an_older_result_does_not_rank(db) -> None:
    (mine,) = list_submissions(db, board="named", user="ada")
    (found,) = beside(db, show_submission(db, mine.id)).values()
    assert "measured by an older clock" in found.remark
    assert "It ranks once it is judged again." in found.remark
    (mine,) = list_submissions(db, board="mixed", user="ada")[-1:]
    (found,) = beside(db, show_submission(db, mine.id)).values()
    assert "measured by an older clock" in found.remark  # on the H100


@pytest.mark.parametrize("board", ["strict", "empty", "named"])
def test_a_board_without_gpus_requires_no_audited_times_any_more(db, board: str) -> None:
    found = get_board(db, board)
    assert found.trust is TrustRule.ANY
    assert log_of(db, board)["trust"] == ["audited", "any"]
    assert "are by the wall clock since, and all of them rank." in found.notice
    assert found.takes(TrustLevel.WALL_CLOCK)


def test_a_board_with_a_gpu_that_required_audited_times_requires_replayed_ones(db) -> None:
    board = get_board(db, "mixed")
    assert board.trust is TrustRule.REPLAYED
    assert (board.takes(TrustLevel.REPLAYED), board.takes(TrustLevel.WALL_CLOCK)) == (True, False)
    assert standings(db, "mixed", "H100") == standings(db, "mixed", "cpu") == []
    assert told(older_standings(db, "mixed", "H100")) == [(1, "ada", 1000)]
    before, log = logs_of(db, "mixed")
    assert "take these devices out" in str(before["unranked"])
    assert (log["trust"], log["set_apart"]) == (["audited", "replayed"], {"H100": 1})
    assert log["rejudge"] == "kernelcup admin rejudge mixed --only-best"


def test_of_two_older_results_of_a_user_on_a_device_the_newer_clocks_stays(db) -> None:
    """The device had no GPU before."""
    clock = FakeClock(NOW.replace(year=2031))
    make_submission(db, board="loose", devices=["cpu"], user="ada", now=clock())
    judge_next(db, clock, "cpu", 90_000)
    set_apart(db)
    assert told(older_standings(db, "loose", "cpu")) == [(1, "bob", 2000), (2, "ada", 90_000)]


def test_what_a_board_requires_after_the_upgrade_may_be_asked_of_a_new_one(db) -> None:
    for name in ("strict", "named", "loose", "waits"):
        board = get_board(db, name)
        check_proofs(board.harness, board)


def test_duels_by_the_older_clock_are_ended(db) -> None:
    # Bob was faster, and stood behind Ada after a duel.
    assert told(older_standings(db, "strict", "cpu")) == [(1, "ada", 1000), (1, "bob", 900)]
    assert list_duels(db, "strict", "cpu") == []
    log = log_of(db, "strict")
    assert (log["set_apart"], log["duels_ended"]) == ({"cpu": 2}, 1)
    assert log["rejudge"] == "kernelcup admin rejudge strict --only-best"
    (mine,) = list_submissions(db, board="strict", user="bob")
    (found,) = beside(db, show_submission(db, mine.id)).values()
    assert found.remark.endswith("Its duel was ended with that clock and counts no more.")


def test_what_waited_for_its_duel_meets_nobody_of_the_older_clock(db) -> None:
    number = judge_next(db, FakeClock(NOW.replace(year=2031)), "box", 80_000)
    assert told(standings(db, "waits", "box")) == [(1, "bob", 80_000)]
    (view,) = show_submission(db, number).jobs
    assert view.run is not None
    assert view.run.duel is DuelOutcome.NONE


def test_a_frozen_ranking_is_shown_as_it_stood_and_older_results_after_it(db) -> None:
    assert told(standings(db, "frozen", "cpu", viewer=NOBODY)) == [(1, "ada", 1000)]
    assert older_standings(db, "frozen", "cpu", viewer=NOBODY) == []
    assert standings(db, "frozen", "cpu") == []
    assert told(older_standings(db, "frozen", "cpu")) == [(1, "ada", 1000)]
    unveil(db, OPERATOR, "frozen", NOW.replace(year=2031))
    assert standings(db, "frozen", "cpu", viewer=NOBODY) == []
    assert told(older_standings(db, "frozen", "cpu", viewer=NOBODY)) == [(1, "ada", 1000)]


def test_a_freeze_that_is_due_keeps_the_ranking_of_a_gpu_as_it_stood(db) -> None:
    clock = FakeClock(NOW.replace(year=2031))
    make_submission(db, board="loose", devices=["H100"], user="cyd", now=clock())
    judge_next(db, clock, "H100", 800, backend=Backend.CUDA, trust=TrustLevel.REPLAYED)
    begin = NOW.replace(year=2020)
    freeze(db, OPERATOR, "loose", begin + timedelta(days=1), begin)
    set_apart(db)
    assert told(standings(db, "loose", "H100", viewer=NOBODY)) == [(1, "cyd", 800)]
    assert standings(db, "loose", "H100") == []
    assert told(older_standings(db, "loose", "H100")) == [(1, "cyd", 800), (2, "ada", 1000), (3, "bob", 2000)]


def test_duels_on_a_gpu_are_ended_with_its_clock(db) -> None:
    clock = FakeClock(NOW.replace(year=2031))
    make_board(db, name="duels", devices=["H100"], duel=True)
    for user, time_ns in (("ada", 1000.0), ("bob", 900.0)):
        make_submission(db, board="duels", devices=["H100"], user=user, now=clock())
        lease = lifecycle.claim_next(db, owner="me", lease_s=60.0, devices=["H100"], now=clock())
        assert lease is not None
        report = make_report([time_ns], duel=TIED if user == "bob" else None)
        lifecycle.finish(
            db,
            lease,
            report=report,
            harness_hash="",
            machine="box",
            now=clock(),
            rival=lease.job.submission_id - 1,
        )
    assert told(standings(db, "duels", "H100")) == [(1, "ada", 1000), (1, "bob", 900)]
    set_apart(db)
    (log,) = logs_of(db, "duels")
    assert (log["set_apart"], log["duels_ended"]) == ({"H100": 2}, 1)
    (mine,) = list_submissions(db, board="duels", user="bob")
    (found,) = beside(db, show_submission(db, mine.id)).values()
    assert found.remark.endswith("Its duel was ended with that clock and counts no more.")


def test_what_is_deleted_or_held_stands_apart_no_more(db) -> None:
    now = NOW.replace(year=2031)
    (first, second) = older_standings(db, "loose", "cpu")
    delete_submission(db, first.submission_id, by=OPERATOR, now=now)
    assert told(older_standings(db, "loose", "cpu")) == [(1, "bob", 2000)]
    (view,) = show_submission(db, second.submission_id).jobs
    reviews.quarantine(db, OPERATOR, view.job.id, reason="looks odd", now=now)
    assert older_standings(db, "loose", "cpu") == []
    delete_board(db, "loose", now=now)
    with db.read() as session:
        boards = set(session.scalars(sa.select(OlderBestRow.leaderboard_id)))
    assert get_board(db, "strict").id in boards
    assert len(boards) == 6


def test_boards_that_lose_nothing_have_no_entry_in_their_log(db) -> None:
    with db.read() as session:
        entries = audit_log.page(
            session, target="board:own", action=None, before_id=None, limit=9, of_creator=None
        )
    assert [each.action for each in entries] == ["board.create"]


def test_each_stored_run_says_by_which_clock_it_was_timed(db) -> None:
    clock = FakeClock(NOW.replace(year=2031))
    judge_next(db, clock, "box", 80_000)
    make_submission(db, board="loose", devices=["H100"], user="ada", now=clock())
    judge_next(db, clock, "H100", 900, backend=Backend.CUDA, trust=TrustLevel.REPLAYED)
    with db.read() as session:
        clocks = set(session.scalars(sa.select(RunRow.clock).distinct()))
    assert clocks == {each.value for each in Clock}


@pytest.mark.parametrize("backend", list(Backend))
@pytest.mark.parametrize("harness", list(HarnessKind))
def test_nothing_is_timed_by_a_clock_that_is_out_of_use(backend: Backend, harness: HarnessKind) -> None:
    assert clock_of(make_report(backend=backend, harness=harness)) not in PAST
