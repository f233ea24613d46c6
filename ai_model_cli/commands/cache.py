"""``ai-model cache``: what this machine keeps between gets."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ai_model_cli import options
from ai_model_cli.errors import INTEGRITY
from ai_model_cli.invocation import Invocation
from ai_model_cli.progress import Bars
from ai_model_cli.text import count, human_size, table, when

if TYPE_CHECKING:
    from ai_model.cache_care.results import CacheList, CacheVerified, Pruned

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_BYTES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


class _Age(click.ParamType[float]):
    name = "age"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        match = re.fullmatch(r"(\d{1,9})([smhdw])", str(value), re.ASCII)
        if match is None:
            self.fail(f"{value!r} is not an age such as 12h, 30d or 8w.", param, ctx)
        return int(match[1]) * _SECONDS[match[2]]


class _Size(click.ParamType[int]):
    name = "size"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        match = re.fullmatch(r"(\d{1,12}) ?([kmgt]?)b?", str(value).lower(), re.ASCII)
        if match is None:
            self.fail(f"{value!r} is not a size such as 500MB or 10GB.", param, ctx)
        return int(match[1]) * _BYTES[match[2]]


@click.group("cache")
def command() -> None:
    """List, prune and verify what this machine keeps between gets.

    The cache has manifests, files fetched for Registry.load, and notes of the
    directories that gets wrote, so that later gets copy from them what they can.
    Those directories are yours: nothing here writes to them.

    \b
    Examples:
      ai-model cache ls
      ai-model cache prune --older-than 30d --max-size 10GB
    """


@command.command("ls")
@options.common_options
@click.pass_obj
def list_cache(invocation: Invocation) -> None:
    """List what is in the cache, what was used last first. Times are UTC.

    \b
    Example:
      ai-model cache ls
    """
    with invocation.registry() as registry:
        found = registry.cache_list()
    invocation.answer(found, _listed(found))


@command.command("prune")
@click.option("--older-than", type=_Age(), metavar="AGE", help="Not used for so long: 12h, 30d.")
@click.option("--max-size", type=_Size(), metavar="SIZE", help="Keep no more than this: 10GB.")
@options.common_options
@click.pass_obj
def prune(invocation: Invocation, older_than: float | None, max_size: int | None) -> None:
    """Remove what was not used for long, and what is too much, oldest first.

    Notes of directories that are gone or changed are removed too. What is
    missing later is fetched again.

    \b
    Examples:
      ai-model cache prune --older-than 30d
      ai-model cache prune --max-size 10GB
    """
    with invocation.registry() as registry:
        done = registry.cache_prune(older_than_s=older_than, max_bytes=max_size)
    invocation.answer(done, _pruned(done))


@command.command("verify")
@options.common_options
@click.pass_context
def verify(ctx: click.Context) -> None:
    """Hash the cache, and every byte that it knows of in other directories.

    Gets hash what they copy anyway, so a bad file costs time and never gets
    through. Ends with 0 when all is well, else with 6.

    \b
    Example:
      ai-model cache verify
    """
    invocation = ctx.find_object(Invocation) or Invocation()
    with invocation.registry() as registry, Bars() as bars:
        result = registry.cache_verify(on_progress=bars)
    invocation.answer(result, _verified(result))
    ctx.exit(0 if result.ok else INTEGRITY)


def _listed(found: "CacheList") -> Iterator[str]:
    rows = [
        (item.kind, when(datetime.fromtimestamp(item.used_at, UTC)), human_size(item.size),
         item.model_id or "-", item.name)
        for item in found.items
    ]  # fmt: skip
    if rows:
        yield from table(("KIND", "USED", ">SIZE", "MODEL", "WHAT"), rows)
    yield (
        f"{human_size(found.bytes_own)} in {found.directory};"
        f" {human_size(found.bytes_noted)} known in directories that gets wrote."
    )


def _pruned(done: "Pruned") -> Iterator[str]:
    yield (
        f"Removed {count(len(done.removed), 'item')}, {human_size(done.bytes_freed)};"
        f" {human_size(done.bytes_kept)} are left."
    )


def _verified(result: "CacheVerified") -> Iterator[str]:
    for problem in result.problems:
        yield f"{problem.path} {problem.reason}"
    state = "all is well" if result.ok else count(len(result.problems), "problem")
    yield f"Hashed {human_size(result.bytes_verified)}: {state}."
