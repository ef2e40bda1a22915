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
    Precision,
    RankingBy,
    Reason,
    SandboxPolicy,
    StageName,
    TrustLevel,
    Verdict,
)
from kernelcup_harness.protocol.files import SourceTree, has_clash, is_encodable, is_plain_name
from kernelcup_harness.protocol.machine import (
    LONGEST_MESSAGE,
    MOST_EVENTS,
    Failed,
    Failure,
    JobEvent,
    Judged,
    Unfit,
)
from kernelcup_harness.protocol.profiles import (
    BINARY,
    MEMORY,
    OPEN_COUNTERS,
    SASS,
    Counters,
    KernelCounters,
    RanKernel,
    device_of,
)
from kernelcup_harness.protocol.report import (
    BinaryUse,
    Calibration,
    CapturedOutput,
    DuelResult,
    RunReport,
    StageReport,
)
from kernelcup_harness.protocol.results import (
    NOT_REPLAYED,
    Audit,
    CaseResult,
    Difference,
    Finding,
    Mismatch,
    Timing,
    trimmed_mean,
)
from kernelcup_harness.protocol.spec import (
    FEWEST_SAMPLES,
    FEWEST_SEEDS,
    WALL_SHARE,
    CudaBuild,
    DeviceFacts,
    JobSpec,
    KeptBinary,
    KeptFile,
    Limits,
    MeasureRules,
    ProfileOptions,
    ProfileWay,
    Replay,
    SampleName,
    Sections,
    Work,
    check_spec,
    is_pattern,
)
from kernelcup_harness.protocol.tracebacks import for_participants
