"""What a machine sends is read strictly and counted, and the dispatcher goes on whatever it was."""

from __future__ import annotations

import json
import os
import random
import typing
from collections import Counter
from typing import Any

import pytest
from sqlalchemy import text
from starlette.testclient import TestClient

from builders import make_board, make_calibration, make_device, make_report, make_submission
from kernelcup.app.machines import agents, machines
from kernelcup.app.machines.agent_launcher import AgentLauncher
from kernelcup.app.queue.dispatcher import Dispatcher
from kernelcup.app.queue.progress import JobFinished
from kernelcup.launchers.bundle import harness_hash
from kernelcup_harness.protocol import (
    MOST_EVENTS,
    JobEvent,
    JobSpec,
    Judged,
    from_json,
    to_json,
)
from launcher_conformance import case_event
from properties import examples

DEVICE = make_device(slots=8, launcher="agent")
MESSAGES = int(os.environ.get("MACHINE_MESSAGES", "0"))
"""How many the fuzzer sends, 0 for as many as the lane wants; with ``--junit-xml`` it writes what it met."""
SESSION = "a session of a machine"
EACH_SESSION = 100
"""Messages between two beginnings of the machine's session, each with two more submissions."""
EACH_LOOK = 0.05
"""How often the dispatcher looks after a message."""
COUNTED = """
SELECT j.id, count(r.id) FROM jobs j LEFT JOIN runs r ON r.job_id = j.id AND r.counted
WHERE j.state NOT IN ('queued', 'running', 'halted') GROUP BY j.id
"""


class Lab:
    """A service, its dispatcher, and a lent machine that says what a test wants."""

    def __init__(self, platform, client: TestClient) -> None:
        self.db, self.clock, self.client = platform.db, platform.clock, client
        self.token = machines.add_agent(self.db, "lab", now=self.clock()).token
        self.launcher = AgentLauncher(self.db, clock=self.clock)
        self.ends: dict[int, list[str]] = {}
        self.dispatcher = Dispatcher(
            self.db,
            devices=[DEVICE],
            launchers={"agent": self.launcher},
            on_progress=self.follow,
            clock=self.clock,
            heartbeat_s=0.0,
            tick_s=0.0,
        )
        make_board(self.db, devices=["H100"])
        self.hello()

    def follow(self, progress: object) -> None:
        """Count the ends of jobs."""
        if isinstance(progress, JobFinished):
            self.ends.setdefault(progress.job.id, []).append(progress.run.verdict.value)

    def post(self, path: str, **body: Any) -> Any:
        """Send a message of the machine, and return the answer, which is not a bug's."""
        return self.send(path, json.dumps(body).encode())

    def send(self, path: str, content: bytes) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        answer = self.client.post(f"/api/v1/agent/{path}", content=content, headers=headers)
        assert answer.status_code < 500, (path, content[:2000], answer.text)
        if answer.status_code >= 400:
            assert answer.json()["error"]["code"], (path, answer.text)
        return answer

    def hello(self) -> None:
        assert self.post("hello", session=SESSION, slots={"H100": 8}, facts={}).status_code == 200

    def look(self) -> None:
        """Have the dispatcher look once, as in its loop."""
        self.dispatcher._poll(every=True)
        self.dispatcher._look(["H100"], None, patient=False)

    def fetch(self) -> list[dict[str, Any]]:
        """Return the jobs that are given to the machine."""
        return self.post("ask", session=SESSION, running=[]).json()["jobs"]

    def begun(self) -> dict[str, Any]:
        """Return a job that the machine has fetched."""
        self.submission = make_submission(self.db, devices=["H100"])
        self.look()
        (job,) = self.fetch()
        return job

    def close(self) -> None:
        self.launcher.close()


@pytest.fixture
def lab(platform, client):
    lab = Lab(platform, client)
    yield lab
    lab.close()


def judged(job: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return an outcome that answers a job."""
    spec = from_json(JobSpec, job["spec"])
    report = make_report(job_id=spec.job_id, mode=spec.mode, backend=spec.backend, stages=[])
    body = to_json(Judged(report=report, harness=harness_hash()))
    body["report"] |= changes
    return body


def test_what_is_no_event_is_refused_and_the_job_goes_on(lab: Lab) -> None:
    job = lab.begun()
    for event in ({}, {"stage": "test"}, {"event": "told"}, {"event": 1}, {"event": []}):
        refused = lab.post("news", session=SESSION, events={job["call"]: [event]}, trouble="")
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid_request")
        ended = lab.post(f"calls/{job['call']}/outcome", outcome=judged(job), events=[event])
        assert ended.status_code == 422
    assert lab.post(f"calls/{job['call']}/outcome", outcome=judged(job), events=[]).json() == {"taken": True}
    lab.look()
    assert list(lab.ends.values()) == [["accepted"]]


def test_an_outcome_that_cannot_be_read_is_refused(lab: Lab) -> None:
    job = lab.begun()
    for outcome in ({}, {"report": {}}, {"error": "SystemExit", "text": ""}, judged(job, exit_code=1 << 70)):
        refused = lab.post(f"calls/{job['call']}/outcome", outcome=outcome)
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid_request")


@pytest.mark.parametrize("number", ["NaN", "-Infinity", '{"$float": "inf"}'])
def test_figures_that_are_no_numbers_are_refused(lab: Lab, number: str) -> None:
    job, place = lab.begun(), ["H100", "0"]
    asked = {"session": SESSION, "places": [place], "place": place}
    found = to_json(make_calibration()) | {"canary_ns": "?"}
    outcome = judged(job, duration_s="?")
    began = {"event": "stage", "stage": "test", "limit_s": "?", "cases": 1}
    for path, body in (
        ("calibrations", asked | {"found": found}),
        (f"calls/{job['call']}/outcome", {"outcome": outcome}),
        ("news", {"session": SESSION, "events": {job["call"]: [began]}, "trouble": ""}),
    ):
        refused = lab.send(path, json.dumps(body).replace('"?"', number).encode())
        assert refused.json()["error"]["code"] in ("invalid_value", "invalid_request"), path
        assert any(f"{name}: expected" in refused.text for name in ("canary_ns", "duration_s", "limit_s"))


def test_nothing_is_stored_of_an_outcome_for_a_call_that_a_machine_does_not_have(lab: Lab) -> None:
    job = lab.begun()
    large = judged(job, message="x" * (2 << 20))
    before = sorted(each.name for each in lab.db.files._blobs.every())
    for call in ("0" * 32, "none"):
        assert lab.post(f"calls/{call}/outcome", outcome=large).json() == {"taken": False}
    assert lab.post(f"calls/{job['call']}/outcome", outcome=judged(job)).json() == {"taken": True}
    assert lab.post(f"calls/{job['call']}/outcome", outcome=large).json() == {"taken": False}
    assert sorted(each.name for each in lab.db.files._blobs.every()) == before


def test_the_uploads_of_a_call_and_of_a_machine_are_counted(lab: Lab, monkeypatch) -> None:
    monkeypatch.setattr(agents, "MOST_MACHINE_BYTES", 100 << 20)
    for _ in range(2):
        make_submission(lab.db, devices=["H100"])
    lab.look()
    first, second = (job["call"] for job in lab.fetch())

    def asked(call: str, name: str, nbytes: int) -> int:
        return lab.post(f"calls/{call}/uploads", files={name * 64: nbytes}).status_code

    assert [asked(first, name, 30 << 20) for name in "012"] == [200, 200, 413]
    assert [asked(second, name, 30 << 20) for name in "01"] == [200, 413]


def test_of_very_many_events_the_last_are_kept(lab: Lab) -> None:
    call = lab.begun()["call"]
    for _ in range(2):
        news = {call: [case_event(number) for number in range(MOST_EVENTS)]}
        assert lab.post("news", session=SESSION, events=news, trouble="").status_code == 200
    assert len(lab.launcher.poll([call])[call].events) == MOST_EVENTS
    too_many = {call: [case_event(1)] * (MOST_EVENTS + 1)}
    assert lab.post("news", session=SESSION, events=too_many, trouble="").status_code == 422


def test_a_machine_that_says_that_it_compiles_has_no_more_time(lab: Lab, monkeypatch) -> None:
    job = lab.begun()
    lab.post("news", session=SESSION, events={job["call"]: [{"event": "compiling"}]}, trouble="")
    lab.look()
    (attempt,) = lab.dispatcher._under_way
    assert not attempt.limit.is_compiling
    assert attempt.limit._until < float("inf")


ODD = (
    None,
    True,
    -1,
    0,
    1 << 70,
    1e308,
    float("nan"),
    "",
    "\0",
    "\ud800",
    "x" * 20_000,
    [],
    {},
    [[]],
    {"event": 1},
)


def mutated(value: Any, draw: random.Random) -> Any:
    """Return a JSON value with one part of it replaced, removed, added or repeated."""
    if isinstance(value, dict) and value and draw.random() < 0.85:
        key = draw.choice(sorted(value))
        rest = {name: part for name, part in value.items() if name != key}
        kind = draw.random()
        if kind < 0.1:
            return rest
        return value | {"odd": 1} if kind < 0.2 else rest | {key: mutated(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.7:
        place = draw.randrange(len(value))
        return [*value[:place], mutated(value[place], draw), *value[place:]]
    return draw.choice(ODD)


def messages(job: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return one message of each kind about a job, all of them valid."""
    call = job["call"]
    kinds = typing.get_args(JobEvent)
    told = {"stage": "test", "verdict": "accepted", "limit_s": 1.0, "cases": 1, "case": 0, "samples": 1}
    events = [
        to_json(kind(**{name: told[name] for name in kind.__dataclass_fields__ if name in told}))
        for kind in kinds
    ]
    unfit = {"unfit": "hot", "gpus": ["0"], "spoils": False}
    ends = (judged(job), {**judged(job), "unfit": unfit}, unfit, {"error": "LaunchError", "text": "lost"})
    place, found = ["H100", "0"], to_json(make_calibration())
    asked = {"session": SESSION, "places": [place], "place": place, "found": found}
    return [
        ("hello", {"session": SESSION, "slots": {"H100": 8}, "facts": {"gpus": ["H100"], "cores": 8}}),
        ("ask", {"session": SESSION, "running": [call], "wait_s": 0.0}),
        *[("news", {"session": SESSION, "events": {call: [each]}, "trouble": ""}) for each in events],
        ("calibrations", asked),
        (f"calls/{call}/uploads", {"files": {"0" * 64: 1}}),
        *[(f"calls/{call}/outcome", {"outcome": each, "events": events}) for each in ends],
    ]


def fuzz(lab: Lab, count: int, draw: random.Random) -> int:
    """Send that many messages, most of them mutated, while the dispatcher works; return how many were taken.

    The dispatcher looks after one message or after several: a look takes ten times as long as a message.
    """
    valid: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    taken = 0
    for number in range(count):
        if number % EACH_SESSION == 0 or not valid:
            lab.post("bye", session=SESSION)
            lab.hello()
            for user in (f"u{number}", f"v{number}"):
                make_submission(lab.db, user=user, devices=["H100"])
            lab.look()
            valid = {job["call"]: messages(job) for job in lab.fetch()} or valid
        path, body = draw.choice(valid[draw.choice(sorted(valid))]) if valid else ("ask", {})
        for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
            body = mutated(body, draw)
        taken += lab.send(path, json.dumps(body).encode()).status_code == 200
        if draw.random() < EACH_LOOK:
            lab.look()
    lab.look()
    return taken


@pytest.mark.jobs
def test_whatever_a_machine_sends_the_dispatcher_lives_and_each_job_ends_once(
    lab: Lab, record_testsuite_property
) -> None:
    count = MESSAGES or examples(480)
    taken = fuzz(lab, count, random.Random(7))
    assert taken > count / 10
    with lab.db.read() as session:
        counted = dict(session.execute(text(COUNTED)).all())
    assert {len(each) for each in lab.ends.values()} == {1}
    assert counted == dict.fromkeys(lab.ends, 1)
    record_testsuite_property("taken", taken)
    record_testsuite_property("ends", Counter(end for each in lab.ends.values() for end in each))
