"""Every door by which a leaderboard is made says whose code judges it, and none chooses in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from builders import NOW, make_calibration
from kernelcup.app.boards import boards
from kernelcup.app.boards.judgeable import Tried
from kernelcup.app.machines import calibrations
from kernelcup.domain import Role
from kernelcup.http.state import Platform
from kernelcup_harness.protocol import HarnessKind

YML = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
  - {name: eval.py, source: eval.py}
config: {main: eval.py}
lang: py
gpus: [H100]
benchmarks:
  - {size: 64, seed: 2}
"""
REFERENCE = """\
def generate_input(size, seed): return [seed] * size
def check_implementation(data, output): return data == output
"""
FITS = {"task.yml": YML, "reference.py": REFERENCE, "eval.py": ""}
FAILS = {**FITS, "reference.py": "def other(): ...\n"}


class FoundPoor:
    """A trial that finds a bound."""

    def try_task(self, *_: Any, **__: Any) -> Tried:
        """Find that large seeds are no good."""
        return Tried(seeds_below=1 << 24, seeds_why="tests.0: one value")


class Doubting:
    """A trial that finds a checker which accepts what is wrong."""

    def try_task(self, *_: Any, **__: Any) -> Tried:
        """Find it."""
        return Tried(loose=("the checker ignores the answer",))


def create(client: TestClient, headers: dict[str, str], files: dict[str, str], **settings: Any) -> Any:
    form = {"settings": json.dumps({"name": "shipped", **settings})}
    parts = [("files", (name, text)) for name, text in files.items()]
    return client.post("/api/v1/leaderboards", headers=headers, data=form, files=parts)


def test_the_reply_of_the_api_says_it(client, platform: Platform, person) -> None:
    platform.trial = FoundPoor()
    grace = person("grace", Role.CREATOR)
    body = create(client, grace.headers, FITS).json()
    assert (body["harness"], body["seeds_below"]) == ("standard", 1 << 24)
    assert body["notes"][0].startswith("judged by the standard harness (its own solutions pass under it)")
    assert "seeds are drawn below 16777216" in body["notes"][1]
    task = client.get("/api/v1/leaderboards/shipped/task", headers=grace.headers).json()
    assert task["harness"] == "standard"


def test_the_reply_of_the_api_says_that_counters_are_locked(client, db, person) -> None:
    found = make_calibration(no_counters="locked")
    calibrations.store(db, found, machine="box", gpu="0", device="H100", now=NOW)
    grace = person("grace", Role.CREATOR)
    body = create(client, grace.headers, FITS).json()
    assert body["notes"][-1].startswith("H100: not all of its machines let the judge read")


IN_C = """\
// Scale a vector.
int generate_input(const kc_case *parameters, uint64_t seed, kc_args *inputs, kc_context *context) { return 0; }
int ref_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) { return 0; }
"""


def test_a_single_file_in_cuda_is_a_leaderboard_for_the_standard_harness(client, person) -> None:
    grace = person("grace", Role.CREATOR)
    made = create(client, grace.headers, {"scale.cu": IN_C}, devices=["H100"])
    assert made.status_code == 201, made.text
    assert made.json()["harness"] == "standard"
    task = client.get("/api/v1/leaderboards/shipped/task", headers=grace.headers).json()
    assert (task["lang"], task["description"]) == ("cu", "Scale a vector.")


def test_the_api_needs_a_yes_to_the_tasks_own_harness(client, person) -> None:
    grace = person("grace", Role.CREATOR)
    refused = create(client, grace.headers, FAILS)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "own_harness_needed")
    body = create(client, grace.headers, FAILS, harness="own").json()
    assert body["harness"] == "own"
    assert body["notes"] == [
        "judged by its own harness (eval.py), as asked; results are marked self-measured"
    ]


def test_the_api_needs_a_yes_to_a_checker_that_accepts_wrong_answers(client, person, platform) -> None:
    grace, path = person("grace", Role.CREATOR), "/api/v1/leaderboards/shipped/task"
    platform.trial = Doubting()
    refused = create(client, grace.headers, FITS)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "broken_checker")
    assert "the checker ignores the answer" in refused.json()["error"]["message"]
    made = create(client, grace.headers, FITS, force=True)
    assert made.status_code == 201
    assert any("the checker ignores the answer" in note for note in made.json()["notes"])
    new = [("files", (name, text)) for name, text in {**FITS, "eval.py": "# new\n"}.items()]
    refused = client.put(path, headers=grace.headers, files=new)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "broken_checker")
    assert client.put(path, headers=grace.headers, files=new, params={"force": True}).status_code == 200


def test_popcorn_refuses_a_checker_that_accepts_wrong_answers(client, db, person, platform, folder) -> None:
    root = person("root", Role.ADMIN)

    def put() -> Any:
        return client.post("/admin/leaderboards", headers=root.headers, json={"directory": "shipped"})

    platform.trial = Doubting()
    refused = put()
    assert refused.status_code == 400
    assert "the checker ignores the answer" in refused.json()["detail"]
    assert boards.list_boards(db) == []
    platform.trial = None
    assert put().status_code == 200
    platform.trial = Doubting()
    (folder / "eval.py").write_text("# new\n")
    assert put().status_code == 400


@pytest.fixture
def folder(platform: Platform, tmp_path: Path) -> Path:
    """A folder of the server that ships its own harness."""
    options = {"kernelbot": {"problem_dir": str(tmp_path / "problems")}}
    object.__setattr__(platform.config, "extension_options", options)
    folder = tmp_path / "problems" / "shipped"
    folder.mkdir(parents=True)
    for name, text in FITS.items():
        (folder / name).write_text(text)
    return folder


def test_popcorn_says_it_and_replaces_no_harness_in_silence(client, db, person, folder: Path) -> None:
    root = person("root", Role.ADMIN)

    def put(**more: str) -> Any:
        body = {"directory": "shipped", **more}
        return client.post("/admin/leaderboards", headers=root.headers, json=body)

    made = put().json()
    assert made["harness"] == "standard"
    assert made["notes"][0].startswith(
        "judged by the standard harness (its files fit), not by its own eval.py"
    )
    assert put(harness="own").json()["harness"] == "own"
    # Brought up to date, it keeps what somebody chose.
    assert put().json()["harness"] == "own"
    assert boards.get_board(db, "shipped-dev").harness is HarnessKind.OWN
    (folder / "reference.py").write_text(FAILS["reference.py"])
    folder.rename(folder.with_name("other"))
    refused = client.post("/admin/leaderboards", headers=root.headers, json={"directory": "other"})
    assert refused.status_code == 400
    assert "can be judged by its own harness only" in refused.json()["detail"]
