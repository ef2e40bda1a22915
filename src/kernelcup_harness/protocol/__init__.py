"""The harness's interface: one :class:`JobSpec` in, one :class:`RunReport` out.

Both are plain JSON. Decoding is strict: an unknown key, a missing key or a value of the wrong
type raises :class:`ProtocolError` with the dotted path of the faulty value.
"""

from __future__ import annotations

from kernelcup_harness.protocol.base import (
    PROTOCOL_VERSION,
    SLOWED_DOWN,
    CaseValue,
    Parameters,
    ProtocolError,
)
from kernelcup_harness.protocol.codec import canonical_hash, dumps, from_json, loads, to_json, without_markers
from kernelcup_harness.protocol.enums import (
    Backend,
    CheckStyle,
    DuelVerdict,
    HarnessKind,
    Mode,
    RankingBy,
    Reason,
    SandboxPolicy,
    StageName,
    TrustLevel,
    Verdict,
)
from kernelcup_harness.protocol.precision import Precision
from kernelcup_harness.protocol.report import (
    NOT_REPLAYED,
    Audit,
    Calibration,
    CapturedOutput,
    CaseResult,
    Difference,
    DuelResult,
    Finding,
    Mismatch,
    RunReport,
    StageReport,
    Timing,
)
from kernelcup_harness.protocol.spec import (
    FEWEST_SEEDS,
    DeviceFacts,
    JobSpec,
    Limits,
    MeasureRules,
    Replay,
    SampleName,
    Work,
    check_spec,
    has_clash,
    is_encodable,
    is_plain_name,
)

__all__ = [
    "FEWEST_SEEDS",
    "NOT_REPLAYED",
    "PROTOCOL_VERSION",
    "SLOWED_DOWN",
    "Audit",
    "Backend",
    "Calibration",
    "CapturedOutput",
    "CaseResult",
    "CaseValue",
    "CheckStyle",
    "DeviceFacts",
    "Difference",
    "DuelResult",
    "DuelVerdict",
    "Finding",
    "HarnessKind",
    "JobSpec",
    "Limits",
    "MeasureRules",
    "Mismatch",
    "Mode",
    "Parameters",
    "Precision",
    "ProtocolError",
    "RankingBy",
    "Reason",
    "Replay",
    "RunReport",
    "SampleName",
    "SandboxPolicy",
    "StageName",
    "StageReport",
    "Timing",
    "TrustLevel",
    "Verdict",
    "Work",
    "canonical_hash",
    "check_spec",
    "dumps",
    "from_json",
    "has_clash",
    "is_encodable",
    "is_plain_name",
    "loads",
    "to_json",
    "without_markers",
]
