"""Where a version's bytes are read: its layout, with URLs signed anew when they near expiry."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ai_model.answers import Layout, ObjectSource
from ai_model.api import Api
from ai_model.errors import AiModelError, NetworkError
from ai_model.get.plan import LayoutDoesNotFit, Piece, Run, runs_of
from ai_model_format.digest import Digest
from ai_model_format.manifest import File, Manifest

_SIGN_ANEW = timedelta(seconds=60)


class ObjectMoved(Exception):
    """The layout does not name the object any more; plan again.

    Attributes:
        left: pieces that were asked for and are not there yet.
    """

    left: Sequence[Piece] = ()


@dataclass(frozen=True, slots=True)
class Address:
    """A URL to ask for an object, and how often the layout had been asked for it.

    Attributes:
        is_edge: there is an origin to go to instead.
    """

    url: str
    size: int
    generation: int
    is_edge: bool = False


class Source:
    """The objects of one version. Safe to use from threads."""

    def __init__(self, api: Api, model_id: str, version: str, manifest: Manifest) -> None:
        self._api = api
        self._model_id = model_id
        self._version = version
        self._files = {file.path: file for file in manifest.files}
        self._lock = threading.Lock()
        self._layout: Layout | None = None
        self._objects: Mapping[Digest, ObjectSource] = {}
        self._generation = 0
        self._etags: dict[Digest, str] = {}

    def layout(self, paths: Sequence[str]) -> dict[str, list[Run]]:
        """Return the runs of files.

        Raises:
            AiModelError: the layout does not fit the manifest.
        """
        with self._lock:
            layout = self._fresh()
        wanted = set(paths)
        try:
            return {
                file.path: self._runs(layout, self._files[file.path], file.runs)
                for file in layout.files
                if file.path in wanted and file.path in self._files
            }
        except LayoutDoesNotFit as error:
            raise AiModelError(f"The registry's layout is wrong: {error}.") from error

    def address(self, digest: Digest, *, past_edge: bool = False) -> Address:
        """Return where to ask for an object now.

        Raises:
            ObjectMoved: the bytes lie in other objects by now.
        """
        with self._lock:
            self._fresh()
            found = self._objects.get(digest)
            if found is None:
                raise ObjectMoved
            if past_edge and found.origin_url:
                return Address(found.origin_url, found.size, self._generation)
            is_edge = bool(found.origin_url)
            return Address(found.url, found.size, self._generation, is_edge)

    def refused(self, address: Address) -> None:
        """Say that a URL did not work, so that the layout is asked for anew."""
        with self._lock:
            if address.generation == self._generation:
                self._layout = None

    def check_etag(self, digest: Digest, etag: str) -> bool:
        """Say whether an answer is of the same stored object as those that were verified."""
        return not etag or self._etags.get(digest, etag) == etag

    def trust_etag(self, digest: Digest, etag: str) -> None:
        """Keep the ETag of an answer whose bytes were verified."""
        if etag:
            self._etags.setdefault(digest, etag)

    def _fresh(self) -> Layout:
        layout = self._layout
        if layout is None or layout.expires_at - datetime.now(UTC) < _SIGN_ANEW:
            had = layout
            layout = self._api.layout(self._model_id, self._version)
            self._keep(layout, had)
        return layout

    def _keep(self, layout: Layout, had: Layout | None) -> None:
        self._layout = layout
        self._objects = {item.digest: item for item in layout.objects}
        self._generation += 1
        if had is not None and had.manifest_digest != layout.manifest_digest:
            raise NetworkError("The version changed while it was fetched.")

    def _runs(self, layout: Layout, file: File, runs: Sequence[tuple[int, int, int]]) -> list[Run]:
        objects = layout.objects
        if any(not 0 <= index < len(objects) for index, _, _ in runs):
            raise LayoutDoesNotFit(f"{file.path!r} lies in an object that is not named")
        return runs_of(
            file,
            (
                (objects[index].digest, objects[index].size, offset, size)
                for index, offset, size in runs
            ),
        )
