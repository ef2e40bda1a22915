"""The documentation says what the code does: all of it, and nothing that is not there."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
import sys
import tomllib
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest
from ruamel.yaml import YAML

import kernelcup.config.settings
import kernelcup_kernelbot.settings
from kernelcup.cli import exit_codes
from kernelcup.config.settings import Config
from kernelcup.config.sign_in import SignInSection
from kernelcup.screen.kernelguard import LIMIT_S, MEMORY_BYTES
from kernelcup_harness import protocol
from kernelcup_harness.protocol import JobSpec, Reason, Verdict, loads
from kernelcup_harness.run.task_harness_results import EXIT_VERDICTS
from kernelcup_harness.window.reasons import WhyNot

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks/results"
REFERENCE = DOCS / "reference"
CLI = ROOT / "src/kernelcup/cli"
REPORT = ["RunReport", "StageReport", "CaseResult", "Timing", "Mismatch", "Difference", "CapturedOutput"]


def load_script(name: str) -> ModuleType:
    """Import a script that has no ending."""
    loader = SourceFileLoader(name.replace("-", "_"), str(ROOT / "scripts" / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[loader.name] = module  # dataclasses look themselves up there
    loader.exec_module(module)
    return module


cli_docs = load_script("cli-docs")
api_docs = load_script("api-docs")
discord_docs = load_script("discord-docs")


def read(page: str | Path) -> str:
    """Return the text of a page of the reference, or of any file."""
    return (REFERENCE / page).read_text(encoding="utf-8")


def page_id(page: Path) -> str:
    """Name a page as pytest shows it."""
    return str(page.relative_to(ROOT))


def test_the_page_of_discord_commands_is_up_to_date():
    assert discord_docs.render() == read("discord-commands.md"), "run scripts/discord-docs"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=page_id)
def test_the_generated_parts_are_up_to_date(page):
    assert cli_docs.render(read(page)) == read(page), "run scripts/cli-docs"


def test_every_command_has_its_part():
    described = {
        name.removeprefix("command ") for name in cli_docs.names(read("cli.md")) if name[:8] == "command "
    }
    assert described == set(cli_docs.commands())


def test_every_option_is_described():
    for path, node in cli_docs.commands().items():
        text = cli_docs.command(path)
        shown = [param for param in node.params if param.param_type_name == "option" and not param.hidden]
        for param in shown:
            assert param.help, f"{path}: {param.name}"
            assert all(opt in text for opt in [*param.opts, *param.secondary_opts]), path


def test_every_error_code_is_documented_with_what_to_do():
    text = read("errors.md")
    told = re.findall(r'tell\([^"\n]*"(\w+)"', (CLI / "entry.py").read_text())
    families = {"leaderboard_closed", "invalid_submission"}
    codes = {kind.code for kind in cli_docs.user_errors(cli_docs.errors.UserError)}
    assert "errors" in cli_docs.names(text)
    by_hand = text.partition("<!-- end of generated -->")[2]
    wanted = (codes - families) | {name for _, _, name in exit_codes.ERRORS} | set(told)
    assert {code for code in wanted if f"`{code}`" not in by_hand} == set()
    assert {code for code in families if f"`{code}`" not in by_hand} == set()


def test_the_limits_of_a_second_opinion_are_documented():
    text = read("second-opinion.md")
    assert f"at most {LIMIT_S:g} s and with at most {MEMORY_BYTES // 1024**3} GiB" in text


def test_every_exit_code_is_documented():
    text = read("exit-codes.md")
    numbers = {value for name, value in vars(exit_codes).items() if name.isupper() and type(value) is int}
    numbers |= set(exit_codes.VERDICTS.values())
    assert {number for number in numbers if f"| {number} |" not in text} == set()


def test_every_verdict_is_documented_with_its_exit_code_and_what_next():
    text = read("verdicts.md")
    for verdict in Verdict:
        assert f"| `{verdict.value}` | {exit_codes.VERDICTS[verdict]} |" in text
        assert f"### `{verdict.value}`" in text


def test_every_reason_is_documented_and_no_other():
    section = read("verdicts.md").partition("## Reasons")[2].partition("## What next")[0]
    documented = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert documented == {reason.value for reason in Reason} - {""}


def test_every_reason_why_calls_are_not_replayed_is_documented_and_no_other():
    section = read("not-replayed.md").partition("## Reasons")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| \S.* \| \S.* \|$", section, re.MULTILINE)
    assert sorted(rows) == sorted(WhyNot)


def test_attacks_that_the_threat_model_names_are_in_the_corpus():
    named = set(re.findall(r"\b[VT]\d+\b", read(DOCS / "explanation/threat-model.md")))
    assert "V25" in named
    assert named <= set(re.findall(r"^\| ([VT]\d+) \|", read("attacks.md"), re.MULTILINE))


@pytest.mark.parametrize("code", sorted(EXIT_VERDICTS))
def test_every_exit_code_of_an_own_harness_is_documented(code):
    text = read(DOCS / "explanation/how-judging-works.md")
    assert re.search(rf"^\| {code} \| .* \| `{EXIT_VERDICTS[code][0].value}` \|$", text, re.MULTILINE)


@pytest.mark.parametrize("name", REPORT)
def test_every_field_of_a_report_is_documented(name):
    assert f"fields {name}" in cli_docs.names(read("json.md"))
    for field in dataclasses.fields(getattr(protocol, name)):
        assert f"| `{field.name}` |" in read("json.md")


@pytest.mark.parametrize("name", ["JobSpec", "Limits", "MeasureRules"])
def test_every_field_of_a_job_is_documented(name):
    assert f"fields {name}" in cli_docs.names(read("job-protocol.md"))


def test_no_text_is_kept_for_a_field_that_is_gone():
    for key in cli_docs.FIELDS:
        kind, _, field = key.partition(".")
        assert field in {each.name for each in dataclasses.fields(getattr(protocol, kind))}, key


def test_no_install_line_takes_a_name_that_anybody_can_register():
    texts = {path: path.read_text() for path in (ROOT / "src/kernelcup/cli").rglob("*.py")}
    texts |= {path: path.read_text() for path in DOCS.rglob("*.md")}
    unreleased = re.compile(r"install '?kernelcup\b|kernelcup\[")
    assert [str(path) for path, text in texts.items() if unreleased.search(text)] == []


def test_the_smallest_job_of_the_documentation_is_one():
    (text,) = re.findall(r"```json\n(.*?)```", read("job-protocol.md"), re.DOTALL)
    assert loads(JobSpec, text).job_id == "example"


def test_every_event_is_documented():
    source = (ROOT / "src/kernelcup_harness/run/record.py").read_text()
    events = set(re.findall(r'_on_event\(\s*\{"event": "(\w+)"', source)) | {"case", "sample"}
    text = read("job-protocol.md")
    assert {event for event in events if f"| `{event}` |" not in text} == set()


def json_keys() -> set[str]:
    """Return the keys of all objects that commands print with ``--json``."""
    keys: set[str] = set()
    for path in CLI.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef) and prints_json(function):
                found = (node.keys for node in ast.walk(function) if isinstance(node, ast.Dict))
                keys |= {key.value for each in found for key in each if isinstance(key, ast.Constant)}
    return keys


def prints_json(function: ast.FunctionDef) -> bool:
    """Whether a function makes an object for ``--json``."""
    return function.name.endswith(("as_object", "_object", "without_hidden")) or any(
        isinstance(node, ast.Attribute) and node.attr == "dumps" for node in ast.walk(function)
    )


# Commands that stay in the foreground or deploy, and one whose output is a file.
WITHOUT_JSON = {
    "bot",
    "demo",
    "mcp",
    "serve",
    "runner agent",
    "runner join",
    "runner up",
    "runner deploy",
    "env export",
}


def test_every_command_that_prints_data_has_json():
    plain = {
        name
        for name, command in cli_docs.commands().items()
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    assert plain == WITHOUT_JSON


def test_every_key_of_json_output_is_documented():
    from kernelcup.domain import Score

    keys = json_keys() - {"ok", "missing", "broken"} | {each.name for each in dataclasses.fields(Score)}
    assert {"verdict", "jobs", "standings", "leaderboards", "problems", "findings"} <= keys
    text = read("json.md")
    # `error` is shown as the object that it is.
    assert {key for key in keys - {"error"} if f"`{key}`" not in text} == set()


def test_every_key_of_a_task_is_documented_in_the_json_page():
    from kernelcup.domain import Task

    text = read("json.md")
    assert {field.name for field in dataclasses.fields(Task) if f"`{field.name}`" not in text} == set()


CLASSES = {"signin": "_SignIn", "devices": "_Device"}


def test_every_key_of_the_configuration_is_documented():
    text = read("configuration.md")
    sections = kernelcup.config.settings._File.model_fields
    keys = [f"extensions.kernelbot.{key}" for key in kernelcup_kernelbot.settings.Settings.model_fields]
    for section in sections.keys() - {"extensions", "launchers"}:
        kind = getattr(kernelcup.config.settings, CLASSES.get(section, f"_{section.capitalize()}"))
        keys += [f"{section}.{key}" for key in kind.model_fields]
    assert [key for key in keys if f"| `{key}` |" not in text] == []


def test_the_configuration_of_the_documentation_can_be_read(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", read("configuration.md"), re.DOTALL)
    file = tmp_path / "kernelcup.toml"
    file.write_text(text)
    config = Config.load(file, {"HOME": str(tmp_path)})
    assert config.database_url.startswith("postgresql://")
    assert config.server.public_url == "https://cup.example.org"
    assert [name for name, _ in config.signin_sections] == ["github"]
    assert [device.name for device in config.configured_devices] == ["H100", "emulated"]
    assert tomllib.loads(text)


def test_every_environment_variable_is_documented():
    names = set(re.findall(r'"(KERNELCUP_[A-Z]+)"', inspect.getsource(kernelcup.config.settings)))
    names |= {"CUDA_VISIBLE_DEVICES"}
    assert {name for name in names if f"`{name}`" not in read("configuration.md")} == set()


def test_every_key_of_a_sign_in_provider_is_documented():
    text = read("configuration.md")
    assert {key for key in SignInSection.model_fields if f"`signin.github.{key}`" not in text} == set()


@pytest.mark.dear("makes the whole description of the API")
def test_the_table_of_routes_is_up_to_date():
    assert api_docs.render(read("http-api.md")) == read("http-api.md"), "run scripts/api-docs"


def test_every_event_of_a_submission_is_documented():
    sources = [
        *(ROOT / "src/kernelcup/app").rglob("*.py"),
        ROOT / "src/kernelcup/app/submissions/queries/events.py",
    ]
    written = "\n".join(path.read_text() for path in sources)
    kinds = set(re.findall(r'(?:record(?:_many|_first)?\(\s*session, [\w.]+, |literal\()"(\w+)"', written))
    assert {"accepted", "started", "finished", "done"} <= kinds
    text = read("http-api.md").partition("## Events")[2]
    assert {kind for kind in kinds if f"`{kind}`" not in text} == set()


def test_the_figures_of_the_readme_were_measured():
    text = (ROOT / "README.md").read_text()
    jobs = [json.loads(line) for line in (RESULTS / "served-fma-h100.jsonl").read_text().splitlines()]
    hashes = {job["harness_hash"][:12] for job in jobs}
    assert hashes == set(re.findall(r"harness `(\w{12})`", text))
    scores = {
        f"{case['timing']['audit']['score_ns'] / 1000:.2f}"
        for job in jobs
        for stage in job["report"]["stages"]
        for case in stage["cases"]
    }
    (table,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert set(re.findall(r" (\d+\.\d\d) µs", table)) <= scores


def test_every_page_is_in_the_navigation():
    # The file has no tags of Python's, so a plain reader will do.
    config = YAML(typ="safe").load((ROOT / "mkdocs.yml").read_text())
    listed = set(re.findall(r"'([\w/-]+\.md)'", str(config["nav"])))
    assert listed == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert config["theme"]["font"] is False


def test_the_changelog_has_the_version():
    from kernelcup import __version__

    assert __version__ in (ROOT / "CHANGELOG.md").read_text()


def test_all_that_name_the_version_name_the_same():
    from kernelcup import __version__

    cited = YAML(typ="safe").load((ROOT / "CITATION.cff").read_text())["version"]
    loopback = tomllib.loads((ROOT / "packages/discord-loopback/pyproject.toml").read_text())["project"][
        "version"
    ]
    assert {cited, loopback} == {__version__}


def test_a_release_says_what_stands_in_its_way():
    unready = load_script("release").unready
    ready = "# Changelog\n\n## [0.2.0] - 2027-01-31\n"
    assert list(unready("0.2.0", ready, "version: 0.2.0\n")) == []
    faults = [
        "CHANGELOG.md: no line `## [0.2.0] - DATE`",
        "CHANGELOG.md: something is unreleased",
        "CITATION.cff: its version is not 0.2.0",
    ]
    assert (
        list(unready("0.2.0", "## [Unreleased]\n\n## [0.1.0] - 2026-12-01\n", "version: 0.1.0\n")) == faults
    )
    assert list(unready("0.2.0", ready.replace(" - 2027-01-31", ""), "version: 0.2.0\n")) == faults[:1]
