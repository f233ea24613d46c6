"""Ask for the version that a ref means, or say what is not there and which names are like it."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TypeVar

from registry_api.catalog import resolve
from registry_api.db.questions import Question, ask
from registry_api.db.session import Driver
from registry_api.errors import ModelNotFound, RegistryError, VersionNotFound

T = TypeVar("T")
NEAR = 0.5
"""How alike a name must be to be offered in place of another, from 0 to 1."""
MAX_LIKE_LENGTH = 64
"""Characters of names that are compared, which takes the square of them."""


def ask_version(
    driver: Driver, question: Callable[[str, str], Question[T]], model_id: str, ref: str
) -> T:
    """Ask something of the version that a ref means.

    Raises:
        ModelNotFound: there is no such model.
        VersionNotFound: it has no such version.
    """
    found = ask(driver, question(model_id, ref))
    if found is None:
        raise not_found(driver, model_id, ref)
    return found


def not_found(driver: Driver, model_id: str, ref: str) -> RegistryError:
    """Return the error that says whether the model or its version is not there."""
    if not resolve.has_model(driver, model_id):
        return ModelNotFound(model_id)
    return VersionNotFound(model_id, ref, _like(ref, resolve.names(driver, model_id)))


def _like(ref: str, names: Sequence[str]) -> list[str]:
    """Return the names most like a ref. Pure."""
    if len(ref) > MAX_LIKE_LENGTH:
        return []
    short = [name for name in names if len(name) <= MAX_LIKE_LENGTH]
    return get_close_matches(ref, short, cutoff=NEAR)
