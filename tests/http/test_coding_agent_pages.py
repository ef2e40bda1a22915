"""What a coding agent reads over HTTP: ``/llms.txt``, ``/b/NAME.json``, and reports as short text."""

from __future__ import annotations

import re

import pytest
from test_api_submissions import judge, submit

from builders import NOW, SUBMISSION, make_board, make_case, make_report, make_stage, make_task
from database_kinds import DATABASES
from kernelcup.app.rules.limits import add_limit
from kernelcup.app.submissions.submissions import list_views
from kernelcup.domain import OPERATOR, Role, Visibility
from kernelcup.errors import InvalidValue
from kernelcup.names import check_board_name
from kernelcup.reporting.report import OUTLINE
from kernelcup.reporting.sections import Section
from kernelcup_harness.protocol import (
    CapturedOutput,
    Difference,
    HarnessKind,
    Mismatch,
    Mode,
    StageName,
    Verdict,
    Work,
)

REFERENCE = """\
import torch
from utils import make_match_reference

def generate_input(size, seed):
    return torch.randn(size, device="cuda")

def ref_kernel(data):
    return data * 2

check_implementation = make_match_reference(ref_kernel, rtol=1e-3, atol=1e-4)
"""
SECRET = {"size": 31337, "seed": 4242}


@pytest.fixture
def ada(person):
    return person("ada")


def brief(client, name="double", **options):
    return client.get(f"/b/{name}.json", **options).json()


def test_a_leaderboard_in_one_answer_has_what_a_submission_has_to_know(client, ada, db) -> None:
    task = make_task(
        sources={"reference.py": REFERENCE, "utils.py": "lent"},
        templates={"Python": "def custom_kernel(data: tuple[int, int]) -> list[int]:\n    ...\n"},
        work=[Work(bytes=4096.0)],
        hidden_tests=[SECRET],
    )
    make_board(db, task=task, max_file_bytes=5000)
    add_limit(db, OPERATOR, text="10/hour", board="double", now=NOW)
    submit(client, ada)
    case = make_case(1000.0, floor_ns=250.0, reference_ns=4000.0)
    judge(db, make_report(stages=[make_stage([case])]))
    told = brief(client)
    assert told["signatures"]["Python"] == "def custom_kernel(data: tuple[int, int]) -> list[int]"
    assert told["signatures"]["CUDA C++"].startswith("int custom_kernel(const kc_args *inputs")
    assert told["files"] == {"Python": "submission.py", "CUDA C++": "submission.cu"}
    assert told["comparisons"] == [
        "check_implementation = make_match_reference(ref_kernel, rtol=1e-3, atol=1e-4)"
    ]
    assert list(told["sources"]) == ["reference.py"]
    assert told["work"][0]["bytes"] == 4096
    (device,) = told["devices"]
    assert (device["device"], device["best_s"], device["floor_s"], device["reference_s"]) == (
        "H100",
        pytest.approx(1e-6),
        pytest.approx(0.25e-6),
        pytest.approx(4e-6),
    )
    assert told["rules"]["Size"] == "A submission has at most 5,000 bytes."
    assert told["rates"] == ["10 submissions per hour to double, for each user"]
    assert told["forbidden"]["aliased"] == "An output shares memory with an input."
    assert told["task"]["hidden_tests"] == 1
    assert told == client.get("/api/v1/leaderboards/double/brief").json()
    assert "31337" not in str(told)


def test_what_a_task_allows_is_not_forbidden(client, db) -> None:
    make_board(db, task=make_task(aliasing=True, near_twins=False, own_share=0.5))
    told = brief(client)
    assert {"aliased", "near_twin"}.isdisjoint(told["forbidden"])
    assert told["rules"]["Own kernels"] == "They have to take 50% of the time of all kernels."
    own = make_task(sources={"eval.py": "", "reference.py": REFERENCE}, main="eval.py")
    make_board(db, name="own", task=own, harness=HarnessKind.OWN)
    assert list(brief(client, "own")["forbidden"]) == ["network"]


def test_closed_leaderboards_are_for_their_members_only(client, db, person) -> None:
    make_board(db, visibility=Visibility.CLOSED)
    assert brief(client)["error"]["code"] == "not_found"
    assert "double" not in client.get("/llms.txt").text
    root = person("root", Role.ADMIN)
    assert brief(client, headers=root.headers)["leaderboard"] == "double"
    assert "[double](" in client.get("/llms.txt", headers=root.headers).text


def test_no_leaderboard_has_an_address_of_these_pages() -> None:
    for name in ("llms.txt", "double.json", "Double.JSON"):
        with pytest.raises(InvalidValue, match="reserved"):
            check_board_name(name)


def test_each_call_that_is_named_is_a_route_of_ours(client, app, db) -> None:
    make_board(db, devices=["H100"])
    page = client.get("/llms.txt")
    assert page.headers["content-type"] == "text/plain; charset=utf-8"
    known = {
        (method.upper(), re.sub(r"\{\w+(:path)?\}", "X", path))
        for path, methods in app.openapi()["paths"].items()
        for method in methods
    }
    named = re.findall(r"(GET|POST) (/api[^\s`?]+)", page.text)
    assert len(named) == 11
    for method, path in named:
        assert (method, re.sub(r"\b(NAME|DEVICE|ID)\b", "X", path)) in known, path
    for path in re.findall(r"\]\(http://[^/]+(/docs/[^)]+)\)", page.text):
        assert client.get(path).status_code == 200, path


def test_a_report_is_short_text_in_sections(client, ada, db) -> None:
    make_board(db)
    submit(client, ada, mode="test")  # what is printed in a ranked run is not shown
    first = client.get("/api/v1/submissions/1/report", headers=ada.headers).json()
    assert [each["section"] for each in first] == ["summary"]
    assert first[0]["text"].startswith("queued: number 1 in the queue")
    wrong = Mismatch(
        where="output",
        wrong=2,
        total=16,
        largest_error=0.5,
        first=[Difference(position=[3], expected="1", actual="1.5")],
        rule="|actual - expected| > 0.1",
    )
    cases = [
        make_case(index=0),
        make_case(index=1, verdict=Verdict.WRONG_ANSWER, mismatch=wrong, timing=None),
    ]
    printed = CapturedOutput(text="x" * 5000, total_bytes=5000)
    is_wrong = {"verdict": Verdict.WRONG_ANSWER}
    stage = make_stage(cases, name=StageName.TEST, **is_wrong)
    judge(db, make_report(stages=[stage], stage=stage.name, mode=Mode.TEST, stdout=printed, **is_wrong))
    told = client.get("/api/v1/submissions/1/report", headers=ada.headers).json()
    texts = {each["section"]: each["text"] for each in told}
    assert list(texts) == [Section.SUMMARY, Section.FAILURE, Section.CASES, Section.OUTPUT]
    assert texts["summary"].startswith("wrong answer in the test stage")
    assert "2 of 16 elements are wrong, off by 0.5 at most" in texts["failure"]
    assert "[3] | 1 | 1.5" in texts["failure"]
    assert texts["cases"].splitlines()[1].startswith("case 1: wrong_answer")  # what failed comes first
    cut = {each["section"]: each["left_out"] for each in told}
    assert (cut["summary"], cut["output"] > 2000) == (0, True)
    (alone,) = client.get("/api/v1/submissions/1/report?section=output", headers=ada.headers).json()
    assert (alone["left_out"], "x" * 5000 in alone["text"]) == (0, True)
    assert client.get("/api/v1/submissions/1/report?device=L4", headers=ada.headers).json() == []
    assert client.get("/api/v1/submissions/1/report?section=all", headers=ada.headers).status_code == 422


def test_an_accepted_report_says_what_to_do_next(client, ada, db) -> None:
    make_board(db)
    submit(client, ada, mode="test", code=SUBMISSION)
    judge(db, make_report(mode=Mode.TEST))
    told = client.get("/api/v1/submissions/1/report", headers=ada.headers).json()
    assert told[0]["text"].endswith("All tests pass. Measure it as a benchmark, or submit it ranked.")


def test_of_others_reports_only_the_outcome_is_told(client, ada, person, db) -> None:
    make_board(db)
    submit(client, ada, code=SUBMISSION)
    judge(db, make_report(verdict=Verdict.WRONG_ANSWER))
    (told,) = client.get("/api/v1/submissions/1/report", headers=person("bob").headers).json()
    assert told["text"] == f"wrong answer\n{OUTLINE}"


def test_a_budget_on_another_device_is_refused(client, ada, db) -> None:
    make_board(db)
    asked = client.get("/api/v1/budget?leaderboard=double&device=B200", headers=ada.headers)
    assert (asked.status_code, "it has H100" in asked.text) == (404, True)


@pytest.mark.parametrize("db_url", DATABASES, indirect=True)
def test_a_check_is_refused_as_a_submission_would_be_and_stores_nothing(client, ada, person, db) -> None:
    make_board(db)
    add_limit(db, OPERATOR, text="1/hour", board="double", per_user=False, now=NOW)
    body = {"leaderboard": "double", "code": SUBMISSION}
    for _ in range(2):
        checked = client.post("/api/v1/submissions/check", json=body, headers=ada.headers)
        assert checked.json() == {
            "leaderboard": "double",
            "devices": ["H100"],
            "practice": False,
            "warnings": [],
        }
    assert list_views(db) == []
    submit(client, person("bob"))
    refused = client.post("/api/v1/submissions/check", json=body, headers=ada.headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
