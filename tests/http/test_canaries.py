"""Planted secrets: wherever somebody without a right to them looks, none is seen."""

from __future__ import annotations

import dataclasses
import io
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from scenes import PEOPLE, judge
from starlette.testclient import TestClient
from test_cookies_and_headers import GOOD, HERE, fill, routes_of, sampled, use_link

from builders import (
    NOW,
    SUBMISSION,
    make_board,
    make_case,
    make_report,
    make_stage,
    make_submission,
    make_task,
)
from kernelcup.app.courses import membership
from kernelcup.app.queue import lifecycle
from kernelcup.app.results import rejudge, reviews
from kernelcup.app.rules import pauses
from kernelcup.cli.entry import execute
from kernelcup.config.settings import Config
from kernelcup.config.sign_in import SignInSection
from kernelcup.domain import OPERATOR, Visibility
from kernelcup.engine.database import Database
from kernelcup.http import logs
from kernelcup.http.app import create_app
from kernelcup.http.state import Platform
from kernelcup_harness.protocol import (
    Audit,
    CapturedOutput,
    DuelResult,
    Finding,
    StageName,
    Timing,
    TrustLevel,
    Work,
)

COOKIE_SECRET = "canary-cookie-secret-7f3e9a1c5b2d4860"
CLIENT_SECRET = "canary-oauth-client-secret"
DATABASE_PASSWORD = "canary-database-password"
OPERATORS = {COOKIE_SECRET, CLIENT_SECRET, DATABASE_PASSWORD}
"""What nobody sees in any answer."""

HIDDEN_CASE = "918273645"
SEED_OF_REVIEWED = "ab12" * 16
SEED_OF_DONE = "cd34" * 16
CODE = "canary_in_the_code"
PRIVATE_FILE = "canary_in_a_private_file"
PRIVATE_STATEMENT = "canary_in_the_statement"
PRINTED = "canary_printed_while_ranked"
EVIDENCE = "canary_in_the_evidence"
REVIEW_REASON = "canary_in_the_reason_of_the_review"
INVITED = "canary_of_the_class_list"
REAL_NAME = "canary_user"

MANAGERS_ONLY = {HIDDEN_CASE, SEED_OF_REVIEWED, PRINTED, EVIDENCE, INVITED}
MEMBERS_ONLY = {PRIVATE_FILE, PRIVATE_STATEMENT}
AUTHORS_ONLY = {CODE, REVIEW_REASON, SEED_OF_DONE}

MAY_NOT_SEE = {
    "nobody": OPERATORS | MANAGERS_ONLY | MEMBERS_ONLY | AUTHORS_ONLY | {REAL_NAME},
    "bob": OPERATORS | MANAGERS_ONLY | MEMBERS_ONLY | AUTHORS_ONLY | {REAL_NAME},
    "eve": OPERATORS | MANAGERS_ONLY | MEMBERS_ONLY | AUTHORS_ONLY | {REAL_NAME},
    "ada": OPERATORS | MANAGERS_ONLY | {REAL_NAME},
    "grace": set(OPERATORS),
    "root": set(OPERATORS),
}
BOARDS, SUBMISSIONS = ("double", "closed", "masked"), 5
FILES = ["report.json", "stdout.txt", "stderr.txt", "profile-0.txt"]


@pytest.fixture
def config(config: Config) -> Config:
    section = SignInSection(client_id="kernelcup")
    return dataclasses.replace(
        config,
        signin_sections=(("github", section),),
        environ={"KERNELCUP_GITHUB_SECRET": CLIENT_SECRET},
        database_url=f"postgresql://cup:{DATABASE_PASSWORD}@db.example/cup",
    )


@pytest.fixture
def platform(db, config, clock) -> Platform:
    return Platform(db=db, config=config, clock=clock, secret=COOKIE_SECRET)


@pytest.fixture
def scene(stored) -> dict[str, Any]:
    return stored(play)


def play(db: Database, person: Any) -> dict[str, Any]:
    """Three leaderboards of grace's, submissions of ada's, secrets in all places that have some."""
    people = {name: person(name, role) for name, role in PEOPLE.items()}
    hidden = {"hidden_tests": [{"size": 32, "seed": int(HIDDEN_CASE)}]}
    public = make_task(templates={"Python": SUBMISSION}, **hidden)
    private = make_task(
        description=PRIVATE_STATEMENT,
        sources=public.sources | {"data.py": f"X = '{PRIVATE_FILE}'\n"},
        templates={"Python": f"# {PRIVATE_FILE}\n{SUBMISSION}"},
        **hidden,
    )
    make_board(db, task=public)
    make_board(db, name="closed", task=private, visibility=Visibility.CLOSED)
    make_board(db, name="masked", task=public, pseudonymous=True)
    membership.add_member(db, OPERATOR, "closed", "ada", pseudonym=None, now=NOW)
    membership.make_invites(db, OPERATOR, ["closed"], count=1, label=INVITED, now=NOW)
    code = f"{SUBMISSION}# {CODE}\n".encode()
    make_submission(db, board="double", content=code)
    job = judge(db, report(SEED_OF_REVIEWED))
    reviews.decide(
        db, OPERATOR, 1, decision=reviews.RELEASED, note="looked at", now=NOW
    )  # what its measurement found
    reviews.quarantine(db, OPERATOR, job, reason=REVIEW_REASON, evidence={"why": EVIDENCE}, now=NOW)
    for board in ("double", "closed"):
        make_submission(db, board=board, content=code + f"# {board}\n".encode())  # no copy of what waits
        judge(db, report())
    make_submission(db, board="masked", user=REAL_NAME, content=code, file_name=f"{CODE}.py")
    judge(db, report())
    make_submission(db, board="double", content=code)
    pauses.pause(db, OPERATOR, scope="device", key="MI300", reason="repair", now=NOW)
    return people


def report(seed: str = SEED_OF_DONE) -> Any:
    """Return the report of an accepted ranked run that has a secret in all its places."""
    seen = make_case(1000.0)
    told = {"message": HIDDEN_CASE, "judge": HIDDEN_CASE}
    hidden = make_case(None, index=1, hidden=True, parameters={"size": 32, "seed": int(HIDDEN_CASE)}, **told)
    figure = float(HIDDEN_CASE)
    finding = Finding(code="below_floor", text=f"it took {HIDDEN_CASE} ns", quarantines=True)
    audit = Audit(
        captured=True,
        score_ns=figure,
        level=TrustLevel.REPLAYED,
        findings=[finding],
    )
    timed = make_case(
        figure,
        index=1,
        hidden=True,
        parameters={"size": 32, "seed": 1},
        work=Work(bytes=figure),
        floor_ns=figure,
        reference_ns=figure,
        timing=Timing(samples_ns=[figure] * 3, audit=audit),
    )
    return make_report(
        stages=[make_stage([hidden], name=StageName.TEST), make_stage([seen, timed])],
        quarantine=[finding] if seed == SEED_OF_REVIEWED else [],
        duel=DuelResult(ratios=[1.0], cases=[[1.0], [figure]], verdict="", rival_message=HIDDEN_CASE),
        secret_seed=seed,
        stdout=CapturedOutput(text=PRINTED, total_bytes=len(PRINTED)),
        stderr=CapturedOutput(text=PRINTED, total_bytes=len(PRINTED)),
        extra={"note": HIDDEN_CASE},
    )


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that is logged, in the form of a service that runs for real."""
    written, root, stderr = io.StringIO(), logging.getLogger(), sys.stderr
    before = (root.handlers, root.level)
    sys.stderr = written
    logs.set_up(as_json=True, level=logging.DEBUG)
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # that is the client of these tests
    sys.stderr = stderr
    yield written
    root.handlers, level = before[0], before[1]
    root.setLevel(level)
    structlog.reset_defaults()


def headers_of(scene: dict[str, Any], who: str) -> dict[str, str]:
    """Return what somebody's requests carry, at our routes and at popcorn's."""
    return scene[who].headers | {"X-Popcorn-Cli-Id": scene[who].token} if who in scene else {}


def addresses(app: Any) -> list[str]:
    """Return every address that can be looked at, for every thing of the scene."""
    found = []
    for method, path in routes_of(app):
        if method != "GET" or path.startswith("/auth/"):
            continue
        for board in BOARDS:
            for number in range(1, SUBMISSIONS + 1):
                for user in ("ada", REAL_NAME):
                    each = str(number)
                    values = GOOD | {"name": board, "leaderboard": board, "user": user, "user_id": user}
                    values |= dict.fromkeys(
                        ("submission_id", "run_id", "job_id", "review_id", "comparison_id"), each
                    )
                    if "/users/" in path:
                        values["name"] = user
                    names = FILES if "artifacts" in path else [values["name"]]
                    found += [fill(path, values | {"name": name}) for name in names]
    for path in ("/api/v1/submissions", "/api/v1/leaderboards/masked/standings/H100/history"):
        found += [f"{path}?user={name}" for name in ("ada", REAL_NAME, "participant 4", "me")]
    found += [
        "/api/v1/submissions?tag=x",
        "/user/submissions?leaderboard=closed",
        "/api/v1/stats?leaderboard=closed",
    ]
    found += [f"/api/v1/audit?target=board:{board}" for board in BOARDS]
    found += [f"/submission_count/masked/H100?user_id={REAL_NAME}"]
    return [each for each in dict.fromkeys(found) if "/submissions/5/events" not in each]


TELLING = (
    "/api/v1/submissions/2/code",
    "/api/v1/submissions/4/report",
    "/api/v1/leaderboards/closed/task/definition",
    "/api/v1/runs/1",
    "/api/v1/runs/2",
    "/api/v1/reviews/2",
    "/api/v1/leaderboards/closed/invites",
    "/api/v1/leaderboards/masked/members",
    "/api/v1/submissions?user=canary_user",
    "/s/1",
    "/s/2",
    "/b/closed/statement",
)
"""Addresses that tell all of the secrets to those who may see them."""


def looked_at(app: Any, step: int) -> list[str]:
    """Return all addresses, or each so-manieth with those where most is to be seen."""
    return list(dict.fromkeys([*TELLING, *addresses(app)[::step]]))


@sampled(10)
@pytest.mark.parametrize("who", list(MAY_NOT_SEE))
def test_nobody_sees_what_is_not_theirs(app, client, scene, log, who, step) -> None:
    secrets = MAY_NOT_SEE[who] | {person.token for person in scene.values()}
    seen, leaks = 0, []
    for address in looked_at(app, step):
        answer = client.get(address, headers=headers_of(scene, who))
        asked = {REAL_NAME} if REAL_NAME in address else set()  # who asks for a name knows it
        told = f"{answer.headers}{answer.text}"
        leaks += [(address, each) for each in secrets - asked if each in told]
        seen += answer.status_code == 200
    assert not leaks
    assert seen > (5 if step > 1 else 20)
    assert not [each for each in secrets - {REAL_NAME, REVIEW_REASON} if each in log.getvalue()]


def test_those_who_may_do_see_it(client, scene) -> None:
    """Else the test above would find nothing wherever the secrets are."""
    told = {
        who: "".join(client.get(each, headers=headers_of(scene, who)).text for each in TELLING)
        for who in ("ada", "grace")
    }
    for secret in (*MEMBERS_ONLY, *AUTHORS_ONLY):
        assert secret in told["ada"], secret
    for secret in (*MEMBERS_ONLY, *AUTHORS_ONLY, *MANAGERS_ONLY, REAL_NAME):
        assert secret in told["grace"], secret


def test_the_description_of_the_api_and_the_figures_hold_no_secret(client, scene, log) -> None:
    everything = set().union(*MAY_NOT_SEE.values()) | {person.token for person in scene.values()}
    for address in ("/api/v1/openapi.json", "/metrics", "/healthz", "/auth/login", "/auth/device"):
        told = client.get(address).text
        assert not [each for each in everything if each in told], address


@sampled(23)
@pytest.mark.parametrize("who", ["nobody", "ada", "root"])
def test_a_refusal_repeats_no_secret(app, client, scene, log, who, step) -> None:
    secrets = {person.token for person in scene.values()} | OPERATORS
    # A body is read in the same way for all; the admin's requests are refused for nothing else.
    bodies = [{"device_code": scene["ada"].token}, scene["ada"].token, [scene["ada"].token] * 3, 1]
    tries = [
        (method, path, body)
        for method, path in routes_of(app)
        for body in bodies[: 4 if who == "root" else 1]
        if path != "/api/v1/tokens/current"
    ]
    for method, path, body in tries[::step]:
        address = fill(path, GOOD | {"user": "hal"})
        answer = client.request(method, address, headers=headers_of(scene, who), json=body)
        assert not [each for each in secrets if each in answer.text], (method, path)
    assert not [each for each in secrets if each in log.getvalue()]


def test_a_bug_tells_its_cause_to_the_log_only(client, scene, monkeypatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"SELECT {CODE} FROM {HIDDEN_CASE} {CLIENT_SECRET}")

    monkeypatch.setattr("kernelcup.app.boards.boards.list_boards", fail)
    for address in ("/api/v1/leaderboards", "/leaderboards"):
        answer = client.get(address)
        assert answer.status_code == 500
        assert not [
            each for each in (CODE, HIDDEN_CASE, CLIENT_SECRET, "SELECT", "Traceback") if each in answer.text
        ]


def test_a_database_that_does_not_answer_is_named_nowhere(config, clock, log) -> None:
    url = f"postgresql://cup:{DATABASE_PASSWORD}@127.0.0.1:1/cup"
    with Database.open(url) as db:
        platform = Platform(db=db, config=config, clock=clock, secret=COOKIE_SECRET)
        with TestClient(create_app(platform), raise_server_exceptions=False) as client:
            for address in ("/api/v1/leaderboards", "/leaderboards", "/healthz", "/metrics"):
                answer = client.get(address)
                # What a process counted by itself is told without a database.
                assert answer.status_code == (200 if address == "/metrics" else 503), (address, answer.text)
                assert not [
                    each for each in (DATABASE_PASSWORD, "127.0.0.1", "psycopg") if each in answer.text
                ]
    assert DATABASE_PASSWORD not in log.getvalue()


def test_secrets_in_addresses_and_cookies_are_not_logged(client, db, scene, log) -> None:
    answer = use_link(client, db, scene["ada"].actor.user_id)
    session = answer.cookies["kernelcup_session"]
    client.get("/auth/link/kc_canary_link")
    client.get("/auth/callback/github?code=canary_code&state=canary_state")
    client.post("/api/v1/auth/device/token", json={"device_code": "canary_device_code"})
    client.post("/api/v1/join", json={"code": "canary_invite"}, headers=HERE)
    client.get("/api/v1/leaderboards?token=canary_query")
    told = log.getvalue()
    assert "/auth/link/{secret}" in told
    assert session not in told
    assert "canary" not in told


def test_the_seed_of_a_job_that_waits_again_is_not_told(db, client, scene) -> None:
    rejudge.rejudge_submission(db, OPERATOR, 2, now=NOW)
    for _ in range(2):  # it waits, then it runs
        for path in ("/api/v1/submissions/2", "/api/v1/runs/2", "/user/submissions/2"):
            assert SEED_OF_DONE not in client.get(path, headers=headers_of(scene, "ada")).text
        lifecycle.claim_next(db, owner="test", lease_s=60, devices=["H100"], now=NOW)


def test_what_is_kept_of_who_did_what_has_no_secret(client, scene) -> None:
    root = headers_of(scene, "root")
    made = client.post("/api/v1/tokens", json={"name": "ci"}, headers=root).json()["secret"]
    code = client.post("/api/v1/invites", json={"leaderboards": ["closed"]}, headers=root).json()["codes"][0]
    client.delete("/api/v1/submissions/2", headers=root)
    for who in ("grace", "root"):
        told = client.get("/api/v1/audit?limit=200", headers=headers_of(scene, who)).text
        assert not [
            each for each in (made, code, CODE, HIDDEN_CASE, SEED_OF_REVIEWED, PRINTED) if each in told
        ]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_check_of_the_configuration_tells_no_secret(tmp_path, monkeypatch, capsys, options) -> None:
    file = tmp_path / "kernelcup.toml"
    monkeypatch.setenv("KERNELCUP_HOME", str(tmp_path))
    monkeypatch.setenv("KERNELCUP_CONFIG", str(file))
    monkeypatch.setenv("KERNELCUP_DISCORD_SECRET", CLIENT_SECRET)
    monkeypatch.setenv("KERNELCUP_SECRET", COOKIE_SECRET)
    for text in (
        "",
        f"[database]\nurl = 'postgresql://cup:{DATABASE_PASSWORD}@127.0.0.1:1/cup'\n",
        f"[database]\nurl = 'mysql://cup:{DATABASE_PASSWORD}@127.0.0.1/cup'\n",
        f"[database]\nurl = 'postgresql//cup:{DATABASE_PASSWORD}@127.0.0.1/cup'\n",
        f"[database]\npassword = '{DATABASE_PASSWORD}'\n",
        f"[database]\nurl = ['{DATABASE_PASSWORD}']\n",
        f"[signin.github]\nclient_id = 'x'\nclient_secret = '{DATABASE_PASSWORD}'\n",
    ):
        file.write_text(f"{text}\n[signin.discord]\nclient_id = 'x'\n", encoding="utf-8")
        assert (execute(["config", "check", *options]) == 0) is (text == ""), text
        out, err = capsys.readouterr()
        assert not [each for each in OPERATORS if each in out + err], text
