"""A submission's page: live while it is judged, then its report, and what changed since an earlier one."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest
import reports
from looks import check_page

from builders import (
    NOT_REPLAYED,
    NOW,
    make_board,
    make_case,
    make_report,
    make_stage,
    make_submission,
    make_wall_report,
)
from kernelcup.app.queue import lifecycle
from kernelcup.app.queue.progress import ProgressNotes
from kernelcup.app.results import profile_files
from kernelcup.domain import Role
from kernelcup_harness.protocol import (
    BinaryUse,
    CapturedOutput,
    Counters,
    Difference,
    DuelResult,
    KeptFile,
    Mode,
    StageName,
    TrustLevel,
    Verdict,
    from_json,
)

CALLS = Path(__file__).parents[1] / "data/profiles/calls-h100.json"
OURS = {"Origin": "http://127.0.0.1:8000"}
EVIL = "<script>window.evil = 1</script><img src=x onerror=alert(1)>"


@pytest.fixture
def ada(db, person, client, signed_in):
    """A participant, signed in, and a leaderboard."""
    make_board(db, devices=["H100", "MI300"])
    ada = person("ada")
    client.cookies.update(signed_in(ada))
    return ada


def judged(db, report, **overrides):
    return reports.judged(db, report, **({"devices": ["H100"]} | overrides))


def token_of(page: str) -> str:
    found = re.search(r'name="csrf_token" value="(\w+)"', page)
    assert found is not None
    return found[1]


def test_report_has_each_case_with_time_interval_samples_and_share(db, client, ada) -> None:
    judged(db, reports.ranked(), file_name="gray.py")
    page = client.get("/s/1").text
    assert "gray.py" in page
    assert "512 × 512" in page
    assert "± 0.004" in page
    assert page.count('class="strip"') == 5
    assert "60 samples from" in page
    assert "41 %" in page
    assert "3.92x" in page
    assert "rank 1" in page
    assert "The interval is wide" in page
    assert "3.7 s from sending to the result" in page
    assert 'href="/api/v1/submissions/1"' in page
    assert "What to do next" in page
    assert '<span class="k">def</span>' in page


def test_time_of_a_gpu_by_the_wall_clock_says_why_and_has_the_own_time_beside_it(db, client, ada) -> None:
    judged(db, make_wall_report())
    page = client.get("/s/1").text
    assert "by the wall clock" in page
    assert NOT_REPLAYED in page
    assert "Self-measured</abbr>" in page
    assert ">55.00<" in page
    assert ">21.00<" in page


def test_times_of_gpu_ranks_are_rows(db, client, ada) -> None:
    cases = [{"stage": "ranked", "case": 0, "rank_us": [10.0, 12.5], "skew_us": 2.5}]
    ranks = {"count": 2, "communication": "nccl 2.28.9", "topology": "NV18", "cases": cases}
    judged(db, reports.ranked(environment={"ranks": ranks}))
    page = client.get("/s/1").text
    assert "<h2>GPU ranks, ranked</h2>" in page
    assert '<td class="n">1</td><td class="n">12.5 µs</td>' in page
    assert "2, nccl 2.28.9, NV18" in page


def test_wrong_answer_shows_where_and_what_to_do(db, client, ada) -> None:
    judged(db, reports.wrong(), file_name="vec16.py")
    page = client.get("/s/1").text
    assert "320 of 1,000,000 elements are wrong, off by 0.9821 at most" in page
    assert "height=1000, width=1000, seed=5236" in page
    assert page.count("<title>300 wrong</title>") == 1
    assert page.count('class="right"') == 24 * 48 - 3
    assert "[999, 984]" in page
    assert "kernelcup run board:double vec16.py" in page
    assert "block 1" in page


def test_counters_are_explained_with_a_picture_a_table_and_files(db, client, ada) -> None:
    found = from_json(Counters, json.loads(CALLS.read_text())["matmul"])
    file = KeptFile(name="profile.ncu-rep", nbytes=1_400_000, sha256="0" * 64)
    found = dataclasses.replace(found, files=[file])
    judged(db, dataclasses.replace(reports.profiled(), counters=found))
    page = client.get("/s/1").text
    assert "What limits it" in page
    assert "tensor cores work at 71 % of their rate" in page
    assert '<svg class="plot roofline"' in page
    assert "26.7 µs" in page
    assert 'href="/s/1/profile/1/profile.ncu-rep"' in page
    assert client.get("/s/1/profile/1/profile.ncu-rep").status_code == 404  # deleted by now
    assert client.get("/s/1/profile/1/nothing").status_code == 404


def test_a_trace_is_drawn_as_a_timeline(db, client, ada) -> None:
    judged(db, reports.profiled())
    page = client.get("/s/1").text
    assert '<svg class="plot timeline"' in page
    assert "<title>foo: 12.0 µs from 0.0 µs</title>" in page


def test_what_ran_is_a_table_of_kernels(db, client, ada) -> None:
    judged(db, reports.profiled())
    page = client.get("/s/1").text
    assert "What ran" in page
    assert ">vectorized_elementwise_kernel</td>" in page
    assert "0123456789abcdef" in page


def test_the_machine_code_of_a_ranked_run_is_shown_to_those_who_see_its_report(db, client, ada) -> None:
    packed = base64.b64encode(gzip.compress(b"MOV R1, R2 ;")).decode()
    digest = hashlib.sha256(b"MOV R1, R2 ;").hexdigest()
    file = KeptFile(name="sass.txt", nbytes=12, sha256=digest, gz64=packed)
    report = dataclasses.replace(reports.profiled(), files=[file])
    judged(db, profile_files.keep(db, report))
    page = client.get("/s/1").text
    assert 'href="/s/1/profile/1/sass.txt"' in page
    shown = client.get("/s/1/profile/1/sass.txt")
    assert (shown.text, shown.headers["content-type"]) == ("MOV R1, R2 ;", "text/plain; charset=utf-8")
    client.cookies.clear()
    assert client.get("/s/1/profile/1/sass.txt").status_code == 403


def test_the_page_names_the_run_whose_binary_was_replayed_and_why_none_is_kept(db, client, ada) -> None:
    uses = [BinaryUse(side="submission", run=12)]
    changed = {"binaries": uses, "not_kept": "its tensors hold more than 64 MiB"}
    judged(db, dataclasses.replace(reports.profiled(), **changed))
    page = client.get("/s/1").text
    assert "Of this submission, the binary of run 12 was replayed." in page
    assert "Later duels and finals judge the code again: its tensors hold more than 64 MiB." in page


def test_profile_has_its_table_and_its_trace(db, client, ada) -> None:
    judged(db, reports.profiled())
    page = client.get("/s/1").text
    assert "Self CUDA time total: 24.570us" in page
    (address,) = re.findall(r'href="(/s/1/trace/[^"]+)"', page)
    trace = client.get(address)
    assert gzip.decompress(trace.content) == reports.TRACE
    assert "attachment" in trace.headers["content-disposition"]
    assert client.get("/s/1/trace/1/7").status_code == 404


def test_hidden_case_that_failed_shows_nothing_of_its_input(db, client, ada) -> None:
    report = reports.wrong()
    stage = report.stages[0]
    hidden = dataclasses.replace(stage.cases[-1], hidden=True)
    stage = dataclasses.replace(stage, cases=[*stage.cases[:-1], hidden])
    judged(db, dataclasses.replace(report, stages=[stage]))
    page = client.get("/s/1").text
    assert "hidden" in page
    for secret in ("5236", "[999, 984]", "0.48213", "elements are wrong", 'class="map"'):
        assert secret not in page, secret


def test_a_run_without_a_whole_time_is_not_said_to_be_timed_by_its_task(db, client, ada) -> None:
    cut_off = {"verdict": Verdict.TIME_LIMIT_EXCEEDED, "trust": TrustLevel.SELF_MEASURED}
    judged(db, reports.ranked(message="case 0 has 5 of the 16 samples", **cut_off))
    page = client.get("/s/1").text
    assert "self-measured" not in page
    assert "own harness" not in page
    assert "How it was judged" in page


def test_what_ranked_code_printed_stays_withheld(db, client, ada) -> None:
    judged(db, reports.ranked(stdout=CapturedOutput(text="secret 4711", total_bytes=11)))
    page = client.get("/s/1").text
    assert "secret 4711" not in page
    assert "written while the submission was ranked" in page


def test_others_see_how_a_ranked_result_was_timed_and_neither_code_nor_output(
    db, client, ada, person, signed_in
) -> None:
    printed = CapturedOutput(text="secret 4711", total_bytes=11)
    judged(db, reports.ranked(stdout=printed), file_name="gray.py")
    client.cookies.update(signed_in(person("bob")))
    page = client.get("/s/1").text
    for seen in (
        "337.4 µs",
        "height",
        "Of peak",
        "How it was timed",
        "Ranked benchmarks",
        "how-timing-works",
    ):
        assert seen in page, seen
    for kept in ("triton.jit", "secret 4711", "h100-3", "Delete", "What changed", "data-live"):
        assert kept not in page, kept


def test_submission_of_others_that_is_not_ranked_is_refused(db, client, ada, person, signed_in) -> None:
    judged(db, reports.wrong())
    judged(db, reports.profiled())
    client.cookies.update(signed_in(person("bob")))
    for path in ("/s/1", "/s/2/diff/1", "/s/2/trace/2/0", "/b/double/submit?from=1"):
        assert client.get(path).status_code == 403, path
    form = {"csrf_token": token_of(client.get("/b/double/submit").text)}
    for path in ("/s/1/cancel", "/s/1/delete", "/s/2/diff/1"):
        assert client.post(path, data=form, headers=OURS, follow_redirects=False).status_code == 403, path
    assert client.get("/s/77").status_code == 404


def test_code_is_shown_to_others_once_the_leaderboard_publishes_it(
    db, clock, client, person, signed_in
) -> None:
    deadline = NOW.replace(day=2)
    make_board(db, deadline=deadline)
    judged(db, reports.ranked())
    client.cookies.update(signed_in(person("bob")))
    assert "triton" not in client.get("/s/1").text
    clock.advance(3 * 86400)
    client.cookies.clear()
    assert "triton" in client.get("/s/1").text


def test_a_ranked_result_leads_to_those_beside_it(db, client, person) -> None:
    make_board(db)
    judged(db, make_report([1000.0]))
    judged(db, make_report([5000.0]), user="bob")
    page = client.get("/s/2").text
    assert 'Previous: <a href="/s/1" rel="prev">#1</a>, rank 1, ada' in page
    assert 'rel="next"' not in page
    assert 'Next: <a href="/s/2" rel="next">#2</a>, rank 2, bob' in client.get("/s/1").text


def test_who_manages_the_leaderboard_sees_all_of_it(db, client, ada, person, signed_in) -> None:
    judged(db, reports.wrong())
    client.cookies.update(signed_in(person("root", Role.ADMIN)))
    page = client.get("/s/1").text
    assert "[999, 984]" in page
    assert "Delete" not in page


def test_waiting_submission_tells_its_place_and_why(db, client, ada) -> None:
    for _ in range(2):
        make_submission(db, devices=["H100"])
    page = client.get("/s/2").text
    assert "number 2 in the queue" in page
    assert "no machine with H100 is connected" in page
    assert "/api/v1/submissions/2/events?after=" in page
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in page
    assert "<title>waits · " in page


def test_author_cancels_and_deletes_by_forms(db, client, ada) -> None:
    make_submission(db, devices=["H100"])
    form = {"csrf_token": token_of(client.get("/s/1").text)}
    assert client.post("/s/1/cancel", data={}, headers=OURS).status_code == 403
    assert "cancelled by ada" in client.post("/s/1/cancel", data=form, headers=OURS).text
    gone = client.post("/s/1/delete", data=form, headers=OURS, follow_redirects=False)
    assert gone.headers["location"] == "/b/double"
    assert client.get("/s/1").status_code == 404


def test_difference_has_changed_lines_and_times_side_by_side(db, client, ada) -> None:
    judged(db, reports.ranked(factor=1.06), content=reports.CODE.replace("1024", "512").encode())
    judged(db, reports.ranked())
    page = client.get("/s/2/diff/1").text
    assert page.count("−5.7 %") == 5
    assert page.count(">sure<") == 5
    assert '<tr class="out"><td class="no">19</td>' in page
    assert '<tr class="in"><td class="no"></td><td class="no">19</td>' in page
    assert "What changed since #1" in client.get("/s/2").text
    assert client.get("/s/1/diff/1").status_code == 400


def test_two_peoples_results_are_shown_side_by_side_with_code_to_managers_alone(
    db, client, ada, person, signed_in
) -> None:
    judged(db, reports.ranked(factor=1.06), user="bob", content=reports.CODE.replace("1024", "512").encode())
    judged(db, reports.ranked())
    assert 'href="/s/2/diff/1">With your #2' in client.get("/s/1").text
    assert 'href="/s/2/diff/1">With #1' in client.get("/b/double").text
    own = client.get("/s/2/diff/1").text
    client.cookies.update(signed_in(person("eve", Role.CREATOR)))
    for page in (own, client.get("/s/2/diff/1").text):
        assert page.count("−5.7 %") == 5
        assert "BLOCK=512" not in re.sub(r"<[^>]+>", "", page)
        assert "<h2>Code</h2>" not in page
        assert "The code of other users stays hidden" in page
    client.cookies.update(signed_in(person("root", Role.ADMIN)))
    managed = client.get("/s/2/diff/1").text
    assert managed.count("−5.7 %") == 5
    assert "BLOCK=512" in re.sub(r"<[^>]+>", "", managed)
    assert "#2 beside #1" in managed
    form = {"csrf_token": token_of(own), "device": "H100"}
    client.cookies.update(signed_in(ada))
    form["csrf_token"] = token_of(client.get("/s/2/diff/1").text)
    assert client.post("/s/2/diff/1", data=form, headers=OURS).url.path == "/s/3"


def test_two_submissions_are_measured_in_turns_on_demand(db, client, ada) -> None:
    make_board(db, name="one")
    for _ in range(2):
        judged(db, reports.ranked(), board="one")
    form = {"csrf_token": token_of(client.get("/s/2/diff/1").text)}
    page = client.post("/s/2/diff/1", data=form, headers=OURS)
    assert page.url.path == "/s/3"
    assert "in turns" in page.text
    assert 'href="/s/1"' in page.text
    duel = DuelResult(ratio=0.9, low=0.89, high=0.91, verdict="faster", blocks=1, cases=[[0.9]] * 5)
    reports.finish(db, reports.ranked(duel=duel))
    both = client.get("/s/3").text.partition("Both, case by case")[2].partition("</table>")[0]
    assert both.count("−10.0 %") == 5
    assert both.count("µs") == 10


def evil_report():
    first = [Difference(position=[0], expected=EVIL, actual=EVIL)]
    report = reports.wrong(
        message=EVIL,
        stdout=CapturedOutput(text=EVIL, total_bytes=1),
        stderr=CapturedOutput(text=EVIL, total_bytes=1),
        environment={"device": EVIL, "torch": EVIL},
    )
    (stage,) = report.stages
    bad = stage.cases[-1]
    assert bad.mismatch is not None
    mismatch = dataclasses.replace(bad.mismatch, where=EVIL, first=first, rule=EVIL)
    bad = dataclasses.replace(bad, message=f"{EVIL}\n{EVIL}", mismatch=mismatch, parameters={EVIL: EVIL})
    return dataclasses.replace(report, stages=[dataclasses.replace(stage, cases=[*stage.cases[:-1], bad])])


@pytest.mark.dear("Chromium starts")
def test_nothing_of_a_submission_becomes_markup(db, visitor, ada) -> None:
    judged(
        db, evil_report(), file_name=f"{EVIL}.py".replace("/", "\N{DIVISION SLASH}"), content=EVIL.encode()
    )
    judged(db, reports.ranked(), content=f"{EVIL}\n{reports.CODE}".encode(), file_name="a<b>&'\".py")
    browser = visitor(ada)
    for path in ("/s/1", "/s/2/diff/1", "/b/double/submit?after=1"):
        page = browser.open(path)
        assert page.evaluate("window.evil") is None, path
        assert page.locator("img").count() == 0, path
        assert page.locator("main script").count() == 0, path


@pytest.mark.jobs
def test_reports_fit_every_window_and_axe_finds_nothing(db, visitor, ada) -> None:
    judged(db, reports.ranked(level=TrustLevel.WALL_CLOCK))
    judged(db, reports.wrong())
    judged(db, reports.profiled())
    browser = visitor(ada)
    page = browser.open("/s/1")
    check_page(page)
    for path in ("/s/2", "/s/3", "/s/2/diff/1"):
        check_page(browser.open(path, page))


@pytest.mark.jobs
def test_page_follows_a_run_to_its_verdict_without_reload(db, visitor, ada) -> None:
    make_submission(db, devices=["H100"])
    page = visitor(ada).open("/s/1")
    page.evaluate("window.first = true")
    assert page.get_by_text("number 1 in the queue").is_visible()
    lease = lifecycle.claim_next(db, owner="test", lease_s=60, devices=["H100"], now=NOW)
    assert lease is not None
    notes = ProgressNotes(db, lease.job, clock=lambda: NOW)
    notes.take({"event": "stage", "stage": "ranked", "cases": 5})
    notes.take({"event": "case", "stage": "ranked", "case": 2})
    page.get_by_text("3 of 5").wait_for()
    lifecycle.finish(db, lease, report=reports.ranked(), harness_hash="f", machine="m", now=NOW)
    page.get_by_text("Of peak").wait_for()
    assert page.locator("h1 .verdict").inner_text() == "accepted"
    assert page.get_by_role("button", name="Cancel it").count() == 0
    assert page.title().startswith("accepted · ")
    assert page.get_by_role("status").inner_text() == "accepted"
    assert page.evaluate("window.first")


@pytest.mark.jobs
def test_page_of_a_run_works_without_javascript(db, visitor, ada) -> None:
    make_submission(db, devices=["H100"])
    page = visitor(ada, javascript=False).open("/s/1")
    reports.finish(db, reports.ranked())
    page.wait_for_selector("h1 .verdict")  # it loads itself again
    assert page.locator("h1 .verdict").inner_text() == "accepted"


@pytest.mark.jobs
def test_code_is_copied_by_a_button_and_its_lines_have_addresses(db, visitor, ada) -> None:
    judged(db, reports.ranked())
    somebody = visitor(ada)
    somebody.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = somebody.open("/s/1#L3")
    assert page.locator(".linenos a:target").inner_text() == "3"
    page.get_by_role("region", name="Code of").hover()
    page.get_by_role("button", name="Copy").last.click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == reports.CODE


def test_steps_are_of_the_latest_attempt(db, client, ada) -> None:
    make_submission(db, devices=["H100"], mode=Mode.TEST)
    lease = lifecycle.claim_next(db, owner="test", lease_s=60, devices=["H100"], now=NOW)
    assert lease is not None
    notes = ProgressNotes(db, lease.job, clock=lambda: NOW)
    notes.take({"event": "stage", "stage": "test", "cases": 10})
    notes.take({"event": "stage_end", "stage": "test", "verdict": "accepted"})
    assert "10 of 10" in client.get("/s/1").text
    lifecycle.hand_back(db, lease, reason="the machine is lost", now=NOW)
    page = client.get("/s/1").text
    assert "10 of 10" not in page
    assert "number 1 in the queue" in page


def test_stages_without_a_time_list_their_cases(db, client, ada) -> None:
    failed = make_case(None, index=1, parameters={"n": 2}, verdict=Verdict.RUNTIME_ERROR, message="boom")
    stage = make_stage(
        [*reports.tests(1), failed], name=StageName.TEST, verdict=Verdict.RUNTIME_ERROR, planned_cases=5
    )
    judged(
        db,
        reports.wrong(verdict=Verdict.RUNTIME_ERROR, stages=[stage], message="boom"),
    )
    page = client.get("/s/1").text
    assert "1 of 5 right" in page
    assert "3 not run" in page
    assert "boom" in page
    listed = re.findall(r"<li.*?</li>", page.partition('<ul class="cases">')[2])
    right, wrong, *_ = [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", each)).strip() for each in listed]
    assert (right, wrong) == ("0 ✓ height 1, width 33: right", "1 ✗ n 2: runtime error")
