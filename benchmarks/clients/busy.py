"""A busy team: clients that are up already (training jobs, servers) get one model all day.

Each get is a ``Registry`` of its own with an empty cache and an empty directory, in one of N
processes, so that no machine's work helps another's.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

from ai_model import Registry


def one(job: tuple[str, str, str, str]) -> tuple[float, str]:
    """Get the model once; return seconds and what went wrong."""
    model, version, parent, size = job
    folder = Path(tempfile.mkdtemp(dir=parent))
    began = time.perf_counter()
    try:
        with Registry(cache_dir=folder / "cache") as registry:
            registry.get(model, version, output=folder / "out")
        seconds = time.perf_counter() - began
        arrived = sum(path.stat().st_size for path in (folder / "out").glob("*.safetensors"))
        return seconds, "" if arrived == int(size) else f"{arrived} bytes arrived"
    except Exception as error:  # noqa: BLE001 - a failure is what is counted
        return time.perf_counter() - began, f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    count, at_once, model, version, parent, size = sys.argv[1:]
    os.chdir(parent)
    jobs = [(model, version, parent, size)] * int(count)
    began = time.perf_counter()
    with get_context("fork").Pool(int(at_once)) as pool:
        done = list(pool.imap_unordered(one, jobs, chunksize=1))
    print(json.dumps({"done": done, "elapsed_s": time.perf_counter() - began}))
