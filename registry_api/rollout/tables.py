"""The table of rollouts."""

from sqlalchemy import ARRAY, CheckConstraint, Float, ForeignKey, Index, Integer, text
from sqlalchemy.orm import Mapped, mapped_column

from registry_api.db.base import Created, Json, Moment, RandomId, Row, Words

UNDER_WAY = ("running", "paused")
ROLLOUT_STATES = ("running", "paused", "succeeded", "rolled_back", "aborted")
_STATES = ", ".join(f"'{state}'" for state in ROLLOUT_STATES)


class RolloutRow(Row):
    """A version on its way to more traffic; at most one of a model is under way.

    Attributes:
        step: index of the present step in ``steps``.
        route_revision: that this rollout made; another one means somebody else moved traffic.
        first_revision: of the route before the rollout, to go back to.
        baseline: figures at the start of the present step.
    """

    __tablename__ = "rollout"
    __table_args__ = (
        CheckConstraint(f"state IN ({_STATES})", name="state_known"),
        Index(
            "uq_rollout_under_way",
            "model_id",
            unique=True,
            postgresql_where=text("state IN ('running', 'paused')"),
        ),
        Index("ix_rollout_model_id_started_at", "model_id", "started_at"),
    )
    id: Mapped[RandomId]
    model_id: Mapped[int] = mapped_column(ForeignKey("model.id"))
    version_id: Mapped[int] = mapped_column(ForeignKey("version.id"))
    state: Mapped[Words]
    steps: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    step: Mapped[int]
    interval_s: Mapped[float] = mapped_column(Float)
    max_error_rate: Mapped[float] = mapped_column(Float)
    max_p99_ms: Mapped[float | None] = mapped_column(Float)
    min_requests: Mapped[int]
    route_revision: Mapped[int]
    first_revision: Mapped[int]
    baseline: Mapped[Json]
    figures: Mapped[Json]
    waiting: Mapped[Words | None]
    why: Mapped[Words | None]
    started_at: Mapped[Created]
    started_by: Mapped[Words]
    step_started_at: Mapped[Created]
    ended_at: Mapped[Moment | None]
