"""What the TensorFlow examples have in common: the data, the network, and that they end on SIGTERM."""

import end_on_sigterm  # noqa: F401  before TensorFlow starts threads
import numpy as np
import tensorflow as tf
import tf_keras as keras  # Keras 2: Keras 3 cannot run model.fit under MultiWorkerMirroredStrategy
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

Part = tuple[np.ndarray, np.ndarray]


def digits() -> tuple[Part, Part]:
    """1,437 images of 8 x 8 pixels to train on, and 360 held out to test on: the same split in every process."""
    images, labels = load_digits(return_X_y=True)
    pixels = (images / 16).astype(np.float32).reshape(-1, 8, 8, 1)
    split = train_test_split(pixels, labels, test_size=0.2, random_state=0, stratify=labels)
    return (split[0], split[2]), (split[1], split[3])


def batches(data: Part, size: int, seed: int) -> tf.data.Dataset:
    """The data in batches, in another order in every epoch. Batches are as large as all workers together take."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    dataset = tf.data.Dataset.from_tensor_slices(data).shuffle(len(data[1]), seed=seed)
    return dataset.batch(size, drop_remainder=True).with_options(options)


def compiled_network(learning_rate: float) -> keras.Model:
    model = keras.Sequential(
        [
            keras.layers.Input((8, 8, 1)),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.25),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


def accuracy(model: keras.Model, data: Part) -> float:
    """Share of ``data`` labelled right, computed in this process alone."""
    images, labels = data
    return float(np.mean(np.argmax(model(images, training=False), axis=1) == labels))
