"""Train a small network on handwritten digits with TensorFlow's ParameterServerStrategy.

For a DistributedTrainingJob with the roles `chief`, `worker` and `ps`: the chief hands out the steps, workers compute
them, and parameter servers keep the weights. Workers and parameter servers serve until the job stops them; the chief's
success is the job's. The chief's last line is `test_accuracy=0.99`.
"""

import argparse
import json
import os
import sys

import digits
import tensorflow as tf
import tf_keras as keras


def train(options: argparse.Namespace) -> float:
    """Hand out the training's steps to the workers; the accuracy on the held-out data."""
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    train_data, test_data = digits.digits()
    with strategy.scope():
        model = digits.compiled_network(options.learning_rate)
    # Every worker goes through all of the data in an order of its own.
    dataset = digits.batches(train_data, options.batch_size, options.seed).repeat()
    steps = len(train_data[1]) // options.batch_size

    def say(epoch: int, logs: dict[str, float]) -> None:
        measured = digits.accuracy(model, test_data)
        print(
            f"epoch={epoch + 1}/{options.epochs} step={(epoch + 1) * steps}/{options.epochs * steps} "
            f"loss={logs['loss']:.4f} accuracy={measured:.4f}",
            flush=True,
        )

    model.fit(
        dataset,
        epochs=options.epochs,
        steps_per_epoch=steps,
        callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=say)],
        verbose=0,
    )
    return digits.accuracy(model, test_data)


def serve() -> None:
    """Do what the chief asks for, until SIGTERM."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc", start=True
    )
    print(f"{resolver.task_type} {resolver.task_id} serves", flush=True)
    server.join()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=32, help="images per step (default 32)")
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--min-accuracy", type=float, default=0.0, help="fail when the test accuracy is below this")
    options = parser.parse_args()
    if options.epochs < 1 or options.batch_size < 1:
        parser.error("--epochs and --batch-size must be at least 1")
    return options


def main() -> int:
    options = parse_options()
    task = json.loads(os.environ.get("TF_CONFIG") or "{}").get("task", {}).get("type")
    if task is None:
        sys.exit("TF_CONFIG is not set: run this in a job with the roles chief, worker and ps")
    if task != "chief":
        serve()
        return 0
    keras.utils.set_random_seed(options.seed)
    reached = train(options)
    print(f"test_accuracy={reached:.4f}", flush=True)
    if reached < options.min_accuracy:
        print(f"the accuracy {reached:.4f} is below --min-accuracy {options.min_accuracy}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
