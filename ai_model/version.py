"""One immutable version, resolved: what it is and what can be done with it."""

import threading
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ai_model.answers import Resolved
from ai_model.api import Api
from ai_model.cache import Cache
from ai_model.errors import CorruptBytes, service_problem
from ai_model.get.select import make_selection, wanted_names
from ai_model.progress import OnProgress
from ai_model.results import GetResult
from ai_model_format.digest import Digest, digest_of
from ai_model_format.layers import LayerNode, layer_tree
from ai_model_format.manifest import File, InvalidManifest, Manifest
from ai_model_format.manifest_reader import parse_manifest

if TYPE_CHECKING:
    from ai_model_format.wire import Direction, LineageInfo, VersionInfo

Patterns = str | Sequence[str]


class Version:
    """A version of a model. Made by ``Registry.open``.

    Attributes:
        api: calls of the registry, counting what this handle asks.
        resolved: what a get needs of ``info``.
    """

    def __init__(self, api: Api, resolved: Resolved) -> None:
        self.api = api
        self.resolved = resolved
        self.cache = Cache(api.config.cache_dir)
        # functools.cached_property has one lock for all versions in Python 3.11, and so
        # would make threads that get different versions wait for each other's network.
        self._manifest: Manifest | None = None
        self._manifest_lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Version({self.resolved.model_id!r}, {self.resolved.version!r})"

    @property
    def info(self) -> "VersionInfo":
        """Metadata, aliases, files: all that the registry answered when this was opened.

        Raises:
            ServiceProblem: it is not what this client can read.
        """
        from ai_model_format.wire import VersionInfo  # lazy: pydantic costs more than a small get

        try:
            return VersionInfo.model_validate_json(self.resolved.answer)
        except ValueError as error:
            detail = f"What is said of {self!r} cannot be read: {error}"
            raise service_problem(200, {"detail": detail}) from error

    @property
    def model_id(self) -> str:
        """The model's id."""
        return self.resolved.model_id

    @property
    def name(self) -> str:
        """The version's name."""
        return self.resolved.version

    @property
    def digest(self) -> Digest:
        """The manifest's digest, which names the content."""
        return self.resolved.manifest_digest

    @property
    def files(self) -> tuple[File, ...]:
        """The files with their tensors."""
        return self.manifest.files

    @property
    def manifest(self) -> Manifest:
        """The manifest, from the cache or the registry, its digest checked.

        Raises:
            CorruptBytes: what the registry answered is not what its digest names.
        """
        with self._manifest_lock:
            if self._manifest is None:
                self._manifest = self._read_manifest()
            return self._manifest

    def _read_manifest(self) -> Manifest:
        data = self.cache.manifest(self.digest)
        if data is None:
            data = self.api.manifest(self.model_id, self.name)
            if digest_of(data) != self.digest:
                raise CorruptBytes("manifest", reason=f"not {self.digest}")
            self.cache.keep_manifest(self.digest, data)
        try:
            return parse_manifest(data)
        except InvalidManifest as error:
            raise CorruptBytes("manifest", reason=str(error)) from error

    def lineage(
        self, *, direction: "Direction" = "both", depth: int = 10, max_nodes: int = 200
    ) -> "LineageInfo":
        """Return what it was made from, and what was made from it. See ``Registry.lineage``."""
        return self.api.lineage(
            self.model_id, self.name, direction=direction, depth=depth, max_nodes=max_nodes
        )

    def layers(self, patterns: Patterns = (), *, exclude: Patterns = ()) -> LayerNode:
        """Return the tree of layers, of all tensors or those that the patterns select.

        Raises:
            NoMatch: a pattern selects nothing.
        """
        selection = make_selection(layers=patterns, exclude=exclude, files=(), weights_only=False)
        names = [tensor.name for file in self.files for tensor in file.tensors]
        wanted = wanted_names(names, selection, self.resolved.groups)
        return layer_tree(
            (tensor.name, tensor.dtype, tensor.range.size)
            for file in self.files
            for tensor in file.tensors
            if wanted is None or tensor.name in wanted
        )

    def get(
        self,
        *,
        layers: Patterns = (),
        exclude: Patterns = (),
        files: Patterns = (),
        weights_only: bool = False,
        output: str | PathLike[str] | None = None,
        reuse: Sequence[str | PathLike[str]] = (),
        on_progress: OnProgress | None = None,
    ) -> GetResult:
        """Bring it, or parts of it, into a directory. See ``Registry.get``."""
        from ai_model.get.run import get

        selection = make_selection(
            layers=layers, exclude=exclude, files=files, weights_only=weights_only
        )
        folder = Path(fspath(output)) if output is not None else self.default_output()
        places = [Path(fspath(place)) for place in reuse]
        return get(self, selection, folder, reuse=places, on_progress=on_progress)

    def load(
        self,
        *,
        layers: Patterns = (),
        exclude: Patterns = (),
        files: Patterns = (),
        framework: Literal["numpy", "torch"] = "numpy",
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Return tensors by name. See ``Registry.load``."""
        from ai_model.load import load

        selection = make_selection(layers=layers, exclude=exclude, files=files, weights_only=True)
        return load(self, selection, framework=framework, on_progress=on_progress)

    def default_output(self) -> Path:
        """Return ``./<model name>-<version>``."""
        return Path(f"{self.model_id.rpartition('/')[2]}-{self.name}")


def open_version(api: Api, model_id: str, ref: str) -> Version:
    """Resolve a ref.

    Raises:
        ResourceNotFound: there is no such version.
    """
    counting = api.counting_anew()
    return Version(counting, counting.resolve(model_id, ref))
