"""What the existing service gets wrong on these addresses (``kernelbot-faults.md``), and ours does not."""

from __future__ import annotations

import json

from builders import (
    REFERENCE,
    SUBMISSION,
    make_board,
    make_case,
    make_report,
    make_stage,
    make_submission,
    make_task,
)
from kernelcup.domain import Role, Visibility
from kernelcup_harness.protocol import CapturedOutput

CODE = SUBMISSION.encode()
CANARY = "canary-4711"
FILE = {"file": ("kernel.py", CODE)}


def secret_task():
    """A task with something to find in every place that is not for everybody."""
    return make_task(
        sources={"reference.py": f"# {CANARY}\n{REFERENCE}"},
        hidden_tests=[{"size": 4711, "seed": 1, "note": CANARY}],
        hidden_benchmarks=[{"size": 4711, "seed": 2, "note": CANARY}],
        seed=47114711,
    )


def test_10_1_1_the_list_has_no_seeds_no_files_no_hidden_cases_and_no_closed_boards(
    db, client, person
) -> None:
    make_board(db, task=secret_task())
    make_board(
        db, name="closed-club", task=make_task(description="closed-4711"), visibility=Visibility.CLOSED
    )
    for headers in ({}, {"X-Popcorn-Cli-Id": person("eve").token}):
        found = client.get("/leaderboards", headers=headers)
        assert [board["name"] for board in found.json()] == ["double"]
        for secret in (CANARY, "4711", "seed_", "secret", "closed", "reference.py"):
            assert secret not in found.text
        for path in (
            "/gpus/closed-club",
            "/submissions/closed-club/H100",
            "/submission_count/closed-club/H100",
        ):
            assert client.get(path, headers=headers).status_code == 404
    found = client.get("/leaderboards", headers={"X-Popcorn-Cli-Id": person("root", Role.ADMIN).token})
    assert [board["name"] for board in found.json()] == ["double", "closed-club"]
    assert CANARY not in found.text
    assert "47114711" not in found.text


def test_10_1_5_the_ranked_stage_is_no_secret_run_and_nothing_printed_is_shown(
    db, waiting_cli, finish
) -> None:
    make_board(db, task=secret_task())
    ranked = make_stage([make_case(2500.0), make_case(9999.0, index=1, hidden=True, message=CANARY)])
    report = make_report(
        stages=[ranked],
        stdout=CapturedOutput(text=CANARY),
        stderr=CapturedOutput(text=CANARY),
        extra={"note": CANARY},
    )
    sent = {"leaderboard": "double", "gpu": "H100", "mode": "leaderboard"}
    cli = waiting_cli(lambda: finish(report), *[lambda: None] * 9)
    cli.submit_and_stay("kernel.py", CODE, **sent)
    shown = cli.show_submission(1)
    assert [run["secret"] for run in shown["runs"]] == [False]
    said = json.dumps([each.answer for each in cli.exchanges])
    assert CANARY not in said
    assert "9999" not in said


def test_10_3_8_all_errors_have_one_shape(db, board, client, person) -> None:
    headers = {"X-Popcorn-Cli-Id": person("ada").token}
    asked = [
        client.get("/user/submissions", headers={}),
        client.get("/user/submissions?limit=x", headers=headers),
        client.get("/user/submissions/nine", headers=headers),
        client.get("/user/submissions/9", headers=headers),
        client.get(f"/user/submissions/{2**70}", headers=headers),
        client.get("/gpus/none"),
        client.post("/user/join", headers=headers),
        client.post("/user/join", headers=headers, content=b"{", params={"a": "b"}),
        client.post("/submission/double/H100/test", headers=headers),
        client.post("/double/H100/test", headers=headers),
        client.post("/admin/start"),
        client.get("/auth/init?provider=x"),
        client.get("/gpus/a%00b"),
        client.get("/submission_count/double/H100%00"),
        client.get("/user/submissions?leaderboard=a%00b", headers=headers),
        client.post("/submission/a%00b/H100%00/test", headers=headers, files=FILE),
        client.post("/user/join", headers=headers, json={"code": "\0"}),
    ]
    for found in asked:
        body = found.json()
        assert 400 <= found.status_code < 500, found.url
        assert list(body) == ["detail"]
        assert isinstance(body["detail"], str)
        assert body["detail"]


def test_10_3_11_people_are_text_that_no_browser_rounds(db, board, client, waiting_cli, finish) -> None:
    make_submission(db, board="double", devices=["H100"], user="1234567890123456789")
    finish()
    (entry,) = client.get("/submissions/double/H100").json()
    assert entry["user_id"] == "1234567890123456789"
    make_submission(db, board="double", devices=["H100"], user="Ada-Ünter")
    finish(make_report([1.0]))
    assert [each["user_id"] for each in client.get("/submissions/double/H100").json()] == [
        "Ada-Ünter",
        "1234567890123456789",
    ]


def test_10_3_16_each_client_gets_the_status_that_it_takes_for_success(board, client, person) -> None:
    token = person("ada").token
    for header, status in [("X-Popcorn-Cli-Id", 202), ("X-Web-Auth-Id", 200)]:
        found = client.post("/submission/double/H100/test", headers={header: token}, files=FILE)
        assert (found.status_code, found.json()["status"]) == (status, "accepted")
