"""Small models: what a get costs besides moving bytes."""

import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.core.processes import Command, Server, free_ports, listening, run
from benchmarks.core.report import Report, at_most
from benchmarks.core.rounds import Contender, Outcome, alternate
from benchmarks.core.s3 import Store
from benchmarks.core.stage import Stage, sha256_of
from benchmarks.peers.ours import MODEL, AiModel
from benchmarks.services import registry, seaweedfs

HERE = Path(__file__).parents[1]
WEIGHTS = 1024 * 1024
ROUNDS = 5
"""More than elsewhere: a run takes a fraction of a second."""


class Behind(AiModel):
    """Our client, whose every request goes through a proxy that counts."""

    def setup(self) -> None:
        """Start a registry and a store of their own behind the proxy."""
        api_port, store_port = free_ports(2)
        stage, self.log = self.stage, self.stage.scratch / "requests.log"
        endpoint = f"http://127.0.0.1:{store_port}"
        store_server, inner = seaweedfs.start(stage.folder("small-store"))
        stage.serve(store_server)
        self.registry = registry.start(
            stage.folder("small-registry"), inner, stage.serve, public_url=endpoint
        )
        self.settings = dict(self.registry.clients)
        upstream = {
            api_port: urlsplit(self.settings["AI_MODEL_ENDPOINT"]).port,
            store_port: urlsplit(inner.endpoint).port,
        }
        pairs = (f"{own}={other}" for own, other in upstream.items())
        argv = (sys.executable, str(HERE / "services/proxy.py"), str(self.log), *pairs)
        proxy = Server(Command(argv), stage.home, stage.scratch / "proxy.log")
        proxy.wait_until(lambda: listening(api_port) and listening(store_port))
        stage.serve(proxy)
        self.settings["AI_MODEL_ENDPOINT"] = f"http://127.0.0.1:{api_port}"
        self.store = Store(endpoint, inner.access_key, inner.secret_key, inner.bucket)
        self.stocked = set()

    def requests(self) -> list[dict]:
        """Return what was asked since the last call."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.write_text("")
        return [json.loads(line) for line in lines]


def measure(stage: Stage) -> Report:
    """Count the requests of a small get, and set its time beside the least it could take."""
    report = Report("small-models", f"fixed cost of get: config + {WEIGHTS} bytes of weights")
    peer = Behind(stage, stage.store)
    folder = stage.folder("small")
    stage.model("small", size=WEIGHTS).rename(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"hidden_size": 64, "layers": 40}))
    run([peer.push(folder, "v1")[0]], stage.home)
    peer.requests()
    run([peer.get("v1", stage.target("small"))], stage.home)
    asked = peer.requests()
    before = requests_before_weights(asked, sha256_of(folder / "model.safetensors"))
    get, least = (
        Outcome("ai-model get", lacks="-"),
        Outcome("httpx + click + requests", lacks="all else"),
    )
    alternate(
        stage,
        [
            Contender(get, lambda _: [peer.get("v1", stage.target("small"))], _nothing),
            Contender(least, lambda _: [_alone(peer, before)], _nothing),
        ],
        rounds=max(ROUNDS, stage.options.repeat),
    )
    report.outcomes = [get, least]
    report.facts = {
        "requests of the whole get": len(asked),
        "before the first weight byte": [f"{r['method']} {_short(r['path'])}" for r in before],
    }
    limit = 1.5 * least.wall_s if least.ok else 0
    report.bars = [
        at_most("small model: requests first", len(before), 4, of="before the first weight byte"),
        at_most(
            "small model: time", get.wall_s if get.ok else None, limit, of=least.name, unit=" s"
        ),
    ]
    return report


def requests_before_weights(asked: list[dict], digest: str) -> list[dict]:
    """Return the requests that came before the first for the weights' own object."""
    for number, request in enumerate(asked):
        if digest in request["path"]:
            return asked[:number]
    return asked


def _alone(peer: Behind, before: list[dict]) -> Command:
    token = {"Authorization": f"Bearer {peer.settings['AI_MODEL_TOKEN']}"}
    api = urlsplit(peer.settings["AI_MODEL_ENDPOINT"]).port
    wanted = [
        {
            "method": request["method"],
            "url": f"http://127.0.0.1:{request['port']}{request['path']}",
            "headers": token if request["port"] == api else {},
        }
        for request in before
    ]
    script = str(HERE / "clients/requests_alone.py")
    return Command((str(peer.stage.own_bin / "python"), script, json.dumps(wanted)))


def _short(path: str) -> str:
    return path.partition("?")[0].replace(MODEL, "M")[:80]


def _nothing(*_: object) -> None:
    """Check nothing: the requests were counted before."""
