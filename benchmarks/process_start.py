"""What it costs to start the server and the commands, in seconds of processor, and the memory of a server at rest.

    .venv/bin/python benchmarks/process_start.py OUT.jsonl [CHECKOUT ...] [--runs 5]

Several checkouts take turns. The processor's time is compared, since the machine may be busy with other things.
Everything runs from byte code, as where it is installed; a first run, which makes it, does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from results import ROOT, machine_facts, processor_s
from servers_in_turns import FILL
from service_load import wait_for_url

REST_S = 3.0
IMPORT = "import time, kernelcup.http.app; print(time.process_time())"
"""What it takes to forget all of it when the process ends does not count: a server runs on."""
APPLICATIONS = """
import sys, time
sys.path[:0] = ["tests"]
import kernelcup.http.app
from kernelcup.cli import wiring
from kernelcup.http.state import Platform
settings = wiring.load_config(None)
with wiring.open_database(settings) as db:
    platform = Platform(db=db, config=settings, secret="x" * 40)
    for _ in range(2):
        begun = time.process_time()
        kernelcup.http.app.create_app(platform)
        print(time.process_time() - begun)
"""


class Checkout:
    """A checkout with a database that its code has made."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.tree = tree.resolve()
        packages = sorted(str(each) for each in self.tree.glob("packages/*/src"))
        self._environ = {
            **{key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPATH": ":".join([f"{self.tree}/src", *packages]),
            "PYTHONPYCACHEPREFIX": str(folder / "byte-code"),
            "KERNELCUP_DATABASE": f"sqlite:///{folder}/small.db",
            "KERNELCUP_HOME": str(folder / "home"),
        }
        self.run("-c", FILL.replace("5000", "200").replace("500", "20"), self._environ["KERNELCUP_DATABASE"])

    def _settings(self) -> dict[str, Any]:
        return {
            "cwd": self.tree,
            "env": self._environ,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.DEVNULL,
        }

    def run(self, *arguments: str) -> tuple[float, str]:
        """Run Python; return the processor time of this process and those that end in it, and what it printed."""
        before = os.times()
        done = subprocess.run([sys.executable, *arguments], check=True, **self._settings())
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        return used, done.stdout.decode()

    def measured(self) -> dict[str, float]:
        """Return all figures of one run."""
        found = {"import": float(self.run("-c", IMPORT)[1])}
        first, second = map(float, self.run("-c", APPLICATIONS)[1].split())
        found |= {"create_app": first, "second create_app": second}
        commands = {"--version": ["--version"], "--help": ["--help"], "standings": ["standings", "board-0"]}
        for name, words in commands.items():
            found[name] = self.run("-m", "kernelcup", *words)[0]
        return found | self._served()

    def _served(self) -> dict[str, float]:
        command = [sys.executable, "-m", "kernelcup", "serve", "--no-judge", "--port", "0"]
        with ExitStack() as running:
            server = subprocess.Popen(command, **self._settings())
            running.callback(server.wait)
            running.callback(server.terminate)
            url = wait_for_url(server)
            seen = [0.0]
            found: dict[str, float] = {}
            for name, path in {
                "livez": "/livez",
                "first page": "/",
                "second page": "/",
                "a board": "/b/board-0",
            }.items():
                with urlopen(url + path) as answer:
                    answer.read()
                seen.append(processor_s(server.pid))
                found[name] = seen[-1] - seen[-2]
            time.sleep(REST_S)  # it closes what it no longer needs
            found["MB at rest"] = resident_bytes(server.pid) / 1e6
            found["standings of a server"], _ = self.run(
                "-m", "kernelcup", "standings", "board-0", "--server", url
            )
            begun = processor_s(server.pid)
            with urlopen(f"{url}/api/v1/openapi.json") as answer:
                answer.read()
            found["openapi.json"] = processor_s(server.pid) - begun
            found["MB after that"] = resident_bytes(server.pid) / 1e6
        return found


def resident_bytes(pid: int) -> int:
    """Return the memory that a process has in use."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Measure all checkouts in turns; print each run and add it to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("checkouts", nargs="*", type=Path, default=[ROOT])
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, given.out.open("a", encoding="utf-8") as out:
        checkouts = []
        for number, tree in enumerate(given.checkouts):
            (place := Path(folder) / str(number)).mkdir()
            checkouts.append(Checkout(tree, place))
            checkouts[-1].measured()
        for _ in range(given.runs):
            for each in checkouts:
                found = {name: round(value, 3) for name, value in each.measured().items()}
                line = json.dumps({**machine_facts(each.tree), "found": found})
                print(line, file=out, flush=True)
                print(line, flush=True)


if __name__ == "__main__":
    main()
