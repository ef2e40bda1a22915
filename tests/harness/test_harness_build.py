"""The build step, what comes out of its sandbox, and what a machine keeps of it."""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness_runs import Finished, own_spec, quick_spec, run

from builders import make_device
from kernelcup.errors import BadReport
from kernelcup.launchers.local.gpu_locks import Slots
from kernelcup.launchers.local.launcher import LocalLauncher
from kernelcup_harness.build import inside
from kernelcup_harness.build import store as build_store
from kernelcup_harness.build.step import Builder, Built, has_build
from kernelcup_harness.build.store import Build, BuildStore
from kernelcup_harness.isolation import job_environment, processes, sandbox
from kernelcup_harness.protocol import (
    Backend,
    JobSpec,
    Limits,
    Mode,
    Reason,
    RunReport,
    SandboxPolicy,
    SourceTree,
    StageName,
    Verdict,
    variables,
)
from kernelcup_harness.run import compiling, standard, workers
from kernelcup_harness.run.record import Record

needs_sandbox = pytest.mark.skipif(sandbox.kind() is not sandbox.Kind.BUBBLEWRAP, reason="no bubblewrap")
needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None or shutil.which("ninja") is None, reason="no compiler"
)

# A module of three lines: with torch's own headers it would take the compiler half a minute.
SOURCE = """
#include <Python.h>
static PyObject *twice(PyObject *, PyObject *x) { return PyNumber_Add(x, x); }
static PyMethodDef methods[] = {{"twice", twice, METH_O, ""}, {}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "small", "", -1, methods};
PyMODINIT_FUNC PyInit_small() { return PyModule_Create(&module); }
"""

COMPILES = f"""
import json, os, pathlib
from torch.utils.cpp_extension import load_inline

folder = pathlib.Path(os.environ["TORCH_EXTENSIONS_DIR"], "small")
made = {{path.name: path.stat().st_mtime_ns for path in folder.glob("*.*")}}
small = load_inline(name="small", cpp_sources={SOURCE!r}, no_implicit_headers=True)
after = {{path.name: path.stat().st_mtime_ns for path in folder.glob("*.*")}}
print("library_was_there=" + json.dumps("small.so" in made))
print("library_made=" + json.dumps(after["small.so"]))
print("library_kept=" + json.dumps(made.get("small.so") == after["small.so"]))


def custom_kernel(data):
    return small.twice(data)
"""


def judged(submission: str, builds: Path | None = None, **overrides: Any) -> Finished:
    """Run a job; ``builds`` is the machine's folder of builds."""
    environment = {build_store.VARIABLE: str(builds)} if builds is not None else {}
    return run(quick_spec(submission, **overrides), environment)


# Whole runs


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which a machine keeps builds."""
    return tmp_path_factory.mktemp("machine") / "builds"


@pytest.fixture(scope="module")
def first(builds: Path) -> Finished:
    """Return the first job of a user with something to compile."""
    return judged(COMPILES, builds, build_scope="ada")


@pytest.mark.jobs
@needs_sandbox
@needs_compiler
def test_what_was_built_beforehand_is_not_built_again_by_the_contestant(first: Finished) -> None:
    assert first.report.verdict is Verdict.ACCEPTED, first.report.message
    assert first.report.environment["build"] == "built"
    assert first.printed("library_was_there") == [True]  # once: the build step's output is not shown
    assert first.printed("library_kept") == [True]
    assert [event["stage"] for event in first.events[:2]] == ["import", "import"]
    assert [stage.name for stage in first.report.stages] == ["import", "test"]


@pytest.mark.jobs
@needs_sandbox
@needs_compiler
def test_a_later_job_of_the_same_user_gets_the_same_build(first: Finished, builds: Path) -> None:
    second = judged(COMPILES, builds, build_scope="ada")
    assert second.report.verdict is Verdict.ACCEPTED, second.report.message
    assert second.report.environment["build"] == "reused"
    assert second.printed("library_made") == first.printed("library_made")
    assert second.printed("library_kept") == [True]


@pytest.mark.jobs
@needs_compiler
@pytest.mark.parametrize("policy", [SandboxPolicy.AUTO, SandboxPolicy.NONE])
def test_the_tasks_own_harness_finds_what_was_built(policy: SandboxPolicy) -> None:
    main = """\
import os, sys
import submission
with open(int(os.environ["POPCORN_FD"]), "w") as pipe:
    print("test.0.status: pass\\nbenchmark.0.status: pass\\nbenchmark.0.mean: 5\\ncheck: pass", file=pipe)
"""
    report = run(own_spec(main, submission=COMPILES, mode=Mode.LEADERBOARD, sandbox=policy))
    assert report.report.verdict is Verdict.ACCEPTED, report.report.message
    assert report.report.environment["build"] == "built"
    assert report.printed("library_kept") == [True, True]  # in the test stage and in the ranked one


@pytest.mark.jobs
@needs_compiler
@pytest.mark.skipif(not sandbox.landlock_works(), reason="no Landlock that works")
def test_behind_landlock_a_build_is_used_by_its_job_and_kept_for_nobody(tmp_path: Path) -> None:
    """There the names of files change from job to job, and compilers would not find it good any more."""
    environment = {build_store.VARIABLE: str(tmp_path), sandbox.VARIABLE: "landlock"}
    finished = run(quick_spec(COMPILES, build_scope="ada"), environment)
    assert finished.report.verdict is Verdict.ACCEPTED, finished.report.message
    assert finished.printed("library_kept") == [True]
    assert list(tmp_path.iterdir()) == []


MARKED = "import os, pathlib  # as if for load_inline\n"
RIGHT = "\ndef custom_kernel(data):\n    return data * 2\n"


@pytest.mark.jobs
@needs_sandbox
def test_a_build_that_plants_files_outside_the_caches_reaches_nobody() -> None:
    planted = (
        "for folder in ('/tmp', '/job', '/dev/shm', os.environ['HOME'], os.environ['XDG_CACHE_HOME']):\n"
    )
    planted += "    pathlib.Path(folder).mkdir(exist_ok=True)\n"
    planted += "    pathlib.Path(folder, f'planted-{os.getpid()}').touch()\n"
    seen = "import json\nfolders = [pathlib.Path(name) for name in ('/tmp', '/job', '/dev/shm')]\n"
    seen += "found = [str(path) for folder in folders for path in folder.rglob('planted-*')]\n"
    seen += "print('seen=' + json.dumps(found))\n"
    finished = judged(MARKED + seen + planted + RIGHT)
    assert finished.report.verdict is Verdict.ACCEPTED, finished.report.message
    assert finished.report.environment["build"] == "built"
    assert finished.printed("seen") == [[]]


@pytest.mark.jobs
@needs_sandbox
def test_an_import_that_fails_in_the_build_step_is_no_verdict() -> None:
    """As of a submission that asks for the GPU: here the contestant is told by the build's file."""
    body = "marker = pathlib.Path(os.environ['TRITON_CACHE_DIR'], 'marker')\n"
    body += "if not marker.exists():\n    marker.parent.mkdir(exist_ok=True)\n    marker.touch()\n"
    body += "    raise RuntimeError('no GPU here')\n"
    finished = judged(MARKED + body + RIGHT)
    assert finished.report.verdict is Verdict.ACCEPTED, finished.report.message
    assert finished.report.environment["build"] == "built in part"
    assert finished.report.stderr.text == ""


@pytest.mark.jobs
@needs_sandbox
def test_a_submission_that_does_not_build_is_told_so_by_the_contestant_and_not_kept(tmp_path: Path) -> None:
    finished = judged(MARKED + "raise ValueError('never')", tmp_path, build_scope="ada")
    assert finished.report.verdict is Verdict.RUNTIME_ERROR
    assert "never" in finished.report.message
    assert [stage.name for stage in finished.report.stages] == ["import"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.jobs
@needs_sandbox
def test_a_build_step_that_is_cut_off_hurts_only_the_submission(tmp_path: Path) -> None:
    ways = ("os.kill(os.getppid(), 9)", "os.kill(os.getpid(), 9)", "os._exit(3)")
    assert judged(MARKED + ways[0]).report.verdict in (Verdict.RUNTIME_ERROR, Verdict.REJECTED)
    for number, how in enumerate(ways):
        built = builder(tmp_path / str(number), MARKED + how).get()
        assert (built.how != "built", built.too_much) == (True, None), how


@pytest.mark.jobs
@needs_sandbox
def test_a_build_that_does_not_end_is_cut_off_and_the_import_tried() -> None:
    body = "import signal\nif not os.environ.get('CUDA_VISIBLE_DEVICES'):\n    signal.pause()\n"
    finished = judged(MARKED + body + RIGHT, limits=Limits(import_s=1.0))
    assert finished.report.environment["build"] == "ended: time"
    assert finished.report.verdict is Verdict.TIME_LIMIT_EXCEEDED


def test_a_stage_that_begins_anew_has_the_time_since_it_first_began() -> None:
    record = Record(quick_spec(""), "", lambda _event: None)
    record.begin(StageName.IMPORT, 1.0, 0)
    before = record._open
    record.begin(StageName.IMPORT, 2.0, 0)
    after = record._open
    assert before is not None
    assert after is not None
    assert (after.limit_s, after.began) == (2.0, before.began)


def test_without_a_sandbox_nothing_is_kept(tmp_path: Path) -> None:
    spec = {"build_scope": "ada", "sandbox": SandboxPolicy.NONE}
    store = BuildStore(tmp_path)
    assert builder(tmp_path, MARKED, spec=spec, boxed=False, store=store)._store is None
    run = standard.StandardRun(
        quick_spec(MARKED), b"", tmp_path, Record(quick_spec(""), "", print), boxed=False
    )
    assert run._roles_that_build() == []


@pytest.mark.jobs
def test_the_report_says_that_a_multi_gpu_job_has_a_network_of_its_own() -> None:
    for multi_gpu, network in ((True, "its own loopback"), (False, "none")):
        spec = own_spec("pass", multi_gpu=multi_gpu)
        if sandbox.kind() is sandbox.Kind.BUBBLEWRAP:
            assert run(spec).report.environment["sandbox"]["network"] == network


# The builder


def builder(tmp_path: Path, submission: str, **overrides: Any) -> Builder:
    """Return a builder of one submission, with small limits."""
    spec: JobSpec = quick_spec(submission, **overrides.pop("spec", {}))
    files = tmp_path / "files"
    job_environment.write_files(files, {"submission.py": submission, **overrides.pop("files", {})})
    values: dict[str, Any] = {
        "files": files,
        "environment": {name: f"/tmp/{name.lower()}" for name in job_environment.BUILD_FOLDERS},
        "boxed": True,
        "store": None,
        # A build ends whatever else runs below this process: also what other tests will go on using.
        "keep": processes.descendants(os.getpid()),
    }
    return Builder(spec, **(values | overrides))


@needs_sandbox
def test_a_build_that_is_too_large_ends_with_a_verdict(tmp_path: Path) -> None:
    body = "folder = pathlib.Path(os.environ['TRITON_CACHE_DIR'])\nfolder.mkdir()\nprint('writing')\n"
    body += "(folder / 'much').write_bytes(bytes(3 << 20))\n"
    built = builder(tmp_path, MARKED + body, max_bytes=1 << 20).get()
    assert built.too_much is not None
    assert built.too_much[0] is Verdict.OUTPUT_LIMIT_EXCEEDED
    assert built.printed()[0].text == "writing\n"


WRITES = (
    "folder = pathlib.Path(os.environ['TRITON_CACHE_DIR'])\nfolder.mkdir()\n(folder / 'a').write_text('')\n"
)


@needs_sandbox
def test_a_build_is_kept_for_its_user_and_only_while_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    store = BuildStore(tmp_path / "machine")
    hows = []
    for user in ("ada", "ada", ""):
        made = builder(tmp_path, MARKED + WRITES, spec={"build_scope": user}, store=store).get()
        hows.append(made.how)
        assert list(named(made)) == ["TRITON_CACHE_DIR/a"]
    assert hows == ["built", "reused", "built"]
    for entry in (tmp_path / "machine").iterdir():
        entry.write_bytes(entry.read_bytes()[:-10])
    assert builder(tmp_path, MARKED + WRITES, spec={"build_scope": "ada"}, store=store).get().how == "built"


@needs_sandbox
def test_a_thread_that_does_not_end_does_not_hold_a_build_up(tmp_path: Path) -> None:
    body = MARKED + "import signal, threading\nthreading.Thread(target=threading.Event().wait).start()\n"
    assert builder(tmp_path, body).get().how == "built"


@needs_sandbox
def test_what_a_submission_writes_into_the_archive_itself_is_only_damaged(tmp_path: Path) -> None:
    body = MARKED + "for fd in range(3, 30):\n    try:\n        os.write(fd, b'no archive')\n"
    body += "    except OSError:\n        pass\n"
    built = builder(tmp_path, body).get()
    assert built.build is None or list(named(built)) == []


def named(built: Built) -> Iterator[str]:
    """Give the names of the files in a build, those of our compilers left out."""
    assert built.build is not None
    with open(built.build.open(), "rb") as archive:
        names = [header["name"] for header, _ in inside.entries(archive)]
    yield from (name for name in names if not name.startswith("TORCH_EXTENSIONS_DIR/.kernelcup/"))


@pytest.mark.parametrize(
    "other",
    [
        {"spec": {"build_scope": "bob"}},
        {"files": {"task.py": "changed"}},
        {"environment": {"TORCH_CUDA_ARCH_LIST": "9.0+PTX"}},
    ],
)
def test_all_that_a_build_depends_on_is_in_its_key(tmp_path: Path, other: dict[str, Any]) -> None:
    usual = {"spec": {"build_scope": "ada"}}
    key = builder(tmp_path / "a", "x = 1", **usual).key()
    assert builder(tmp_path / "b", "x = 1", **usual).key() == key
    assert builder(tmp_path / "c", "x = 2", **usual).key() != key
    assert builder(tmp_path / "d", "x = 1", **(usual | other)).key() != key
    # Which GPU a job has is not in it.
    gpus = [usual | {"environment": {"CUDA_VISIBLE_DEVICES": each}} for each in "01"]
    assert len({builder(tmp_path / "e", "x = 1", **each).key() for each in gpus}) == 1


def test_only_a_submission_that_mentions_it_builds_at_import() -> None:
    assert has_build(SourceTree.of("from torch.utils.cpp_extension import load_inline"))
    assert not has_build(SourceTree.of("def custom_kernel(data): ..."))
    assert has_build(SourceTree.of("int custom_kernel();", "submission.cu"))


# Archives


def packed(folder: Path) -> bytes:
    """Return the archive of two folders below this one."""
    with (folder / "archive").open("wb") as target:
        inside.pack(target, environ_of(folder))
    return (folder / "archive").read_bytes()


def environ_of(folder: Path) -> dict[str, str]:
    """Return the variables that name the folders of builds below this one."""
    return {name: str(folder / name.lower()) for name in job_environment.BUILD_FOLDERS}


def unpacked(content: bytes, folder: Path) -> Path:
    """Unpack an archive below a folder and return that."""
    folder.mkdir()
    (folder / "archive").write_bytes(content)
    with (folder / "archive").open("rb") as archive:
        inside.unpack(archive, environ_of(folder))
    return folder


def test_an_archive_brings_contents_times_and_the_right_to_run_and_nothing_more(tmp_path: Path) -> None:
    extensions = tmp_path / "made" / "torch_extensions_dir" / "small"
    extensions.mkdir(parents=True)
    (extensions / "small.so").write_bytes(b"\x7fELF\n" * 1000)
    (extensions / "small.so").chmod(0o4755)
    (extensions / "build.ninja").write_text("")
    (extensions / "lock").touch()
    (extensions / "link").symlink_to("build.ninja")
    (extensions / "folder").symlink_to("/usr")
    os.mkfifo(extensions / "pipe")
    os.utime(extensions / "small.so", ns=(1, 1_700_000_000_123_456_789))
    found = unpacked(packed(tmp_path / "made"), tmp_path / "again") / "torch_extensions_dir" / "small"
    assert sorted(path.name for path in found.iterdir()) == ["build.ninja", "small.so"]
    library = (found / "small.so").stat()
    assert (found / "small.so").read_bytes() == b"\x7fELF\n" * 1000
    assert (stat.S_IMODE(library.st_mode), library.st_mtime_ns) == (0o755, 1_700_000_000_123_456_789)


def archive_of(*files: dict[str, Any], count: int | None = None) -> bytes:
    """Return an archive with these lines, and empty files of a size."""
    body = inside.FORMAT
    for header in files:
        body += json.dumps(header).encode() + b"\n" + bytes(max(0, header["size"]))
    return body + json.dumps({"files": len(files) if count is None else count}).encode() + b"\n"


HEADER = {"name": "TRITON_CACHE_DIR/a", "size": 3, "program": False, "mtime_ns": 5}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"something else\n",
        archive_of(HEADER)[:-1][:-5],
        archive_of(HEADER, count=2),
        archive_of(HEADER, HEADER | {"name": "TRITON_CACHE_DIR/../b"}),
        archive_of(HEADER, HEADER | {"name": "TRITON_CACHE_DIR//b"}),
        archive_of(HEADER, HEADER | {"name": "HOME/b"}),
        archive_of(HEADER, HEADER | {"size": -1}),
        archive_of(HEADER, HEADER | {"mtime_ns": None}),
        archive_of(HEADER, HEADER | {"mode": 0o4777}),
        inside.FORMAT + b'{"name": "TRITON_CACHE_DIR/a", "size": 99, "program": false, "mtime_ns": 5}\n',
    ],
)
def test_of_a_damaged_archive_nothing_is_unpacked(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ValueError):
        unpacked(content, tmp_path / "again")
    assert [path.name for path in (tmp_path / "again").iterdir()] == ["archive"]


# The store


def made(content: bytes) -> Build:
    """Return a build of these bytes."""
    return Build.read(io.BytesIO(content), max_bytes=1000)


def content_of(build: Build | None) -> bytes | None:
    """Return the bytes of a build."""
    if build is None:
        return None
    with open(build.open(), "rb") as source:
        return source.read()


@pytest.mark.parametrize(
    "damage", [lambda old: old[:-1], lambda old: old[:-1] + b"?", lambda old: b"", lambda old: b"x" * 5000]
)
def test_a_damaged_entry_is_removed(tmp_path: Path, damage: Any) -> None:
    store = BuildStore(tmp_path, build_bytes=1000)
    store.put("a", made(b"content"))
    (entry,) = tmp_path.iterdir()
    entry.write_bytes(damage(entry.read_bytes()))
    assert store.take("a") is None
    assert list(tmp_path.iterdir()) == []


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    store = BuildStore(tmp_path, store_bytes=3 * (500 + build_store.FIRST_LINE_BYTES))
    for age, key in enumerate("abc"):
        store.put(key, made(bytes(500)))
        os.utime(tmp_path / f"{key}.build", ns=(age, age))
    store.take("a")
    store.put("d", made(bytes(500)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.build", "c.build", "d.build"]


def test_what_a_killed_runner_left_half_written_is_swept_and_what_is_written_now_is_not(
    tmp_path: Path,
) -> None:
    left, busy = tmp_path / f"{build_store.UNFINISHED}left", tmp_path / f"{build_store.UNFINISHED}busy"
    left.touch()
    with busy.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        BuildStore(tmp_path).put("a", made(b""))
        assert sorted(path.name for path in tmp_path.iterdir()) == [busy.name, "a.build"]


def test_a_build_can_be_read_several_times_and_never_changed() -> None:
    build = made(b"content")
    assert content_of(build) == content_of(build) == b"content"
    with pytest.raises(PermissionError), open(f"/proc/self/fd/{build._fd}", "r+b", buffering=0) as file:
        file.write(b"x")
    build.close()


def test_a_folder_to_which_others_can_write_keeps_no_builds(tmp_path: Path) -> None:
    assert build_store.from_environment({}) is None
    assert build_store.from_environment({build_store.VARIABLE: str(tmp_path / "new")}) is not None
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert build_store.from_environment({build_store.VARIABLE: str(tmp_path / "open")}) is None
    (tmp_path / "link").symlink_to("new")
    assert build_store.from_environment({build_store.VARIABLE: str(tmp_path / "link")}) is None


def test_a_store_that_cannot_be_written_costs_the_build_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    BuildStore(tmp_path / "gone").put("a", made(b""))
    assert "cannot be kept" in capsys.readouterr().err


@pytest.mark.jobs
def test_the_local_launcher_says_where_builds_are_kept_unless_the_operator_did(tmp_path: Path) -> None:
    say = "import json, os; print(json.dumps({'event': os.environ['" + build_store.VARIABLE + "']}))"
    for environ, builds, expected in (
        ({}, None, str(tmp_path / "builds")),
        ({}, tmp_path / "data", str(tmp_path / "data")),
        ({build_store.VARIABLE: ""}, None, ""),
    ):
        launcher = LocalLauncher(
            runtime_dir=tmp_path, environ=environ, command=(sys.executable, "-c", say), builds=builds
        )
        told: list[Any] = []
        with pytest.raises(BadReport):
            launcher.run(quick_spec(""), make_device(), on_event=told.append, cancelled=threading.Event())
        assert told == [{"event": expected}]


# Before a job has its device


CALL = "int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context)"
DOUBLES = f"""{CALL} {{
    auto from = kc::view_of<const int64_t, 1>(inputs, 0, context);
    auto into = kc::view_of<int64_t, 1>(outputs, 0, context);
    for (int64_t at = 0; at < from.size(); ++at) into(at) = 2 * from(at);
    return 0;
}}"""
NEVER_COMPILES = f'#include "/dev/zero"\n{CALL} {{ return 0; }}'
HERE = make_device(name="here", backend=Backend.CPU)  # an emulated one has no lock


class AheadOfDevice:
    """A launcher that compiles before a job has its slot."""

    def __init__(self, folder: Path, compilers: int) -> None:
        self.builds = folder / "builds"
        self.launcher = LocalLauncher(
            runtime_dir=folder / "run", environ=os.environ, builds=self.builds, compilers=compilers
        )
        self.free: dict[str, int] = {}
        """The free slots when each kind of event came first."""

    def judge(self, text: str, **overrides: Any) -> RunReport:
        spec = quick_spec(
            SourceTree.of(text, "submission.cpp"), backend=Backend.EMULATED, build_scope="ada", **overrides
        )
        self.free.clear()
        done = self.launcher.run(spec, HERE, on_event=self._take, cancelled=threading.Event())
        return done.report

    def _take(self, event: dict[str, Any]) -> None:
        self.free.setdefault(event["event"], self.launcher.capacity(HERE))

    def entries(self) -> dict[str, int]:
        return {each.name: each.stat().st_ino for each in self.builds.glob("*.build")}


@pytest.mark.jobs
@needs_sandbox
@needs_compiler
def test_no_slot_is_held_while_a_job_compiles_and_the_same_text_is_compiled_once(tmp_path: Path) -> None:
    ahead = AheadOfDevice(tmp_path, compilers=1)
    report = ahead.judge(DOUBLES)
    assert (report.verdict, report.environment["build"]) == (Verdict.ACCEPTED, "reused"), report.message
    assert (ahead.free["compiling"], ahead.free["compiled"], ahead.free["stage"]) == (1, 1, 0)
    made = ahead.entries()
    assert len(made) == 1
    assert ahead.judge(DOUBLES).environment["build"] == "reused"
    assert ahead.entries() == made


@pytest.mark.jobs
@needs_sandbox
@needs_compiler
def test_what_does_not_compile_gets_the_same_verdict_ahead_of_its_slot(tmp_path: Path) -> None:
    wrong = DOUBLES.replace("from.size()", "undeclared")
    ahead, usual = (AheadOfDevice(tmp_path / str(places), places) for places in (1, 0))
    early, late = ahead.judge(wrong), usual.judge(wrong)
    assert early.verdict is late.verdict is Verdict.COMPILE_ERROR
    assert "undeclared" in early.message
    assert early.message == late.message
    assert (early.environment["build"], late.environment["build"]) == ("reused", "built")
    assert "compiling" not in usual.free


@pytest.mark.jobs
@needs_sandbox
@needs_compiler
def test_what_takes_too_long_to_compile_never_gets_a_slot(tmp_path: Path) -> None:
    ahead = AheadOfDevice(tmp_path, compilers=1)
    others = Slots(tmp_path / "run", {})
    held = others.take(HERE, cancelled=threading.Event())
    report = ahead.judge(NEVER_COMPILES, limits=Limits(import_s=1.0))
    held.release()
    assert (report.verdict, report.stage) == (Verdict.TIME_LIMIT_EXCEEDED, StageName.IMPORT)
    assert "compiling the submission took longer than 1 s" in report.message


# For which GPU


DEVICES = (("0", "GPU-a", "9.0"), ("1", "GPU-b", "8.9"), ("2", "GPU-c", "12.0"))


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, "8.9;9.0;12.0+PTX"),
        ("0", "9.0+PTX"),
        ("GPU-b,0", "8.9;9.0+PTX"),
        ("MIG-unknown", "8.9;9.0;12.0+PTX"),
    ],
)
def test_it_is_compiled_for_the_gpus_of_the_job(visible: str | None, expected: str) -> None:
    assert job_environment.architecture_list(DEVICES, visible) == expected
    # Without a known one torch chooses.
    assert job_environment.architecture_list((("0", "GPU-a", "[N/A]"),), visible) == ""


INLINE = "from torch.utils.cpp_extension import load_inline"


def test_cuda_that_names_no_stream_works_on_its_threads() -> None:
    found = job_environment.stream_environment(Backend.CUDA, INLINE)
    assert found == {"NVCC_PREPEND_FLAGS": "--default-stream=per-thread", variables.PER_THREAD: "1"}
    assert job_environment.stream_environment(Backend.CUDA, "import cupy, triton") == {}
    assert job_environment.stream_environment(Backend.EMULATED, INLINE) == {}


@pytest.mark.parametrize(
    "named",
    [
        "add<<<1, 256, 0, at::cuda::getCurrentCUDAStream()>>>(a)",
        "cudaStreamCreate(&own);",
        "with torch.cuda.stream(own):",
        "cupy.cuda.ExternalStream(2)",
    ],
)
def test_who_names_a_stream_keeps_the_rules_of_the_default_one(named: str) -> None:
    assert job_environment.stream_environment(Backend.CUDA, f"{INLINE}\n{named}") == {}
    # What only sounds like it names none.
    assert job_environment.stream_environment(
        Backend.CUDA, f"{INLINE}\n#include <sstream> // streaming loads"
    )


def test_a_submission_and_its_rival_compile_each_as_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling.AskedCompilers, "_ask", lambda *_given: None)
    spec = quick_spec(INLINE, rival="def custom_kernel(data): ...", backend=Backend.CUDA)
    record = Record(spec, "", lambda _event: None)
    judged = standard.StandardRun(spec, b"", tmp_path, record, boxed=False)
    roles = [role for role in workers.ROLES if variables.PER_THREAD in judged._share(role, None).environment]
    assert roles == [workers.SUBMISSION, workers.HIDDEN]
    builders = {
        role: judged._builder(role, None)._environment for role in (workers.SUBMISSION, workers.RIVAL)
    }
    assert [role for role in builders if variables.PER_THREAD in builders[role]] == [workers.SUBMISSION]


def builds_of(
    submission: str, entry: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, Record]:
    """Return a run on a leaderboard in CUDA C++, and its record; it ends no process of other tests."""
    monkeypatch.setattr(processes, "kill_descendants", lambda keep: None)
    monkeypatch.setattr(compiling.AskedCompilers, "_ask", lambda *_given: None)
    spec = quick_spec(
        SourceTree.of(submission, entry),
        backend=Backend.CUDA,
        sources={"reference.cu": "// reference"},
        reference_module="reference.cu",
        private_files=["reference.cu"],
    )
    record = Record(spec, "", lambda _event: None)
    return standard.StandardRun(spec, b"", folder, record, boxed=True), record


def test_a_cuda_leaderboards_reference_is_compiled_beside_the_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2)

    def get(_self: Builder) -> Built:
        both.wait(30.0)
        return Built(how="built")

    monkeypatch.setattr(Builder, "get", get)
    run, _ = builds_of("// submission", "submission.cu", tmp_path, monkeypatch)
    assert run._built(run._roles_that_build()) == {workers.SUBMISSION: None, workers.JUDGE: None}


def test_no_build_runs_beside_code_of_a_submission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[int] = []

    def get(_self: Builder) -> Built:
        assert threading.current_thread() is threading.main_thread()
        running.append(1)
        return Built(how="built")

    monkeypatch.setattr(Builder, "get", get)
    run, _ = builds_of(INLINE, "submission.py", tmp_path, monkeypatch)
    assert run._roles_that_build() == [workers.SUBMISSION, workers.JUDGE]
    run._built(run._roles_that_build())
    assert len(running) == 2


def test_a_submission_that_compiles_too_long_ends_the_run_and_the_build_beside_it_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Build.read(io.BytesIO(b"kept"), max_bytes=10)
    too_much = (Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME, "too long")
    of_role = {
        "submission.cu": Built(how="ended: time", too_much=too_much),
        "reference.cu": Built(how="built", build=kept),
    }
    monkeypatch.setattr(Builder, "get", lambda self: of_role[self._spec.submission.entry])
    run, record = builds_of("// submission", "submission.cu", tmp_path, monkeypatch)

    assert run._built(run._roles_that_build()) is None

    assert record.report(secret=b"", duration_s=0.0).verdict is Verdict.TIME_LIMIT_EXCEEDED
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(kept._fd)
