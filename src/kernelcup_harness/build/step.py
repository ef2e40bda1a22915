"""The build step: imports or compiles a submission that compiles something, before anything else is done with it.

It runs in a sandbox of its own, without a GPU, inputs or a seed. The compiled files come out as one archive,
which the later processes of the job unpack into their own caches, and which a later job of the same user may
reuse. All other files of the step are removed with its sandbox.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernelcup_harness.build import store as build_store
from kernelcup_harness.build.store import Build, BuildStore
from kernelcup_harness.device import accelerators, machine
from kernelcup_harness.isolation import environments, job_environment, processes, sandbox
from kernelcup_harness.protocol import CapturedOutput, JobSpec, Reason, SourceTree, Verdict
from kernelcup_harness.protocol.source import PACKAGE, ROOT
from kernelcup_harness.submission import languages
from kernelcup_harness.submission.cuda import driver_library

# Environment variables that do not affect a build.
NOT_IN_KEY = ("CUDA_VISIBLE_DEVICES",)


def has_build(submission: SourceTree) -> bool:
    """Return whether a submission needs a build step."""
    return languages.of(submission.entry).builds(submission.text)


def is_compiled(submission: SourceTree) -> bool:
    """Return whether a compiler alone, and none of its code, makes what is built."""
    return not languages.of(submission.entry).runs_code


Ending = tuple[Verdict, Reason, str]
"""Verdict, reason and text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """The result of a build step."""

    how: str
    """``reused``, ``built``, or why there is no build, for the report."""
    build: Build | None = None
    too_much: Ending | None = None
    """The verdict on a build that is too large, or that took too long or too much memory to compile."""
    output: processes.Child | None = None
    """The process that wrote too much."""

    def printed(self) -> tuple[CapturedOutput, CapturedOutput]:
        """Return standard output and error of that process."""
        captures = (self.output.stdout, self.output.stderr) if self.output is not None else ()
        found = [capture.finish() for capture in captures if capture is not None]
        return (found[0], found[1]) if len(found) == 2 else (CapturedOutput(), CapturedOutput())


class Builder:
    """Gets the build of one job, from the machine's store or by building.

    Args:
        spec: The job.
        files: A folder with all files that the submission may read, itself included.
        environment: The environment of the job's other processes, which compilers read.
        boxed: Whether there is a sandbox. Without one, a build stays where it was made and is not
            stored: others could have written to the store. Builds are not stored either if file names
            differ between jobs: compilers validate builds by file names.
        store: The machine's store.
        max_bytes: Largest size of an archive.
        keep: The ids of the runner's processes that keep running when the build's descendants are ended; None ends
            only what is below the build's own process, for builds side by side.
    """

    def __init__(
        self,
        spec: JobSpec,
        *,
        files: Path,
        environment: Mapping[str, str],
        boxed: bool,
        store: BuildStore | None,
        max_bytes: int = build_store.MAX_BUILD_BYTES,
        keep: Collection[int] | None = (),
    ) -> None:
        self._keep = keep
        self._spec = spec
        self._files = files
        self._environment = environment
        self._boxed = boxed
        has_own_names = boxed and sandbox.kind() is sandbox.Kind.BUBBLEWRAP
        self._store = store if has_own_names and spec.build_scope else None
        self._max_bytes = max_bytes
        self._language = languages.of(spec.submission.entry)

    def get(self, *, also_with_gpu: bool = False) -> Built:
        """Return a build; ``also_with_gpu`` tries again with the GPU if it fails without."""
        key = self.key()
        kept = self._store.take(key) if self._store is not None else None
        if kept is not None:
            return Built(how="reused", build=kept)
        built, code = self._run(gpu=False)
        if code != 0 and also_with_gpu and built.too_much is None:
            if built.build is not None:
                built.build.close()
            built, code = self._run(gpu=True)
        if code == 0 and built.build is not None and self._store is not None:
            self._store.put(key, built.build)
        return built

    def key(self) -> str:
        """Return the hash of everything that a build depends on, its user included."""
        environment = {name: text for name, text in self._environment.items() if name not in NOT_IN_KEY}
        files = {
            str(path.relative_to(self._files)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self._files.rglob("*"))
            if path.is_file()
        }
        made_from = {
            # What compilers alone make of a text is the same for every user.
            "scope": self._spec.build_scope if self._language.runs_code else "",
            "submission": self._spec.submission.entry,
            "files": files,
            "environment": environment,
            "driver": driver_library.kind(environment),
            "versions": versions(environment.get("CUDA_HOME") or "/usr/local/cuda"),
        }
        return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()

    def _run(self, *, gpu: bool) -> tuple[Built, int | None]:
        """Build in a separate process. Also return its exit code, None if it was ended."""
        memory_bytes = job_environment.memory_limit(self._spec)
        archive = Archive(self._max_bytes)
        child = self._start(archive.write_fd, memory_bytes, gpu=gpu)
        archive.begin(child)
        deadline = time.monotonic() + self._spec.limits.import_s
        job_environment.watch(child, deadline, memory_bytes, keep=self._keep)
        build = archive.finish()
        if archive.too_large:
            text = f"importing the submission left more than {self._max_bytes} bytes of compiled files"
            ending = (Verdict.OUTPUT_LIMIT_EXCEEDED, Reason.DISK, text)
            return Built(how="too large", too_much=ending, output=child), None
        code = child.wait(0.0)
        if child.killed_for or code not in (0, 1):
            # It may have been ended in the middle of the archive.
            if build is not None:
                build.close()
            why = child.killed_for[0] if child.killed_for else ""
            return Built(how=f"ended: {why or code}", too_much=self._unfinished(why), output=child), None
        return Built(how="built" if code == 0 else "built in part", build=build), code

    def _unfinished(self, why: str) -> Ending | None:
        """Return the verdict on a build that was ended; None if the contestant has to try as well."""
        if self._language.runs_code:
            return None
        limits, memory_bytes = self._spec.limits, job_environment.memory_limit(self._spec)
        endings: dict[str, Ending] = {
            "time": (
                Verdict.TIME_LIMIT_EXCEEDED,
                Reason.TIME,
                f"compiling the submission took longer than {limits.import_s:g} s",
            ),
            "memory": (
                Verdict.MEMORY_LIMIT_EXCEEDED,
                Reason.HOST_MEMORY,
                f"compiling the submission took more than {memory_bytes >> 20} MiB of memory",
            ),
            "output": (
                Verdict.OUTPUT_LIMIT_EXCEEDED,
                Reason.PRINTED,
                f"compiling the submission printed more than {limits.output_bytes} bytes",
            ),
        }
        return endings.get(why)

    def _start(self, archive_fd: int, memory_bytes: int, *, gpu: bool) -> processes.Child:
        limits = self._spec.limits
        box = sandbox.Sandbox(
            user_id=sandbox.CONTESTANT_ID,
            files=self._files,
            devices=accelerators.of(self._spec.backend).nodes(os.environ) if gpu else None,
            memory_bytes=job_environment.group_memory(self._spec),
        )
        # A GPU driver reserves address ranges that would count against the limit.
        memory = str(0 if gpu else memory_bytes)
        parent = job_environment.parent_id(boxed=self._boxed)
        child = processes.start(
            processes.python_argv(
                "kernelcup_harness.build.inside",
                "main",
                str(archive_fd),
                self._spec.submission.entry,
                parent,
                memory,
            ),
            cwd=self._files,
            environment=self._environment,
            fds=[archive_fd],
            keep_output=limits.kept_output_bytes,
            cap_output=limits.output_bytes,
            box=box if self._boxed else None,
        )
        os.close(archive_fd)
        return child


def side_by_side(builders: Mapping[str, Builder], *, keep: Collection[int]) -> Iterator[tuple[str, Built]]:
    """Yield the results of builds that run at once; those that are not taken are dropped.

    ``keep`` has the ids of the runner's processes that keep running when all have ended.
    """
    with ThreadPoolExecutor(len(builders)) as pool:
        left = dict(zip(builders, pool.map(Builder.get, builders.values()), strict=True))
    processes.kill_descendants(keep=keep)
    try:
        while left:
            name = next(iter(left))
            yield name, left.pop(name)
    finally:
        for built in left.values():
            if built.build is not None:
                built.build.close()


class Archive:
    """The pipe that carries an archive, drained by a thread into memory."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._read_fd, self.write_fd = os.pipe()
        self._build: Build | None = None
        self.too_large = False

    def begin(self, child: processes.Child) -> None:
        """Start draining; end a child that sends too much."""
        self._thread = threading.Thread(target=self._drain, args=(child,), daemon=True)
        self._thread.start()

    def finish(self) -> Build | None:
        """Return the archive, None if there is none. Call it when the child has ended."""
        self._thread.join()
        return self._build

    def _drain(self, child: processes.Child) -> None:
        with open(self._read_fd, "rb") as pipe:
            try:
                self._build = Build.read(pipe, max_bytes=self._max_bytes)
            except build_store.TooLarge:
                self.too_large = True
                child.kill("output")


@contextmanager
def unpacked_first(build: Build | None, argv: list[str]) -> Iterator[tuple[list[str], list[int]]]:
    """Yield the command that unpacks a build and becomes ``argv``, and the descriptors to keep open for its start."""
    if build is None:
        yield argv, []
        return
    fd = build.open()
    try:
        first = processes.python_argv("kernelcup_harness.build.inside", "unpack_and_go_on", str(fd))
        yield [*first, *argv], [fd]
    finally:
        os.close(fd)


def versions(cuda_home: str) -> dict[str, str | None]:
    """Return the versions of everything that takes part in a build."""
    try:
        cuda: str | None = Path(cuda_home, "version.json").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        cuda = None
    return {
        "python": platform.python_version(),
        "torch": machine.version_of("torch"),
        "triton": machine.version_of("triton"),
        "cuda": cuda,
        "platform": platform.platform(),
        "harness": harness_version(),
        "packages": environments.default_hash(),
    }


def harness_version() -> str:
    """Return a hash of the harness's own source, a folder or a zip."""
    files = [ROOT] if ROOT.is_file() else sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.h")])
    digest = hashlib.sha256()
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
