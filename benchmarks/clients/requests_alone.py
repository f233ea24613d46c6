"""What ``get`` cannot do without: importing httpx and click, and its few requests."""

import json
import sys

import click  # noqa: F401 - its import is what is measured
import httpx

with httpx.Client() as client:
    for request in json.loads(sys.argv[1]):
        client.request(request["method"], request["url"], headers=request["headers"])
