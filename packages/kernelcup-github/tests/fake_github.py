"""GitHub on loopback: the calls of its REST API that a launcher needs, with their rules, and runners.

A run either waits for a test to say what its runner does, or is carried out: each step's ``run:`` text, unchanged, in
bash on this machine, in a checkout of the repository.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ruamel.yaml import YAML

TOKEN = "github_pat_canary"
REPOSITORY = "cup/judge"
MOST_INPUT = 65_535
MOST_MINUTES = 5 * 24 * 60
EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")
CALLS = {"actions/checkout@v4", "actions/upload-artifact@v4"}


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers or {}


@dataclass(kw_only=True)
class Run:
    """A run of the workflow."""

    id: int
    inputs: dict[str, str]
    title: str
    began_s: float
    minutes: int
    status: str = "queued"
    conclusion: str | None = None
    attempt: int = 1
    artifact: bytes | None = None
    log: list[str] = field(default_factory=list)

    def end(self, conclusion: str) -> None:
        """End, once."""
        if self.status != "completed":
            self.status, self.conclusion = "completed", conclusion

    def body(self) -> dict[str, Any]:
        """Return what the API says about it."""
        return {
            "id": self.id,
            "display_title": self.title,
            "status": self.status,
            "conclusion": self.conclusion,
            "run_attempt": self.attempt,
        }


class FakeGitHub:
    """One repository with one workflow.

    Args:
        folder: The repository's files.
        carries_out: Whether runs are carried out at once.
    """

    def __init__(self, folder: Path, *, carries_out: bool = False) -> None:
        self.folder, self.carries_out = folder, carries_out
        self.url = ""
        self.runs: dict[int, Run] = {}
        self.now_s = 0.0
        self.private = True
        self.knows_run_details = True
        self.loses_answers = False
        self.limited = 0
        """For how many requests it refuses because there were too many."""
        self.page = 100
        """How many runs a page may have."""
        self.asked: list[str] = []
        self.environment = "self-hosted"
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def workflow(self) -> dict[str, Any]:
        """Read the workflow as it is in the repository. Raise ``Refused`` if it is no good."""
        file = self.folder / ".github/workflows/kernelcup.yml"
        if not file.is_file():
            raise Refused(404, "Not Found")
        found = YAML(typ="safe").load(file.read_text())
        check_workflow(found)
        return found

    def answer(self, method: str, path: str, token: str, body: Any) -> tuple[int, Any]:
        """Answer a request of the API."""
        with self._lock:
            self.asked.append(f"{method} {path}")
            if self.limited:
                self.limited -= 1
                raise Refused(403, "You have exceeded a secondary rate limit", {"Retry-After": "30"})
            if token != f"Bearer {TOKEN}":
                raise Refused(401, "Bad credentials")
            parts = urlsplit(path)
            prefix = f"/repos/{REPOSITORY}"
            if not parts.path.startswith(prefix):
                raise Refused(404, "Not Found")
            return self._route(method, parts.path.removeprefix(prefix), parse_qs(parts.query), body)

    def _route(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        self.end_overdue()
        if (method, path) == ("GET", ""):
            return 200, {"private": self.private}
        if (method, path) == ("POST", "/actions/workflows/kernelcup.yml/dispatches"):
            return self._dispatch(body)
        if (method, path) == ("GET", "/actions/workflows/kernelcup.yml/runs"):
            newest = sorted(self.runs.values(), key=lambda run: -run.id)[
                : min(int(query["per_page"][0]), self.page)
            ]
            return 200, {"total_count": len(self.runs), "workflow_runs": [run.body() for run in newest]}
        found = re.fullmatch(r"/actions/(runs|artifacts)/(\d+)(/cancel|/artifacts|/zip)?", path)
        run = self.runs.get(int(found[2])) if found else None
        if found is None or run is None:
            raise Refused(404, "Not Found")
        return self._about(method, found[1] + (found[3] or ""), run)

    def _about(self, method: str, what: str, run: Run) -> tuple[int, Any]:
        if (method, what) == ("GET", "runs"):
            return 200, run.body()
        if (method, what) == ("POST", "runs/cancel"):
            if run.status == "completed":
                raise Refused(409, "Cannot cancel a workflow run that is completed.")
            run.end("cancelled")
            return 202, {}
        if (method, what) == ("GET", "runs/artifacts"):
            size = len(run.artifact or b"")
            one = {"id": run.id, "name": "kernelcup-outcome", "expired": False, "size_in_bytes": size}
            return 200, {"artifacts": [] if run.artifact is None else [one]}
        if (method, what) == ("GET", "artifacts/zip") and run.artifact is not None:
            raise Refused(302, "Found", {"Location": f"{self.url}/blob/{run.id}?signed"})
        raise Refused(404, "Not Found")

    def _dispatch(self, body: Any) -> tuple[int, Any]:
        known = {"ref", "inputs"} | ({"return_run_details"} if self.knows_run_details else set())
        if unknown := body.keys() - known:
            raise Refused(400, f'Invalid request. "{min(unknown)}" is not a permitted key.')
        if body["ref"] != "main":
            raise Refused(422, f"No ref found for: {body['ref']}")
        workflow, inputs = self.workflow(), body["inputs"]
        declared = workflow["on"]["workflow_dispatch"]["inputs"]
        if unknown := inputs.keys() - declared.keys():
            raise Refused(422, f"Unexpected inputs provided: {sorted(unknown)}")
        if missing := [name for name, one in declared.items() if one["required"] and name not in inputs]:
            raise Refused(422, f"Required input '{missing[0]}' not provided")
        if not all(isinstance(value, str) for value in inputs.values()):
            raise Refused(422, "inputs are strings")
        if sum(map(len, inputs.values())) > MOST_INPUT:
            raise Refused(422, "inputs are too large.")
        run = self._new_run(workflow, inputs)
        if self.carries_out:
            thread = threading.Thread(target=self.carry_out, args=[run])
            self._threads.append(thread)
            thread.start()
        return (200, {"workflow_run_id": run.id}) if body.get("return_run_details") is True else (204, None)

    def _new_run(self, workflow: dict[str, Any], inputs: dict[str, str]) -> Run:
        job = workflow["jobs"]["judge"]
        minutes = int(expand(job["timeout-minutes"], inputs))
        if not 0 < minutes <= MOST_MINUTES:
            raise Refused(422, "timeout-minutes is out of range")
        number = 9_000_000_000 + len(self.runs)
        title = expand(workflow["run-name"], inputs)
        self.runs[number] = Run(id=number, inputs=inputs, title=title, began_s=self.now_s, minutes=minutes)
        return self.runs[number]

    def end_overdue(self) -> None:
        """End the runs whose limit is over."""
        for run in self.runs.values():
            if run.status != "completed" and self.now_s - run.began_s > run.minutes * 60:
                run.end("timed_out")

    def blob(self, number: int, authorization: str | None) -> bytes:
        """Return a stored file; like the real store, refuse requests with a token."""
        if authorization is not None:
            raise Refused(400, "InvalidAuthenticationInfo")
        content = self.runs[number].artifact
        if content is None:
            raise Refused(404, "BlobNotFound")
        return content

    def upload(self, run: Run, text: str) -> None:
        """Keep a run's outcome, unless it has ended."""
        if run.status == "completed":
            return
        found = io.BytesIO()
        with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("outcome.json", text)
        run.artifact = found.getvalue()

    def carry_out(self, run: Run) -> None:
        """Do the steps of a run."""
        run.status = "in_progress"
        steps = self.workflow()["jobs"]["judge"]["steps"]
        workspace = self.folder.parent / f"work-{run.id}"
        event = self.folder.parent / f"event-{run.id}.json"
        event.write_text(json.dumps({"inputs": run.inputs, "ref": "refs/heads/main"}))
        for step in steps:
            if "if" in step and not self._applies(step["if"]):
                continue
            if not self._step(run, step, workspace, event):
                run.end("failure")
                return
        run.end("success")

    def _applies(self, condition: str) -> bool:
        left, _, right = condition.partition("==")
        assert left.strip() == "runner.environment", "the fake knows this condition only"
        return self.environment == right.strip().strip("'")

    def _step(self, run: Run, step: dict[str, Any], workspace: Path, event: Path) -> bool:
        if step.get("uses") == "actions/checkout@v4":
            shutil.copytree(self.folder, workspace)
            return True
        if step.get("uses") == "actions/upload-artifact@v4":
            file = workspace / step["with"]["path"]
            if file.is_file():
                self.upload(run, file.read_text())
            return file.is_file()
        environ = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": os.environ.get("HOME", "/root"),
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_TOKEN": TOKEN,
            "ACTIONS_RUNTIME_TOKEN": TOKEN,
        }
        shell = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
        done = subprocess.run(shell, cwd=workspace, env=environ, capture_output=True, text=True)
        run.log.append(done.stdout + done.stderr)
        return done.returncode == 0

    def join(self) -> None:
        """Wait for the runs that are carried out."""
        for thread in self._threads:
            thread.join()


def check_workflow(found: dict[str, Any]) -> None:
    """Raise ``Refused`` unless GitHub would take a workflow, as far as ours goes, and it is safe."""
    jobs = found.get("jobs") or {}
    steps = [step for job in jobs.values() for step in job.get("steps", [])]
    rules = {
        "unknown keys": found.keys() <= {"name", "run-name", "on", "permissions", "jobs"},
        "no workflow_dispatch": "workflow_dispatch" in found.get("on", {}),
        "more than 25 inputs": len(inputs_of(found)) <= 25,
        "an input of unknown type": all(
            each.get("type") in ("string", "boolean", "choice", "number", "environment")
            for each in inputs_of(found).values()
        ),
        "a job without runs-on": bool(jobs) and all("runs-on" in job for job in jobs.values()),
        "unknown keys of a job": all(
            job.keys() <= {"runs-on", "timeout-minutes", "steps", "env", "needs", "if"}
            for job in jobs.values()
        ),
        "a step has either run or uses": all(("run" in step) != ("uses" in step) for step in steps),
        "unknown keys of a step": all(
            step.keys() <= {"name", "if", "run", "uses", "with", "env", "id"} for step in steps
        ),
        "an unknown action": all(step.get("uses", "actions/checkout@v4") in CALLS for step in steps),
        "an expression in a script": not any("${{" in step.get("run", "") for step in steps),
        "rights beyond reading": found.get("permissions") == {"contents": "read"},
        "a token stays in the checkout": all(
            step.get("with", {}).get("persist-credentials") is False
            for step in steps
            if step.get("uses", "").startswith("actions/checkout")
        ),
    }
    for fault, holds in rules.items():
        if not holds:
            raise Refused(422, f"the workflow: {fault}")


def inputs_of(workflow: dict[str, Any]) -> dict[str, Any]:
    """Return the declared inputs."""
    return (workflow.get("on", {}).get("workflow_dispatch") or {}).get("inputs", {})


def expand(text: Any, inputs: dict[str, str]) -> str:
    """Replace expressions that name an input."""

    def value(found: re.Match[str]) -> str:
        inner = re.fullmatch(r"(fromJSON\()?inputs\.(\w+)\)?", found[1])
        assert inner, f"the fake knows no expression {found[1]!r}"
        return str(json.loads(inputs[inner[2]])) if inner[1] else inputs[inner[2]]

    return EXPRESSION.sub(value, str(text))


@contextmanager
def served(github: FakeGitHub) -> Iterator[FakeGitHub]:
    """Serve it on a free port."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 5  # of a connection on which nothing comes: a client may keep it
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # headers and body in one packet: a second one waits 40 ms for the first one's receipt

        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def _answer(self, method: str) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            headers: dict[str, str] = {}
            try:
                if self.path.startswith("/blob/"):
                    number = int(self.path.split("/")[2].partition("?")[0])
                    status, content = 200, github.blob(number, self.headers.get("Authorization"))
                else:
                    status, answer = github.answer(
                        method, self.path, self.headers.get("Authorization", ""), body
                    )
                    content = b"" if answer is None else json.dumps(answer).encode()
            except Refused as error:
                status, headers = error.status, error.headers
                content = json.dumps({"message": str(error)}).encode()
            if github.loses_answers:
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    github.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=[0.02])
    thread.start()
    try:
        yield github
    finally:
        github.join()
        server.shutdown()
        thread.join()
        server.server_close()
