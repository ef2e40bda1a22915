"""Databases for benchmarks."""

from __future__ import annotations

import glob
import os
import pwd
import subprocess
from pathlib import Path

from sqlalchemy import make_url, text

from kernelcup.engine.database import make_engine

SERVER = "KERNELCUP_TEST_POSTGRES"
"""Names a PostgreSQL server, as scripts/with-postgres does."""


def database_url(kind: str, folder: Path) -> str:
    """Return an empty database's URL."""
    if kind == "sqlite":
        return f"sqlite:///{folder / 'kernelcup.db'}"
    name = f"benchmark_{os.getpid()}"
    engine = make_engine(os.environ[SERVER]).execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return make_url(os.environ[SERVER]).set(database=name).render_as_string(hide_password=False)


def restart_postgres() -> None:
    """Kill the server without a word to its clients, and start it again."""
    folder = Path(str(make_url(os.environ[SERVER]).query["host"]))
    program = sorted(glob.glob("/usr/lib/postgresql/*/bin/pg_ctl"))[-1]
    command = [program, "-D", str(folder / "data"), "-m", "immediate", "-w", "-l", str(folder / "log")]
    owner = pwd.getpwuid((folder / "data").stat().st_uid).pw_name
    if os.getuid() == 0:
        command = ["runuser", "-u", owner, "--", *command]
    subprocess.run([*command, "restart"], cwd="/", check=True, stdout=subprocess.DEVNULL)
