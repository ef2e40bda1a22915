from __future__ import annotations

from pathlib import Path

import pytest

from fakes import FakeLauncher
from kernelcup.app.machines import ray_launcher
from kernelcup.app.machines.agent_launcher import AgentLauncher
from kernelcup.cli import wiring
from kernelcup.config.settings import Config
from kernelcup.engine.database import Database
from kernelcup.errors import ConfigError
from kernelcup.launchers import installed
from kernelcup.launchers.base import LauncherSettings
from kernelcup.launchers.local.launcher import LocalLauncher

DEVICE = '[[devices]]\nname = "FAR"\nbackend = "cuda"\nlauncher = "far"\n'


def far(settings: LauncherSettings) -> FakeLauncher:
    """The factory that the entry point names."""
    assert settings.runtime_dir
    return FakeLauncher()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "kernelcup.toml").write_text(DEVICE)
    return Config.load(tmp_path / "kernelcup.toml", {"KERNELCUP_HOME": str(tmp_path)})


@pytest.fixture
def far_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "far-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: far\nVersion: 1\n")
    (package / "entry_points.txt").write_text(f"[{installed.GROUP}]\nfar = {__name__}:far\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_this_machine_has_a_launcher(config: Config) -> None:
    assert isinstance(wiring.make_launcher(config, "local"), LocalLauncher)


@pytest.mark.parametrize("name", ["agent", "ray"])
def test_machines_elsewhere_have_a_launcher_with_the_servers_database(
    name: str, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_launcher, "find_spec", lambda name: name)  # Ray itself is an extra
    launcher = wiring.make_launcher(config, name)
    assert isinstance(launcher, AgentLauncher)
    assert str(launcher._db.engine.url) == config.database_url
    launcher.close()


def test_a_launcher_of_another_package_judges_its_devices(
    config: Config, db: Database, far_is_installed: None
) -> None:
    wiring.check_devices(config)
    dispatcher = wiring.make_dispatcher(config, db)
    assert isinstance(dispatcher._launchers["far"], FakeLauncher)
    assert list(dispatcher._launchers) == ["far"]


def test_a_launcher_that_is_not_installed_is_refused_with_the_way_to_it(config: Config) -> None:
    told = r"no launcher 'far', only 'agent', 'github', 'local', 'modal', 'ray'; pip install ./packages/kernelcup-far"
    with pytest.raises(ConfigError, match=told):
        wiring.check_devices(config)
    with pytest.raises(ConfigError, match=told):
        wiring.make_launcher(config, "far")
    with pytest.raises(ConfigError, match="no launcher to deploy 'agent', only 'github', 'modal'"):
        installed.deploy("agent", config, None)
