"""Find the version whose lineage is asked for."""

from ai_model_format.wire import Direction
from registry_api.access import Caller
from registry_api.catalog import resolve
from registry_api.catalog.missing import ask_version
from registry_api.db.session import Driver
from registry_api.lineage import queries


def show(
    driver: Driver,
    caller: Caller,
    model_id: str,
    ref: str,
    *,
    direction: Direction,
    depth: int,
    max_nodes: int,
) -> bytes:
    """Return ancestors, descendants or both, and who came of whom: JSON of a ``LineageInfo``.

    Raises:
        ModelNotFound: there is no such model.
        VersionNotFound: it has no such version.
    """
    version = ask_version(driver, resolve.stored_manifest, model_id, ref).name
    return queries.walk(
        driver, caller, model_id, version, direction=direction, depth=depth, max_nodes=max_nodes
    ).encode()
