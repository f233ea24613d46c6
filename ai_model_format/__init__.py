"""What the service and the client agree on.

Glossary, one word per thing:

- model: a named line of versions; id ``name`` or ``namespace/name``
- version: an immutable set of files with metadata, named by its author
- alias: a movable name for a version
- ref: what a person types: a version name, an alias, ``latest`` or a digest
- tensor: named dtype, shape and byte range inside a weight file
- layer: a dotted component of tensor names, or a group the version declares
- chunk: the unit of verifying and sharing
- object: immutable bytes in the store, named by their SHA-256
- manifest: the canonical list of files, tensors, chunks; its digest names the content
- layout: where a version's chunks lie in objects

Everything here is pure: no files, no sockets, no clock, no third party but
pydantic, and that only in ``wire``.
"""
