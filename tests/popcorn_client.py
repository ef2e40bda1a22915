"""A client that speaks like ``popcorn-cli``, from what is recorded of that one.

The same addresses (pasted together, the leaderboard and the mode in small letters, the GPU as it was
typed), headers, form, time limits, loop and reading of errors. What the real one prints is returned.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import httpx

POLL_S = 5
POLL_FOR_S = 3600
OVER = ("failed", "timed_out", "hacked")


class ApplicationError(Exception):
    """What the real client prints after ``Application error:`` before it exits with 1."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One request and its answer."""

    request: dict[str, Any]
    answer: dict[str, Any]


@dataclass(kw_only=True)
class Profile:
    """What of a profile is written to the directory in which the client runs."""

    profiler: str
    archive: bytes
    reports: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class _Wire:
    """How both halves of the client reach the server."""

    http: httpx.Client
    """Knows the address of the server."""
    headers: dict[str, str]
    exchanges: list[Exchange] = field(default_factory=list)

    def ask(self, method: str, path: str, *, timeout_s: float, raw_error: bool = False, **sent: Any) -> Any:
        """Send a request and return the JSON of its answer. Raise ``ApplicationError``."""
        headers = {**self.headers, **sent.pop("headers", {})}
        answer = self.http.request(method, path, headers=headers, timeout=timeout_s, **sent)
        self._note(method, path, headers, sent, answer.status_code, _read(answer.text))
        if not answer.is_success:
            raise ApplicationError(error_text(answer, raw=raw_error))
        return answer.json()

    def stream(
        self, path: str, *, headers: dict[str, str], content: bytes, timeout_s: float
    ) -> Iterator[tuple[str, Any]]:
        """Send a request and yield the events of its answer. Raise ``ApplicationError``."""
        sent = {"content": content}
        both = {**self.headers, **headers}
        seen: list[Any] = []
        with self.http.stream("POST", path, headers=both, content=content, timeout=timeout_s) as answer:
            if not answer.is_success:
                answer.read()
                self._note("POST", path, both, sent, answer.status_code, _read(answer.text))
                raise ApplicationError(error_text(answer))
            assert answer.headers["content-type"].startswith("text/event-stream")
            buffer = ""
            for chunk in answer.iter_text():
                buffer += chunk
                while "\n\n" in buffer:
                    block, buffer = buffer.split("\n\n", 1)
                    lines = block.splitlines()
                    events = [line[6:].strip() for line in lines if line.startswith("event:")]
                    data = [line[5:].strip() for line in lines if line.startswith("data:")]
                    if events and data:
                        seen.append({"event": events[-1], "data": _read(data[-1])})
                        if events[-1] in ("result", "error"):
                            self._note("POST", path, both, sent, answer.status_code, seen)
                        yield events[-1], json.loads(data[-1])

    def _note(
        self, method: str, path: str, headers: dict[str, str], sent: dict[str, Any], status: int, body: Any
    ) -> None:
        shown = {key: value for key, value in sent.items() if key != "content"}
        if "content" in sent:
            shown["content"] = sent["content"].decode("utf-8", "replace")
        request = {"method": method, "path": path, "headers": headers, **shown}
        self.exchanges.append(Exchange(request=request, answer={"status": status, "body": body}))


class PopcornClient:
    """The user's half: ``submit``, ``submissions``, ``join``."""

    def __init__(
        self,
        http: httpx.Client,
        cli_id: str | None,
        *,
        sleep: Callable[[int], None] = lambda _: None,
    ) -> None:
        headers = {} if cli_id is None else {"X-Popcorn-Cli-Id": cli_id}
        self._wire = _Wire(http=http, headers=headers)
        self._sleep = sleep
        self.printed: list[str] = []

    @property
    def exchanges(self) -> list[Exchange]:
        """All requests so far with their answers."""
        return self._wire.exchanges

    def leaderboards(self) -> list[tuple[str, str]]:
        """Return names and descriptions, as the full-screen interface lists them."""
        found = self._wire.ask("GET", "/leaderboards", timeout_s=30, raw_error=True)
        listed = []
        for each in found:
            whole = isinstance(each.get("task"), dict) and isinstance(each.get("description"), str)
            if not whole or not isinstance(each.get("name"), str):
                raise ApplicationError("Invalid JSON structure")
            listed.append((each["name"], each["description"]))
        return listed

    def gpus(self, leaderboard: str) -> list[str]:
        """Return the GPUs of a leaderboard."""
        found = self._wire.ask("GET", f"/gpus/{leaderboard}", timeout_s=120, raw_error=True)
        assert all(isinstance(each, str) for each in found)
        return list(found)

    def submit(self, path: str, content: bytes, *, leaderboard: str, gpu: str, mode: str) -> str:
        """Submit in the background, wait for the end, and return what is printed then."""
        headers, body = form(path, content)
        where = f"/submission/{leaderboard.lower()}/{gpu}/{mode.lower()}"
        found = self._wire.ask("POST", where, timeout_s=60, headers=headers, content=body)
        number = found["details"]["id"]
        if not isinstance(number, int):
            raise ApplicationError("Invalid submission response")
        self._print_queue(found)
        return self._wait(number)

    def submit_and_stay(self, path: str, content: bytes, *, leaderboard: str, gpu: str, mode: str) -> str:
        """Submit and read the stream; return what is printed at its end."""
        return self._follow(path, content, leaderboard=leaderboard, gpu=gpu, mode=mode)[0]

    def profile(self, path: str, content: bytes, *, leaderboard: str, gpu: str) -> list[Profile]:
        """Submit for a profile and return what is saved."""
        _, results = self._follow(path, content, leaderboard=leaderboard, gpu=gpu, mode="profile")
        return [profile for result in results for profile in _profiles(result)]

    def list_submissions(self, leaderboard: str, *, limit: int | None = None) -> list[str]:
        """Return the lines of the table."""
        path = f"/user/submissions?leaderboard={leaderboard}" + (f"&limit={limit}" if limit else "")
        return [_line(each) for each in self._wire.ask("GET", path, timeout_s=30)]

    def show_submission(self, number: int) -> dict[str, Any]:
        """Return a submission."""
        found = self._wire.ask("GET", f"/user/submissions/{number}", timeout_s=30)
        assert isinstance(found["user_id"], str)
        assert isinstance(found["code"], str)
        return dict(found)

    def delete_submission(self, number: int) -> None:
        """Look at a submission and delete it."""
        self.show_submission(number)
        found = self._wire.ask("DELETE", f"/user/submissions/{number}", timeout_s=30)
        if found["status"] != "ok":
            raise ApplicationError("Failed to delete submission")

    def join(self, code: str) -> list[str]:
        """Return the leaderboards that a code opened."""
        found = self._wire.ask("POST", "/user/join", timeout_s=30, json={"code": code})
        return list(found["leaderboards"])

    def _wait(self, number: int) -> str:
        waited = 0
        while waited <= POLL_FOR_S:
            found = self.show_submission(number)
            job = found.get("job") or {}
            status = job.get("status") or ("done" if found["done"] else "pending")
            if status in OVER:
                why = job.get("error") or "No error details were provided"
                raise ApplicationError(f"Submission {number} {status}: {why}")
            if found["done"]:
                return _result_text(found)
            self._print_queue(found)
            self._sleep(POLL_S)
            waited += POLL_S
        raise ApplicationError(f"Submission {number} did not finish in time")

    def _follow(
        self, path: str, content: bytes, *, leaderboard: str, gpu: str, mode: str
    ) -> tuple[str, list[dict[str, Any]]]:
        headers, body = form(path, content)
        where = f"/{leaderboard.lower()}/{gpu}/{mode.lower()}"
        for event, data in self._wire.stream(where, headers=headers, content=body, timeout_s=3600):
            if event == "status":
                message = data.get("message")
                self.printed.append(message if isinstance(message, str) else json.dumps(data))
                self._sleep(0)
            elif event == "error":
                code = f" (Status Code: {data['status_code']})" if "status_code" in data else ""
                raw = f" | Raw Error: {data['raw_error']}" if "raw_error" in data else ""
                raise ApplicationError(f"Server processing error: {data['detail']}{code}{raw}")
            elif event == "result":
                text = json.dumps(data["reports"], ensure_ascii=False)
                return text[1:-1].replace("\\n", "\n"), list(data["results"])
        raise ApplicationError("Stream ended unexpectedly without a final result or error event.")

    def _print_queue(self, found: dict[str, Any]) -> None:
        queue = found.get("runner_queue")
        if queue is not None:
            self.printed.append(f"{queue['runner']} {queue['gpu']} queue: {queue['queued_jobs']} queued jobs")


class PopcornAdmin:
    """The admin's half."""

    def __init__(self, http: httpx.Client, token: str | None) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._wire = _Wire(http=http, headers=headers)

    @property
    def exchanges(self) -> list[Exchange]:
        """All requests so far with their answers."""
        return self._wire.exchanges

    def start(self) -> Any:
        """Take submissions again."""
        return self._ask("POST", "/admin/start", headers={"Content-Length": "0"})

    def stop(self) -> Any:
        """Take none."""
        return self._ask("POST", "/admin/stop", headers={"Content-Length": "0"})

    def stats(self, *, last_day: bool = False) -> Any:
        """Return figures."""
        return self._ask("GET", "/admin/stats" + ("?last_day_only=true" if last_day else ""))

    def get_submission(self, number: int) -> Any:
        """Return anybody's submission."""
        return self._ask("GET", f"/admin/submissions/{number}")

    def delete_submission(self, number: int) -> Any:
        """Delete anybody's submission."""
        return self._ask("DELETE", f"/admin/submissions/{number}")

    def create_leaderboard(self, directory: str) -> str:
        """Return the name of the leaderboard that was made of a folder of the server."""
        found = self._ask("POST", "/admin/leaderboards", json={"directory": directory})
        return str(found["leaderboard"])

    def delete_leaderboard(self, name: str, *, force: bool = False) -> Any:
        """Delete a leaderboard."""
        return self._ask("DELETE", f"/admin/leaderboards/{name}" + ("?force=true" if force else ""))

    def update_problems(
        self,
        *,
        repository: str = "gpu-mode/reference-kernels",
        branch: str = "main",
        problem_set: str | None = None,
        force: bool = False,
        closed: bool = False,
    ) -> dict[str, Any]:
        """Return what was created, updated, skipped and wrong."""
        body: dict[str, Any] = {"repository": repository, "branch": branch, "force": force}
        if problem_set is not None:
            body["problem_set"] = problem_set
        if closed:
            body["visibility"] = "closed"
        found = self._ask("POST", "/admin/update-problems", timeout_s=120, json=body)
        return {key: found[key] for key in ("created", "updated", "skipped", "errors")}

    def generate_invites(self, leaderboards: list[str], count: int) -> list[str]:
        """Return codes."""
        body = {"leaderboards": leaderboards, "count": count}
        found = self._ask("POST", "/admin/invites", json=body)
        assert isinstance(found["leaderboards"], list)
        return list(found["codes"])

    def list_invites(self, leaderboard: str) -> list[dict[str, Any]]:
        """Return the codes of a leaderboard."""
        found = self._ask("GET", f"/admin/leaderboards/{leaderboard}/invites")
        keys = ("code", "user_id", "user_name", "claimed_at", "created_at")
        return [{key: each[key] for key in keys} for each in found["invites"]]

    def revoke_invite(self, code: str) -> bool:
        """Return whether the code had been used."""
        return bool(self._ask("DELETE", f"/admin/invites/{code}")["was_claimed"])

    def _ask(self, method: str, path: str, *, timeout_s: float = 30, **sent: Any) -> Any:
        return self._wire.ask(method, path, timeout_s=timeout_s, **sent)


def form(path: str, content: bytes) -> tuple[dict[str, str], bytes]:
    """Return headers and body of the form: one part with a file name and without a content type."""
    boundary = uuid.uuid4().hex
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{PurePath(path).name}"'
    body = head.encode() + b"\r\n\r\n" + content + f"\r\n--{boundary}--\r\n".encode()
    return {"Content-Type": f"multipart/form-data; boundary={boundary}"}, body


def error_text(answer: httpx.Response, *, raw: bool = False) -> str:
    """Return what the client makes of an error: ``detail`` if that is text, else the body."""
    detail = None
    try:
        body = answer.json()
    except ValueError:
        body = None
    if isinstance(body, dict) and isinstance(body.get("detail"), str):
        detail = body["detail"]
    told = answer.text if raw or detail is None else detail
    return f"Server returned status {answer.status_code} {answer.reason_phrase}: {told}"


def _result_text(found: dict[str, Any]) -> str:
    lines = []
    for run in found["runs"]:
        if run["mode"] == "leaderboard" and run["score"] is not None:
            kind = "secret" if run["secret"] else "public"
            lines.append(f"Geomean score ({kind}) on {run['runner']}: {run['score']} s")
    keys = ("mode", "secret", "runner", "score", "passed", "start_time", "end_time")
    shown = {
        "submission_id": found["id"],
        "leaderboard": found["leaderboard_name"],
        "file_name": found["file_name"],
        "done": found["done"],
        "runs": [{key: run[key] for key in keys} for run in found["runs"]],
    }
    return "\n".join([*lines, "", json.dumps(shown, indent=2)])


def _line(each: dict[str, Any]) -> str:
    scores = [float(run["score"]) for run in each["runs"] if run["score"] is not None]
    gpus = ",".join(run["gpu_type"] for run in each["runs"]) or "-"
    score = min(scores) if scores else None
    status = "done" if each["done"] else "pending"
    shown = [each["id"], each["leaderboard_name"], each["file_name"], gpus, status, score or "-"]
    assert isinstance(each["submission_time"], str)
    return " ".join(str(part) for part in shown)


def _profiles(result: dict[str, Any]) -> Iterator[Profile]:
    for name, run in result["runs"].items():
        if not name.startswith("profile") or run["profile"] is None:
            continue
        told = run["run"]["result"]
        count = told.get("benchmark-count")
        count = count if isinstance(count, int) else 0  # text is no number for the real one
        yield Profile(
            profiler=run["profile"]["profiler"],
            archive=base64.b64decode(run["profile"]["trace"], validate=True),
            reports=[
                base64.b64decode(told[f"benchmark.{index}.report"], validate=True).decode()
                for index in range(count)
            ],
        )


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
