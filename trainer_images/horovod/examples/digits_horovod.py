"""Train a small network on handwritten digits with Horovod's DistributedOptimizer for PyTorch.

Runs as it is on a laptop (`python digits_horovod.py`), under horovodrun, and in the pods of a DistributedTrainingJob,
which set HOROVOD_RANK, HOROVOD_SIZE and where the processes meet: there the job's agent serves Horovod's rendezvous in
place of horovodrun. The data comes with scikit-learn, so nothing is downloaded. The last line printed is
`test_accuracy=0.99`.
"""

import argparse
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

try:
    from dtj_trainer import report
except ModuleNotFoundError:  # the job's progress is then read from the lines printed

    def report(**_: object) -> None:
        pass


@dataclass
class Training:
    """Everything that changes while training, and so everything that a checkpoint holds."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    epoch: int = 0
    step: int = 0

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "epoch": self.epoch,
            "step": self.step,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch, self.step = state["epoch"], state["step"]


def digits() -> tuple[TensorDataset, TensorDataset]:
    """1,437 images of 8 x 8 pixels to train on, and 360 held out to test on: the same split in every process."""
    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    pixels = [torch.tensor(part / 16, dtype=torch.float32).reshape(-1, 1, 8, 8) for part in split[:2]]
    targets = [torch.tensor(part, dtype=torch.long) for part in split[2:]]
    return TensorDataset(pixels[0], targets[0]), TensorDataset(pixels[1], targets[1])


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(64 * 4 * 4, 10),
    )


def save(state: dict[str, Any], path: Path) -> None:
    """Write a checkpoint so that a crash at any moment leaves either the old or the new one, and never half of it."""
    unfinished = path.with_suffix(".tmp")
    with unfinished.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def resume(training: Training, path: Path | None) -> None:
    """Go on from the checkpoint of rank 0, whose disk may be the only one that has it."""
    state = None
    if hvd.rank() == 0 and path is not None and path.exists():
        state = torch.load(path, map_location="cpu")
    state = hvd.broadcast_object(state, root_rank=0, name="checkpoint")  # without a name, that of its type is taken
    if state is not None:
        training.restore(state)
        say(f"resumed from {path}: epoch={training.epoch} step={training.step}")


def train_epoch(training: Training, loader: DataLoader[Any], device: torch.device, epochs: int) -> float:
    """Go once through this process's part of the data; the mean loss over it."""
    training.model.train()
    total = torch.zeros((), device=device)
    for images, labels in loader:
        loss = nn.functional.cross_entropy(training.model(images.to(device)), labels.to(device))
        training.optimizer.zero_grad()
        loss.backward()
        training.optimizer.step()  # Horovod averages the gradients of all processes in here
        total += loss.detach()
        training.step += 1
        report(
            step=training.step,
            total_steps=epochs * len(loader),
            epoch=training.step / len(loader),
            total_epochs=epochs,
        )
    training.epoch += 1
    return float(total) / len(loader)


@torch.no_grad()
def accuracy(model: nn.Module, data: TensorDataset, device: torch.device) -> float:
    """Share of ``data`` labelled right; each process looks at its part and all get the sum."""
    model.eval()
    images, labels = (part[hvd.rank() :: hvd.size()].to(device) for part in data.tensors)
    right = hvd.allreduce((model(images).argmax(dim=1) == labels).sum(), op=hvd.Sum)
    return int(right) / len(data)


def say(line: str) -> None:
    if hvd.rank() == 0:
        print(line, flush=True)


def train(training: Training, options: argparse.Namespace, device: torch.device) -> float:
    """Train for the epochs that are left; the accuracy on the held-out data."""
    train_data, test_data = digits()
    sampler: DistributedSampler[Any] = DistributedSampler(
        train_data, num_replicas=hvd.size(), rank=hvd.rank(), seed=options.seed
    )
    loader = DataLoader(train_data, batch_size=options.batch_size, sampler=sampler)
    checkpoint = options.checkpoint_dir / "digits.pt" if options.checkpoint_dir else None
    resume(training, checkpoint)
    measured = accuracy(training.model, test_data, device)
    while training.epoch < options.epochs:
        sampler.set_epoch(training.epoch)  # another order in every epoch, and the same one after a restart
        began = time.monotonic()
        loss = train_epoch(training, loader, device, options.epochs)
        speed = len(train_data) / (time.monotonic() - began)
        measured = accuracy(training.model, test_data, device)
        report(metrics={"loss": loss, "accuracy": measured})
        say(
            f"epoch={training.epoch}/{options.epochs} step={training.step}/{options.epochs * len(loader)} "
            f"loss={loss:.4f} accuracy={measured:.4f} samples_per_second={speed:.0f}"
        )
        if checkpoint is not None and hvd.rank() == 0:
            save(training.state(), checkpoint)
    return measured


def stop(signal_number: int, _: FrameType | None) -> None:
    # The checkpoint of the last whole epoch is on disk already, so there is nothing to finish first. Not SystemExit:
    # Horovod would wait at the interpreter's end for the other processes.
    print(f"stopping on {signal.Signals(signal_number).name}", flush=True)
    os._exit(128 + signal_number)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=32, help="images per process and step (default 32)")
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--checkpoint-dir",
        type=Path,
        default=os.environ.get("CHECKPOINT_DIR") or None,
        help="where to keep a checkpoint and go on from one (default: $CHECKPOINT_DIR, else no checkpoints)",
    )
    parser.add_argument("--min-accuracy", type=float, default=0.0, help="fail when the test accuracy is below this")
    options = parser.parse_args()
    if options.epochs < 1 or options.batch_size < 1:
        parser.error("--epochs and --batch-size must be at least 1")
    return options


def main() -> int:
    signal.signal(signal.SIGTERM, stop)  # as a container's first process, nothing else would end it on SIGTERM
    options = parse_options()
    if options.checkpoint_dir is not None:
        try:
            options.checkpoint_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            sys.exit(f"--checkpoint-dir {options.checkpoint_dir}: {error.strerror}; give a folder that can be written")
    hvd.init()
    torch.manual_seed(options.seed)
    on_gpu = torch.cuda.is_available() and hvd.nccl_built()  # without NCCL, Horovod exchanges nothing of a GPU
    device = torch.device("cuda", hvd.local_rank()) if on_gpu else torch.device("cpu")
    say(f"world_size={hvd.size()} device={device.type}")
    model = network().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.learning_rate)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    reached = train(Training(model, optimizer), options, device)
    say(f"test_accuracy={reached:.4f}")
    hvd.shutdown()
    if reached < options.min_accuracy:
        print(f"the accuracy {reached:.4f} is below --min-accuracy {options.min_accuracy}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
