"""Train a network on handwritten digits whose layers follow each other over processes: pipeline parallelism.

What is parallel: the layers, in stages. Each process has one stage: it takes what the stage before computed, and gives
what it computes to the next. A batch goes through in small parts, so that all stages have work at the same time. Runs
on a laptop (`python digits_pipeline.py`), under torchrun, and in the pods of a DistributedTrainingJob.

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
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

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
    """The network with its first, random parameters: the same ones in every process. A stage is one or more blocks."""
    torch.manual_seed(SEED)
    return nn.Sequential(
        nn.Sequential(nn.Linear(64, 128), nn.Tanh()),
        nn.Sequential(nn.Linear(128, 128), nn.Tanh()),
        nn.Sequential(nn.Linear(128, 128), nn.Tanh()),
        nn.Linear(128, 10),
    )


def optimizer_for(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def stage_of(blocks: nn.Sequential, rank: int, stages: int) -> nn.Sequential:
    """The blocks of one stage: as many as any other has, or one less."""
    return blocks[rank * len(blocks) // stages : (rank + 1) * len(blocks) // stages]


def train(stage: nn.Module, images: Tensor, labels: Tensor, options: argparse.Namespace) -> None:
    """Train this process's stage, together with the others."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    pipeline = Schedule1F1B(
        PipelineStage(stage, stage_index=rank, num_stages=last + 1, device=images.device),
        n_microbatches=options.microbatches,
        loss_fn=nn.functional.cross_entropy,
    )
    optimizer = optimizer_for(stage)
    steps = len(images) // options.batch_size
    for epoch in range(options.epochs):
        total = torch.zeros((), device=images.device)
        for batch, targets in batches(images, labels, options.batch_size, epoch):
            losses: list[Tensor] = []  # of each part of the batch; only the last stage gets to know them
            optimizer.zero_grad()
            pipeline.step(*([batch] if rank == 0 else []), target=targets if rank == last else None, losses=losses)
            optimizer.step()
            total += sum(loss.detach() for loss in losses) / options.microbatches
        dist.broadcast(total, src=last)
        loss = float(total) / steps
        say(f"epoch={epoch + 1}/{options.epochs} step={(epoch + 1) * steps}/{options.epochs * steps} loss={loss:.4f}")


def together(stage: nn.Module, device: torch.device) -> nn.Module:
    """The whole network, from the stages of all processes. It is small enough for each of them."""
    states: list[dict[str, Tensor]] = [{} for _ in range(dist.get_world_size())]
    dist.all_gather_object(states, {name: value.cpu() for name, value in stage.state_dict().items()})
    blocks = network().to(device)
    for rank, state in enumerate(states):
        stage_of(blocks, rank, len(states)).load_state_dict(state)
    return blocks


def train_alone(images: Tensor, labels: Tensor, options: argparse.Namespace) -> nn.Module:
    """The same training in this process alone."""
    model = network().to(images.device)
    optimizer = optimizer_for(model)
    for epoch in range(options.epochs):
        for batch, targets in batches(images, labels, options.batch_size, epoch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(batch), targets).backward()
            optimizer.step()
    return model


@torch.no_grad()
def difference(model: nn.Module, other: nn.Module) -> float:
    """The largest difference of a parameter of ``model`` from ``other``'s."""
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return max(float((mine - its).abs().max().nan_to_num(nan=torch.inf)) for mine, its in pairs)


def say(line: str) -> None:
    if dist.get_rank() == 0:
        print(line, flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64, help="images per step (default 64)")
    parser.add_argument("--microbatches", type=int, default=4, help="equal parts that a batch is cut into (default 4)")
    parser.add_argument("--min-accuracy", type=float, default=0.0, help="fail when the test accuracy is below this")
    parser.add_argument("--timeout", type=int, default=300, help="seconds to wait for other processes (default 300)")
    options = parser.parse_args()
    if min(options.epochs, options.batch_size, options.microbatches, options.timeout) < 1:
        parser.error("--epochs, --batch-size, --microbatches and --timeout must be at least 1")
    if options.batch_size % options.microbatches:
        parser.error(f"--batch-size has to be a multiple of --microbatches, which is {options.microbatches}")
    return options


def main() -> int:
    options = parse_options()
    device = connect(options.timeout)
    blocks = network()
    if dist.get_world_size() > min(len(blocks), options.microbatches):
        sys.exit(
            f"{dist.get_world_size()} processes are too many stages for {len(blocks)} blocks of the network and "
            f"--microbatches {options.microbatches}"
        )
    say(f"world_size={dist.get_world_size()} backend={dist.get_backend()} device={device.type}")
    train_images, test_images, train_labels, test_labels = digits(device)
    stage = stage_of(blocks, dist.get_rank(), dist.get_world_size()).to(device)
    held = sum(p.numel() for p in stage.parameters())
    whole = sum(p.numel() for p in blocks.parameters())
    print(f"rank={dist.get_rank()} parameters_held={held} of {whole}\n", end="", flush=True)  # one write, so one line
    train(stage, train_images, train_labels, options)
    model = together(stage, device)
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
