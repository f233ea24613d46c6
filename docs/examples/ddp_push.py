"""Train with PyTorch DDP and push a checkpoint from rank 0.

    torchrun --nproc-per-node 2 docs/examples/ddp_push.py --model-id demo/ddp --version step-20

Where the registry is and the token come from AI_MODEL_CONFIG, or from
AI_MODEL_ENDPOINT and AI_MODEL_TOKEN.
"""

import argparse
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ai_model import Registry


class Classifier(nn.Module):
    """A small model with the two parts that people ask for separately."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32))
        self.head = nn.Linear(32, 2)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Return the scores of two classes."""
        scores: torch.Tensor = self.head(self.encoder(batch))
        return scores


def train(model: DistributedDataParallel, steps: int, lr: float) -> float:
    """Learn to tell whether a row's sum is positive; return the last loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    loss = torch.tensor(0.0)
    for _ in range(steps):
        batch = torch.randn(64, 16)
        loss = nn.functional.cross_entropy(model(batch), (batch.sum(dim=1) > 0).long())
        optimizer.zero_grad()
        loss.backward()  # DDP averages the gradients of all ranks here
        optimizer.step()
    return float(loss)


def push(model: nn.Module, model_id: str, version: str, *, lr: float, loss: float) -> None:
    """Save and push a checkpoint. Call it on rank 0 only."""
    with tempfile.TemporaryDirectory() as folder, Registry() as registry:
        checkpoint = Path(folder) / "checkpoint.pt"
        torch.save(model.state_dict(), checkpoint)
        result = registry.push(
            checkpoint,
            model_id,
            version,
            metadata={
                "dataset": {"id": "random-rows"},
                "parameters": {"lr": lr, "world_size": dist.get_world_size()},
                "metrics": {"loss": loss},
            },
        )
    print(
        f"pushed {model_id} {version}: {result.bytes_sent:,} of {result.bytes_total:,} bytes sent"
    )


def main() -> None:
    """Be one rank of the training."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-id", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--lr", type=float, default=0.1)
    given = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(Classifier())
    loss = train(model, given.steps, given.lr)
    if dist.get_rank() == 0:
        # `.module` is the model itself: without it every name would start with "module."
        push(model.module, given.model_id, given.version, lr=given.lr, loss=loss)
    dist.barrier()  # nobody leaves before the push is through
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
