"""Postgres from the wheel, until TERM: ``postgres.py DIRECTORY FILE`` writes its URL to FILE."""

import signal
import sys
import threading
from pathlib import Path

from registry_api.local_postgres import local_postgres

if __name__ == "__main__":
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with local_postgres(Path(sys.argv[1])) as url:
        written = Path(sys.argv[2]).with_suffix(".new")
        written.write_text(url)
        written.rename(sys.argv[2])
        ended.wait()
