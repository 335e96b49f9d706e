"""Train a small network on handwritten digits with TensorFlow's MultiWorkerMirroredStrategy and Keras' model.fit.

Runs as it is on a laptop (`python digits_mwms.py`), and in the pods of a DistributedTrainingJob, which set TF_CONFIG.
An `evaluator` of the job runs the same program: it tests every checkpoint while the others go on training.
The data comes with scikit-learn, so nothing is downloaded. The last line printed is `test_accuracy=0.99`.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import digits
import tensorflow as tf
import tf_keras as keras

try:
    from dtj_trainer import report
except ModuleNotFoundError:  # the job's progress is then read from the lines printed

    def report(**_: object) -> None:
        pass


POLL_SECONDS = 0.5


class Lines(keras.callbacks.Callback):  # type: ignore[misc]
    """Report every step and print a line per epoch."""

    def __init__(self, test_data: digits.Part, steps: int, batch_size: int, prints: bool) -> None:
        super().__init__()
        self.test_data, self.steps, self.batch_size, self.prints = test_data, steps, batch_size, prints
        self.epoch, self.began = 0, 0.0

    def on_epoch_begin(self, epoch: int, *_: object) -> None:
        if self.prints and self.began == 0.0 and epoch > 0:
            print(f"resumed: epoch={epoch} step={epoch * self.steps}", flush=True)
        self.epoch, self.began = epoch, time.monotonic()

    def on_train_batch_end(self, batch: int, *_: object) -> None:
        step, epochs = self.epoch * self.steps + batch + 1, self.params["epochs"]
        report(step=step, total_steps=epochs * self.steps, epoch=step / self.steps, total_epochs=epochs)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if not self.prints:
            return
        speed = self.steps * self.batch_size / (time.monotonic() - self.began)
        loss, measured = (logs or {})["loss"], digits.accuracy(self.model, self.test_data)
        report(metrics={"loss": loss, "accuracy": measured})
        epochs = self.params["epochs"]
        print(
            f"epoch={epoch + 1}/{epochs} step={(epoch + 1) * self.steps}/{epochs * self.steps} "
            f"loss={loss:.4f} accuracy={measured:.4f} samples_per_second={speed:.0f}",
            flush=True,
        )


def role() -> tuple[str, bool]:
    """This process's role, and whether it is the one that prints: the chief, or worker 0 where there is no chief."""
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    task = config.get("task", {"type": "worker", "index": 0})
    first = "chief" if config.get("cluster", {}).get("chief") else "worker"
    return task["type"], (task["type"], int(task["index"])) == (first, 0)


def train(options: argparse.Namespace, prints: bool) -> float:
    """Train for the epochs that are left; the accuracy on the held-out data."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # waits here until all workers are there
    workers = strategy.num_replicas_in_sync
    if prints:
        print(f"workers={workers} devices={len(strategy.extended.worker_devices)}", flush=True)
    train_data, test_data = digits.digits()
    batch_size = options.batch_size * workers
    dataset = digits.batches(train_data, batch_size, options.seed)
    with strategy.scope():
        model = digits.compiled_network(options.learning_rate)
    callbacks = [Lines(test_data, int(dataset.cardinality()), batch_size, prints)]
    if options.checkpoint_dir is not None:
        # All workers need the same folder: the first writes what all go on from after a restart.
        callbacks += [
            keras.callbacks.BackupAndRestore(str(options.checkpoint_dir / "backup"), delete_checkpoint=False),
            keras.callbacks.ModelCheckpoint(str(weights(options) / "epoch-{epoch}"), save_weights_only=True),
        ]
    model.fit(dataset, epochs=options.epochs, callbacks=callbacks, verbose=0)
    return digits.accuracy(model, test_data)


def evaluate(options: argparse.Namespace) -> float:
    """Test each checkpoint that the workers write, until that of the last epoch; its accuracy."""
    if options.checkpoint_dir is None:
        sys.exit("an evaluator needs --checkpoint-dir: the folder that the workers write their checkpoints to")
    model = digits.compiled_network(options.learning_rate)
    _, test_data = digits.digits()
    seen, deadline = "", time.monotonic() + options.timeout
    while time.monotonic() < deadline:
        newest = tf.train.latest_checkpoint(weights(options))
        if newest is None or newest == seen:
            time.sleep(POLL_SECONDS)
            continue
        model.load_weights(newest).expect_partial()
        measured = digits.accuracy(model, test_data)
        epoch = int(newest.rpartition("-")[2])
        print(f"evaluated epoch={epoch}/{options.epochs} accuracy={measured:.4f}", flush=True)
        if epoch >= options.epochs:
            return measured
        seen, deadline = newest, time.monotonic() + options.timeout
    sys.exit(f"no new checkpoint in {weights(options)} for {options.timeout} s")


def weights(options: argparse.Namespace) -> Path:
    folder: Path = options.checkpoint_dir / "weights"
    return folder


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step (default 32)")
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--checkpoint-dir",
        type=Path,
        default=os.environ.get("CHECKPOINT_DIR") or None,
        help="folder that all workers share, for checkpoints to go on from (default: $CHECKPOINT_DIR, else none)",
    )
    parser.add_argument("--min-accuracy", type=float, default=0.0, help="fail when the test accuracy is below this")
    parser.add_argument(
        "--timeout", type=int, default=300, help="seconds an evaluator waits for a new checkpoint (default 300)"
    )
    options = parser.parse_args()
    if options.epochs < 1 or options.batch_size < 1 or options.timeout < 1:
        parser.error("--epochs, --batch-size and --timeout must be at least 1")
    return options


def main() -> int:
    options = parse_options()
    if options.checkpoint_dir is not None:
        try:
            options.checkpoint_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            sys.exit(f"--checkpoint-dir {options.checkpoint_dir}: {error.strerror}; give a folder that can be written")
    keras.utils.set_random_seed(options.seed)
    name, prints = role()
    reached = evaluate(options) if name == "evaluator" else train(options, prints)
    if prints or name == "evaluator":
        print(f"test_accuracy={reached:.4f}", flush=True)
    if reached < options.min_accuracy:
        print(f"the accuracy {reached:.4f} is below --min-accuracy {options.min_accuracy}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
