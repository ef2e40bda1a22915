"""The tables. Mapped classes stay inside ``storage``; all other code uses the classes of the domain."""

from __future__ import annotations

from kernelcup.tables.base import NAMING, NEVER_REUSE_IDS, Base, table_of
from kernelcup.tables.boards import (
    DeadlineExceptionRow,
    LeaderboardDeviceRow,
    LeaderboardRow,
    TaskVersionRow,
    new_revision,
)
from kernelcup.tables.courses import CourseRow, InviteCourseRow, InviteRow, MemberRow
from kernelcup.tables.events import AnnouncementRow, BoardEventRow, RegistrationRow, TeamRow
from kernelcup.tables.machines import (
    BoardMachineRow,
    CanaryRow,
    ClassAgreementRow,
    DeviceCalibrationRow,
    DeviceFaultRow,
    MachineCallRow,
    MachineRow,
    ReservationRow,
)
from kernelcup.tables.news import NewsRow, WebhookDeliveryRow, WebhookRow
from kernelcup.tables.people import IdentityRow, OneTimeCodeRow, TokenRow, UserRow
from kernelcup.tables.queue import ComparisonRow, DispatcherRow, JobRow, PaceRow
from kernelcup.tables.results import (
    BestRow,
    DeletedReviewRow,
    FinalDuelRow,
    FinalRow,
    FrozenBestRow,
    RecordRow,
    ReviewRow,
    RunRow,
)
from kernelcup.tables.rules import AuditRow, DeletedUseRow, LimitRow, PauseRow
from kernelcup.tables.submissions import CodeRow, EventRow, ScreeningFindingRow, ScreeningRow, SubmissionRow
