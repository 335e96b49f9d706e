"""TensorFlow: ``TF_CONFIG``, which the strategies of ``tf.distribute`` read.

Source: https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable.
"""

import orjson

from dtj.api import environment as env
from dtj.api import names, ports
from dtj.plan.frameworks.place import Place

OUTSIDE_THE_CLUSTER = "evaluator"
"""An evaluator reads checkpoints and takes part in nothing: it has a task, but no place in the cluster."""


def environment(place: Place) -> dict[str, str]:
    """Nothing for a pod that trains alone: a cluster of one makes some strategies wait for a server."""
    groups = [group for group in place.topology.groups if group.role != OUTSIDE_THE_CLUSTER]
    if sum(group.replicas for group in groups) <= 1 and place.slot.role != OUTSIDE_THE_CLUSTER:
        return {}
    cluster = {
        group.role: [
            f"{names.pod_host(place.job, slot.role, slot.index, place.attempt)}:{ports.TENSORFLOW}"
            for slot in group.slots
        ]
        for group in groups
    }
    task = {"type": place.slot.role, "index": place.slot.index}
    return {env.TF_CONFIG: orjson.dumps({"cluster": cluster, "task": task}).decode()}
