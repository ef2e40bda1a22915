"""The second half of a profile job: one call under ``ncu``, in the timer where it can be replayed.

A profile job has three runs at most. The first traces the call without counters. The second has the call captured, and
profiles the timer that replays it. Where it cannot be replayed, a third profiles the submission's own process.
No other process of a job uses the device or its counters meanwhile: these runs have no witness.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kernelcup_harness.core.plan import profiled
from kernelcup_harness.profile import counters, ncu
from kernelcup_harness.protocol import Counters, JobSpec, KeptFile, ProfileWay, Verdict, seeds, to_json
from kernelcup_harness.protocol.profiles import MOST_FILES_BYTES
from kernelcup_harness.run.record import Record
from kernelcup_harness.run.standard import StandardRun
from kernelcup_harness.run.workers import SUBMISSION, TIMER

ROLES = {ProfileWay.REPLAYED: TIMER, ProfileWay.CALLED: SUBMISSION}
"""The process that is profiled."""


class CountersRun:
    """Profiles one call of a job that was accepted.

    Args:
        spec: The job.
        secret: The secret that inputs are drawn from.
        folder: An empty folder.
        environment: What the first run has found about the machine.
        boxed: Whether processes get sandboxes.
    """

    def __init__(
        self, spec: JobSpec, secret: bytes, folder: Path, environment: Mapping[str, Any], *, boxed: bool
    ) -> None:
        self._spec = spec
        self._secret = secret
        self._folder = folder
        self._environment = environment
        self._boxed = boxed

    def run(self) -> Counters:
        """Return what was found, or why nothing was."""
        began = time.monotonic()
        case = profiled(self._spec)[0].index
        blank = Counters(case=case, options=self._spec.profile)
        path = ncu.program()
        found = self._taken(blank, path) if path else dataclasses.replace(blank, trouble=ncu.NO_NCU)
        return dataclasses.replace(found, seconds=time.monotonic() - began)

    def _taken(self, blank: Counters, path: str) -> Counters:
        found, why = self._profiled(blank, path, ProfileWay.REPLAYED)
        if not why:
            return found
        again, more = self._profiled(blank, path, ProfileWay.CALLED)
        return dataclasses.replace(again, not_replayed=why, trouble=again.trouble or more)

    def _profiled(self, blank: Counters, path: str, way: ProfileWay) -> tuple[Counters, str]:
        """Return what one run has found, and why the call could not be made in this way."""
        options = dataclasses.replace(self._spec.profile, way=way)
        spec = dataclasses.replace(self._spec, profile=options, rival=None)
        record = Record(spec, seeds.commitment(self._secret), lambda _event: None)
        folder = self._folder / way.value
        folder.mkdir()
        tool = ncu.Ncu(options, path)
        StandardRun(spec, self._secret, folder, record, boxed=self._boxed, profiler=(ROLES[way], tool)).run()
        files = tool.result()
        report = record.report(secret=self._secret, duration_s=0.0)
        blank = dataclasses.replace(blank, options=options, tool=version_of(files))
        log = files.get(ncu.LOG, b"").decode("utf-8", "replace")
        trouble = ncu.trouble(log)
        if trouble == ncu.FORBIDDEN:
            return dataclasses.replace(blank, trouble=trouble), ""
        room = record.environment.get("clean_room", {})
        if way is ProfileWay.REPLAYED and room.get("replayed") is False:
            return blank, str(room.get("text") or room.get("reason"))
        if report.verdict is not Verdict.ACCEPTED:
            text = f"under the profiler it ended with {report.verdict.value}: {report.message[:600]}"
            return dataclasses.replace(blank, trouble="; ".join(filter(None, [text, trouble]))), ""
        data_bytes = float(record.environment.get("data_bytes", 0))
        return self._read(dataclasses.replace(blank, data_bytes=data_bytes), files, trouble), ""

    def _read(self, blank: Counters, files: Mapping[str, bytes], trouble: str) -> Counters:
        """Return the counters and files of a report."""
        kept = {name: body for name, body in files.items() if body and name not in (ncu.LOG, ncu.VERSION)}
        try:
            kernels = counters.read(files.get(ncu.RAW, b""), blank.tool)
        except counters.UnreadableReport as none:
            text = "; ".join(filter(None, [str(none), trouble, self._pattern()]))
            blank, kernels = dataclasses.replace(blank, trouble=text), []
        report = hashlib.sha256(kept.get(ncu.REPORT, b"")).hexdigest()
        kept["manifest.json"] = json.dumps(self._manifest(blank, report), indent=1).encode()
        return dataclasses.replace(blank, kernels=kernels, files=packed(kept))

    def _pattern(self) -> str:
        name = self._spec.profile.kernel
        return f"only kernels whose name matches {name!r} were asked for" if name else ""

    def _manifest(self, found: Counters, report: str) -> dict[str, Any]:
        """Return what a reader of the files has to know, without names of the machine."""
        told = ("device", "torch", "cuda", "triton", "driver", "environment")
        return {
            "job": self._spec.job_id,
            "benchmark": found.case,
            "parameters": self._spec.benchmarks[found.case],
            "options": to_json(found.options),
            "not_replayed": found.not_replayed,
            "ncu": found.tool,
            "clocks": "not locked: as for ranking",
            "machine": {name: self._environment[name] for name in told if name in self._environment},
            "report_sha256": report,
        }


def version_of(files: Mapping[str, bytes]) -> str:
    """Return the version of ncu, for example ``ncu 2025.3.1.0``."""
    lines = files.get(ncu.VERSION, b"").decode("utf-8", "replace").split("\n")
    line = next((each for each in lines if each.startswith("Version ")), "")
    return f"ncu {line.split()[1]}" if len(line.split()) > 1 else "ncu"


def packed(files: Mapping[str, bytes], known: Mapping[str, str] = MappingProxyType({})) -> list[KeptFile]:
    """Return files for the report, the small ones first; what does not fit is left out.

    ``known`` has those that are packed already.
    """
    found, total = [], 0
    for name, body in sorted(files.items(), key=lambda each: len(each[1])):
        content = known.get(name) or base64.b64encode(gzip.compress(body, 6, mtime=0)).decode()
        total += len(content)
        if total <= MOST_FILES_BYTES:
            digest = hashlib.sha256(body).hexdigest()
            found.append(KeptFile(name=name, nbytes=len(body), sha256=digest, gz64=content))
    return found
