"""What is loaded at the start is not looked at again by each full garbage collection."""

import subprocess
import sys

PROGRAM = """
import gc
from registry_api import __main__, heap
from registry_api.settings import Settings
app = __main__.create_app(Settings())
before = len(gc.get_objects())
heap.settle()
print(before, len(gc.get_objects()))
"""


def test_what_is_loaded_is_left_out_of_collections() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    before, after = map(int, done.stdout.split())
    assert after < before / 50
