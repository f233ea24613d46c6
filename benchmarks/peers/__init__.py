"""Each peer at its best, as its own documentation says to use it: one module each."""

from benchmarks.peers.awscli import AwsCli
from benchmarks.peers.boto import Boto3
from benchmarks.peers.curl import Curl
from benchmarks.peers.dvc import Dvc
from benchmarks.peers.hub import HuggingFaceHub
from benchmarks.peers.interface import Peer
from benchmarks.peers.lfs import GitLfs
from benchmarks.peers.mlflow import MLflow
from benchmarks.peers.ours import AiModel
from benchmarks.peers.raw import RawSocket
from benchmarks.peers.rclone import Rclone
from benchmarks.peers.s5cmd import S5cmd
from benchmarks.peers.xet import HfXet

ALL: tuple[type[Peer], ...] = (
    AiModel, RawSocket, Curl, Boto3, S5cmd, Rclone, AwsCli, HuggingFaceHub, HfXet, MLflow, Dvc,
    GitLfs,
)  # fmt: skip
"""In the order of the tables."""
