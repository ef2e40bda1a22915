"""What set-up installs: a build of torch that fits the machine, and packages that are declared and locked."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML
from test_docs import load_script

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
HAS_OUR_BUILD = f'<a href="/whl/cpu/torch-2.13.0%2Bcpu-{TAG}-{TAG}-manylinux_2_28_{platform.machine()}.whl">'
HAS_ANOTHER = f'<a href="/whl/cpu/torch-2.12.0%2Bcpu-{TAG}-{TAG}-manylinux_2_28_{platform.machine()}.whl">'
PACKAGES = {
    path.parent.name: tomllib.loads(path.read_text())["project"]
    for path in ROOT.glob("packages/*/pyproject.toml")
}
OURS = {"kernelcup", *PACKAGES}
LEFT_OUT = {"torch", "triton"}
"""Not in the lock files: they depend on the machine."""


@contextmanager
def index_that(answers: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """Serve an index on the loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers(self)

        def log_message(self, *_args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/whl/cpu"
        finally:
            server.shutdown()
            serving.join()


def page_of(text: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """Return what answers a request for torch's page with this text."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200 if request.path == "/whl/cpu/torch/" else 404)
        request.end_headers()
        request.wfile.write(text.encode())

    return answer


def chosen(index: str, *options: str, commands: Path) -> tuple[str, str]:
    """Return the options for pip and the reason that make gets, where only ``commands`` are on the path."""
    assert "python scripts/torch-index $(TORCH)" in (ROOT / "Makefile").read_text()
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/torch-index", "2.13.0", "--cpu-index", index, *options],
        env={**{k: v for k, v in os.environ.items() if "proxy" not in k.lower()}, "PATH": str(commands)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout.strip(), done.stderr


NO_DRIVER = pytest.mark.skipif(
    Path("/proc/driver/nvidia").exists(), reason="this machine has an NVIDIA driver"
)


@NO_DRIVER
def test_the_cpu_build_is_taken_where_there_is_no_driver_and_its_index_has_it(tmp_path: Path) -> None:
    with index_that(page_of(HAS_OUR_BUILD)) as index:
        options, reason = chosen(index, commands=tmp_path)
    assert options == f"--index-url {index}"
    assert re.search(r"CPU build.*[\d.]+ GB to download, [\d.]+ GB on disk", reason)
    with index_that(page_of(HAS_ANOTHER)) as index:
        options, reason = chosen(index, commands=tmp_path)
    assert options == ""
    assert re.search(r"has no build for this Python and machine.*CUDA: [\d.]+ GB to download", reason)


@NO_DRIVER
def test_an_index_that_trickles_is_waited_for_a_few_seconds(tmp_path: Path) -> None:
    over = threading.Event()

    def trickle(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        try:
            while not over.wait(0.5):
                request.wfile.write(b" ")
        except OSError:  # the other end has gone
            return

    with index_that(trickle) as index:
        options, reason = chosen(index, commands=tmp_path)
        over.set()
    assert options == ""
    assert "does not answer within 4 s" in reason


def test_pypi_is_taken_where_there_is_a_driver(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    with index_that(page_of(HAS_OUR_BUILD)) as index:
        options, reason = chosen(index, commands=tmp_path)
    assert options == ""
    assert "nvidia-smi is here, so PyPI's build with CUDA: 3 GB to download" in reason


def test_the_index_that_is_asked_for_wins(tmp_path: Path) -> None:
    with index_that(page_of(HAS_OUR_BUILD)) as index:
        options, reason = chosen(index, "--index", "https://index.example/cu999", commands=tmp_path)
    assert options == "--index-url https://index.example/cu999"
    assert "as TORCH_INDEX says" in reason


def make(*words: str) -> str:
    """Return what make prints, where nothing of a make that runs these tests reaches it."""
    outer = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "PYTHON", "TORCH_INDEX"}
    alone = {name: value for name, value in os.environ.items() if name not in outer}
    return subprocess.run(
        ["make", *words], cwd=ROOT, env=alone, capture_output=True, text=True, check=True
    ).stdout


def commands_of(*words: str) -> str:
    """Return what make would run."""
    return make("--dry-run", "--always-make", *words)


def machine(folder: Path, **commands: str) -> Path:
    """Return a folder that is a path of its own: the commands that set-up calls, and these scripts."""
    for name in ("sh", "bash", "env", "basename", "uname", "id"):
        (folder / name).symlink_to(str(shutil.which(name)))
    for name, script in commands.items():
        (folder / name.replace("_", "-")).unlink(missing_ok=True)
        (folder / name.replace("_", "-")).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name.replace("_", "-")).chmod(0o755)
    return folder


def set_up(machine: Path) -> tuple[int, str]:
    """Return the exit code of what makes the environment, and what it says."""
    assert commands_of("demo").startswith('scripts/new-venv .venv "python3"\n')
    done = subprocess.run(
        ["scripts/new-venv", machine / "venv", "python3"],
        cwd=ROOT,
        env={"PATH": str(machine)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


WITHOUT_VENV = """\
case "$*" in
*ensurepip*) test -e "${0%/*}/installed" ;;
"-m venv "*) echo "made $3" ;;
esac"""
"""Debian's Python until `apt-get` leaves a file beside it."""


def test_a_system_that_is_no_linux_is_told_so(tmp_path: Path) -> None:
    code, told = set_up(machine(tmp_path, uname="echo Darwin", python3="echo made"))
    assert code == 1
    assert told == (
        "KernelCup needs Linux, and this is Darwin: use a virtual machine, a container or, on Windows, WSL\n"
    )


@pytest.mark.parametrize(("newer", "named"), [("python3.12", "python3.12"), ("python2", "python3.11")])
def test_a_python_that_is_too_old_is_named_with_the_line_to_run(
    tmp_path: Path, newer: str, named: str
) -> None:
    old = 'case "$1" in -c) exit 1 ;; -V) echo Python 3.8.18 ;; esac'
    code, told = set_up(machine(tmp_path, python3=old, **{newer: "exit 0"}))
    assert code == 1
    assert told == (
        "KernelCup needs Python 3.11 or newer, and python3 is Python 3.8.18: "
        f"name another one, as in: make demo PYTHON={named}\n"
    )


@pytest.mark.parametrize(
    ("others", "how"), [({}, "run as root:"), ({"sudo": "exit 1"}, "run: sudo")], ids=["no sudo", "password"]
)
def test_a_user_without_rights_is_told_the_package_that_makes_environments(
    tmp_path: Path, others: dict[str, str], how: str
) -> None:
    fakes = machine(tmp_path, python3=WITHOUT_VENV, id="echo 1000", apt_get="exit 1", **others)
    code, told = set_up(fakes)
    assert code == 1
    assert told == f"missing: python3-venv; {how} apt-get install -y --no-install-recommends python3-venv\n"


def test_root_gets_the_package_that_makes_environments(tmp_path: Path) -> None:
    install = ': >"${0%/*}/installed"'
    code, told = set_up(machine(tmp_path, python3=WITHOUT_VENV, id="echo 0", apt_get=install))
    assert (code, told) == (0, f"made {tmp_path}/venv\n")


@pytest.mark.parametrize(
    ("options", "needed"), [((), "10.5 GB"), (("--index", "https://index.example"), "3.5 GB")]
)
def test_a_disk_that_is_nearly_full_ends_set_up_before_a_download(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: tuple[str, ...], needed: str
) -> None:
    script = load_script("torch-index")
    monkeypatch.setattr(script.shutil, "disk_usage", lambda _folder: SimpleNamespace(free=1.5e9))
    monkeypatch.setattr(script, "nvidia_driver", lambda: "nvidia-smi")
    monkeypatch.setattr(sys, "argv", ["torch-index", "2.13.0", *options])
    with pytest.raises(SystemExit) as ended:
        script.main()
    assert ended.value.code == (
        f"set-up needs {needed}, downloads included, and the disk of {sys.prefix} has 1.5 GB left: make room, "
        "or name a folder on another disk, as in: make demo VENV=/mnt/kernelcup-venv"
    )


def test_what_is_downloaded_lies_on_the_disk_of_the_environment() -> None:
    installs = re.findall(r"^.*bin/pip .*$", commands_of("test", "fleet", "VENV=/mnt/venv"), re.MULTILINE)
    assert len(installs) == 6
    assert all(each.startswith("TMPDIR=/mnt/venv /mnt/venv/bin/pip ") for each in installs)


def test_the_path_of_the_clone_may_have_a_space() -> None:
    assert re.search(r'^PATH="\S.*/no_namespaces:\$PATH" ', commands_of("container"), re.MULTILINE)


def test_triton_is_installed_with_what_judges() -> None:
    assert "triton" in {each.name for each in requirements("runner")}
    assert re.search(r'install "triton==[\d.]+; ', commands_of("demo"))


def requirements(*extras: str) -> list[Requirement]:
    """Return what the project declares for these extras, or for itself where none is named."""
    lists = [PROJECT["optional-dependencies"][name] for name in extras] or [PROJECT["dependencies"]]
    found = [Requirement(text) for each in lists for text in each]
    own = [name for each in found if each.name == "kernelcup" for name in sorted(each.extras)]
    return [each for each in found if each.name != "kernelcup"] + (requirements(*own) if own else [])


IMPORTED = re.compile(
    r"^[ \t]*(?:import|from)[ \t]+(\w+)(?:\.[\w.]+)?(?:[ \t]+(?:import|as)\b|[ \t]*$)", re.MULTILINE
)


def imported_by(folder: str) -> dict[str, str]:
    """Return the distributions that our own modules import by name, each with one file that does."""
    of_module = metadata.packages_distributions()
    found = {}
    for path in (ROOT / folder).rglob("*.py"):
        if "examples" in path.parts or "judged" in path.parts:
            continue
        for name in IMPORTED.findall(path.read_text()):
            for package in of_module.get(name, []):
                found[canonicalize_name(package)] = str(path.relative_to(ROOT))
    return found


@pytest.mark.parametrize(
    ("folder", "extras"),
    [
        pytest.param(
            "src", ["runner", "postgres", "discord", "screen", "s3", "data", "fleet", "mcp"], id="src"
        ),
        pytest.param("tests", ["dev", "fleet"], id="tests"),
    ],
)
def test_what_is_imported_is_declared(folder: str, extras: list[str]) -> None:
    declared = {canonicalize_name(each.name) for each in [*requirements(), *requirements(*extras)]}
    found = imported_by(folder)
    assert len(found) > 10
    assert {name: file for name, file in found.items() if name not in declared | OURS} == {}
    files = ["server.txt" if folder == "src" else "dev.txt", "fleet.txt"]
    of_participants = {"mcp"}  # no server needs it
    assert of_participants <= set(locked("dev.txt"))
    wanted = set(found) - LEFT_OUT - OURS - of_participants
    assert wanted <= {name for file in files for name in locked(file)}
    assert not declared & PACKAGES.keys(), "an extra names only what PyPI has"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_declares_what_it_imports(package: str) -> None:
    project = PACKAGES[package]
    texts = [*project["dependencies"], *chain(*project.get("optional-dependencies", {}).values())]
    declared = [Requirement(text) for text in texts]
    names = {canonicalize_name(each.name) for each in declared}
    assert set(imported_by(f"packages/{package}/src")) <= names | {package}
    held = locked("dev.txt") | locked("fleet.txt")
    for each in declared:
        versions = held.get(canonicalize_name(each.name), [])
        assert each.name == "kernelcup" or (versions and all(map(each.specifier.contains, versions))), each


def locked(file: str) -> dict[str, list[str]]:
    """Return the versions of each package in a lock file, all of which have hashes."""
    found: dict[str, list[str]] = {}
    for block in re.split(r"\n(?=\w)", (ROOT / "requirements" / file).read_text()):
        if match := re.match(r"([\w.-]+)==([^\s;]+)", block):
            assert "--hash=sha256:" in block, match[1]
            found.setdefault(canonicalize_name(match[1]), []).append(match[2])
    return found


@pytest.mark.parametrize(
    ("file", "extras"),
    [
        ("server.txt", ["runner", "postgres", "discord", "screen", "s3"]),
        ("dev.txt", ["dev"]),
        ("fleet.txt", ["fleet"]),
    ],
)
def test_the_lock_files_hold_all_that_is_declared(file: str, extras: list[str]) -> None:
    found = locked(file)
    for each in [*requirements(), *requirements(*extras)]:
        name = canonicalize_name(each.name)
        if name not in LEFT_OUT:
            assert name in found, f"{name}: run scripts/lock"
            assert all(each.specifier.contains(version) for version in found[name]), (
                f"{name}: run scripts/lock"
            )
    assert not LEFT_OUT & set(found)


def test_set_up_installs_what_is_locked_and_fetches_nothing_else() -> None:
    lines = commands_of("check", "serve")
    for file in ("server.txt", "dev.txt"):
        assert f"--require-hashes -r requirements/{file}" in lines
    assert "--no-deps --no-build-isolation -e . -e packages/" in lines


def test_the_documentation_is_built_without_what_judges_and_serves() -> None:
    lines = commands_of("docs")
    assert "--require-hashes -r requirements/docs.txt" in lines
    assert "torch" not in lines
    assert not {"torch", "fastapi", "sqlalchemy"} & set(locked("docs.txt"))


@pytest.mark.parametrize("is_built", [True, False])
def test_a_wheel_has_the_documentation_that_was_built(tmp_path: Path, is_built: bool) -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE", "scripts/pack_documents.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for package in ("kernelcup", "kernelcup_harness"):
        (tmp_path / "src" / package).mkdir(parents=True)
        (tmp_path / "src" / package / "__init__.py").write_text('__version__ = "0"\n')
    if is_built:
        (tmp_path / "site").mkdir()
        (tmp_path / "site" / "index.html").write_text("documentation")
    program = "import hatchling.build as b, os, sys; os.chdir(sys.argv[1]); print(b.build_wheel('.'))"
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True
    )
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        assert ("kernelcup/http/pages/documents/index.html" in wheel.namelist()) is is_built
    assert ("make docs" in done.stdout + done.stderr) is not is_built


@pytest.mark.jobs  # an import that a test runs warns in `make test`
def test_no_module_of_ours_warns_when_it_is_imported() -> None:
    program = (
        "import importlib, pkgutil, warnings, kernelcup\n"
        "warnings.simplefilter('error')\n"
        "warnings.filterwarnings('ignore', \"'audioop' is deprecated\")\n"  # discord.py's, which fetches another
        "for each in pkgutil.walk_packages(kernelcup.__path__, 'kernelcup.'):\n"
        "    if '.examples' not in each.name and not each.name.endswith(('.migrations.env', '__main__')):\n"
        "        try:\n"
        "            importlib.import_module(each.name)\n"
        "        except ModuleNotFoundError as error:\n"
        "            if error.name != 'ray': raise\n"  # of the extra `fleet`
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_hooks_watch_paths_that_exist() -> None:
    hooks = YAML(typ="safe").load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    (watched,) = [hook["files"] for hook in hooks if "files" in hook]
    paths = watched.removeprefix("^(").removesuffix(")").replace("\\", "").split("|")
    assert paths
    for path in paths:
        assert (ROOT / path).is_dir() if path.endswith("/") else (ROOT / path).is_file(), path


def test_the_source_distribution_has_what_its_tests_read() -> None:
    included = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
        "sdist"
    ]
    tops = {
        "benchmarks",
        "docs",
        "packages",
        "scripts",
        "requirements",
        "tests",
        ".ci",
        ".pre-commit-config.yaml",
    }
    tops |= {"CONTRIBUTING.md", "README.md", "CHANGELOG.md", "SECURITY.md", "mkdocs.yml", "Makefile"}
    assert tops - set(included["include"]) == set()
    assert [path for path in included["include"] if not (ROOT / path).exists()] == []
