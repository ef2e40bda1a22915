"""The profile routes of the existing client, by requests as the facts describe them."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from builders import SUBMISSION, make_case, make_report, make_stage
from kernelcup.app.results import profile_files
from kernelcup.app.submissions.queries import submissions
from kernelcup.engine.database import Database
from kernelcup_harness.protocol import (
    Counters,
    KeptFile,
    KernelCounters,
    Mode,
    ProfileOptions,
    RunReport,
    StageName,
)

REPORT = b"the report of ncu"
FILES = {"profile.ncu-rep": REPORT, "ncu-details.txt": b"details", "ncu-details.csv": b"a,b\n"}


def file_of(name: str, body: bytes) -> KeptFile:
    """A file of a profile as the harness sends it."""
    packed = base64.b64encode(gzip.compress(body, mtime=0)).decode()
    return KeptFile(name=name, nbytes=len(body), sha256=hashlib.sha256(body).hexdigest(), gz64=packed)


def profiled() -> RunReport:
    """A run with a trace and counters."""
    counters = {
        "time_ns": 21_000.0,
        "dram_pct": 80.0,
        "dram_read": 4e7,
        "dram_written": 1e7,
        "sms": 132.0,
        "blocks": 999.0,
    }
    found = Counters(
        case=0,
        options=ProfileOptions(),
        tool="ncu 2025.3.1.0",
        kernels=[KernelCounters(name="fma", grid=[999, 1, 1], block=[256, 1, 1], counters=counters)],
        files=[file_of(name, body) for name, body in FILES.items()],
    )
    report = make_report(
        mode=Mode.PROFILE, stages=[make_stage([make_case(None, profile="a table")], name=StageName.PROFILE)]
    )
    return dataclasses.replace(report, counters=found)


@pytest.fixture
def headers(person: Any) -> dict[str, str]:
    return {"X-Popcorn-Cli-Id": person("ada").token}


@pytest.fixture
def end(db: Database, finish: Any) -> Any:
    """Ends the next job as a dispatcher would: files go into the store first."""
    return lambda: finish(profile_files.keep(db, profiled()))


def sent(**fields: str) -> dict[str, Any]:
    return {"files": {"file": ("kernel.py", SUBMISSION.encode())}, "data": fields}


def streamed(
    client: httpx.Client, path: str, headers: dict[str, str], end: Callable[[], None], **fields: str
) -> list[tuple[str, dict[str, Any]]]:
    """The frames of a stream, split as the client does it; the job ends with the first."""
    with client.stream("POST", path, headers=headers, timeout=60, **sent(**fields)) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        text = ""
        for chunk in answer.iter_text():
            if not text:
                end()
            text += chunk
    frames = [each.split("\n") for each in text.split("\n\n") if each.strip()]
    return [
        (lines[0].removeprefix("event: "), json.loads(lines[-1].removeprefix("data: "))) for lines in frames
    ]


def unpacked(body: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_route_of_september_takes_options_and_streams_the_profile(
    db, board, client, headers, end
) -> None:
    fields = {"benchmark_index": "0", "kernel_name": "fma", "launch_count": "3", "warp_speed": "9"}
    found = streamed(client, f"/profile/{board.name}/H100", headers, end, **fields)

    assert found[0][0] == "status"
    told = [data["message"] for kind, data in found if kind == "status"]
    assert "Ignored: the form field 'warp_speed' is not known here" in told
    assert found[-1][0] == "result"
    (run,) = [each for name, each in found[-1][1]["results"][0]["runs"].items() if name == "profile.0"]
    assert run["profile"]["profiler"] == "Nsight-Compute"
    files = unpacked(base64.b64decode(run["profile"]["trace"]))
    assert {name: files[name] for name in FILES} == FILES
    assert (
        "80 % of the memory's rate" in base64.b64decode(run["run"]["result"]["benchmark.0.report"]).decode()
    )
    with db.read() as session:
        made = submissions.find(session, 1)
    assert made.mode is Mode.PROFILE
    assert made.profile == ProfileOptions(benchmark=0, kernel="fma", launches=3)


def test_a_job_is_asked_for_until_its_files_are_there(db, board, client, headers, end) -> None:
    made = client.post(
        "/profile", headers=headers, **sent(leaderboard=board.name, benchmark_index="0")
    ).json()
    waiting = client.get(f"/jobs/{made['job_id']}", headers=headers).json()
    assert (waiting["status"], waiting["artifacts"], waiting["error"]) == ("pending", [], None)
    assert waiting["queue_position"] == 1

    end()

    done = client.get(f"/jobs/{made['job_id']}", headers=headers).json()
    assert (done["status"], done["queue_position"]) == ("succeeded", None)
    (artifact,) = done["artifacts"]
    assert artifact["name"].endswith(".zip")
    files = unpacked(client.get(artifact["url"], headers=headers).content)
    assert {name: files[name] for name in FILES} == FILES


def test_a_benchmark_that_is_none_is_refused_before_anything_is_stored(db, board, client, headers) -> None:
    for number in ("99", "-1", "one"):
        answer = client.post(f"/profile/{board.name}/H100", headers=headers, **sent(benchmark_index=number))
        assert answer.status_code == 400
        assert "enchmark" in answer.json()["detail"]
    with db.read() as session:
        assert submissions.find(session, 1) is None


def test_files_are_pages_of_the_run_for_the_author(db, board, client, headers, person, end) -> None:
    client.post("/profile", headers=headers, **sent(leaderboard=board.name))
    end()
    token = {"Authorization": f"Bearer {person('ada').token}"}
    body = client.get("/api/v1/submissions/1", headers=token).json()["jobs"][0]
    assert body["bottlenecks"][0]["code"] == "memory_bound"
    assert all(not each["gz64"] for each in body["report"]["counters"]["files"])
    listed = client.get(f"/api/v1/runs/{body['run']}/artifacts", headers=token).json()
    assert {"profile.ncu-rep", "ncu-details.txt"} <= {each["name"] for each in listed}
    got = client.get(f"/api/v1/runs/{body['run']}/artifacts/profile.ncu-rep", headers=token)
    assert got.content == REPORT
    eve = {"Authorization": f"Bearer {person('eve').token}"}
    refused = client.get(f"/api/v1/runs/{body['run']}/artifacts/profile.ncu-rep", headers=eve)
    assert refused.status_code in (403, 404)
    eve = {"X-Popcorn-Cli-Id": person("eve").token}
    assert client.get("/jobs/1/profile.zip", headers=eve).status_code in (403, 404)
    assert client.get("/jobs/1/profile.zip").status_code == 400
