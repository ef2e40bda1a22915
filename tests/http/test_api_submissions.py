"""Submitting over the API, and what comes of it."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from builders import (
    NOT_REPLAYED,
    NOW,
    SUBMISSION,
    make_board,
    make_case,
    make_report,
    make_stage,
    make_task,
    make_wall_report,
)
from kernelcup.app.boards.changes import update_board
from kernelcup.app.queue import lifecycle
from kernelcup.app.results.freezes import freeze
from kernelcup.app.submissions.withdrawal import cancel_submission
from kernelcup.domain import OPERATOR, Visibility
from kernelcup_harness.protocol import CapturedOutput, DuelResult, Timing, Work


@pytest.fixture
def ada(person):
    return person("ada")


@pytest.fixture
def board(db):
    return make_board(db, devices=["H100", "MI300"])


def submit(client, who, **changes):
    body = {"leaderboard": "double", "devices": ["H100"], "code": SUBMISSION} | changes
    headers = who.headers | body.pop("headers", {})
    return client.post("/api/v1/submissions", json=body, headers=headers)


def judge(db, report=None, now=NOW):
    lease = lifecycle.claim_next(db, owner="test", lease_s=60, devices=["H100", "MI300"], now=now)
    assert lease is not None
    return lifecycle.finish(
        db, lease, report=report or make_report(), harness_hash="f" * 64, machine="m", now=now
    )


def test_a_submission_is_accepted_waits_and_has_a_result(client, ada, board, db) -> None:
    made = submit(client, ada)
    assert made.status_code == 201
    (job,) = made.json()["jobs"]
    assert job["state"] == "queued"
    (job,) = client.get(made.headers["location"], headers=ada.headers).json()["jobs"]
    assert job["waiting"]["position"] == 1
    assert job["waiting"]["reason"]
    judge(db)
    shown = client.get(made.headers["location"], headers=ada.headers).json()
    assert shown["ended"]
    (job,) = shown["jobs"]
    assert (job["verdict"], job["score_s"]) == ("accepted", pytest.approx(1e-6))
    assert job["report"]["stages"][0]["cases"]


def test_nobody_submits_without_an_account(client, board) -> None:
    answer = client.post("/api/v1/submissions", json={"leaderboard": "double", "code": SUBMISSION})
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "sign_in_needed"
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_request_that_is_repeated_with_its_key_is_done_once(client, ada, board) -> None:
    key = {"Idempotency-Key": "one"}
    first, second = (submit(client, ada, headers=key) for _ in range(2))
    assert first.json()["id"] == second.json()["id"]
    other = submit(client, ada, headers=key, devices=["MI300"])
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_mismatch")


def test_what_cannot_be_taken_is_refused_with_a_stable_code(client, ada, board) -> None:
    headers = ada.headers | {"Content-Type": "application/json"}
    for change, status, code in (
        ({"code": ""}, 400, "empty_file"),
        ({"code": "x" * 1_050_000}, 413, "file_too_large"),
        ({"code": "a\0b"}, 400, "not_text"),
        ({"code": "\ud800"}, 400, "not_text"),
        ({"leaderboard": "other"}, 404, "not_found"),
        ({"devices": ["B200"]}, 400, "unknown_device"),
        ({"devices": []}, 400, "device_needed"),
        ({"mode": "quick"}, 422, "invalid_request"),
        ({"file_name": "kernel.txt"}, 400, "wrong_file_type"),
        ({"priority": 9}, 422, "invalid_request"),
    ):
        content = json.dumps({"leaderboard": "double", "devices": ["H100"], "code": SUBMISSION} | change)
        answer = client.post("/api/v1/submissions", content=content.encode(), headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert answer.json()["error"]["request_id"] == answer.headers["x-request-id"]


def test_submissions_are_listed_in_pages(client, ada, board) -> None:
    ids = [submit(client, ada).json()["id"] for _ in range(3)]
    first = client.get("/api/v1/submissions?user=me&limit=2", headers=ada.headers).json()
    assert [each["id"] for each in first["items"]] == ids[:0:-1]
    rest = client.get(f"/api/v1/submissions?user=me&after={first['next']}", headers=ada.headers).json()
    assert [each["id"] for each in rest["items"]] == ids[:1]
    assert rest["next"] is None


def test_only_the_author_cancels_and_deletes(client, ada, board, person) -> None:
    number = submit(client, ada).json()["id"]
    bob = person("bob")
    assert client.post(f"/api/v1/submissions/{number}/cancel", headers=bob.headers).status_code in (403, 404)
    assert client.delete(f"/api/v1/submissions/{number}", headers=bob.headers).status_code in (403, 404)
    cancelled = client.post(f"/api/v1/submissions/{number}/cancel", headers=ada.headers)
    assert cancelled.json()["cancelled_jobs"] == 1
    assert client.delete(f"/api/v1/submissions/{number}", headers=ada.headers).json() == {
        "done": True,
        "withdrawn": False,
    }
    assert client.get(f"/api/v1/submissions/{number}", headers=ada.headers).status_code == 404


def test_code_is_for_its_author(client, ada, board, person) -> None:
    number = submit(client, ada).json()["id"]
    assert client.get(f"/api/v1/submissions/{number}/code", headers=ada.headers).json() == {
        "submission": number,
        "entry": "submission.py",
        "files": {"submission.py": SUBMISSION},
    }
    assert client.get(f"/api/v1/submissions/{number}/raw", headers=ada.headers).text == SUBMISSION
    for headers in ({}, person("bob").headers):
        assert client.get(f"/api/v1/submissions/{number}/code", headers=headers).status_code in (403, 404)


def test_a_closed_leaderboard_does_not_exist_for_others(client, ada, db, person) -> None:
    make_board(db, visibility=Visibility.CLOSED, devices=["H100"])
    answer = submit(client, ada)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    missing = client.get("/api/v1/leaderboards/nothing", headers=ada.headers).json()["error"]["message"]
    closed = client.get("/api/v1/leaderboards/double", headers=ada.headers).json()["error"]["message"]
    assert closed == missing.replace("nothing", "double")


def test_a_run_and_its_files_can_be_fetched(client, ada, board, db) -> None:
    submit(client, ada)
    run = judge(db)
    shown = client.get(f"/api/v1/runs/{run.id}", headers=ada.headers).json()
    assert shown["verdict"] == "accepted"
    names = [
        each["name"] for each in client.get(f"/api/v1/runs/{run.id}/artifacts", headers=ada.headers).json()
    ]
    assert names == ["report.json"]
    report = client.get(f"/api/v1/runs/{run.id}/artifacts/report.json", headers=ada.headers)
    assert report.json()["verdict"] == "accepted"
    assert "attachment" in report.headers["content-disposition"]
    assert client.get(f"/api/v1/runs/{run.id}/artifacts/x", headers=ada.headers).status_code == 404


def stream(http: httpx.Client, who, number: int, last: int = 0, on_first=lambda: None):
    """Return id and kind of each event until the stream ends; do something once it has begun."""
    headers = who.headers | {"Last-Event-ID": str(last)}
    found = []
    with http.stream("GET", f"/api/v1/submissions/{number}/events", headers=headers, timeout=60) as answer:
        assert answer.status_code == 200, answer.read()
        event: dict[str, str] = {}
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            event[name] = value
            if not line:
                found.append((int(event.get("id", 0)), event.get("event", "")))
                if len(found) == 1:
                    on_first()
                event = {}
    return found


def test_events_are_followed_until_a_submission_is_done(http, ada, board, db) -> None:
    number = submit(http, ada).json()["id"]
    found = stream(http, ada, number, on_first=lambda: judge(db))
    kinds = [kind for _, kind in found if kind != "waiting"]
    assert kinds[0] == "accepted"
    assert kinds[-1] == "done"
    assert "finished" in kinds


def test_a_client_that_comes_back_misses_nothing_and_gets_nothing_twice(http, ada, board, db) -> None:
    number = submit(http, ada).json()["id"]
    judge(db)
    whole = stream(http, ada, number)
    for index in range(len(whole)):
        assert stream(http, ada, number, last=whole[index][0]) == whole[index + 1 :]


def test_a_cancelled_submission_ends_its_stream(http, ada, board, db) -> None:
    number = submit(http, ada).json()["id"]
    cancel_submission(db, number, by=OPERATOR, now=NOW)
    assert [kind for _, kind in stream(http, ada, number)][-2:] == ["cancelled", "done"]


def test_standings_and_their_history_are_shown_to_everybody(client, ada, board, db) -> None:
    for time_ns in (3000.0, 2000.0, 2500.0):
        submit(client, ada)
        judge(db, make_report([time_ns]))
    page = client.get("/api/v1/leaderboards/double/standings/h100").json()
    assert [(each["rank"], each["user"], each["score_s"]) for each in page["items"]] == [
        (1, "ada", pytest.approx(2e-6))
    ]
    history = client.get("/api/v1/leaderboards/double/standings/H100/history").json()["items"]
    assert [each["score_s"] for each in history] == [pytest.approx(2e-6), pytest.approx(3e-6)]
    mine = client.get("/api/v1/leaderboards/double/standings/H100/me", headers=ada.headers).json()
    assert mine["rank"] == 1


def test_every_route_leaves_out_results_of_an_earlier_task_version(client, ada, person, board, db) -> None:
    submit(client, ada)
    judge(db, make_report([2000.0]))
    update_board(db, OPERATOR, "double", task=make_task(benchmarks=[{"size": 64, "seed": 1}]), now=NOW)
    bob = person("bob")
    submit(client, bob)
    judge(db, make_report([9000.0]))
    standings = "/api/v1/leaderboards/double/standings/H100"
    (place,) = client.get(standings).json()["items"]
    assert (place["rank"], place["user"]) == (1, "bob")
    assert client.get(f"{standings}/me", headers=ada.headers).json() is None
    (entry,) = client.get("/submissions/double/H100").json()
    assert (entry["rank"], entry["user_name"]) == (1, "bob")
    (job,) = client.get("/api/v1/submissions/1", headers=ada.headers).json()["jobs"]
    assert "judged against an earlier version of the task" in job["remark"]


def test_a_freeze_is_told_with_the_standings(client, ada, person, board, db, clock) -> None:
    submit(client, ada)
    judge(db, make_report([2000.0]))
    freeze(db, OPERATOR, "double", NOW, now=clock())
    clock.advance(5)
    bob = person("bob")
    number = submit(client, bob).json()["id"]
    judge(db, make_report([1000.0]), now=clock())
    standings = "/api/v1/leaderboards/double/standings/H100"
    page = client.get(standings, headers=bob.headers).json()
    assert [each["user"] for each in page["items"]] == ["ada"]
    assert page["frozen_since"] == "2026-06-01T12:00:00Z"
    assert client.get(f"{standings}/me", headers=bob.headers).json() is None
    (job,) = client.get(f"/api/v1/submissions/{number}", headers=bob.headers).json()["jobs"]
    assert job["remark"] == "Frozen since 2026-06-01 12:00:00 UTC; yours is not shown until the end."


def test_the_queue_is_shown(client, ada, board) -> None:
    submit(client, ada)
    (queue_of_h100,) = client.get("/api/v1/queue").json()
    assert (queue_of_h100["device"], queue_of_h100["queued"], queue_of_h100["dispatchers"]) == ("H100", 1, 0)


def test_a_standing_tells_its_interval_and_ties(client, ada, person, board, db) -> None:
    samples = [1000.0 * (1 + 0.01 * (number % 5 - 2)) for number in range(20)]
    for who, factor in ((ada, 1.0), (person("bob"), 1.001)):
        submit(client, who)
        timing = Timing(samples_ns=[factor * each for each in samples])
        judge(db, make_report(stages=[make_stage([make_case(timing=timing)])]))
    page = client.get("/api/v1/leaderboards/double/standings/H100").json()["items"]
    assert [(each["rank"], each["tied"], each["user"]) for each in page] == [
        (1, True, "ada"),
        (1, True, "bob"),
    ]
    first = page[0]
    assert first["low_s"] < first["score_s"] < first["high_s"]
    assert (first["duel"], first["trust"]) == ("", "witnessed")


def test_a_report_that_ranks_teaches_its_author_and_others(client, ada, person, board, db) -> None:
    submit(client, ada)
    judge(db, make_report([2000.0]))
    bob = person("bob")
    made = submit(client, bob)
    case = make_case(4000.0, work=Work(bytes=8000.0), floor_ns=1000.0, reference_ns=8000.0)
    printed = CapturedOutput(text="printed", total_bytes=7)
    judge(db, make_report(stages=[make_stage([case])], stdout=printed))
    (job,) = client.get(made.headers["location"], headers=bob.headers).json()["jobs"]
    assert job["report"]["stdout"]["text"].startswith("Withheld")
    assert job["best"] == {"submission": 1, "score_s": pytest.approx(2e-6), "cases_ns": {"0": 2000.0}}
    (lesson,) = job["lessons"]
    assert (lesson["stage"], lesson["share"], lesson["bound_by"]) == ("ranked", 0.25, "bandwidth")
    assert (lesson["over_reference"], lesson["over_best"]) == (2.0, 0.5)
    (told,) = client.get(made.headers["location"], headers=ada.headers).json()["jobs"]
    assert (told["score_s"], told["lessons"], told["best"]) == (job["score_s"], job["lessons"], job["best"])
    assert told["report"]["stdout"]["text"] == ""


def test_a_time_by_the_wall_clock_says_why_and_what_of_it_is_overhead(client, ada, board, db) -> None:
    made = submit(client, ada)
    judge(db, make_wall_report())
    (job,) = client.get(made.headers["location"], headers=ada.headers).json()["jobs"]
    assert (job["trust"], job["raw_s"]) == ("wall clock", pytest.approx(2.1e-5))
    assert job["remark"].startswith("Ranked as 3.15")
    (lesson,) = job["lessons"]
    assert (lesson["trust"], lesson["overhead_ns"], lesson["own_ns"]) == ("wall clock", 5.5e4, 2.1e4)
    assert NOT_REPLAYED in lesson["notes"]
    (place,) = client.get("/api/v1/leaderboards/double/standings/H100").json()["items"]
    assert (place["rank"], place["trust"], place["ranked_by"]) == (1, "wall clock", "upper_end")


def test_a_comparison_shows_nothing_of_a_rivals_code(client, ada, board, db, person) -> None:
    """Whatever its owner may read of it: the report, its texts, the code, the events, the page."""
    bob, secret = person("bob"), "s3cr3t_trick"
    submit(client, ada, code=f"{SUBMISSION}# {secret}\n", mode="leaderboard")
    judge(db)
    submit(client, bob, mode="leaderboard")
    judge(db, make_report([1100.0]))
    made = client.post(
        "/api/v1/compare", json={"first": 2, "second": 1, "device": "H100"}, headers=bob.headers
    )
    assert made.status_code == 201
    failed = DuelResult(verdict="", rival_message=f"the rival: line 3: {secret}")
    told = CapturedOutput(text=secret, total_bytes=12)
    judge(db, make_report(duel=failed, stdout=told, stderr=told, mode="leaderboard"))
    paths = [
        f"/api/v1/{each}"
        for each in ("compare/3", "submissions/3", "submissions/3/raw", "submissions/3/history")
    ]
    for path in [*paths, "/s/3", "/s/2/diff/1", "/api/v1/submissions/3/events", "/api/v1/submissions"]:
        answer = client.get(path, headers=bob.headers)
        assert answer.status_code == 200, path
        assert secret not in answer.text, path
    assert client.get("/api/v1/submissions/1/raw", headers=bob.headers).status_code == 403
    assert (
        "could not be measured: withheld"
        in client.get("/api/v1/compare/3", headers=bob.headers).json()["sentence"]
    )


def test_a_comparison_is_made_followed_and_answered(client, ada, board, db) -> None:
    for _ in range(2):
        submit(client, ada)
        judge(db)
    body = {"first": 1, "second": 2, "device": "h100"}
    made = client.post("/api/v1/compare", json=body, headers=ada.headers)
    assert (made.status_code, made.headers["location"]) == (201, "/api/v1/compare/3")
    assert (made.json()["state"], made.json()["sentence"], made.json()["device"]) == ("queued", "", "H100")
    duel = DuelResult(ratio=0.5, low=0.49, high=0.51, verdict="faster", blocks=10)
    judge(db, make_report(duel=duel))
    done = client.get("/api/v1/compare/3", headers=ada.headers).json()
    assert (done["state"], done["verdict"], done["duel"]["ratio"]) == ("done", "accepted", 0.5)
    assert done["sentence"] == "#1 is 100.0 % faster than #2 (98 % interval 96.1 to 104.1 %)."
    listed = client.get("/api/v1/leaderboards/double/standings/H100").json()["items"]
    assert [each["submission"] for each in listed] == [1]


def test_a_comparison_needs_a_device_where_there_are_several(client, ada, board) -> None:
    for _ in range(2):
        submit(client, ada)
    answer = client.post("/api/v1/compare", json={"first": 1, "second": 2}, headers=ada.headers)
    assert answer.status_code == 400
    assert "H100, MI300" in answer.json()["error"]["message"]


def test_stream_begins_behind_an_event_on_demand(http, db, ada, board) -> None:
    submit(http, ada)
    judge(db)
    history = http.get("/api/v1/submissions/1/history", headers=ada.headers).json()["items"]
    after = history[-2]["id"]
    told = http.get(f"/api/v1/submissions/1/events?after={after}", headers=ada.headers).text
    assert re.findall(r"^id: (\d+)", told, re.MULTILINE) == [str(history[-1]["id"])]
