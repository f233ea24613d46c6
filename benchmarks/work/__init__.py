"""What is measured: one module for each bar, in the order of the tables."""

from collections.abc import Callable

from benchmarks.core.report import Report
from benchmarks.core.stage import Stage
from benchmarks.work import (
    busy_day,
    fine_tune_get,
    fine_tune_push,
    first_push,
    full_get,
    herd,
    layers_get,
    metadata,
    small_models,
    sparse_model,
    start_up,
    traffic,
)

ALL: dict[str, Callable[[Stage], Report]] = {
    "full-get": full_get.measure,
    "full-get-tls": full_get.measure_tls,
    "layers-get": layers_get.measure,
    "fine-tune-get": fine_tune_get.measure,
    "fine-tune-push": fine_tune_push.measure,
    "first-push": first_push.measure,
    "herd": herd.measure,
    "busy-day": busy_day.measure,
    "small-models": small_models.measure,
    "sparse-model": sparse_model.measure,
    "metadata": metadata.measure,
    "start-up": start_up.measure,
    "traffic": traffic.measure,
}
