from __future__ import annotations

import re
from pathlib import Path

import pytest

from builders import make_device
from kernelcup.config.local_devices import CPU, EMULATED, detect_devices, detect_gpus, device_name, slot_gpus
from kernelcup.config.settings import PREFIX, VARIABLES, Config, unread_variables
from kernelcup.domain import Device
from kernelcup.errors import ConfigError
from kernelcup_harness.protocol import Backend

TWO_KINDS = [("GPU-a", "NVIDIA H100 80GB HBM3"), ("GPU-b", "NVIDIA H100 80GB HBM3"), ("GPU-c", "NVIDIA L4")]


@pytest.fixture
def load(tmp_path: Path):
    """Return a function that reads a configuration file with the given text."""

    def read(text: str, **environ: str) -> Config:
        file = tmp_path / "kernelcup.toml"
        file.write_text(text)
        return Config.load(file, {"HOME": str(tmp_path), **environ})

    return read


def test_nothing_needs_to_be_configured(tmp_path: Path) -> None:
    config = Config.load(None, {"HOME": str(tmp_path)})
    data_dir = tmp_path / ".local/share/kernelcup"
    assert (config.file, config.data_dir) == (None, data_dir)
    assert config.database_url == f"sqlite:///{data_dir}/kernelcup.db"
    assert not data_dir.exists()


def test_the_data_directory_can_be_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "kernelcup.toml").write_text("[database]\nurl = 'postgresql://localhost/cup'\n")
    config = Config.load(None, {"KERNELCUP_HOME": str(tmp_path)})
    assert config.data_dir == tmp_path
    assert config.file == tmp_path / "kernelcup.toml"
    assert config.database_url == "postgresql://localhost/cup"


def test_the_environment_overrides_the_file(load) -> None:
    config = load("[database]\nurl = 'sqlite:///a.db'\n", KERNELCUP_DATABASE="sqlite:///b.db")
    assert config.database_url == "sqlite:///b.db"


def test_the_address_of_the_documentation_is_a_setting(load) -> None:
    assert load("").server.docs == "/docs"
    assert (
        load("[server]\ndocs = 'https://docs.example.org/cup'\n").server.docs
        == "https://docs.example.org/cup"
    )
    with pytest.raises(ConfigError):
        load("[server]\ndocs = 'https://docs.example.org/'\n")


def test_the_file_can_be_named_in_the_environment(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        Config.load(None, {"KERNELCUP_CONFIG": str(tmp_path / "none.toml")})


def test_devices_are_taken_from_the_file(load) -> None:
    config = load(
        """
        [[devices]]
        name = "H100"
        backend = "cuda"
        slots = 8
        description = "the big one"

        [[devices]]
        name = "cpu"
        backend = "cpu"
        """
    )
    assert config.devices == (
        Device(name="H100", backend=Backend.CUDA, slots=8, description="the big one"),
        Device(name="cpu", backend=Backend.CPU),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "# first\n\ndatabse = 1",
            "3:1: databse: unknown key; did you mean `database`? allowed are database, ",
        ),
        ("[server]\nhost = 'x'\n  prot = 80", "3:3: server.prot: unknown key; did you mean `port`?"),
        ("[server]\nport = '80'", "2:8: server.port: must be a whole number, not text"),
        (
            "[[devices]]\nname = 'x'\nbackend = 'cpu'\n\n[[devices]]\nname = 'y'\nbackend = 'rocm'",
            "7:11: devices.1.backend: expected one of cuda, cpu, emulated",
        ),
        ("[[devices]]\nbackend = 'cpu'", "1:1: devices.0.name: is required and missing"),
        ("server.port = 99999", "1:15: server.port: must be at most 65535"),
        ("[[devices]]\nname = 'a/b'\nbackend = 'cpu'", "2:8: devices.0.name: String should match pattern"),
        ("[[devices]]\nname='x'\nbackend='cpu'\n" * 2, "1:1: devices: two devices"),
        ("[sandbox]\nenvironment = ['LD_PRELOAD']", "2:15: sandbox.environment: 'LD_PRELOAD' would pass LD_"),
        ("[database]\nurl = = 1", "2:7: not TOML: Invalid value"),
        ("[database]\n[[devices", "2:10: not TOML: Expected"),
        ('[database]\nurl = """\n[server]\nport = 1\n"""\n[sandbox]\nrequired = 3', "7:12: sandbox.required"),
    ],
)
def test_what_is_wrong_is_named_with_line_and_column(load, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert f"kernelcup.toml:{problem}" in str(caught.value)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4070 Ti", "RTX4070Ti"),
        ("NVIDIA RTX A6000", "RTXA6000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX6000Ada"),
        ("NVIDIA TITAN Xp", "TITAN-Xp"),
        ("???", "GPU"),
    ],
)
def test_a_model_has_a_short_name(model: str, name: str) -> None:
    assert device_name(model) == name


def test_a_machine_without_gpus_can_emulate_one() -> None:
    assert detect_devices(detect_gpus({}, found=[])) == [EMULATED, CPU]


def test_each_model_is_a_device_with_a_slot_for_each_gpu() -> None:
    h100, l4, *rest = detect_devices(detect_gpus({}, found=TWO_KINDS))
    assert (h100.name, h100.backend, h100.slots) == ("H100", Backend.CUDA, 2)
    assert (l4.name, l4.slots) == ("L4", 1)
    assert rest == [EMULATED, CPU]


@pytest.mark.parametrize(
    ("visible", "indices"), [("1,2", ["1", "2"]), ("GPU-c", ["2"]), ("", []), ("NoDevFiles", []), ("7", [])]
)
def test_only_gpus_that_we_may_see_are_used(visible: str, indices: list[str]) -> None:
    gpus = detect_gpus({"CUDA_VISIBLE_DEVICES": visible}, found=TWO_KINDS)
    assert [gpu.index for gpu in gpus] == indices


def test_each_slot_gets_a_gpu_of_its_device() -> None:
    gpus = detect_gpus({}, found=TWO_KINDS)
    devices = [make_device(slots=2), make_device(name="L4"), make_device(name="mine", slots=4), EMULATED]
    assert slot_gpus(devices, gpus) == {"H100": ("0", "1"), "L4": ("2",), "mine": ("0", "1", "2", "0")}


def test_a_machine_without_gpus_has_none_to_give() -> None:
    assert slot_gpus([make_device(), CPU], []) == {}


def test_ranked_runs_need_a_sandbox_unless_the_file_says_otherwise(load) -> None:
    assert load("").sandbox_required
    assert not load("[sandbox]\nrequired = false").sandbox_required


@pytest.mark.parametrize(
    ("name", "hint"),
    [("KERNELCUP_PRT", "; did you mean KERNELCUP_PORT?"), ("KERNELCUP_XYZ", "")],
)
def test_a_misspelt_variable_is_named_with_the_nearest_setting(name: str, hint: str) -> None:
    assert list(unread_variables({name: "9000"})) == [f"{name} is no setting and is ignored{hint}"]


def test_variables_of_other_programs_and_of_the_tests_are_no_misspellings() -> None:
    others = {"PRT": "1", "MY_KERNELCUP_PRT": "1", "KERNELCUP_TEST_POSTGRES": "postgresql:///x"}
    assert list(unread_variables(others | {f"{PREFIX}{name}": "1" for name in VARIABLES})) == []


def test_each_documented_variable_is_known() -> None:
    root = Path(__file__).resolve().parents[2]
    text = (root / "docs/reference/configuration.md").read_text() + (root / "deploy/compose.yaml").read_text()
    named = set(re.findall(r"\bKERNELCUP_([A-Z_]*[A-Z])\b", text))
    assert named - {"HOST", "UPSTREAM"} <= VARIABLES  # those two are read by the proxy of the deployment
