"""Train a network on handwritten digits whose layers are cut across processes: tensor parallelism, with DTensor.

What is parallel: each layer. Of a pair of layers, every process has some columns of the first and the matching rows of
the second; one sum over the processes gives what the pair computes, so a network may be wider than one device can hold.
With --tensor-parallel=N, N neighbouring processes share a network so, and the data are spread over the groups of N, as
FSDP does it. Runs on a laptop (`python digits_tensor_parallel.py`), under torchrun, and in the pods of a
DistributedTrainingJob.

At the end each process trains the same network alone, on the same batches: the results have to be the same.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from datetime import timedelta

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

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
    layers = [nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64), nn.Tanh(), nn.Linear(64, 256), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(256, 10), nn.LogSoftmax(dim=1))


def optimizer_for(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor) -> Tensor:
    """Learn from one batch; its loss."""
    loss = nn.functional.nll_loss(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def mesh_of(device: torch.device, options: argparse.Namespace) -> DeviceMesh:
    """The processes in rows: one row shares a network, the rows share the data."""
    world = dist.get_world_size()
    tensor = options.tensor_parallel or world
    if tensor < 1 or world % tensor:
        sys.exit(f"--tensor-parallel {tensor} has to divide the number of processes, which is {world}")
    if options.batch_size % (world // tensor):
        sys.exit(f"--batch-size {options.batch_size} has to be a multiple of the {world // tensor} groups")
    return init_device_mesh(device.type, (world // tensor, tensor), mesh_dim_names=("data", "tensor"))


def parallel(mesh: DeviceMesh) -> nn.Module:
    """The network, of which this process keeps one part."""
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel(), "4": ColwiseParallel(), "6": RowwiseParallel()}
    model = parallelize_module(network().to(mesh.device_type), mesh["tensor"], plan)
    if mesh["data"].size() > 1:
        fully_shard(model, mesh=mesh["data"])  # averages the gradients of the groups
    return model


def train(model: nn.Module, mesh: DeviceMesh, images: Tensor, labels: Tensor, options: argparse.Namespace) -> None:
    """Train the network that is cut across processes; each group of them on its share of every batch."""
    optimizer = optimizer_for(model)
    groups, group = mesh["data"].size(), mesh["data"].get_local_rank()
    steps = len(images) // options.batch_size
    for epoch in range(options.epochs):
        total = torch.zeros((), device=images.device)
        for batch in batches(images, labels, options.batch_size, epoch):
            # All processes of a group get the same images: a batch is spread over groups, not over processes.
            total += step(model, optimizer, *(part.chunk(groups)[group] for part in batch))
        dist.all_reduce(total, group=mesh["data"].get_group())
        loss = float(total) / steps / groups
        say(f"epoch={epoch + 1}/{options.epochs} step={(epoch + 1) * steps}/{options.epochs * steps} loss={loss:.4f}")


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
    """The largest difference of a parameter of ``model``, put together again, from ``other``'s."""
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return max(float((mine.full_tensor() - its).abs().max().nan_to_num(nan=torch.inf)) for mine, its in pairs)


def say(line: str) -> None:
    if dist.get_rank() == 0:
        print(line, flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64, help="images per step, of all processes (default 64)")
    parser.add_argument("--tensor-parallel", type=int, help="processes that share one network (default: all)")
    parser.add_argument("--min-accuracy", type=float, default=0.0, help="fail when the test accuracy is below this")
    parser.add_argument("--timeout", type=int, default=300, help="seconds to wait for other processes (default 300)")
    options = parser.parse_args()
    if min(options.epochs, options.batch_size, options.timeout) < 1:
        parser.error("--epochs, --batch-size and --timeout must be at least 1")
    return options


def main() -> int:
    options = parse_options()
    device = connect(options.timeout)
    mesh = mesh_of(device, options)
    say(f"world_size={dist.get_world_size()} backend={dist.get_backend()} device={device.type}")
    train_images, test_images, train_labels, test_labels = digits(device)
    model = parallel(mesh)
    held = sum(p.to_local().numel() for p in model.parameters() if isinstance(p, DTensor))
    whole = sum(p.numel() for p in model.parameters())
    print(f"rank={dist.get_rank()} parameters_held={held} of {whole}\n", end="", flush=True)  # one write, so one line
    train(model, mesh, train_images, train_labels, options)
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
