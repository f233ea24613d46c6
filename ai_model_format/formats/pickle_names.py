"""Which names in a pickle would run code of the machine that loads it. Pure."""

_RUNS_CODE = frozenset(
    """
    _pickle _thread asyncio bdb cProfile code codeop commands ctypes http imp importlib marshal
    multiprocessing nt os pdb pickle pip posix posixpath profile pty requests runpy shutil signal
    socket ssl subprocess sys tempfile threading timeit urllib webbrowser
    """.split()  # noqa: SIM905 - 36 words read better so
)
"""Modules that no checkpoint has a use for, but an attack has."""
_HARMLESS_BUILTINS = frozenset(
    """
    Ellipsis NoneType bool bytearray bytes complex dict float frozenset int list long object range
    set slice str tuple type unicode xrange
    """.split()  # noqa: SIM905
)


def runs_code(module: str, name: str) -> bool:
    """Say whether no checkpoint has a use for this name, but an attack has."""
    if module in ("builtins", "__builtin__"):
        is_exception = name.endswith(("Error", "Exception", "Warning"))
        return not is_exception and name.partition(".")[0] not in _HARMLESS_BUILTINS
    return module.partition(".")[0] in _RUNS_CODE
