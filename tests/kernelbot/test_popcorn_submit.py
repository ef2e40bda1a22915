"""What users do with the existing client: submit, look, delete, join."""

from __future__ import annotations

import pytest

from builders import NOW, SUBMISSION, make_actor, make_board, make_case, make_report, make_stage, make_task
from kernelcup.app.boards.boards import delete_board
from kernelcup.app.people.accounts import ban
from kernelcup.app.queue import lifecycle
from kernelcup.app.results import reviews
from kernelcup.app.rules import pauses
from kernelcup.app.submissions.submissions import get_code, show_submission
from kernelcup.app.submissions.withdrawal import cancel_submission
from kernelcup.domain import AfterDeadline, Role, Visibility
from kernelcup_harness.protocol import Difference, Mismatch, Mode, StageName, Verdict
from popcorn_client import ApplicationError, PopcornClient
from zips import TWO, zipped

CODE = SUBMISSION.encode()
SENT = {"leaderboard": "double", "gpu": "H100"}
WAYS = pytest.mark.parametrize("way", ["submit", pytest.param("submit_and_stay", marks=pytest.mark.jobs)])


def failed_report(**case):
    """A test run whose second case is wrong."""
    values = {
        "index": 1,
        "verdict": Verdict.WRONG_ANSWER,
        "parameters": {"size": 16, "seed": 1},
        "message": "not the double",
        "mismatch": Mismatch(
            where="output",
            wrong=3,
            total=16,
            largest_error=1.0,
            first=[Difference(position=[4], expected="2.0", actual="1.0")],
            rule="|actual - expected| > 1e-05",
        ),
    }
    cases = [make_case(None), make_case(None, **(values | case))]
    stage = make_stage(cases, name=StageName.TEST, verdict=Verdict.WRONG_ANSWER)
    return make_report(
        mode=Mode.TEST,
        verdict=Verdict.WRONG_ANSWER,
        stage=StageName.TEST,
        stages=[stage],
        message="not the double",
    )


def ranked_report():
    """An accepted ranked run with all its stages."""
    names = (StageName.TEST, StageName.BENCHMARK, StageName.RANKED)
    return make_report(stages=[make_stage([make_case(2500.0)], name=name) for name in names])


def practice_report(mode, stage):
    return make_report(mode=mode, stages=[make_stage([make_case()], name=stage)])


def test_a_ranked_submission_is_waited_for_and_its_score_shown_once(
    board, waiting_cli, finish, golden
) -> None:
    cli = waiting_cli(lambda: finish(ranked_report()))
    text = cli.submit("dir/kernel.py", CODE, **SENT, mode="leaderboard")
    assert text.count("Geomean score") == 1
    assert text.startswith("Geomean score (public) on H100: 2.5e-06 s\n")
    assert cli.printed == ["KernelCup H100 queue: 1 queued jobs"] * 2
    golden("submit-leaderboard", cli.exchanges)


def test_a_zip_of_several_files_is_taken(db, board, waiting_cli, finish) -> None:
    cli = waiting_cli(lambda: finish(ranked_report()))
    cli.submit("mine.zip", zipped(dict(TWO)), **SENT, mode="leaderboard")
    assert get_code(db, 1).files == TWO
    assert cli.show_submission(1)["code"] == get_code(db, 1).text


@pytest.mark.parametrize(("mode", "stage"), [("test", StageName.TEST), ("benchmark", StageName.BENCHMARK)])
def test_practice_ends_with_what_passed(board, waiting_cli, finish, golden, mode, stage) -> None:
    cli = waiting_cli(lambda: finish(practice_report(Mode(mode), stage)))
    text = cli.submit("kernel.py", CODE, **SENT, mode=mode)
    assert "Geomean" not in text
    assert '"passed": true' in text
    golden(f"submit-{mode}", cli.exchanges)


def test_leaderboard_gpu_and_mode_are_taken_in_any_case(db, waiting_cli, finish) -> None:
    make_board(db, name="DoubleIt", devices=["H100", "MI300"])
    cli = waiting_cli(lambda: finish(practice_report(Mode.TEST, StageName.TEST)))
    cli.submit("kernel.py", CODE, leaderboard="DOUBLEIT", gpu="mi300", mode="TEST")
    submission = show_submission(db, 1)
    assert (submission.leaderboard, submission.devices) == ("DoubleIt", ("MI300",))
    assert submission.client == "popcorn"
    assert cli.gpus("doubleit") == ["H100", "MI300"]
    assert cli.list_submissions("doubleit") == ["1 DoubleIt kernel.py MI300 done -"]


def test_a_failed_submission_ends_the_loop_and_says_what_is_wrong(board, waiting_cli, finish, golden) -> None:
    cli = waiting_cli(lambda: finish(failed_report()))
    with pytest.raises(ApplicationError) as caught:
        cli.submit("kernel.py", CODE, **SENT, mode="test")
    assert str(caught.value) == (
        "Submission 1 failed: H100: wrong_answer in stage test, case 1 (size=16, seed=1): not the double\n"
        "3 of 16 elements are wrong, off by 1 at most (|actual - expected| > 1e-05)\n"
        "  at [4]: expected 2.0, got 1.0"
    )
    golden("submit-wrong", cli.exchanges)


@pytest.mark.parametrize("role", [Role.PARTICIPANT, Role.ADMIN])
def test_of_a_hidden_case_only_its_number_is_told(db, client, person, finish, role) -> None:
    make_board(db, task=make_task(hidden_tests=[{"size": 4711, "seed": 815}]))
    report = failed_report(hidden=True, parameters={"size": 4711, "seed": 815}, message="4711 is wrong")
    cli = PopcornClient(client, person("ada", role).token, sleep=lambda _: finish(report))
    with pytest.raises(ApplicationError) as caught:
        cli.submit("kernel.py", CODE, **SENT, mode="test")
    assert "in stage test, hidden case 1" in str(caught.value)
    assert "4711" not in str(caught.value)
    assert "got 1.0" not in str(caught.value)


@pytest.mark.jobs
def test_too_slow_has_its_own_word(board, waiting_cli, finish) -> None:
    stage = make_stage([], name=StageName.TEST, verdict=Verdict.TIME_LIMIT_EXCEEDED, message="180 s are over")
    report = make_report(
        mode=Mode.TEST,
        verdict=Verdict.TIME_LIMIT_EXCEEDED,
        stage=StageName.TEST,
        stages=[stage],
        message="180 s are over",
    )
    with pytest.raises(ApplicationError, match=r"Submission 1 timed_out: H100: .*180 s are over"):
        waiting_cli(lambda: finish(report)).submit("kernel.py", CODE, **SENT, mode="test")


def test_an_import_that_fails_is_told(board, waiting_cli, finish) -> None:
    stage = make_stage(
        [], name=StageName.IMPORT, verdict=Verdict.COMPILE_ERROR, message="SyntaxError: line 3"
    )
    report = make_report(
        verdict=Verdict.COMPILE_ERROR, stage=StageName.IMPORT, stages=[stage], message="SyntaxError: line 3"
    )
    cli = waiting_cli(lambda: finish(report))
    with pytest.raises(ApplicationError, match=r"H100: compile_error in stage import: SyntaxError: line 3$"):
        cli.submit("kernel.py", CODE, **SENT, mode="leaderboard")
    runs = cli.show_submission(1)["runs"]
    assert [(run["mode"], run["passed"], run["score"]) for run in runs] == [("leaderboard", False, None)]


def test_a_machine_that_failed_for_good_ends_the_loop(db, board, waiting_cli, clock) -> None:
    def lose() -> None:
        lease = lifecycle.claim_next(db, owner="test", lease_s=60, devices=["H100"], now=clock())
        assert lease is not None
        lifecycle.fail_attempt(db, lease, reason="the machine burnt", now=clock(), max_attempts=1)

    with pytest.raises(ApplicationError, match=r"Submission 1 failed: H100: internal_error.*burnt"):
        waiting_cli(lose).submit("kernel.py", CODE, **SENT, mode="test")


def test_a_cancelled_submission_ends_the_loop(db, board, waiting_cli) -> None:
    cli = waiting_cli(lambda: cancel_submission(db, 1, by=make_actor(db, "ada"), now=NOW))
    with pytest.raises(ApplicationError, match="Submission 1 failed: H100: cancelled by ada"):
        cli.submit("kernel.py", CODE, **SENT, mode="test")


def test_a_result_that_waits_for_a_person_says_so_and_shows_no_score(db, board, waiting_cli, finish) -> None:
    def hold() -> None:
        finish(ranked_report())
        reviews.quarantine(db, make_actor(db, "root", Role.ADMIN), 1, reason="too good", now=NOW)

    cli = waiting_cli(hold)
    with pytest.raises(ApplicationError, match="the result waits for a review by a person"):
        cli.submit("kernel.py", CODE, **SENT, mode="leaderboard")
    assert all(run["score"] is None for run in cli.show_submission(1)["runs"])


def test_submissions_are_listed_shown_and_deleted(db, board, cli, waiting_cli, finish, golden) -> None:
    waiting_cli(lambda: finish(ranked_report())).submit("kernel.py", CODE, **SENT, mode="leaderboard")
    assert cli.list_submissions("double") == ["1 double kernel.py H100 done 2.5e-06"]
    assert cli.list_submissions("double", limit=1) == ["1 double kernel.py H100 done 2.5e-06"]
    shown = cli.show_submission(1)
    assert shown["code"] == SUBMISSION
    cli.delete_submission(1)
    assert cli.list_submissions("double") == []
    with pytest.raises(ApplicationError, match="404 Not Found: There is no submission 1"):
        cli.show_submission(1)
    golden("submissions", cli.exchanges)


def test_somebody_elses_submission_is_neither_shown_nor_deleted(
    db, board, client, person, waiting_cli, finish
) -> None:
    waiting_cli(lambda: finish(ranked_report())).submit("kernel.py", CODE, **SENT, mode="leaderboard")
    eve = PopcornClient(client, person("eve").token)
    assert eve.list_submissions("double") == []
    with pytest.raises(ApplicationError, match="403 Forbidden"):
        eve.show_submission(1)
    with pytest.raises(ApplicationError, match="403 Forbidden"):
        eve._wire.ask("DELETE", "/user/submissions/1", timeout_s=30)
    assert show_submission(db, 1).ended


def test_a_page_that_cannot_be_is_refused_in_the_one_shape(board, cli) -> None:
    for query, text in (
        ("limit=0", "limit must be between 1 and 100"),
        ("limit=101", "limit must be between 1 and 100"),
        ("offset=-1", "offset must be >= 0"),
        ("limit=many", "limit: "),
    ):
        with pytest.raises(ApplicationError, match=text):
            cli._wire.ask("GET", f"/user/submissions?{query}", timeout_s=30)


def test_the_leaderboards_are_listed_for_the_full_screen(db, board, cli, golden) -> None:
    make_board(db, name="secret-club", visibility=Visibility.CLOSED)
    assert cli.leaderboards() == [("double", "Double every element.")]
    assert cli.gpus("double") == ["H100", "MI300"]
    with pytest.raises(ApplicationError, match="no leaderboard 'secret-club'"):
        cli.gpus("secret-club")
    golden("leaderboards", cli.exchanges)


REFUSED = [
    ({"leaderboard": "nothing"}, 404, "There is no leaderboard 'nothing'."),
    ({"gpu": "B200"}, 400, "Leaderboard 'double' has no device 'B200'; it has H100, MI300."),
    ({"content": b""}, 400, "The file is empty."),
    ({"content": b"\xff\xfe"}, 400, "The file is not UTF-8 text"),
    ({"content": b"#" * ((1 << 20) + 1)}, 413, "1,048,577 bytes; a submission may have 1,048,576"),
    ({"path": "kernel.txt"}, 400, "expected a file that ends in .py"),
    ({"content": b"#!POPCORN leaderboard other\nx = 1\n"}, 400, "The file names leaderboard 'other'"),
]


@WAYS
def test_a_refused_submission_has_its_own_status_and_a_text(board, cli, way) -> None:
    for changed, status, text in REFUSED:
        sent = {"path": "kernel.py", "content": CODE, **SENT, "mode": "test"} | changed
        with pytest.raises(ApplicationError) as caught:
            getattr(cli, way)(sent.pop("path"), sent.pop("content"), **sent)
        assert str(caught.value).startswith(f"Server returned status {status} ")
        assert text in str(caught.value)


@WAYS
def test_bans_pauses_and_deadlines_keep_their_status(db, board, cli, way, clock) -> None:
    root = make_actor(db, "root", Role.ADMIN)

    def refusal(leaderboard="double") -> str:
        with pytest.raises(ApplicationError) as caught:
            getattr(cli, way)("kernel.py", CODE, leaderboard=leaderboard, gpu="H100", mode="test")
        return str(caught.value)

    make_board(db, name="over", deadline=NOW.replace(month=7), after_deadline=AfterDeadline.CLOSED)
    pauses.pause(db, root, scope="service", reason="cleaning", now=NOW)
    assert "503 Service Unavailable: The service takes no submissions now: cleaning" in refusal()
    pauses.unpause(db, root, scope="service", now=NOW)
    clock.advance(40 * 24 * 3600)
    assert "403 Forbidden: Leaderboard 'over' closed at" in refusal("over")
    ban(db, root, "ada", reason="cheating", now=NOW)
    assert "403 Forbidden: " in refusal()


@WAYS
def test_without_a_header_or_with_a_wrong_one_it_says_how_to_sign_in(board, client, way) -> None:
    for token, text in [(None, "400 Bad Request: Missing"), ("kc_wrong", "401 Unauthorized: Invalid")]:
        with pytest.raises(ApplicationError, match=text) as caught:
            getattr(PopcornClient(client, token), way)("kernel.py", CODE, **SENT, mode="test")
        assert "kernelcup login --popcorn" in str(caught.value)


@pytest.mark.jobs
def test_a_form_without_the_file_is_refused_with_a_text(board, cli) -> None:
    with pytest.raises(ApplicationError, match=r"422 .*: file: Field required"):
        cli._wire.ask("POST", "/submission/double/H100/test", timeout_s=60, data={"other": "x"})


@pytest.mark.jobs
def test_a_leaderboard_that_is_deleted_meanwhile_ends_the_loop(db, board, waiting_cli) -> None:
    cli = waiting_cli(lambda: delete_board(db, "double", confirm="double", now=NOW))
    with pytest.raises(ApplicationError, match="404"):
        cli.submit("kernel.py", CODE, **SENT, mode="test")


def test_registering_says_what_to_do_instead(client) -> None:
    for path in ("/auth/init?provider=github", "/auth/cli/github?code=1&state=2", "/auth/cli/discord"):
        found = client.get(path)
        assert found.status_code == 400
        assert "kernelcup login --popcorn" in found.text


def test_a_ranking_and_its_count_are_public(board, client, waiting_cli, finish) -> None:
    waiting_cli(lambda: finish(ranked_report())).submit("kernel.py", CODE, **SENT, mode="leaderboard")
    (entry,) = client.get("/submissions/DOUBLE/h100").json()
    assert entry["submission_score"] == 2.5e-06
    assert (entry["rank"], entry["user_name"], entry["gpu_type"]) == (1, "ada", "H100")
    assert client.get("/submission_count/double/H100").json() == {"count": 1}
    assert client.get("/submission_count/double/H100?user_id=ada").json() == {"count": 1}
    assert client.get("/submission_count/double/H100?user_id=eve").json() == {"count": 0}
    assert client.get("/submissions/none/H100").json() == {"detail": "There is no leaderboard 'none'."}
