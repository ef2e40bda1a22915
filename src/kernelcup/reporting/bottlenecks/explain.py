"""A profile in words and figures: sentences, the table of kernels, and what changed between two profiles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kernelcup.reporting.bottlenecks.launches import Group, Launch, groups
from kernelcup.reporting.bottlenecks.rules import SHORT_NS, Diagnosis, verdicts
from kernelcup_harness.protocol import Counters

MOST_SENTENCES = 6
MOST_KERNELS = 10
LEAST_SHARE = 0.05
"""Kernels with less of the time are not explained."""
MANY = 8
"""Launches of a call from which on short kernels are a fault of the call."""
FEW = 2
"""Launches from which on data goes from one to the next."""
CHANGED = 0.02
LONGEST_NAME = 60


@dataclass(frozen=True)
class Sentence:
    """One statement about a kernel, or about the call where ``kernel`` is empty."""

    code: str
    kernel: str
    share: float
    text: str
    advice: str
    is_fault: bool


@dataclass(frozen=True)
class Row:
    """A kernel in the table; shares in percent of the device's peak."""

    name: str
    launches: int
    share: float
    time_ns: float
    dram_pct: float
    compute_pct: float
    occupancy_pct: float
    registers: int
    shared_bytes: int
    spills: int
    grid: str


def sentences(found: Counters) -> list[Sentence]:
    """Return at most six sentences: of the call first, then of its kernels, the longest first."""
    kernels = groups(found.kernels, found.data_bytes)
    of_call = (launch_bound(kernels) or unfused(kernels, found.data_bytes),)
    told = [each for each in of_call if each is not None]
    for group in kernels:
        if group.share >= LEAST_SHARE or group is kernels[0]:
            told += [sentence(group, each) for each in verdicts(group.longest)]
    # What is said without a fault is said once: of the longest kernel.
    neutral: set[str] = {"short"} if any(each.code == "launch_bound" for each in told) else set()
    shown = []
    for each in told:
        if each.is_fault or each.code not in neutral:
            shown.append(each)
        neutral |= set() if each.is_fault else {each.code}
    return shown[:MOST_SENTENCES]


def sentence(group: Group, verdict: Diagnosis) -> Sentence:
    """Return a rule's verdict as a sentence about a kernel."""
    name = short(group.name)
    text = f"{name} ({group.share:.0%} of the time): {verdict.text}."
    return Sentence(verdict.code, name, group.share, text, verdict.advice, verdict.is_fault)


def as_objects(found: Counters | None) -> list[dict[str, Any]]:
    """Return the sentences for JSON."""
    return [] if found is None or found.trouble else [asdict(each) for each in sentences(found)]


def launch_bound(kernels: Sequence[Group]) -> Sentence | None:
    """Return the sentence about a call of many short kernels, None for any other."""
    launches = [each for group in kernels for each in group.launches]
    mean_ns = sum(each["time_ns"] for each in launches) / len(launches) if launches else 0.0
    if len(launches) < MANY or mean_ns >= SHORT_NS:
        return None
    text = f"The call launches {len(launches)} kernels of {mean_ns / 1e3:.1f} µs on average: it waits for launches."
    advice = "Fuse them: one kernel, torch.compile, or a persistent kernel that takes all the work."
    return Sentence("launch_bound", "", 1.0, text, advice, is_fault=True)


def unfused(kernels: Sequence[Group], data_bytes: float) -> Sentence | None:
    """Return the sentence about a call whose kernels hand each other data through memory."""
    launches = [each for group in kernels for each in group.launches]
    times = sum(each.dram_bytes for each in launches) / data_bytes if data_bytes else 0.0
    if len(launches) < FEW or times < 1.8:
        return None
    text = f"The call's {len(launches)} kernels move {times:.1f} times the bytes of its input and answer."
    advice = "Fuse them, so that what one leaves for the next stays in registers."
    return Sentence("unfused", "", 1.0, text, advice, is_fault=True)


def rows(found: Counters) -> list[Row]:
    """Return the table of kernels, the longest first."""
    return [row(each) for each in groups(found.kernels, found.data_bytes)[:MOST_KERNELS]]


def row(group: Group) -> Row:
    """Return the line of a kernel: figures of its longest launch, the time of all."""
    seen: Launch = group.longest
    return Row(
        name=short(group.name),
        launches=len(group.launches),
        share=group.share,
        time_ns=group.time_ns,
        dram_pct=seen["dram_pct"],
        compute_pct=seen["compute_pct"],
        occupancy_pct=seen["occupancy_pct"],
        registers=int(seen["registers"]),
        shared_bytes=int(seen["shared_bytes"]),
        spills=int(seen["spills"]),
        grid=blocks_text(seen.seen.grid),
    )


def blocks_text(grid: Sequence[int]) -> str:
    """Return the blocks of a grid by its dimensions, without those at the end that are 1."""
    used = max((at for at, size in enumerate(grid, 1) if size > 1), default=1)
    return " x ".join(map(str, grid[:used]))


def text(found: Counters) -> str:
    """Return a profile for a terminal or a message: its setting, the sentences, the table."""
    lines = [setting(found)]
    if found.trouble:
        return "\n".join([*lines, f"No counters: {found.trouble}."])
    lines += [f"- {each.text}\n  {each.advice}" for each in sentences(found)]
    lines += [
        "",
        f"{'kernel':40} {'time':>10} {'share':>6} {'memory':>7} {'compute':>8} {'occup.':>7} {'regs':>5}",
    ]
    for each in rows(found):
        name = each.name if each.launches == 1 else f"{each.launches} x {each.name}"
        lines.append(
            f"{name[:40]:40} {each.time_ns / 1e3:7.1f} µs {each.share:6.0%} {each.dram_pct:5.0f} % "
            f"{each.compute_pct:6.0f} % {each.occupancy_pct:5.0f} % {each.registers:5}"
        )
    return "\n".join(lines)


def setting(found: Counters) -> str:
    """Return what was profiled, and how."""
    if not found.tool:
        return f"Benchmark {found.case}."
    how = "one call, replayed without the submission's host code"
    if found.not_replayed:
        how = f"one call in the submission's own process, which could change what is seen ({found.not_replayed})"
    return f"Benchmark {found.case} under {found.tool}: {how}; clocks as for ranking."


def differences(before: Counters, after: Counters) -> list[str]:
    """Return what changed between two profiles, kernel by kernel; nothing for changes of less than 2 %."""
    old, new = ({each.name: each for each in groups(one.kernels)} for one in (before, after))
    lines = [changed_call(before, after)]
    for name in [*new, *(name for name in old if name not in new)]:
        if name not in old:
            lines.append(f"new: {short(name)}, {new[name].time_ns / 1e3:.1f} µs")
        elif name not in new:
            lines.append(f"gone: {short(name)}, {old[name].time_ns / 1e3:.1f} µs")
        elif abs(new[name].time_ns / max(1.0, old[name].time_ns) - 1.0) >= CHANGED:
            lines.append(f"{short(name)}: {change(old[name], new[name])}")
    codes = [{(each.code, each.kernel) for each in sentences(one)} for one in (before, after)]
    lines += [f"no more: {code} ({kernel or 'the call'})" for code, kernel in sorted(codes[0] - codes[1])]
    lines += [f"now: {code} ({kernel or 'the call'})" for code, kernel in sorted(codes[1] - codes[0])]
    return lines


def changed_call(before: Counters, after: Counters) -> str:
    """Return the time of all kernels before and after."""
    old, new = (sum(each.counters.get("time_ns", 0.0) for each in one.kernels) for one in (before, after))
    return f"all kernels: {old / 1e3:.1f} -> {new / 1e3:.1f} µs ({new / max(1.0, old) - 1.0:+.1%})"


def change(old: Group, new: Group) -> str:
    """Return the time of a kernel before and after, with the shares that moved by more than two points."""
    times = f"{old.time_ns / 1e3:.1f} -> {new.time_ns / 1e3:.1f} µs ({new.time_ns / max(1.0, old.time_ns) - 1.0:+.1%})"
    moved = [
        f"{words} {old.longest[name]:.0f} -> {new.longest[name]:.0f}{unit}"
        for name, words, unit in MOVES
        if abs(old.longest[name] - new.longest[name]) >= 2.0
    ]
    return ", ".join([times, *moved])


MOVES = (
    ("dram_pct", "memory", " %"),
    ("compute_pct", "compute", " %"),
    ("occupancy_pct", "occupancy", " %"),
    ("registers", "registers", ""),
)


def short(name: str) -> str:
    """Return a kernel's name without return type, templates and arguments."""
    plain = name.split("(")[0]
    while re.search("<[^<>]*>", plain):
        plain = re.sub("<[^<>]*>", "", plain)
    plain = plain.split("<")[0].removeprefix("void ").split("::")[-1].strip()
    return (plain or name)[:LONGEST_NAME]


def demangled(name: str) -> str:
    """Return the innermost name of a function that C++ has mangled; others as they are."""
    found = re.match(r"_Z(?:N[KVR]*)?", name)
    rest, inner = name[found.end() :] if found else "", ""
    while length := re.match(r"\d+", rest):
        begin = length.end()
        inner, rest = rest[begin : begin + int(length[0])], rest[begin + int(length[0]) :]
    return inner or name
