"""Reads the attacks: every ``attack.yml`` below this folder, variant by variant.

An ``attack.yml`` says

``id``        of section 5.1 of the threat notes (``V10``), or ``T28`` for number 28 of their taxonomy
``title``, ``taxonomy``, ``stage``, ``how``, ``defence``    for readers
``task``      a folder below ``attacks/tasks``, or the name of a shipped example
``mode``      ``leaderboard`` unless it says otherwise
``needs``     ``cpu``, or ``gpu`` where the attack means nothing without one
``sandbox``   true where the sandbox is the defence: without one the attack is not tried
``group``     true where a control group is the defence: without one the attack is not tried
``limits``, ``rules``   fields of ``Limits`` and ``MeasureRules`` to replace
``expect``    ``verdicts`` and ``reasons`` that are right; an empty list of reasons allows any
``honest``    the honest twin, ``honest.py``
``first``     a file that is judged before, by another job: what it leaves behind is the attack
``clock``     true for an attack on the clock: all its answers may be right, and the run accepted; then it
              must be quarantined, or gain nothing. Its cases are timed in real jobs, never emulated
``acts``      by what the attack knows that it acted, in a few words. What an attack says of itself is a line of
              its standard output that begins with ``acted``, or a mark beside its answer (``timed_fma``)
``told``      a text that is in the report: the attack acted
``untold``    texts that its author must not see in the report
``duel``      true where a duel with its twin, which repeats inputs, is attacked as well
``alone``     true for an attack on the machine itself, which nothing should run beside
``variants``  the attacking files, ``attack.py`` alone unless it says otherwise; an entry may be a
              mapping with ``file`` and whatever of the above is different for it
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

import kernelcup.tasks
from kernelcup.domain import Task
from kernelcup.tasks.job_spec import build_job_spec
from kernelcup_harness.protocol import Backend, HarnessKind, JobSpec, Mode, Reason, Verdict, SourceTree

HERE = Path(__file__).parent
EXAMPLES = Path(kernelcup.tasks.__file__).parent / "examples"

# Cases end by their number of samples, not by their time: a machine that is busy with other tests takes long for each.
PATIENT: dict[str, Any] = {"case_budget_s": 8.0, "stage_budget_s": 16.0}
# Enough calls that what acts at random moments does act, and that counting calls is worth trying.
RULES: dict[str, Any] = {**PATIENT, "warmups": 1, "min_samples": 8, "max_samples": 12}
# The numbers of samples are those of real jobs.
CLOCK_RULES: dict[str, Any] = PATIENT


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One attacking file, and what must become of it."""

    folder: Path
    file: str = "attack.py"
    id: str
    family: str
    """The title that all variants share."""
    title: str
    taxonomy: tuple[int, ...]
    stage: str
    how: str
    defence: str
    task: str
    verdicts: tuple[Verdict, ...]
    reasons: tuple[Reason, ...] = ()
    mode: Mode = Mode.LEADERBOARD
    harness: HarnessKind = HarnessKind.STANDARD
    needs: str = "cpu"
    sandbox: bool = False
    group: bool = False
    alone: bool = False
    clock: bool = False
    acts: str = ""
    told: str = ""
    untold: tuple[str, ...] = ()
    duel: bool = False
    honest: str = "honest.py"
    first: str | None = None
    limits: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name the attack in one word."""
        extra = Path(self.file).stem.removeprefix("attack").strip("_")
        return "-".join(filter(None, [self.folder.name, extra]))

    @property
    def task_folder(self) -> Path:
        """The folder of the task that it is about."""
        own = HERE / "tasks" / self.task
        return own if own.exists() else EXAMPLES / self.task

    def text(self, file: str | None = None) -> str:
        """Return the text of the attacking file, or another of its folder."""
        return (self.folder / (file or self.file)).read_text(encoding="utf-8")


def attacks() -> list[Attack]:
    """Return all attacks in the order of their folders, without those on the clock."""
    return [attack for attack in everything() if not attack.clock]


def clock_attacks() -> list[Attack]:
    """Return the attacks on the clock."""
    return [attack for attack in everything() if attack.clock]


@cache
def everything() -> tuple[Attack, ...]:
    """Return all attacks in the order of their folders."""
    listings = sorted(HERE.glob("*/attack.yml"))
    return tuple(attack for listing in listings for attack in read(listing))


def folder_title(folder: Path) -> str:
    """Return the title of a folder, whatever its variants are called."""
    return str(YAML(typ="safe").load((folder / "attack.yml").read_text(encoding="utf-8"))["title"])


def read(listing: Path) -> Iterator[Attack]:
    """Return the variants of one ``attack.yml``. An unknown key or value is an error here."""
    common = dict(YAML(typ="safe").load(listing.read_text(encoding="utf-8")))
    for variant in common.pop("variants", ["attack.py"]):
        own = {"file": variant} if isinstance(variant, str) else dict(variant)
        yield made(listing.parent, {**common, **own, "family": common["title"]})


def made(folder: Path, values: dict[str, Any]) -> Attack:
    """Return one attack from the values that are written for it."""
    expect = values.pop("expect")
    assert expect.keys() <= {"verdicts", "reasons"}, folder
    assert values.get("needs", "cpu") in ("cpu", "gpu"), folder
    values |= {name: tuple(values[name]) for name in ("taxonomy", "untold") if name in values}
    values |= {"mode": Mode(values.get("mode", "leaderboard"))}
    values["harness"] = HarnessKind(values.get("harness", "standard"))
    values |= {key: " ".join(values[key].split()) for key in ("how", "defence", "title", "family")}
    return Attack(
        folder=folder,
        verdicts=tuple(Verdict(verdict) for verdict in expect["verdicts"]),
        reasons=tuple(Reason(reason) for reason in expect.get("reasons", [])),
        **values,
    )


def job(attack: Attack, task: Task, file: str, backend: Backend, job_id: str) -> JobSpec:
    """Return the job that judges a file of the attack's folder under the attack's task, limits and rules.

    Limits of time are for the attack: its honest twin has those of the task, which a busy machine keeps.
    """
    limits, rules = (
        {name: value for name, value in own.items() if file != attack.honest or not name.endswith("_s")}
        for own in (attack.limits, attack.rules)
    )
    tree = SourceTree.of(attack.text(file), f"submission{Path(file).suffix}")
    spec = build_job_spec(
        task, job_id=job_id, submission=tree, mode=attack.mode, backend=backend, harness=attack.harness
    )
    return dataclasses.replace(
        spec,
        limits=dataclasses.replace(spec.limits, **limits),
        rules=dataclasses.replace(
            spec.rules, **{**(CLOCK_RULES if attack.clock else RULES), **rules}
        ),
    )
