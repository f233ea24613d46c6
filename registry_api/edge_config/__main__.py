"""Write an edge's nginx configuration: ``python -m registry_api.edge_config --help``."""

import argparse
import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from registry_api.edge_config.render import EdgeConfig, InvalidEdgeConfig, render
from registry_api.get.edge import InvalidEdge

_HELP = {
    "origin": "what the registry signs for, such as https://s3.example.org or http://10.0.0.5:8333",
    "data_dir": "where the cache lies; must exist and be writable by nginx",
    "listen": "address and port; with TLS '0.0.0.0:8443 ssl' and certificates in --include",
    "cache_size": "the most that the cache takes",
    "min_free": "what stays free on the disk",
    "inactive": "slices that nobody asks for in this time go",
    "valid": "slices older than this are fetched anew",
    "slice_size": "pieces in which objects are fetched and kept",
    "origin_address": "where to connect, when not where --origin says",
    "origin_ca": "certificates to trust for an https origin",
    "resolver": "DNS server for an --origin-address that ends in ' resolve'",
    "include": "files for nginx's server block",
    "workers": "worker processes",
    "access_log": "where requests are logged",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the configuration, or write it to a file that only its owner may read."""
    options = vars(_parser().parse_args(arguments))
    output: Path | None = options.pop("output")
    try:
        text = render(EdgeConfig(secret=_secret(options.pop("secret_file")), **options))
    except (InvalidEdge, InvalidEdgeConfig, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if output is None:
        sys.stdout.write(text)
    else:
        _write_private(output, text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m registry_api.edge_config",
        description="Write the nginx configuration of an edge: a cache between clients and the"
        " store. Run it with `nginx -c FILE`. It holds the secret shared with the registry.",
    )
    parser.add_argument(
        "--secret-file", type=Path, help="the shared secret; else EDGE_SECRET of the environment"
    )
    parser.add_argument("--output", type=Path, help="file to write; standard output if not given")
    for option in dataclasses.fields(EdgeConfig):
        if option.name == "secret":
            continue
        required = option.default is dataclasses.MISSING
        parser.add_argument(
            "--" + option.name.replace("_", "-"),
            required=required,
            default=None if required else option.default,
            help=_HELP[option.name] + ("" if required else " (default: %(default)s)"),
        )
    return parser


def _secret(path: Path | None) -> str:
    if path is None:
        return os.environ.get("EDGE_SECRET", "")
    return path.read_text(encoding="utf-8").strip()


def _write_private(path: Path, text: str) -> None:
    """Write a file that was never readable by others."""
    temp = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    temp.replace(path)


if __name__ == "__main__":
    sys.exit(main())
