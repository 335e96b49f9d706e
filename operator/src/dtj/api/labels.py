"""Labels on every object the operator creates. Values fit in 63 characters because names do."""

JOB_NAME = "dtj.dev/job-name"
JOB_UID = "dtj.dev/job-uid"
ROLE = "dtj.dev/role"
INDEX = "dtj.dev/index"
ATTEMPT = "dtj.dev/attempt"
TRAINER = "dtj.dev/trainer-container"
"""On pods: the container whose end is the pod's end."""

DTJ_COMPONENT = "dtj.dev/component"
OPERATOR_COMPONENT = "operator"
"""On the operator's own pods, whatever the release is called: a job's NetworkPolicy lets them in by it."""

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""On every namespace, set by the API server: its name."""

RESERVED_PREFIX = "dtj.dev/"
"""Labels and annotations with this prefix belong to the operator; a template may not set them."""

MANAGED_BY = "app.kubernetes.io/managed-by"
OPERATOR = "dtj-operator"
COMPONENT = "app.kubernetes.io/component"
AGENT = "agent"
"""On what belongs to no job: the labels that Kubernetes recommends, so that people can find it."""
