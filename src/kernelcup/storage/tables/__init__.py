"""The tables. Mapped classes stay inside ``storage``; all other code uses the classes of the domain."""

from __future__ import annotations

from kernelcup.storage.tables.base import NAMING, NEVER_REUSE_IDS, Base, table_of
from kernelcup.storage.tables.boards import (
    DeadlineExceptionRow,
    InviteBoardRow,
    InviteRow,
    LeaderboardDeviceRow,
    LeaderboardRow,
    MemberRow,
    TaskVersionRow,
)
from kernelcup.storage.tables.machines import (
    BoardMachineRow,
    CanaryRow,
    ClassAgreementRow,
    DeviceCalibrationRow,
    DeviceFaultRow,
    MachineCallRow,
    MachineRow,
    ReservationRow,
)
from kernelcup.storage.tables.news import NewsRow, WebhookDeliveryRow, WebhookRow
from kernelcup.storage.tables.people import IdentityRow, OneTimeCodeRow, TokenRow, UserRow
from kernelcup.storage.tables.queue import ComparisonRow, DispatcherRow, JobRow, PaceRow
from kernelcup.storage.tables.results import (
    BestRow,
    DeletedReviewRow,
    FinalDuelRow,
    FinalRow,
    FrozenBestRow,
    RecordRow,
    ReviewRow,
    RunRow,
)
from kernelcup.storage.tables.rules import AuditRow, DeletedUseRow, LimitRow, PauseRow
from kernelcup.storage.tables.submissions import (
    CodeRow,
    EventRow,
    ScreeningFindingRow,
    ScreeningRow,
    SubmissionRow,
)
