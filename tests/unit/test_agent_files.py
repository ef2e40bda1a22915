"""The files that start an agent fit our own command. ``test_manifests.py`` checks their keys."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from kernelcup.cli.app import app
from kernelcup.errors import ConfigError

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "how-to" / "agent"
UNIT = ROOT / "deploy" / "systemd" / "kernelcup-agent.service"
FILES = [*sorted(FOLDER.iterdir()), UNIT]
COMMAND = re.compile(r"kernelcup\"? runner agent (https://\S+)")


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_a_file_starts_the_agent_with_a_command_that_exists(file: Path) -> None:
    (address,) = COMMAND.findall(file.read_text())
    done = CliRunner().invoke(app, ["runner", "agent", address.strip('"')], env={"KERNELCUP_AGENT_TOKEN": ""})
    assert "expected the machine's token; on the server, `kernelcup admin machines add NAME`" in str(
        done.exception
    )


def test_an_agent_with_the_servers_devices_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kernelcup.toml").write_text(
        '[[devices]]\nname = "cpu"\nbackend = "cpu"\nlauncher = "agent"\n'
    )
    words = ["runner", "agent", "http://127.0.0.1:1", "--token", "kc_x"]
    done = CliRunner().invoke(app, words, env={"KERNELCUP_HOME": str(tmp_path), "KERNELCUP_CONFIG": None})
    assert isinstance(done.exception, ConfigError)
    assert "leave `launcher` out" in str(done.exception)


def test_no_file_holds_a_token() -> None:
    assert not any("kc_" in each.read_text() for each in FILES)


def test_the_slurm_script_is_bash_with_its_options_first() -> None:
    file = FOLDER / "kernelcup-agent.sbatch"
    subprocess.run(["bash", "-n", file], check=True)
    lines = file.read_text().splitlines()
    commands = [number for number, line in enumerate(lines) if line and not line.startswith("#")]
    options = [number for number, line in enumerate(lines) if line.startswith("#SBATCH --")]
    assert len(options) >= 8
    assert max(options) < min(commands)


def test_the_daemon_set_selects_its_own_pods_and_mounts_what_it_names() -> None:
    found = YAML(typ="safe").load(FOLDER / "kernelcup-agent.yaml")
    assert (found["apiVersion"], found["kind"]) == ("apps/v1", "DaemonSet")
    template = found["spec"]["template"]
    assert found["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    (container,) = template["spec"]["containers"]
    volumes = {each["name"] for each in template["spec"]["volumes"]}
    assert {each["name"] for each in container["volumeMounts"]} == volumes
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
