"""Set peers side by side: who takes part, and whether what arrived is what was sent."""

import filecmp
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from benchmarks.core.envs import PeerUnavailable
from benchmarks.core.processes import Command, CommandFailed, Usage
from benchmarks.core.rounds import Contender, Outcome, alternate
from benchmarks.core.s3 import Store
from benchmarks.core.stage import Stage, say
from benchmarks.peers.interface import Peer

Engaged = TypeVar("Engaged", bound=Peer)


def admit(
    stage: Stage, kinds: Iterable[type[Peer]], store: Store
) -> tuple[dict[str, Peer], dict[str, Outcome]]:
    """Install and start peers. One that cannot run keeps a row that says so."""
    peers: dict[str, Peer] = {}
    outcomes: dict[str, Outcome] = {}
    for kind in kinds:
        outcome = outcomes[kind.name] = Outcome(kind.name, lacks=kind.lacks)
        try:
            peers[kind.name] = engaged(stage, kind, store)
            outcome.version = peers[kind.name].version()
        except (PeerUnavailable, CommandFailed, OSError) as error:
            outcome.problem = f"does not run here: {error}"[:400]
            say(f"{kind.name}: {outcome.problem}")
    return peers, outcomes


def engaged(stage: Stage, kind: type[Engaged], store: Store) -> Engaged:
    """Return a peer, started when first asked for in this run.

    Raises:
        PeerUnavailable: it does not run here.
        CommandFailed: it did not start.
    """
    place = (kind, store.endpoint)
    if place not in stage.kept:
        stage.kept[place] = kind(stage, store)
    return stage.kept[place]


def pulls(
    stage: Stage, kinds: Iterable[type[Peer]], store: Store, source: Path, *, rounds: int
) -> tuple[dict[str, Peer], dict[str, Outcome]]:
    """Let every peer fetch ``source`` whole; what arrives first is compared byte by byte."""
    peers, outcomes = admit(stage, kinds, store)
    name = source.parent.name
    contenders = []
    for peer in peers.values():
        try:
            peer.stock(source, name)
        except (CommandFailed, OSError) as error:
            outcomes[peer.name].problem = f"could not stock: {error}"[:400]
            continue
        contenders.append(_puller(stage, peer, outcomes[peer.name], source, name))
    alternate(stage, contenders, rounds=rounds)
    return peers, outcomes


def pushes(
    stage: Stage, kinds: Iterable[type[Peer]], store: Store, source_of, *, rounds: int
) -> tuple[dict[str, Peer], dict[str, Outcome]]:
    """Let every peer upload a new file each round, the same for all: ``source_of(round)``."""
    peers, outcomes = admit(stage, kinds, store)
    contenders = [
        Contender(
            outcomes[peer.name],
            lambda number, peer=peer: peer.push(source_of(number), source_of(number).parent.name),
            lambda number, usage: None,
        )
        for peer in peers.values()
    ]
    alternate(stage, contenders, rounds=rounds)
    return peers, outcomes


def same(source: Path, arrived: Path) -> None:
    """Compare every byte.

    Raises:
        CommandFailed: they differ.
    """
    if not filecmp.cmp(source, arrived, shallow=False):
        raise CommandFailed(f"{arrived.name} arrived with other bytes")


def _puller(stage: Stage, peer: Peer, outcome: Outcome, source: Path, name: str) -> Contender:
    target = stage.landing / "pull"

    def prepare(_: int) -> list[Command]:
        stage.target("pull")
        return peer.pull(source, name, target)

    def after(number: int, _: Usage) -> None:
        arrived = peer.landed(source, target)
        if number == 0:
            same(source, arrived)
        elif arrived.stat().st_size != source.stat().st_size:
            raise CommandFailed(f"{arrived.name} arrived with another size")
        stage.target("pull")

    return Contender(outcome, prepare, after)
