"""Train a small network on handwritten digits with JAX, data-parallel over the devices of all processes.

Runs as it is on a laptop (`python digits_jax.py`), and in the pods of a DistributedTrainingJob, which set
JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID. The data comes with scikit-learn, so nothing is
downloaded. The last line printed is `test_accuracy=0.97`.
"""

import argparse
import os
import signal
import sys
import threading
import time
import traceback
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

try:
    from dtj_trainer import report
except ModuleNotFoundError:  # the job's progress is then read from the lines printed

    def report(**_: object) -> None:
        pass


Array = jax.Array | np.ndarray
Part = tuple[np.ndarray, np.ndarray]
Weights = dict[str, Array]

HEARTBEAT_TIMEOUT_S = 10
"""How long a process may be silent before the others end. JAX's default is 100."""


class Training(NamedTuple):
    """Everything that changes while training, and so everything that a checkpoint holds."""

    weights: Weights
    mean: Weights
    """Adam's running mean of the gradients."""
    square: Weights
    """Adam's running mean of their squares."""
    epoch: Array
    step: Array


def connect(timeout_s: int) -> None:
    """Join the other processes, waiting at most ``timeout_s`` for them."""
    # JAX would catch SIGTERM to tell the program of it, and the process would live on.
    jax.config.update("jax_enable_preemption_service", False)
    if "JAX_COORDINATOR_ADDRESS" not in os.environ:
        return
    jax.distributed.initialize(
        coordinator_address=os.environ["JAX_COORDINATOR_ADDRESS"],
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
        process_id=int(os.environ["JAX_PROCESS_ID"]),
        cluster_detection_method="deactivate",  # in a pod, JAX would ask the Kubernetes API, which needs permissions
        initialization_timeout=timeout_s,
        heartbeat_timeout_seconds=HEARTBEAT_TIMEOUT_S,
        shutdown_timeout_seconds=HEARTBEAT_TIMEOUT_S,
    )


def digits() -> tuple[Part, Part]:
    """1,437 images of 8 x 8 pixels to train on, and 360 held out to test on: the same split in every process."""
    images, labels = load_digits(return_X_y=True)
    split = train_test_split((images / 16).astype(np.float32), labels, test_size=0.2, random_state=0, stratify=labels)
    return (split[0], split[2]), (split[1], split[3])


def untrained(seed: int) -> Training:
    random = np.random.default_rng(seed)
    weights = {
        "hidden": random.normal(0, (2 / 64) ** 0.5, (64, 256)).astype(np.float32),
        "hidden_bias": np.zeros(256, np.float32),
        "output": random.normal(0, (1 / 256) ** 0.5, (256, 10)).astype(np.float32),
        "output_bias": np.zeros(10, np.float32),
    }
    zeros = jax.tree.map(np.zeros_like, weights)
    return Training(weights, zeros, zeros, np.zeros((), np.int32), np.zeros((), np.int32))


def scores(weights: Weights, images: Array) -> Array:
    hidden = jax.nn.relu(images @ weights["hidden"] + weights["hidden_bias"])
    return hidden @ weights["output"] + weights["output_bias"]


def mean_loss(weights: Weights, images: Array, labels: Array) -> Array:
    chances = jax.nn.log_softmax(scores(weights, images))
    return -jnp.mean(jnp.take_along_axis(chances, labels[:, None], axis=1))


def updated(training: Training, images: Array, labels: Array, *, learning_rate: float) -> tuple[Training, Array]:
    """One step of Adam on a batch, and the batch's mean loss."""
    # The mean is over the whole batch, of which each device has a part: jit puts the exchange between them in here.
    loss, gradients = jax.value_and_grad(mean_loss)(training.weights, images, labels)
    step = training.step + 1
    mean = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, training.mean, gradients)
    square = jax.tree.map(lambda old, new: 0.999 * old + 0.001 * new**2, training.square, gradients)
    rate = learning_rate * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    weights = jax.tree.map(lambda w, m, s: w - rate * m / (jnp.sqrt(s) + 1e-8), training.weights, mean, square)
    return Training(weights, mean, square, training.epoch, step), loss


def accuracy(training: Training, data: Part) -> float:
    """Share of ``data`` labelled right, computed in this process alone."""
    images, labels = data
    weights = jax.tree.map(np.asarray, training.weights)
    return float(np.mean(np.argmax(scores(weights, images), axis=1) == labels))


def save(training: Training, path: Path) -> None:
    """Write a checkpoint so that a crash at any moment leaves either the old or the new one, and never half of it."""
    unfinished = path.with_suffix(".tmp")
    with unfinished.open("wb") as file:
        np.savez(file, *map(np.asarray, jax.tree.leaves(training)))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def begin(seed: int, path: Path | None) -> Training:
    """The checkpoint of process 0, whose disk may be the only one that has it, else untrained weights."""
    training = untrained(seed)
    if jax.process_index() == 0 and path is not None and path.exists():
        with np.load(path) as stored:
            training = jax.tree.unflatten(jax.tree.structure(training), [stored[name] for name in stored.files])
    training = multihost_utils.broadcast_one_to_all(training)
    if training.epoch > 0:
        say(f"resumed from {path}: epoch={training.epoch} step={training.step}")
    return training


def say(line: str) -> None:
    if jax.process_index() == 0:
        print(line, flush=True)


def train(options: argparse.Namespace) -> float:
    """Train for the epochs that are left; the accuracy on the held-out data."""
    mesh = Mesh(np.array(jax.devices()), ("data",))  # the devices of all processes
    split, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    step = jax.jit(
        partial(updated, learning_rate=options.learning_rate),
        in_shardings=(whole, split, split),
        out_shardings=(whole, whole),
    )
    (images, labels), test_data = digits()
    size = options.batch_size * jax.device_count()
    steps = len(labels) // size
    checkpoint = options.checkpoint_dir / "digits.npz" if options.checkpoint_dir else None
    training = jax.tree.map(partial(jax.make_array_from_process_local_data, whole), begin(options.seed, checkpoint))
    for epoch in range(int(training.epoch), options.epochs):
        # Another order in every epoch, the same in every process and after a restart.
        order = np.random.default_rng((options.seed, epoch)).permutation(len(labels))[: steps * size]
        began, total = time.monotonic(), 0.0
        for batch in order.reshape(steps, size):
            own = batch.reshape(jax.process_count(), -1)[jax.process_index()]
            parts = (jax.make_array_from_process_local_data(split, data[own]) for data in (images, labels))
            training, loss = step(training, *parts)
            total += float(loss)
            done = int(training.step)
            report(step=done, total_steps=options.epochs * steps, epoch=done / steps, total_epochs=options.epochs)
        training = training._replace(epoch=training.epoch + 1)
        speed = steps * size / (time.monotonic() - began)
        measured = accuracy(training, test_data)
        report(metrics={"loss": total / steps, "accuracy": measured})
        say(
            f"epoch={epoch + 1}/{options.epochs} step={int(training.step)}/{options.epochs * steps} "
            f"loss={total / steps:.4f} accuracy={measured:.4f} samples_per_second={speed:.0f}"
        )
        if checkpoint is not None and jax.process_index() == 0:
            save(training, checkpoint)
    return accuracy(training, test_data)


def end_on_sigterm() -> None:
    """End as soon as SIGTERM comes; call it before JAX starts threads, which then keep the signal out as well.

    An ordinary handler runs when JAX returns to Python, which it does not while it waits for another process.
    """

    def wait() -> None:
        signal.sigwait({signal.SIGTERM})
        # The checkpoint of the last whole epoch is on disk already, so there is nothing to finish first.
        print("stopping on SIGTERM", flush=True)
        os._exit(128 + signal.SIGTERM)

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=wait, daemon=True).start()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=32, help="images per device and step (default 32)")
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--checkpoint-dir",
        type=Path,
        default=os.environ.get("CHECKPOINT_DIR") or None,
        help="where to keep a checkpoint and go on from one (default: $CHECKPOINT_DIR, else no checkpoints)",
    )
    parser.add_argument("--min-accuracy", type=float, default=0.0, help="fail when the test accuracy is below this")
    parser.add_argument("--timeout", type=int, default=300, help="seconds to wait for other processes (default 300)")
    options = parser.parse_args()
    if options.epochs < 1 or options.batch_size < 1 or options.timeout < 1:
        parser.error("--epochs, --batch-size and --timeout must be at least 1")
    return options


def main() -> int:
    end_on_sigterm()
    options = parse_options()
    if options.checkpoint_dir is not None:
        try:
            options.checkpoint_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            sys.exit(f"--checkpoint-dir {options.checkpoint_dir}: {error.strerror}; give a folder that can be written")
    connect(options.timeout)
    try:
        say(f"world_size={jax.process_count()} devices={jax.device_count()} device={jax.default_backend()}")
        reached = train(options)
    except jax.errors.JaxRuntimeError:  # most often: another process is gone
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # at the interpreter's own end, JAX would wait for that process
    say(f"test_accuracy={reached:.4f}")
    if reached < options.min_accuracy:
        print(f"the accuracy {reached:.4f} is below --min-accuracy {options.min_accuracy}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
