"""``Registry``: the face of the client.

Each method makes one call into the package of its verb. Nothing heavy is
imported before it is used, so that a command's ``--help`` stays quick.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from ai_model.config import Config, load_config

if TYPE_CHECKING:
    from ai_model.api import Api
    from ai_model.cache import Cache
    from ai_model.cache_care.results import CacheList, CacheVerified, Pruned
    from ai_model.find import Facts
    from ai_model.progress import OnProgress
    from ai_model.results import GetResult, PushResult, VerifyResult
    from ai_model.routing.traffic import Traffic
    from ai_model.version import Version
    from ai_model_format.wire import (
        AliasInfo,
        Direction,
        Identity,
        LineageInfo,
        Metadata,
        ModelInfo,
        Role,
        TokenCreated,
        TokenInfo,
        VersionInfo,
        VersionSummary,
    )

Patterns = str | Sequence[str]
"""One pattern, a comma list, or several of either."""


class Registry:
    """A registry, as one client sees it. Safe to use from threads; close it when done.

    Args:
        endpoint: base URL; from the environment or the config file where not given.
        token: secret; likewise.
        cache_dir: where manifests and records of local files are kept; likewise.
        config_file: read instead of the usual one.
        connections: how many transfers run at once; else as many as the network gives more for.
        max_bandwidth: limit over all of them, both ways: bytes a second, or text such as
            ``50MB``.
        on_note: told, in a sentence, when a request is to be tried again.

    Raises:
        UsageError: the settings make no sense.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        token: str | None = None,
        *,
        cache_dir: str | PathLike[str] | None = None,
        config_file: str | PathLike[str] | None = None,
        connections: int | str | None = None,
        max_bandwidth: int | str | None = None,
        on_note: Callable[[str], None] | None = None,
    ) -> None:
        self.config: Config = load_config(
            endpoint=endpoint,
            token=token,
            cache_dir=cache_dir,
            config_file=config_file,
            connections=connections,
            max_bandwidth=max_bandwidth,
        )
        self._on_note = on_note

    @functools.cached_property
    def api(self) -> Api:
        """The typed calls of the REST interface."""
        from ai_model.api import Api  # lazy: httpx and pydantic cost 150 ms

        api = Api(self.config)
        api.session.on_note = self._on_note
        return api

    @property
    def traffic(self) -> Traffic:
        """Routes, rollouts, inference servers and gateways: see ``Traffic``."""
        from ai_model.routing.traffic import Traffic  # lazy: as above

        return Traffic(self.api)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. The object can be used again."""
        if "api" in self.__dict__:
            self.__dict__.pop("api").close()

    # Bytes

    def push(
        self,
        path: str | PathLike[str],
        model_id: str,
        version: str,
        *,
        metadata: Metadata | Mapping[str, Any] | None = None,
        alias: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> PushResult:
        """Publish a file or a directory as a version, sending only bytes the registry lacks.

        Run again after an interruption, it goes on where it stopped. Where ``metadata``
        names no git commit, that of the checkout which holds ``path`` is taken, else
        that of the working directory's.

        Raises:
            PathNotFound: nothing is at ``path``.
            PathRefused: it holds something that cannot be part of a version.
            FileChanged: a file changed meanwhile.
            ResourceConflict: the version exists with other bytes.
            IntegrityError: the service saw other bytes than were promised.
            NetworkError: the network stayed away; run it again to go on.
        """
        from ai_model.push.run import push

        return push(
            self.api,
            Path(fspath(path)),
            model_id=model_id,
            version=version,
            metadata=metadata,
            alias=alias,
            on_progress=on_progress,
        )

    def get(  # noqa: PLR0913 - one keyword for each thing that can be asked for
        self,
        model_id: str,
        ref: str = "latest",
        *,
        layers: Patterns = (),
        exclude: Patterns = (),
        files: Patterns = (),
        weights_only: bool = False,
        output: str | PathLike[str] | None = None,
        reuse: Sequence[str | PathLike[str]] = (),
        on_progress: OnProgress | None = None,
    ) -> GetResult:
        """Bring a version, or the layers asked for, into a directory, every byte verified.

        Args:
            model_id: the model.
            ref: version, alias, ``latest`` or manifest digest.
            layers: which tensors, such as ``encoder`` or ``encoder.layer.[0-2]``; none takes all.
            exclude: which of them not.
            files: globs over paths; only these files.
            weights_only: leave out files that hold no tensors.
            output: directory; ``./<model name>-<version>`` where not given.
            reuse: further directories that gets wrote, such as a share that other machines
                write to, to copy from what they hold of the version.
            on_progress: told how far it is.

        Raises:
            ResourceNotFound: no such model or version.
            NoMatch: a pattern or glob selects nothing.
            IntegrityError: stored bytes are not what the manifest says; nothing was put in place.
            NetworkError: the network stayed away; run it again to go on.
            DiskFull: the disk has too little room.
        """
        return self.open(model_id, ref).get(
            layers=layers,
            exclude=exclude,
            files=files,
            weights_only=weights_only,
            output=output,
            reuse=reuse,
            on_progress=on_progress,
        )

    def load(
        self,
        model_id: str,
        ref: str = "latest",
        *,
        layers: Patterns = (),
        exclude: Patterns = (),
        files: Patterns = (),
        framework: Literal["numpy", "torch"] = "numpy",
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Return tensors by name, as numpy arrays or torch tensors, without unpickling.

        The bytes are fetched into the cache directory first and verified like any get.

        Raises:
            NotSupported: numpy or torch is not installed, or cannot hold a tensor's dtype.
        """
        return self.open(model_id, ref).load(
            layers=layers,
            exclude=exclude,
            files=files,
            framework=framework,
            on_progress=on_progress,
        )

    def open(self, model_id: str, ref: str = "latest") -> Version:
        """Resolve ``ref`` to one immutable version.

        Raises:
            ResourceNotFound: no such model or version.
            UsageError: the names break their pattern.
        """
        from ai_model.version import open_version

        return open_version(self.api, model_id, ref)

    def verify(
        self, directory: str | PathLike[str], *, on_progress: OnProgress | None = None
    ) -> VerifyResult:
        """Check a directory that ``get`` wrote against the registry.

        Bad or missing files are an answer (``ok`` is ``False``), not an exception.

        Raises:
            UsageError: ``get`` did not write this directory.
        """
        from ai_model.verify import verify

        return verify(self.api, Path(fspath(directory)), on_progress=on_progress)

    # The cache; nothing here asks the registry

    def cache_list(self) -> CacheList:
        """Return what the cache holds and what it knows of, what was used last first."""
        from ai_model.cache_care.contents import list_cache

        return list_cache(self._cache)

    def cache_prune(
        self, *, older_than_s: float | None = None, max_bytes: int | None = None
    ) -> Pruned:
        """Remove what was not used for so long, and of the rest what was used longest ago.

        Directories that gets wrote are never touched.

        Args:
            older_than_s: seconds since the last use.
            max_bytes: how large the cache's own files may be together.
        """
        from ai_model.cache_care.prune import prune

        return prune(self._cache, older_than_s=older_than_s, max_bytes=max_bytes)

    def cache_verify(self, *, on_progress: OnProgress | None = None) -> CacheVerified:
        """Hash all of the cache and every byte that it knows of in other directories."""
        from ai_model.cache_care.verify import verify_cache

        return verify_cache(self._cache, on_progress=on_progress)

    @property
    def _cache(self) -> Cache:
        from ai_model.cache import Cache

        return Cache(self.config.cache_dir)

    # Catalog

    def models(self, *, prefix: str = "") -> Iterator[ModelInfo]:
        """Yield the models whose id starts with ``prefix``, by id."""
        return self.api.models(prefix=prefix)

    def model(self, model_id: str) -> ModelInfo:
        """Return one model.

        Raises:
            ResourceNotFound: there is none.
        """
        return self.api.model(model_id)

    def versions(self, model_id: str) -> Iterator[VersionSummary]:
        """Yield the versions of a model, newest first."""
        return self.api.versions(model_id)

    def find(self, **facts: Unpack[Facts]) -> Iterator[VersionSummary]:
        """Yield the versions, of any model, of which all this is true, newest first."""
        from ai_model.find import find

        return find(self.api, facts)

    def lineage(
        self,
        model_id: str,
        ref: str = "latest",
        *,
        direction: Direction = "both",
        depth: int = 10,
        max_nodes: int = 200,
    ) -> LineageInfo:
        """Return what a version was made from (``up``), and what was made from it (``down``).

        ``cut`` says that more lies beyond ``depth`` generations or ``max_nodes`` versions.
        """
        return self.api.lineage(
            model_id, ref, direction=direction, depth=depth, max_nodes=max_nodes
        )

    def yank(self, model_id: str, version: str, *, reason: str) -> VersionInfo:
        """Mark a version as not to be used. ``latest`` skips it; its name still works."""
        return self.api.yank(model_id, version, reason=reason)

    def unyank(self, model_id: str, version: str) -> VersionInfo:
        """Take a yank back."""
        return self.api.unyank(model_id, version)

    # Aliases

    def aliases(self, model_id: str) -> list[AliasInfo]:
        """Return the aliases of a model, by name."""
        return list(self.api.aliases(model_id))

    def set_alias(
        self,
        model_id: str,
        alias: str,
        version: str,
        *,
        expect_version: str | None = None,
        create_only: bool = False,
    ) -> AliasInfo:
        """Point an alias at a version.

        Args:
            model_id: the model.
            alias: its name.
            version: where it is to point.
            expect_version: move it only if it points there now.
            create_only: fail if the alias exists.

        Raises:
            ResourceConflict: it points elsewhere, exists already, or a version has that name.
        """
        return self.api.set_alias(
            model_id, alias, version, expect_version=expect_version, create_only=create_only
        )

    def remove_alias(self, model_id: str, alias: str) -> None:
        """Remove an alias; the version stays."""
        self.api.remove_alias(model_id, alias)

    # Access

    def whoami(self) -> Identity:
        """Return who the token belongs to and what it may do."""
        return self.api.whoami()

    def tokens(self) -> list[TokenInfo]:
        """Return all tokens without their secrets, newest first. For admins."""
        return list(self.api.tokens())

    def create_token(
        self,
        name: str,
        *,
        role: Role = "reader",
        models: Sequence[str] = ("*",),
        expires_in_s: int | None = None,
    ) -> TokenCreated:
        """Make a token; its secret is in the answer and shown this once. For admins."""
        return self.api.create_token(name, role=role, models=models, expires_in_s=expires_in_s)

    def revoke_token(self, token_id: str) -> None:
        """End a token; every process of the registry refuses it within seconds. For admins."""
        self.api.revoke_token(token_id)
