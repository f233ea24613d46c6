"""Run commands and servers, and say what they cost.

The harness imports nothing but the standard library, on purpose: the kernel's peak memory of a
child (``ru_maxrss``) is never below what its parent held when it was forked.
"""

import itertools
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class CommandFailed(RuntimeError):
    """A command ended with another status than 0; the message has its last lines."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to execute. ``env`` is added to a clean environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run took.

    Attributes:
        wall_s: from start to exit.
        cpu_s: user and system time of the process and all it waited for.
        peak_bytes: resident memory of the largest process.
        server_cpu_s: user and system time of the servers meanwhile.
        output: what it printed on stdout.
    """

    wall_s: float
    cpu_s: float
    peak_bytes: int
    server_cpu_s: float = 0.0
    output: str = ""


def clean_environment(home: Path) -> dict[str, str]:
    """Return the environment of every command: nothing of the user's settings or caches."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {key: os.environ[key] for key in ("PATH", "TMPDIR") if key in os.environ}
    return {**kept, "HOME": str(home), "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": ""}


def run(commands: Sequence[Command], home: Path, *, timeout_s: float = 900.0) -> Usage:
    """Run commands one behind the other and add up what they cost.

    Raises:
        CommandFailed: one ended with another status than 0, or took too long.
    """
    each = [_run_one(command, home, timeout_s) for command in commands]
    return Usage(
        wall_s=sum(usage.wall_s for usage in each),
        cpu_s=sum(usage.cpu_s for usage in each),
        peak_bytes=max(usage.peak_bytes for usage in each),
        output=each[-1].output,
    )


def _run_one(command: Command, home: Path, timeout_s: float) -> Usage:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.perf_counter()
        process = subprocess.Popen(
            command.argv,
            env={**clean_environment(home), **command.env},
            cwd=command.cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        timer = threading.Timer(timeout_s, process.kill)
        timer.start()
        try:
            _, status, resources = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
        finally:
            wall_s = time.perf_counter() - began
            timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said = _tail(err) or _tail(out)
            raise CommandFailed(f"{Path(command.argv[0]).name}: {process.returncode}: {said}")
        out.seek(0)
        return Usage(
            wall_s=wall_s,
            cpu_s=resources.ru_utime + resources.ru_stime,
            peak_bytes=resources.ru_maxrss * 1024,
            output=out.read().decode(errors="replace"),
        )


def _tail(file, lines: int = 3) -> str:
    file.seek(0)
    return " / ".join(file.read().decode(errors="replace").strip().splitlines()[-lines:])[-600:]


_PORTS = itertools.count(10_000 + (os.getpid() * 37) % 12_000)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on now, none of them twice.

    Each is below the ephemeral range, so that no connection of ours takes it meanwhile.
    """
    return list(itertools.islice((port for port in _PORTS if not listening(port)), count))


class Server:
    """A process that runs until it is stopped, found by its pid alone.

    Attributes:
        children: pids of daemons it left to themselves, whose CPU counts as its own.
    """

    def __init__(self, command: Command, home: Path, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        self.children: list[int] = []
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                command.argv,
                env={**clean_environment(home), **command.env},
                cwd=command.cwd,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.pid = self._process.pid

    def wait_until(self, ready: Callable[[], bool], *, timeout_s: float = 60.0) -> None:
        """Wait until ``ready`` says so.

        Raises:
            CommandFailed: the server ended, or was not ready in time.
        """
        until = time.monotonic() + timeout_s
        while not ready():
            if self._process.poll() is not None or time.monotonic() > until:
                self.stop()
                said = " / ".join(self.log.read_text(errors="replace").splitlines()[-3:])
                raise CommandFailed(f"{self.log.stem} did not start: {said[-600:]}")
            time.sleep(0.05)

    def cpu_s(self) -> float:
        """Return user and system seconds of the process and its live descendants so far."""
        return sum(_cpu_s_of(pid) for pid in _tree([self.pid, *self.children]))

    def stop(self) -> None:
        """End it: TERM, and after ten seconds KILL."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def listening(port: int) -> bool:
    """Say whether something on 127.0.0.1 accepts connections at ``port``."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _cpu_s_of(pid: int) -> float:
    fields = _stat(pid)
    return sum(int(value) for value in fields[11:15]) / TICKS_PER_S if fields else 0.0


def _tree(roots: Sequence[int]) -> list[int]:
    parents = {int(p.name): _stat(int(p.name)) for p in Path("/proc").iterdir() if p.name.isdigit()}
    found = list(roots)
    for pid in found:
        found += [child for child, stat in parents.items() if stat and int(stat[1]) == pid]
    return found
