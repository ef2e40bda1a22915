"""The rules: each looks at one launch of a kernel and names what limits it, with the evidence and what to try.

A rule accuses only where the unit that it is about, or the lack of work for all units, is what the time goes into.
Thresholds are shares; they were set on the kernels of ``benchmarks/profile_kernels.py``, see ``tests/data/profiles``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernelcup.reporting.bottlenecks.launches import Launch

FULL_BYTES = 32
"""Of a sector: the least that memory moves."""
WARP = 32
NEAR_PCT = 75.0
"""Memory rarely gets further: rows have to be opened, and every kernel begins and ends."""
SHORT_NS = 5_000.0
"""Kernels that are shorter spend much of their time on beginning and ending."""


@dataclass(frozen=True)
class Diagnosis:
    """What a rule says of one launch.

    Args:
        code: Stable, for programs.
        text: One sentence with the evidence.
        advice: What to try.
        is_fault: Whether something can be won there; false for a unit that works near its peak.
    """

    code: str
    text: str
    advice: str
    is_fault: bool = True


Rule = Callable[[Launch], Diagnosis | None]


def too_few_blocks(seen: Launch) -> Diagnosis | None:
    """Fewer blocks than half of the multiprocessors."""
    if not seen["sms"] or seen["blocks"] > 0.5 * seen["sms"] or seen["time_ns"] < SHORT_NS:
        return None
    return Diagnosis(
        "too_few_blocks",
        f"it has {seen['blocks']:.0f} blocks for {seen['sms']:.0f} multiprocessors: most of the GPU is idle",
        "Split the work into more blocks, along a reduced dimension too if there is no other.",
    )


def tail_wave(seen: Launch) -> Diagnosis | None:
    """A last wave of few blocks, during which most multiprocessors have nothing to do."""
    waves, active = seen["waves"], seen.share("sm_active", "sm_active_max")
    whole = -(-waves // 1)
    if not 1.0 < waves < 6.0 or waves / whole > 0.8 or active > 0.8:
        return None
    return Diagnosis(
        "tail_wave",
        f"its {seen['blocks']:.0f} blocks make {waves:.2f} waves, and multiprocessors are active for "
        f"{active:.0%} of the longest one's time",
        "Choose blocks so that their number fills whole waves, or let each block take work until none is left.",
    )


def spills(seen: Launch) -> Diagnosis | None:
    """Registers that are kept in local memory."""
    local = seen["local_loads"] + seen["local_stores"]
    share = local / seen["instructions"] if seen["instructions"] else 0.0
    if not seen["spills"] or share < 0.02:
        return None
    return Diagnosis(
        "spills",
        f"{share:.0%} of its instructions move spilled registers ({seen['registers']:.0f} registers a thread)",
        "Allow more registers (fewer threads a block, a looser launch bound), or keep fewer values at a time.",
    )


def uncoalesced(seen: Launch) -> Diagnosis | None:
    """Threads of a warp that access scattered addresses."""
    excess = seen.share("sectors_excess", "sectors")
    if excess < 0.3 or max(seen["memory_pct"], seen["l1_pct"], seen["l2_pct"]) < 30.0:
        return None
    loads, stores = seen["load_bytes_per_sector"], seen["store_bytes_per_sector"]
    used = ", ".join(
        f"{value:.0f} by {name}" for name, value in (("loads", loads), ("stores", stores)) if value
    )
    return Diagnosis(
        "uncoalesced",
        f"{excess:.0%} of the sectors that it accesses are unneeded: of {FULL_BYTES} bytes each, {used} are used",
        "Let neighbouring threads access neighbouring addresses; transpose through shared memory if both sides "
        "cannot have that.",
    )


def bank_conflicts(seen: Launch) -> Diagnosis | None:
    """Threads of a warp that access different words of one bank of shared memory."""
    excess = seen.share("shared_excess", "shared_wavefronts")
    if excess < 0.3 or seen["l1_pct"] < 30.0 or seen["dram_pct"] >= 60.0:
        return None
    return Diagnosis(
        "bank_conflicts",
        f"{excess:.0%} of its accesses to shared memory wait for conflicts of banks",
        "Pad the rows of the tile by one element, or swizzle its columns.",
    )


def divergence(seen: Launch) -> Diagnosis | None:
    """Threads of a warp that go different ways."""
    threads = seen["threads_per_instruction"]
    if not 0 < threads < 22.0 or seen["issue_pct"] < 20.0:
        return None
    return Diagnosis(
        "divergence",
        f"an instruction works for {threads:.1f} of {WARP} threads on average",
        "Sort or group the work so that the threads of a warp take the same branch and the same number of rounds.",
    )


def atomics(seen: Launch) -> Diagnosis | None:
    """Atomic operations on global memory that threads wait for."""
    made = seen["reductions"] + seen["atomics"]
    requests = made + seen["global_loads"] + seen["global_stores"]
    share = made / requests if requests else 0.0
    if share < 0.1 or max(seen["compute_pct"], seen["dram_pct"]) > 60.0:
        return None
    return Diagnosis(
        "atomics",
        f"{share:.0%} of its accesses to global memory are atomic, and no other unit is busy "
        f"({seen['dram_pct']:.0f} % of the memory's rate)",
        "Add up in registers and shared memory first, and make one atomic operation for each block.",
    )


def redundant_loads(seen: Launch) -> Diagnosis | None:
    """The same data, read from the cache again and again."""
    bytes_read = seen["l2_to_l1"]
    times = bytes_read / seen["dram_read"] if seen["dram_read"] else 0.0
    near = max(seen["l2_pct"], seen["l1_pct"])
    if times < 4.0 or near < 50.0 or seen["tensor_pct"] > 20.0 or seen["dram_pct"] > 50.0:
        return None
    return Diagnosis(
        "redundant_loads",
        f"it reads {times:.0f} times as many bytes from the cache as from memory, and the caches are at "
        f"{near:.0f} % of their rate",
        "Keep what several threads need in shared memory or registers, and load it once.",
    )


def l2_thrash(seen: Launch) -> Diagnosis | None:
    """Data that is read from memory several times, because it does not stay in the cache."""
    times = seen["dram_read"] / seen.data_bytes if seen.data_bytes else 0.0
    if times < 1.6 or seen["dram_pct"] < 40.0:
        return None
    return Diagnosis(
        "l2_thrash",
        f"it reads {times:.1f} times the bytes of input and answer from memory (cache hits: "
        f"{seen['l2_hit_pct']:.0f} %)",
        "Finish with a part that fits into the cache before the next: reorder blocks, or fuse the passes.",
    )


def wrong_dtype(seen: Launch) -> Diagnosis | None:
    """Double precision as the busiest unit."""
    if seen["fp64_pct"] < 30.0 or seen["fp64_pct"] < seen["fma_pct"]:
        return None
    return Diagnosis(
        "wrong_dtype",
        f"its units for double precision are {seen['fp64_pct']:.0f} % busy",
        "Unless the task needs double precision: write constants as 0.5f, and keep sums in float.",
    )


def idle_tensor_cores(seen: Launch) -> Diagnosis | None:
    """A matrix product without tensor cores."""
    products = seen["ffma"] * seen["cycles"] / WARP
    loads = seen["shared_loads"] / products if products else 0.0
    if seen["tensor_pct"] >= 1.0 or seen["fma_pct"] < 25.0 or loads < 0.02 or seen.intensity < 30.0:
        return None
    return Diagnosis(
        "idle_tensor_cores",
        f"its tensor cores are idle, while the units for multiply-add are {seen['fma_pct']:.0f} % busy with "
        f"{seen.intensity:.0f} operations for each byte of memory",
        "Use tensor cores: `tl.dot`, CUTLASS or WMMA with half-precision or TF32 inputs.",
    )


def occupancy(seen: Launch) -> Diagnosis | None:
    """Few warps, while no unit is busy."""
    if not seen.has("occupancy_pct", "occupancy_limit_pct") or seen["blocks"] < seen["sms"]:
        return None
    if seen["occupancy_limit_pct"] > 50.0 or seen["occupancy_pct"] > 40.0 or seen.busiest_pct > 60.0:
        return None
    return Diagnosis(
        "occupancy",
        f"{seen['occupancy_pct']:.0f} % of the warps that fit are there, limited by {seen.occupancy_limit}, and no "
        f"unit is busier than {seen.busiest_pct:.0f} %",
        "Use less of it for each block, or give each thread more independent work to hide the waiting.",
    )


def memory_bound(seen: Launch) -> Diagnosis | None:
    """Memory as the busiest unit."""
    share = seen["dram_pct"]
    if share < 60.0:
        return None
    near = "near the peak" if share >= NEAR_PCT else "the unit that it waits for"
    return Diagnosis(
        "memory_bound",
        f"it uses {share:.0f} % of the memory's rate ({seen.dram_rate / 1e12:.2f} TB/s): memory is {near}",
        "Only fewer bytes help: fuse it with its neighbours, or store smaller types.",
        is_fault=False,
    )


def compute_bound(seen: Launch) -> Diagnosis | None:
    """Multiprocessors near their peak."""
    if seen["compute_pct"] < 70.0:
        return None
    unit = "tensor cores" if seen["tensor_pct"] >= seen["compute_pct"] - 5.0 else "multiprocessors"
    return Diagnosis(
        "compute_bound",
        f"its {unit} work at {seen['compute_pct']:.0f} % of their rate: it is near the peak",
        "Only fewer or cheaper operations help.",
        is_fault=False,
    )


RULES: tuple[Rule, ...] = (
    too_few_blocks,
    tail_wave,
    spills,
    uncoalesced,
    bank_conflicts,
    divergence,
    atomics,
    wrong_dtype,
    idle_tensor_cores,
    l2_thrash,
    redundant_loads,
    occupancy,
    memory_bound,
    compute_bound,
)
"""In the order in which their sentences are shown: what causes others comes first."""


COVERS = {
    "spills": ("l2_thrash", "redundant_loads"),
    "uncoalesced": ("l2_thrash", "redundant_loads"),
    "idle_tensor_cores": ("redundant_loads",),
}
"""Causes, and what they look like beside: that is not said again."""


def verdicts(seen: Launch) -> list[Diagnosis]:
    """Return what the rules say of a launch."""
    found = [each for each in (rule(seen) for rule in RULES) if each is not None]
    covered = {code for each in found for code in COVERS.get(each.code, ())}
    return [each for each in found if each.code not in covered] or [waiting(seen)]


def waiting(seen: Launch) -> Diagnosis:
    """Return the sentence for a launch that no rule has something to say about."""
    if seen["time_ns"] < SHORT_NS:
        text = f"it takes {seen['time_ns'] / 1e3:.1f} µs: too short for any unit to be busy"
        return Diagnosis("short", text, "Give it more work, or fuse it with its neighbours.", is_fault=False)
    return Diagnosis(
        "latency",
        f"no unit is busier than {seen.busiest_pct:.0f} % of its peak: warps wait for one another or for memory",
        "Look at the stalls in the details: more independent work for each thread hides them.",
        is_fault=False,
    )
