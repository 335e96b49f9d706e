"""Train a network on handwritten digits with Hugging Face's accelerate: the same code for one process or many.

What is parallel: the data. Each process learns from its part of every batch, and the gradients are averaged (DDP).
`accelerate launch digits_accelerate.py` and `python digits_accelerate.py` both run it, on a laptop and in the pods of a
DistributedTrainingJob. With several GPUs in a pod, `accelerate launch` starts one process for each.

At the end each process trains the same network alone, on the same batches: the results have to be the same.
"""

import argparse
import sys
from datetime import timedelta

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, InitProcessGroupKwargs
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 0
TOLERANCE = 1e-4
"""How far a parameter may be from that of one process. Sums in another order differ by rounding, to less than 1e-6 in
20 epochs; data or gradients shared out wrongly come to more than 1e-2 in the first. (With ReLU instead of the smooth
tanh they could not be told apart: at its kink, rounding decides what is learned.)"""

Batches = DataLoader[tuple[Tensor, ...]]


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Images of 64 pixels with their labels, to train on and to test on: the same split in every process."""
    images, labels = load_digits(return_X_y=True)
    pixels = torch.tensor(images / 16, dtype=torch.float32)
    train, test, *targets = train_test_split(
        pixels, torch.tensor(labels), test_size=0.2, random_state=0, stratify=labels
    )
    return TensorDataset(train, targets[0]), TensorDataset(test, targets[1])


def batches(data: TensorDataset, size: int) -> Batches:
    """The whole batches of an epoch: in another order in every epoch, and in the same one in every process."""
    return DataLoader(data, size, shuffle=True, drop_last=True, generator=torch.Generator().manual_seed(SEED))


def network() -> nn.Module:
    """The network with its first, random parameters: the same ones in every process."""
    torch.manual_seed(SEED)
    return nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 10))


def optimizer_for(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def train(accelerator: Accelerator, data: TensorDataset, options: argparse.Namespace) -> nn.Module:
    """Train with all processes; the network."""
    model = network()
    model, optimizer, loader = accelerator.prepare(model, optimizer_for(model), batches(data, options.batch_size))
    for epoch in range(options.epochs):
        total = torch.zeros((), device=accelerator.device)
        for images, labels in loader:  # this process's part of each batch
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            accelerator.backward(loss)  # averages the gradients of all processes
            optimizer.step()
            total += loss.detach()
        mean = float(accelerator.reduce(total, reduction="mean")) / len(loader)
        steps = f"{(epoch + 1) * len(loader)}/{options.epochs * len(loader)}"
        say(accelerator, f"epoch={epoch + 1}/{options.epochs} step={steps} loss={mean:.4f}")
    return accelerator.unwrap_model(model)


def train_alone(device: torch.device, data: TensorDataset, options: argparse.Namespace) -> nn.Module:
    """The same training in this process alone."""
    model = network().to(device)
    optimizer = optimizer_for(model)
    loader = batches(data, options.batch_size)
    for _ in range(options.epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
    return model


@torch.no_grad()
def accuracy(accelerator: Accelerator, model: nn.Module, data: TensorDataset) -> float:
    """Share of ``data`` labelled right; each process looks at its part and all get the answer."""
    loader = accelerator.prepare(DataLoader(data, batch_size=64))
    right = [accelerator.gather_for_metrics(model(images).argmax(dim=1) == labels) for images, labels in loader]
    return float(torch.cat(right).float().mean())


@torch.no_grad()
def difference(model: nn.Module, other: nn.Module) -> float:
    """The largest difference of a parameter of ``model`` from ``other``'s."""
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return max(float((mine - its).abs().max().nan_to_num(nan=torch.inf)) for mine, its in pairs)


def say(accelerator: Accelerator, line: str) -> None:
    if accelerator.is_main_process:
        print(line, flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64, help="images per step, of all processes (default 64)")
    parser.add_argument("--min-accuracy", type=float, default=0.0, help="fail when the test accuracy is below this")
    parser.add_argument("--timeout", type=int, default=300, help="seconds to wait for other processes (default 300)")
    options = parser.parse_args()
    if min(options.epochs, options.batch_size, options.timeout) < 1:
        parser.error("--epochs, --batch-size and --timeout must be at least 1")
    return options


def main() -> int:
    options = parse_options()
    accelerator = Accelerator(
        # Without it, processes on machines without GPUs would each train alone and never say so.
        cpu=not torch.cuda.is_available(),
        dataloader_config=DataLoaderConfiguration(split_batches=True),  # the batch size is that of all processes
        kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(seconds=options.timeout))],
    )
    say(accelerator, f"world_size={accelerator.num_processes} device={accelerator.device.type}")
    train_data, test_data = digits()
    model = train(accelerator, train_data, options)
    reached = accuracy(accelerator, model, test_data)
    differs = difference(model, train_alone(accelerator.device, train_data, options))
    same = differs <= TOLERANCE
    say(accelerator, f"test_accuracy={reached:.4f}")
    say(accelerator, f"same_as_one_process={same} max_difference={differs:.1e}")
    accelerator.end_training()
    if not same:
        sys.exit(f"a parameter differs by {differs:.1e} from that of one process; at most {TOLERANCE} is rounding")
    if reached < options.min_accuracy:
        sys.exit(f"the accuracy {reached:.4f} is below --min-accuracy {options.min_accuracy}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
