"""The images of ``deploy/``, and stand-ins for those of others, made of Debian's packages."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path

from roots import PATH, Build, Image, bootstrap, steps_of

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
POSTGRES = """\
set -e
install -d -o postgres "$PGDATA" /run/postgresql
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  echo "$POSTGRES_PASSWORD" >/tmp/password
  chown postgres /tmp/password
  as="setpriv --reuid=postgres --regid=postgres --init-groups"
  $as initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --auth-host=scram-sha-256 --auth-local=trust
  echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
  $as pg_ctl -w start -o "-c listen_addresses=''"
  createdb --username="$POSTGRES_USER" "$POSTGRES_DB"
  $as pg_ctl -w stop
fi
exec setpriv --reuid=postgres --regid=postgres --init-groups postgres -c listen_addresses='*'
"""
"""What https://hub.docker.com/_/postgres says of its image."""
OTHERS = [
    ("FROM", "debian:bookworm-slim"),
    (
        "RUN",
        "apt-get update && apt-get install -y --no-install-recommends caddy nginx-light openssl postgresql-15",
    ),
]
CADDY = ("caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile")
"""The command of the image at https://hub.docker.com/_/caddy."""


def make_images(folder: Path) -> dict[str, Image]:
    """Make all images; two at a time, since most of it waits for packages."""
    names = ["deploy/server.Dockerfile", "deploy/agent.Dockerfile"]
    debian = folder / "debian.tar"
    bootstrap(debian)

    def build(name: str) -> Build:
        bases, arguments = {"debian:bookworm-slim": debian}, {"TORCH_INDEX": torch_index()}
        return Build(folder=folder / name, context=ROOT, bases=bases, arguments=arguments)

    builds = [steps_of(ROOT / name, folder) for name in names]
    # As a builder does it that has made the first steps before.
    common = [step for step, other in takewhile(lambda pair: pair[0] == pair[1], zip(*builds, strict=False))]
    with ThreadPoolExecutor(2) as pool:
        others = pool.submit(build("others").carry_out, OTHERS)
        first = build("first")
        first.carry_out(common)
        made = [
            pool.submit(first.copy(folder / Path(name).stem).carry_out, steps[len(common) :])
            for name, steps in zip(names, builds, strict=True)
        ]
        found = {name: each.result() for name, each in zip(names, made, strict=True)}
        services = others.result().root
    programs = f"/usr/lib/postgresql/15/bin:{PATH}"
    data = "/var/lib/postgresql/data"
    found["postgres:15-bookworm"] = Image(
        root=services,
        environ={"PATH": programs, "PGDATA": data, "LANG": "C.UTF-8"},
        command=("sh", "-c", POSTGRES),
    )
    found["caddy:2"] = Image(
        root=services,
        environ={"PATH": PATH, "XDG_CONFIG_HOME": "/config", "XDG_DATA_HOME": "/data"},
        command=CADDY,
    )
    found["nginx"] = Image(root=services, command=("nginx", "-g", "daemon off;"))
    return found


def torch_index() -> str:
    """Return the index of builds without CUDA, where that answers."""
    script = [sys.executable, ROOT / "scripts/torch-index", "2.13.0"]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    return done.stdout.removeprefix("--index-url").strip()
