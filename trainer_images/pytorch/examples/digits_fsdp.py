"""Train a network on handwritten digits whose parameters are sharded over all processes, with PyTorch's FSDP2.

What is parallel: the data, as with DDP, and the memory. Each process keeps one part of every parameter, gradient and
optimizer state, and collects a layer's whole parameters only while that layer computes. Runs on a laptop
(`python digits_fsdp.py`), under torchrun, and in the pods of a DistributedTrainingJob. The checkpoints are sharded as
well: every process writes its own part, and any number of processes can go on from them.

At the end each process trains the same network alone, on the same batches: the results have to be the same.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

SEED = 0
TOLERANCE = 1e-4
"""How far a parameter may be from that of one process. Sums in another order differ by rounding, to less than 1e-6 in
20 epochs; data or gradients shared out wrongly come to more than 1e-2 in the first. (With ReLU instead of the smooth
tanh they could not be told apart: at its kink, rounding decides what is learned.)"""


def connect(timeout_s: int) -> torch.device:
    """Join the other processes, waiting at most ``timeout_s`` for them; the device this process trains on."""
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    backend = "nccl" if on_gpu else "gloo"
    alone = {} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group(backend, timeout=timedelta(seconds=timeout_s), **alone)
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")


def digits(device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images of 64 pixels to train on and to test on, then their labels: the same split in every process."""
    images, labels = load_digits(return_X_y=True)
    train, test, *targets = train_test_split(images / 16, labels, test_size=0.2, random_state=0, stratify=labels)
    pixels = [torch.tensor(part, dtype=torch.float32, device=device) for part in (train, test)]
    return pixels[0], pixels[1], *(torch.tensor(part, device=device) for part in targets)


def batches(images: Tensor, labels: Tensor, size: int, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The whole batches of an epoch, in an order that only depends on the epoch."""
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(SEED + epoch))
    for chosen in order.split(size)[: len(images) // size]:
        yield images[chosen], labels[chosen]


def network() -> nn.Sequential:
    """The network with its first, random parameters: the same ones in every process."""
    torch.manual_seed(SEED)
    return nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 10))


def optimizer_for(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor) -> Tensor:
    """Learn from one batch; its loss."""
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()  # averages the gradients of all processes; each keeps its part of them
    optimizer.step()
    return loss.detach()


def sharded(device: torch.device) -> FSDPModule:
    """The network, of which this process keeps one part."""
    mesh = init_device_mesh(device.type, (dist.get_world_size(),), mesh_dim_names=("shard",))
    model = network().to(device)
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)  # collected, and let go again, layer by layer
    return fully_shard(model, mesh=mesh)


def finished_epochs(folder: Path) -> int:
    """How many epochs the newest checkpoint has seen, 0 without one. Its list of contents is written last of all."""
    return max((int(path.parent.name) for path in folder.glob("[0-9]*/.metadata")), default=0)


def save(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path, epoch: int) -> None:
    """Write a checkpoint, each process its own part, then delete the one before."""
    parameters, optimizer_state = get_state_dict(model, optimizer)
    dcp.save({"model": parameters, "optimizer": optimizer_state}, checkpoint_id=folder / str(epoch))
    dist.barrier()
    if not (folder / str(epoch) / ".metadata").exists():  # rank 0 has written it
        sys.exit(f"--checkpoint-dir {folder}: other processes have another folder of this name; give one they share")
    if dist.get_rank() == 0 and (folder / str(epoch - 1)).exists():
        shutil.rmtree(folder / str(epoch - 1))


def resume(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> int:
    """Go on from the newest checkpoint, whatever number of processes wrote it; the epochs that it has seen."""
    newest = [finished_epochs(folder)]
    dist.broadcast_object_list(newest, src=0)
    if newest[0]:
        parameters, optimizer_state = get_state_dict(model, optimizer)
        dcp.load({"model": parameters, "optimizer": optimizer_state}, checkpoint_id=folder / str(newest[0]))
        set_state_dict(model, optimizer, model_state_dict=parameters, optim_state_dict=optimizer_state)
        say(f"resumed from {folder}: epoch={newest[0]}")
    return newest[0]


def train(model: nn.Module, images: Tensor, labels: Tensor, options: argparse.Namespace) -> None:
    """Train the sharded network; each process on its share of every batch."""
    optimizer = optimizer_for(model)
    steps = len(images) // options.batch_size
    done = resume(model, optimizer, options.checkpoint_dir) if options.checkpoint_dir else 0
    for epoch in range(done, options.epochs):
        total = torch.zeros((), device=images.device)
        for batch in batches(images, labels, options.batch_size, epoch):
            total += step(model, optimizer, *(part.chunk(dist.get_world_size())[dist.get_rank()] for part in batch))
        dist.all_reduce(total)
        loss = float(total) / steps / dist.get_world_size()
        say(f"epoch={epoch + 1}/{options.epochs} step={(epoch + 1) * steps}/{options.epochs * steps} loss={loss:.4f}")
        if options.checkpoint_dir:
            save(model, optimizer, options.checkpoint_dir, epoch + 1)


def train_alone(images: Tensor, labels: Tensor, options: argparse.Namespace) -> nn.Module:
    """The same training in this process alone."""
    model = network().to(images.device)
    optimizer = optimizer_for(model)
    for epoch in range(options.epochs):
        for batch in batches(images, labels, options.batch_size, epoch):
            step(model, optimizer, *batch)
    return model


@torch.no_grad()
def difference(model: nn.Module, other: nn.Module) -> float:
    """The largest difference of a parameter of the sharded ``model`` from ``other``'s."""
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return max(float((mine.full_tensor() - its).abs().max().nan_to_num(nan=torch.inf)) for mine, its in pairs)


def say(line: str) -> None:
    if dist.get_rank() == 0:
        print(line, flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64, help="images per step, of all processes (default 64)")
    parser.add_argument("--checkpoint-dir", type=Path, help="a folder that all processes share (default: none)")
    parser.add_argument("--min-accuracy", type=float, default=0.0, help="fail when the test accuracy is below this")
    parser.add_argument("--timeout", type=int, default=300, help="seconds to wait for other processes (default 300)")
    options = parser.parse_args()
    if min(options.epochs, options.batch_size, options.timeout) < 1:
        parser.error("--epochs, --batch-size and --timeout must be at least 1")
    return options


def main() -> int:
    options = parse_options()
    device = connect(options.timeout)
    if options.batch_size % dist.get_world_size():
        sys.exit(f"--batch-size {options.batch_size} has to be a multiple of the {dist.get_world_size()} processes")
    if options.checkpoint_dir and not os.access(options.checkpoint_dir, os.W_OK):
        sys.exit(f"--checkpoint-dir {options.checkpoint_dir}: not a folder that this process may write to")
    say(f"world_size={dist.get_world_size()} backend={dist.get_backend()} device={device.type}")
    train_images, test_images, train_labels, test_labels = digits(device)
    model = sharded(device)
    held = sum(p.to_local().numel() for p in model.parameters())
    whole = sum(p.numel() for p in model.parameters())
    print(f"rank={dist.get_rank()} parameters_held={held} of {whole}\n", end="", flush=True)  # one write, so one line
    train(model, train_images, train_labels, options)
    with torch.no_grad():
        reached = float((model(test_images).argmax(dim=1) == test_labels).float().mean())
    differs = difference(model, train_alone(train_images, train_labels, options))
    same = differs <= TOLERANCE
    say(f"test_accuracy={reached:.4f}")
    say(f"same_as_one_process={same} max_difference={differs:.1e}")
    dist.destroy_process_group()
    if not same:
        sys.exit(f"a parameter differs by {differs:.1e} from that of one process; at most {TOLERANCE} is rounding")
    if reached < options.min_accuracy:
        sys.exit(f"the accuracy {reached:.4f} is below --min-accuracy {options.min_accuracy}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
