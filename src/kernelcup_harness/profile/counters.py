"""Reads ncu's raw page: one line for each launch, with the counters that rules read under names of our own.

Names of columns differ between versions of ncu; this table is the only place that knows them.
"""

from __future__ import annotations

import csv
import io
import math
import re

from kernelcup_harness.protocol import KernelCounters

ELAPSED, ACTIVE = "avg.pct_of_peak_sustained_elapsed", "avg.pct_of_peak_sustained_active"
EXECUTED = "smsp__sass_thread_inst_executed_op"
COLUMNS = {
    "time_ns": "gpu__time_duration.sum",
    # Shares of a unit's peak, in percent
    "compute_pct": f"sm__throughput.{ELAPSED}",
    "memory_pct": f"gpu__compute_memory_throughput.{ELAPSED}",
    "dram_pct": f"gpu__dram_throughput.{ELAPSED}",
    "l1_pct": f"l1tex__throughput.{ACTIVE}",
    "l2_pct": f"lts__throughput.{ELAPSED}",
    "tensor_pct": f"sm__pipe_tensor_cycles_active.{ELAPSED}",
    "fma_pct": f"sm__pipe_fma_cycles_active.{ELAPSED}",
    "fp64_pct": f"sm__pipe_fp64_cycles_active.{ELAPSED}",
    "issue_pct": f"smsp__issue_active.{ACTIVE}",
    "l1_hit_pct": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_pct": "lts__t_sector_hit_rate.pct",
    # Bytes and sectors
    "dram_read": "dram__bytes_read.sum",
    "dram_written": "dram__bytes_write.sum",
    "dram_peak": "dram__bytes.sum.peak_sustained",
    "dram_hz": "dram__cycles_elapsed.avg.per_second",
    "l2_to_l1": "l1tex__m_xbar2l1tex_read_bytes.sum",
    "sectors": "memory_l2_theoretical_sectors_global",
    "sectors_excess": "derived__memory_l2_theoretical_sectors_global_excessive",
    "load_bytes_per_sector": "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
    "store_bytes_per_sector": "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
    "shared_wavefronts": "memory_l1_wavefronts_shared",
    "shared_excess": "derived__memory_l1_wavefronts_shared_excessive",
    # Launch and occupancy
    "blocks": "launch__grid_size",
    "threads": "launch__block_size",
    "sms": "launch__sm_count",
    "waves": "launch__waves_per_multiprocessor",
    "registers": "launch__registers_per_thread",
    "shared_bytes": "launch__shared_mem_per_block",
    "occupancy_pct": f"sm__warps_active.{ACTIVE}",
    "occupancy_limit_pct": "sm__maximum_warps_per_active_cycle_pct",
    "limit_registers": "launch__occupancy_limit_registers",
    "limit_shared": "launch__occupancy_limit_shared_mem",
    "limit_warps": "launch__occupancy_limit_warps",
    "limit_blocks": "launch__occupancy_limit_blocks",
    "sm_active": "sm__cycles_active.avg",
    "sm_active_max": "sm__cycles_active.max",
    "cycles": "sm__cycles_elapsed.max",
    "hz": "sm__cycles_elapsed.avg.per_second",
    # Instructions, of warps
    "instructions": "smsp__inst_executed.sum",
    "threads_per_instruction": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "global_loads": "smsp__sass_inst_executed_op_global_ld.sum",
    "global_stores": "smsp__sass_inst_executed_op_global_st.sum",
    "shared_loads": "smsp__sass_inst_executed_op_shared_ld.sum",
    "local_loads": "smsp__sass_inst_executed_op_local_ld.sum",
    "local_stores": "smsp__sass_inst_executed_op_local_st.sum",
    "spills": "derived__local_spilling_requests",
    "reductions": "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
    "atomics": "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    # Operations of threads in a cycle
    "fadd": f"{EXECUTED}_fadd_pred_on.sum.per_cycle_elapsed",
    "fmul": f"{EXECUTED}_fmul_pred_on.sum.per_cycle_elapsed",
    "ffma": f"{EXECUTED}_ffma_pred_on.sum.per_cycle_elapsed",
    "hadd": f"{EXECUTED}_hadd_pred_on.sum.per_cycle_elapsed",
    "hmul": f"{EXECUTED}_hmul_pred_on.sum.per_cycle_elapsed",
    "hfma": f"{EXECUTED}_hfma_pred_on.sum.per_cycle_elapsed",
    "dadd": f"{EXECUTED}_dadd_pred_on.sum.per_cycle_elapsed",
    "dmul": f"{EXECUTED}_dmul_pred_on.sum.per_cycle_elapsed",
    "dfma": f"{EXECUTED}_dfma_pred_on.sum.per_cycle_elapsed",
    "ffma_peak": "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained",
    "hfma_peak": "sm__sass_thread_inst_executed_op_hfma_pred_on.sum.peak_sustained",
}
TENSOR_FLOPS = re.compile(r"sm__ops_path_tensor_src_(?!int1\.)\w+\.sum")
"""Operations of the tensor cores by the type of their input; their sum is kept."""
NEEDED = frozenset({"time_ns"})
"""Other counters are missing in smaller sets of sections, on other devices, or in other versions."""
MOST_LAUNCHES = 2_000
MOST_NAME = 300
FIRST_COLUMN = '"ID"'


class UnreadableReport(Exception):
    """A report has no launches, or no number where one is needed; the text names ncu's version."""


def read(page: bytes, version: str) -> list[KernelCounters]:
    """Return the launches of a raw page. Raise :class:`UnreadableReport`."""
    text = page.decode("utf-8", "replace")
    table = csv.DictReader(io.StringIO(text[max(0, text.find(FIRST_COLUMN)) :]), restval="")
    try:
        # The first line below the names has the units, which were asked for.
        lines = [line for number, line in enumerate(table) if number and line.get("ID", "").isdigit()]
    except csv.Error as error:
        raise UnreadableReport(f"{version} gives a page that cannot be read: {error}") from error
    if not lines:
        raise UnreadableReport(f"{version} has captured no kernel")
    return [launch(line, version) for line in lines[:MOST_LAUNCHES]]


def launch(line: dict[str, str], version: str) -> KernelCounters:
    """Return one launch. Raise :class:`UnreadableReport`."""
    name = (line.get("Kernel Name") or "?")[:MOST_NAME]
    found = {}
    for ours, theirs in COLUMNS.items():
        value = number(line.get(theirs))
        if value is not None:
            found[ours] = value
        elif theirs in line and line[theirs].strip().lower() == "nan":
            raise UnreadableReport(f"{version} gives NaN for {theirs} of kernel {name}")
        elif ours in NEEDED:
            raise UnreadableReport(f"{version} does not give {theirs} of kernel {name}")
    tensor = [number(value) or 0.0 for key, value in line.items() if TENSOR_FLOPS.fullmatch(key or "")]
    if tensor:
        found["tensor_flops"] = sum(tensor)
    return KernelCounters(
        name=name, grid=sizes(line.get("Grid Size")), block=sizes(line.get("Block Size")), counters=found
    )


def number(text: str | None) -> float | None:
    """Return a finite number, None for anything else."""
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def sizes(text: str | None) -> list[int]:
    """Return the numbers of ``(64, 1, 1)``."""
    return [int(each) for each in re.findall(r"\d{1,10}", text or "")[:3]]
