"""Submitting in the browser: a file, a plain text area, the editor; errors, drafts, the result beside the code."""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
import reports
from looks import check_page

from builders import NOW, SUBMISSION, make_board, make_device, make_submission, make_task
from kernelcup.app.people import accounts
from kernelcup.app.rules import pauses
from kernelcup.app.submissions.submissions import get_code, list_views
from kernelcup.domain import OPERATOR, AfterDeadline, Language
from kernelcup.http.pages.assets import assets
from kernelcup_harness.protocol import Backend, HarnessKind, Mode

ROOT = Path(__file__).resolve().parents[2]
OURS = {"Origin": "http://127.0.0.1:8000"}
FORM = "/b/double/submit"


@pytest.fixture
def ada(db, person, client, signed_in):
    """A participant, signed in, and a leaderboard with a template and two devices."""
    make_board(db, task=make_task(templates={"Python": SUBMISSION}), devices=["H100", "MI300"])
    ada = person("ada")
    client.cookies.update(signed_in(ada))
    return ada


def send(client, *, files=None, token=None, **fields):
    if token is None:
        found = re.search(r'name="csrf_token" value="(\w+)"', client.get(FORM).text)
        token = found[1] if found else ""
    values = {"mode": "test", "device": "H100", "file_name": "kernel.py", "code": SUBMISSION}
    data = values | {"csrf_token": token} | fields
    return client.post(
        FORM, data=data, files=files or {"upload": ("", b"")}, headers=OURS, follow_redirects=False
    )


def test_text_is_submitted_as_it_was_written(db, client, ada) -> None:
    answer = send(client, code=SUBMISSION.replace("\n", "\r\n"), mode="leaderboard", device=["H100", "MI300"])
    assert (answer.status_code, answer.headers["location"]) == (303, "/s/1")
    (view,) = list_views(db)
    made = view
    assert (made.user, made.mode, made.devices, made.client) == (
        "ada",
        Mode.LEADERBOARD,
        ("H100", "MI300"),
        "web",
    )
    assert get_code(db, 1).code == SUBMISSION


def test_largest_file_fits_into_the_text_area_whose_lines_have_two_ends(db, client, ada) -> None:
    code = "x\n" * 500_000
    assert send(client, code=code.replace("\n", "\r\n")).status_code == 303
    assert get_code(db, 1).code == code
    longer = send(client, code="kept\r\n" * 300_000)
    assert longer.status_code == 413
    assert "file_too_large" in longer.text
    assert longer.text.count("kept\n") == 300_000


def test_chosen_file_counts_before_the_text(db, client, ada) -> None:
    code = b"# a file\r\n" + SUBMISSION.encode()
    answer = send(client, files={"upload": ("other.py", code)})
    assert answer.status_code == 303
    assert get_code(db, 1).code == code.decode()
    assert list_views(db)[0].file_name == "other.py"


def test_refusal_is_shown_with_its_code_and_the_text_is_kept(db, client, ada) -> None:
    evil = "</textarea><script>1</script>"
    for fields, status, code, text in (
        ({"code": ""}, 400, "empty_file", "empty"),
        ({"file_name": f"{evil}.txt", "code": evil}, 400, "wrong_file_type", ".py"),
        ({"device": "TPU"}, 400, "unknown_device", "TPU"),
        ({"code": "#!POPCORN leaderboard other\nkept = 1\n"}, 400, "conflicting_leaderboards", "kept = 1"),
        ({"code": "#!POPCORN speed\nkept = 1\n"}, 400, "invalid_directive", "kept = 1"),
        ({"code": "x" * ((1 << 20) + 1)}, 413, "file_too_large", "1,048,576"),
    ):
        answer = send(client, mode="profile", **fields)
        assert answer.status_code == status
        assert f'<span class="minor">{code}</span>' in answer.text
        assert text in answer.text
        assert "<script>1" not in answer.text
        assert 'value="profile" checked' in answer.text
    assert list_views(db) == []


def test_closed_board_and_banned_user_get_the_reason_in_place_of_the_form(db, client, ada, clock) -> None:
    make_board(db, name="over", deadline=NOW + timedelta(hours=1), after_deadline=AfterDeadline.CLOSED)
    clock.advance(7200)
    closed = client.get("/b/over/submit", headers={"Accept": "text/html"})
    assert (closed.status_code, "<textarea" in closed.text) == (403, False)
    assert "closed at" in closed.text
    accounts.ban(db, OPERATOR, "ada", reason="shared a token", now=NOW)
    banned = client.get(FORM, headers={"Accept": "text/html"})
    assert (banned.status_code, "<textarea" in banned.text) == (403, False)
    assert "shared a token" in banned.text


def test_the_form_of_a_board_that_is_over_says_what_it_still_takes(db, client, ada, clock) -> None:
    make_board(db, name="over", deadline=NOW + timedelta(hours=1), after_deadline=AfterDeadline.PRACTICE)
    assert "The deadline was" not in client.get("/b/over/submit").text
    clock.advance(7200)
    form = client.get("/b/over/submit").text
    assert "The deadline was" in form
    assert form.count("practice table") == 1


def test_cuda_is_not_offered_where_no_device_has_a_gpu(db, client, ada, platform) -> None:
    here = make_device(name="here", backend=Backend.CPU)
    platform.config = dataclasses.replace(platform.config, configured_devices=(here, make_device()))
    task = make_task(templates={"CUDA": "int custom_kernel(const kc_args *", "Python": SUBMISSION})
    make_board(db, name="slow", task=task, devices=["here"])
    make_board(db, name="fast", task=task, devices=["here", "H100"])
    slow, fast = (client.get(f"/b/{name}/submit").text for name in ("slow", "fast"))
    assert (".cu" in slow, "template=CUDA" in slow, "template=Python" in slow) == (False, False, True)
    assert (".cu" in fast, "template=CUDA" in fast) == (True, True)


def test_form_sent_twice_is_one_submission(db, client, ada) -> None:
    key = re.search(r'name="form_key" value="([^"]+)"', client.get(FORM).text)
    assert key is not None
    first, again = send(client, form_key=key[1]), send(client, form_key=key[1], then="stay")
    assert (first.headers["location"], again.headers["location"]) == ("/s/1", f"{FORM}?after=1")
    assert len(list_views(db)) == 1


def test_each_page_with_the_form_and_each_change_in_it_is_another_submission(db, client, ada) -> None:
    def key() -> str:
        return re.findall(r'name="form_key" value="([^"]+)"', client.get(FORM).text)[0]

    one = key()
    fields = [{}, {"code": "# other\n"}, {"mode": "profile"}, {"device": "MI300"}, {"file_name": "x.py"}]
    fields += [{"form_key": key()}, {"form_key": ""}, {"form_key": ""}]
    places = [send(client, **({"form_key": one} | each)).headers["location"] for each in fields]
    assert places == [f"/s/{number}" for number in range(1, 9)]


def test_refused_form_that_is_sent_again_by_a_reload_is_refused_again(db, client, ada) -> None:
    pauses.pause(db, OPERATOR, scope="device", key="H100", reason="driver", now=NOW)
    assert [send(client, form_key="k").status_code for _ in range(2)] == [503, 503]
    pauses.unpause(db, OPERATOR, scope="device", key="H100", now=NOW)
    assert [send(client, form_key="k").headers["location"] for _ in range(2)] == ["/s/1", "/s/1"]


def test_form_asks_readers_to_sign_in(client, ada) -> None:
    client.cookies.clear()
    page = client.get(FORM, headers={"Accept": "text/html"})
    assert page.status_code == 401
    assert f"/auth/login?next={FORM}" in page.text


def test_form_offers_template_device_and_mode_of_its_address(db, client, ada) -> None:
    page = client.get(f"{FORM}?device=mi300&mode=leaderboard").text
    assert 'value="MI300" checked' in page
    assert 'value="H100" checked' not in page
    assert 'value="leaderboard" checked' in page
    assert "#!POPCORN leaderboard double" in page
    make_submission(db, content=b"# an earlier one\n" + SUBMISSION.encode(), devices=["H100"])
    assert "# an earlier one" in client.get(f"{FORM}?from=1").text


def test_form_of_a_task_without_a_template_in_its_language_begins_empty(db, client, ada) -> None:
    make_board(db, name="bare", task=make_task(templates={}), devices=["H100"])
    page = client.get("/b/bare/submit").text
    assert "?template=CUDA%20C%2B%2B" in page
    assert 'value="submission.py"' in page
    assert "kc_args" not in page.partition("<textarea")[2].partition("</textarea>")[0]


def test_form_of_a_cuda_task_takes_cuda_files(db, client, ada) -> None:
    task = make_task(
        lang=Language.CUDA,
        submission_name="submission.cu",
        main="eval.py",
        harness=HarnessKind.OWN,
        sources={"eval.py": "", "reference.py": ""},
    )
    make_board(db, name="cuda", task=task, harness=HarnessKind.OWN)
    page = client.get("/b/cuda/submit").text
    assert "A file that ends in .cu or .cuh" in page
    assert 'value="submission.cu"' in page


def test_result_comes_beside_the_code(db, client, ada) -> None:
    answer = send(client, then="stay")
    assert answer.headers["location"] == f"{FORM}?after=1"
    page = client.get(answer.headers["location"]).text
    assert "data-live" in page
    assert "number" not in page
    reports.finish(db, reports.wrong())
    page = client.get(answer.headers["location"]).text
    assert "320 of 1,000,000 elements are wrong" in page
    assert "return data * 2" in page
    assert "data-live=" not in page


def test_licence_of_every_package_that_pages_load_is_listed() -> None:
    listed = assets()["editor/LICENCES.txt"].body.decode()
    lock = json.loads((ROOT / "web" / "package-lock.json").read_text())
    wanted = json.loads((ROOT / "web" / "package.json").read_text())["dependencies"]
    assert wanted.pop("swagger-ui-dist")
    swagger = assets()["swagger/LICENCES.txt"].body.decode()
    assert all(each in swagger for each in ("SmartBear", "Apache License", "MIT"))
    for name in [
        *(each for each in wanted if each != "swagger-ui-dist"),
        "style-mod",
        "crelt",
        "w3c-keyname",
        "@lezer/common",
        "@lezer/python",
        "@lezer/cpp",
    ]:
        version = lock["packages"][f"node_modules/{name}"]["version"]
        assert f"\n{name} {version}: MIT\n" in listed, name


@pytest.mark.dear("Chromium starts")
def test_submits_in_the_editor_and_follows_it_to_the_verdict(db, visitor, ada) -> None:
    page = visitor(ada).open(FORM)
    editor = page.get_by_role("textbox", name="Code").and_(page.locator(".cm-content"))
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("# typed\n")
    page.get_by_label("MI300").check()
    page.get_by_label("H100").uncheck()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.get_by_text("number 1 in the queue").wait_for()
    assert page.url.endswith("/s/1")
    assert get_code(db, 1).code.endswith("    return data * 2\n# typed\n")
    assert list_views(db)[0].devices == ("MI300",)


@pytest.mark.jobs
def test_control_enter_submits_and_adds_no_line(db, visitor, ada) -> None:
    page = visitor(ada).open(FORM)
    page.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/s/1")
    assert get_code(db, 1).code == f"#!POPCORN leaderboard double\n{SUBMISSION}"


@pytest.mark.jobs
def test_statement_stands_beside_the_code_and_in_its_place_on_a_phone(visitor, ada) -> None:
    somebody = visitor(ada)
    page = somebody.open(FORM)
    assert page.get_by_text("Double every element.").is_visible()
    page.get_by_text("reference.py", exact=True).click()
    assert page.get_by_text("def ref_kernel").is_visible()
    page.get_by_text("Close the statement").click()
    assert not somebody.open(FORM).get_by_text("Double every element.").is_visible()
    page.set_viewport_size({"width": 390, "height": 800})
    page.get_by_text("Statement", exact=True).click()
    assert page.get_by_text("Double every element.").is_visible()
    assert not page.locator(".cm-content").is_visible()
    page.get_by_text("Close the statement").click()
    assert page.locator(".cm-content").is_visible()


@pytest.mark.jobs
def test_submits_a_file_and_stays(db, visitor, ada) -> None:
    page = visitor(ada).open(FORM)
    page.get_by_label("Or files or a zip").set_input_files(
        {"name": "mine.py", "mimeType": "text/x-python", "buffer": SUBMISSION.encode()}
    )
    page.get_by_role("button", name="Submit and stay here").click()
    page.get_by_role("link", name="Its page").wait_for()
    reports.finish(db, reports.ranked(mode=Mode.TEST, stages=reports.ranked().stages[:1]))
    page.get_by_role("link", name="The whole report").wait_for()
    assert page.locator("#result .verdict").inner_text() == "accepted"
    assert get_code(db, 1).code == SUBMISSION


@pytest.mark.jobs
def test_form_works_without_javascript(db, visitor, ada) -> None:
    page = visitor(ada, javascript=False, width=360).open(FORM)
    check = page.get_by_label("Code")
    assert "return data * 2" in check.input_value()
    check.fill("# by hand\n")
    page.get_by_role("button", name="Submit", exact=True).click()
    assert page.url.endswith("/s/1")
    assert get_code(db, 1).code == "# by hand\n"


@pytest.mark.jobs
def test_draft_is_kept_in_the_browser_and_can_be_dropped(visitor, ada) -> None:
    browser = visitor(ada)
    page = browser.open(FORM)
    page.locator(".cm-content").click()
    page.keyboard.press("Control+Home")
    page.keyboard.type("#!POPCORN a draft\n")
    page.get_by_text("only leaderboard, gpu and entry follow !POPCORN").wait_for()
    again = browser.open(FORM)
    assert "a draft" in again.locator(".cm-content").inner_text()
    again.get_by_role("button", name="Start from the template").click()
    assert "a draft" not in again.locator(".cm-content").inner_text()


@pytest.mark.jobs
def test_editor_says_what_would_be_refused_before_it_is_sent(visitor, ada) -> None:
    page = visitor(ada).open(FORM)
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.type("#!POPCORN leaderboard other\n#!POPCORN gpu TPU\n")
    page.get_by_text("Line 1 names the leaderboard other; this is double.").wait_for()
    page.get_by_text("Line 2 names TPU; this leaderboard has H100, MI300.").wait_for()
    page.get_by_label("File name").fill("kernel.txt")
    page.get_by_text("The name should end in .py or .cu or .cuh or .cpp.").wait_for()


@pytest.mark.jobs
def test_editor_is_left_by_keyboard_alone(visitor, ada) -> None:
    page = visitor(ada).open(FORM)
    page.locator(".cm-content").click()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "file_name"


@pytest.mark.jobs
def test_form_fits_every_window_and_axe_finds_nothing(db, visitor, ada) -> None:
    reports.judged(db, reports.wrong(), devices=["H100"])
    check_page(visitor(ada).open(f"{FORM}?after=1"))
