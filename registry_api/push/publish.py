"""Publish: bytes become objects, and a version appears, all of it in one transaction or not."""

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlalchemy import insert
from sqlalchemy.orm import Session

from ai_model_format.digest import Digest
from ai_model_format.manifest import File, Manifest, manifest_digest
from registry_api.access import Caller
from registry_api.catalog import aliases
from registry_api.catalog import queries as catalog
from registry_api.db.session import transaction
from registry_api.db.tables import FileRow, ModelRow, PushRow, UploadRow, VersionRow
from registry_api.errors import NameConflict, UploadIncompleteYet, VersionConflict
from registry_api.events.queries import record
from registry_api.find.queries import keep_facts
from registry_api.lineage.queries import keep_parents
from registry_api.parts import Parts
from registry_api.push import queries
from registry_api.push.chunks import Location, Run, chunk_offsets, lay_out
from registry_api.push.contents import contents_of, pushed_files
from registry_api.push.service import ENDED_KEPT, note_on_metadata
from registry_api.push.sweep import as_upload


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the files of a version will lie.

    Attributes:
        runs: of each file, by path.
        content_digests: of each file, by path: names all that the manifest says of its content.
        claimed: paths of files with a chunk whose place only the client has told.
        proven: paths of files whose every chunk was hashed where it lies, now or before.
    """

    runs: Mapping[str, Sequence[Run]]
    content_digests: Mapping[str, Digest]
    claimed: frozenset[str]
    proven: frozenset[str]

    @property
    def object_ids(self) -> set[int]:
        """Ids of all objects that the version needs, but for its manifest."""
        return {object_id for runs in self.runs.values() for object_id, _, _ in runs}


def content_digest(file: File) -> Digest:
    """Return what names a file's content as the manifest tells it, whatever its path. Pure."""
    return manifest_digest(Manifest((replace(file, path="-"),)).to_bytes())


def keep_manifest(parts: Parts, push_id: uuid.UUID, manifest: Manifest) -> None:
    """Remember the manifest that the service made of plain files."""
    data = manifest.to_bytes()
    with transaction(parts.engine) as session:
        push = queries.find_push(session, push_id, lock=True)
        assert push is not None
        push.manifest, push.manifest_digest = data, manifest_digest(data)


def store_object(parts: Parts, upload: UploadRow) -> None:
    """Make a verified upload an object. Nobody can read it before a version needs it."""
    with transaction(parts.engine) as session:
        queries.lock_digest(session, upload.digest)
        row = session.get_one(UploadRow, upload.id)
        there = queries.find_object(session, upload.digest)
        if there is None:
            parts.store.publish(as_upload(upload))
        elif not upload.in_place:
            parts.store.abort(as_upload(upload))
        row.object_id = (
            there.id if there else queries.add_object(session, upload.digest, upload.size)
        )
        row.state = "stored"


def plan_layout(
    session: Session,
    caller: Caller,
    push: PushRow,
    manifest: Manifest,
    uploads: Sequence[UploadRow],
    hashed: Collection[Digest],
) -> Plan:
    """Decide where each file's bytes come from: an object of its own, known chunks, uploads.

    Args:
        session: one transaction.
        caller: whose rights decide which chunks may be shared.
        push: being verified.
        manifest: of the version.
        uploads: of the push.
        hashed: digests of those whose chunks were hashed just now.

    Raises:
        UploadIncompleteYet: a chunk lies nowhere that the caller may read.
    """
    own = queries.object_ids(session, [row.digest for row in uploads if row.state == "stored"])
    digests = [file.sha256 for file in manifest.files]
    whole = {**queries.readable_objects(session, caller, digests), **own}
    cut = [file for file in manifest.files if file.size and file.sha256 not in whole]
    wanted = {chunk.digest for file in cut for chunk in file.chunks}
    known = queries.locate_chunks(session, caller, wanted)
    claims = _claimed_locations(push, manifest, uploads, own)
    lacking = wanted - known.keys() - claims.keys()
    if lacking:
        raise UploadIncompleteYet(f"{len(lacking)} chunks lie nowhere that you may read any more")
    proven = known.keys() | _hashed(claims, {own[digest] for digest in hashed})
    places = {digest: known.get(digest) or claims[digest] for digest in wanted}
    runs = {
        f.path: [(whole[f.sha256], 0, f.size)] if f.size else []
        for f in manifest.files
        if f.sha256 in whole or not f.size
    }
    runs |= {file.path: lay_out(file, places) for file in cut}
    return Plan(
        runs=runs,
        content_digests={file.path: content_digest(file) for file in manifest.files},
        claimed=frozenset(f.path for f in cut if any(c.digest not in known for c in f.chunks)),
        proven=frozenset(f.path for f in cut if all(c.digest in proven for c in f.chunks)),
    )


def publish(
    parts: Parts,
    caller: Caller,
    push_id: uuid.UUID,
    manifest: Manifest,
    plan: Plan,
    verified: Iterable[str],
) -> None:
    """Make the version visible.

    Args:
        parts: of the service.
        caller: who pushed.
        push_id: a push being verified.
        manifest: of the version.
        plan: where its files lie.
        verified: paths of the files that were hashed now, so that their chunks may be shared.

    Raises:
        VersionConflict: the version was published with other bytes meanwhile.
        NameConflict: a version and an alias would share a name.
    """
    data = manifest.to_bytes()
    digest = manifest_digest(data)
    with transaction(parts.engine) as session:
        # Held until the object's row is there: an upload in place of this digest would
        # otherwise be dropped, or completed, over the manifest.
        queries.lock_digest(session, digest)
        push = queries.find_push(session, push_id, lock=True)
        if push is None or push.state != "verifying":
            return
        parts.store.put(digest, data)
        queries.add_chunks(session, _chunk_rows(manifest, plan, set(verified)))
        model = catalog.lock_model(session, push.model_name, create=True)
        assert model is not None
        version = _add_version(session, caller, push, model, manifest, digest)
        if push.created:
            manifest_object = queries.add_object(session, digest, len(data))
            needed = {*plan.object_ids, manifest_object}
            version.stored_bytes = queries.size_of_unneeded(session, needed)
            _add_files(session, version, manifest, plan)
            queries.add_needs(session, version.id, needed)
            keep_facts(session, version.id)
            keep_parents(session, version.id)
            _record_publication(session, caller, model, version)
        if push.alias is not None:
            aliases.point(session, caller, model, push.alias, version)
        push.manifest_digest = digest
        push.bytes_verified = push.bytes_total
        end(push, "ready")


def end(push: PushRow, state: str) -> None:
    """Move a push to its last state; what it pushed need not be kept with it."""
    push.state = state
    push.manifest = push.files = None
    push.expires_at = datetime.now(UTC) + ENDED_KEPT


def _add_version(
    session: Session,
    caller: Caller,
    push: PushRow,
    model: ModelRow,
    manifest: Manifest,
    digest: Digest,
) -> VersionRow:
    if push.alias == push.version_name or catalog.find_alias(session, model.id, push.version_name):
        raise NameConflict(f"{push.version_name!r} is an alias of {model.name!r}")
    version = catalog.find_version(session, model.id, push.version_name)
    if version is not None:
        if version.manifest_digest != digest:
            raise VersionConflict(model.name, version.name)
        push.notes = note_on_metadata(version, push.facts)
        return version
    version = VersionRow(
        model_id=model.id,
        name=push.version_name,
        manifest_digest=digest,
        size=manifest.size,
        stored_bytes=0,
        facts=push.facts,
        created_by=caller.name,
    )
    session.add(version)
    model.version_count = ModelRow.version_count + 1
    session.flush()
    push.created = True
    return version


def _add_files(session: Session, version: VersionRow, manifest: Manifest, plan: Plan) -> None:
    rows = [
        {
            "version_id": version.id,
            "position": position,
            "path": file.path,
            "size": file.size,
            "sha256": file.sha256,
            "media_type": file.media_type,
            "format": file.format,
            "content_digest": plan.content_digests[file.path],
            "runs": plan.runs[file.path],
        }
        for position, file in enumerate(manifest.files)
    ]
    session.execute(insert(FileRow), rows)


def _record_publication(
    session: Session, caller: Caller, model: ModelRow, version: VersionRow
) -> None:
    record(
        session,
        caller,
        "version.published",
        subject=version.name,
        model_id=model.name,
        after={
            "manifest_digest": version.manifest_digest,
            "size": version.size,
            "stored_bytes": version.stored_bytes,
        },
    )


def _claimed_locations(
    push: PushRow, manifest: Manifest, uploads: Sequence[UploadRow], own: Mapping[Digest, int]
) -> dict[Digest, list[Location]]:
    if push.files is not None:  # plain files are objects of their own
        return {}
    files = pushed_files(push, manifest)
    found: dict[Digest, list[Location]] = {}
    for row in uploads:
        if row.state != "stored":
            continue
        contents = (
            chunk
            for path, first, last in contents_of(row)
            for chunk in files[path].chunks[first:last]
        )
        for chunk, start in chunk_offsets(contents):
            found.setdefault(chunk.digest, []).append(Location(own[row.digest], start))
    return found


def _hashed(claims: Mapping[Digest, Sequence[Location]], object_ids: set[int]) -> set[Digest]:
    """Return the chunks that lie in these objects wherever they are claimed to."""
    return {
        digest
        for digest, places in claims.items()
        if all(place.object_id in object_ids for place in places)
    }


def _chunk_rows(
    manifest: Manifest, plan: Plan, verified: set[str]
) -> Iterator[tuple[Digest, int, int, int]]:
    """Yield where the chunks of verified files lie: (digest, object id, start, size)."""
    for file in manifest.files:
        if file.path not in verified:
            continue
        runs = iter(plan.runs[file.path])
        object_id = start = left = 0
        for chunk in file.chunks:
            if not left:
                object_id, start, left = next(runs)
            yield chunk.digest, object_id, start, chunk.size
            start, left = start + chunk.size, left - chunk.size
