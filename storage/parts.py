"""How large the parts of an upload are. Pure."""

MIB = 1024 * 1024
MAX_PARTS = 10_000
MIN_PART_SIZE = 5 * MIB
DEFAULT_PART_SIZE = 16 * MIB


def plan_part_size(size: int, *, preferred: int = DEFAULT_PART_SIZE) -> int:
    """Return the size of every part but the last.

    Parts are equal, as some S3 stores demand, and at most ``MAX_PARTS``: beyond
    ``preferred * MAX_PARTS`` bytes they grow, by whole MiB.

    Raises:
        ValueError: ``size`` is below 1, an upload of nothing.
    """
    if size < 1:
        raise ValueError(f"an upload has at least 1 byte, not {size}")
    smallest = -(-size // MAX_PARTS)
    return max(preferred, -(-smallest // MIB) * MIB) if smallest > preferred else preferred
