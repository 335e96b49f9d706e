"""Pod templates: the training container gets its new name, and what the operator itself sets is taken out."""

from dataclasses import dataclass
from typing import Any

from dtj.api import labels, names
from dtj.api.spec import Framework
from dtj.convert.notes import ConversionError
from dtj.convert.old import Part
from dtj.plan.accelerators import accelerators
from dtj.plan.pods import SHARED_MEMORY_VOLUME, is_reserved_variable

_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_POD_GROUP = "scheduling.k8s.io/group-name"
_ADDRESSES = ("hostname", "subdomain", "hostnameOverride", "setHostnameAsFQDN")


@dataclass(frozen=True)
class Peer:
    """What the old controller took for granted about its pods."""

    framework: Framework
    containers: tuple[str, ...]
    """Names of the training container; without one of them the first is it."""
    port_name: str = ""
    port: int | None = None
    """The rendezvous port that old manifests declare; the operator has its own."""


def convert_template(template: Part, peer: Peer) -> dict[str, Any]:
    """Return the pod template for the new job."""
    metadata = _metadata(template.part("metadata"))
    spec = template.part("spec")
    template.report_rest()
    _leave_to_the_operator(spec)
    containers = spec.parts("containers")
    if not containers:
        raise ConversionError(f"{spec.notes.job}: {spec.at('containers')}: at least one container is needed")
    _check_lists(spec, containers)
    pod: dict[str, Any] = spec.rest()
    _keep_token(pod)
    trainer_at = _trainer_index([container.peek("name") for container in containers], peer)
    pod = {"containers": [_container(each, peer, trains=at == trainer_at) for at, each in enumerate(containers)], **pod}
    result: dict[str, Any] = {"metadata": metadata, "spec": pod} if metadata else {"spec": pod}
    _name_trainer(result, trainer_at, spec)
    _rename_volume(pod, spec)
    return {key: _without_decimals(value) for key, value in result.items()}


def trainer_of(template: dict[str, Any]) -> dict[str, Any]:
    """The training container of a converted template."""
    containers: list[dict[str, Any]] = template["spec"]["containers"]
    return next(container for container in containers if container["name"] == names.TRAINER_CONTAINER)


def command_of(container: dict[str, Any]) -> list[str]:
    """Command and arguments together; empty where the image's entry point is used."""
    command = container.get("command") or []
    return [*command, *(container.get("args") or [])] if command else []


def accelerators_of(template: dict[str, Any]) -> int:
    return sum(accelerators(trainer_of(template)).values())


def _metadata(old: Part) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for kind in ("labels", "annotations"):
        entries = old.part(kind)
        for key in entries.fields():
            if key.startswith(labels.RESERVED_PREFIX):
                entries.drop(key, f"not carried over: {labels.RESERVED_PREFIX} is the operator's own prefix")
        if _POD_GROUP in entries:
            old.notes.dropped(
                entries.at(_POD_GROUP), "kept, but the operator makes no PodGroup: make one of that name or remove this"
            )
        if carried := entries.rest():
            metadata[kind] = carried
    old.pass_over("name", "namespace", "creationTimestamp")
    old.report_rest()
    return metadata


def _leave_to_the_operator(spec: Part) -> None:
    spec.pass_over("restartPolicy")  # the old controllers put the role's own in its place
    if spec.truth("hostNetwork"):
        spec.notes.dropped(
            spec.at("hostNetwork"),
            "not carried over: the pods get addresses of their own, because this version can't run them on the "
            "node's network; ask for a fast network by a device plugin's resource",
        )
        if spec.text("dnsPolicy") not in {None, "ClusterFirstWithHostNet"}:
            spec.notes.dropped(spec.at("dnsPolicy"), "not carried over with hostNetwork; set it again if it is needed")
    for field in _ADDRESSES:
        spec.drop(field, "not carried over: the operator names the pods, so that they find each other")
    spec.drop("ephemeralContainers", "not carried over: a template can't have any; kubectl debug adds them to pods")


def _check_lists(spec: Part, containers: list[Part]) -> None:
    copy = spec.copy()
    copy.parts("volumes")
    for container in [*containers, *copy.parts("initContainers")]:
        container.copy().parts("volumeMounts")


def _keep_token(pod: dict[str, Any]) -> None:
    """Pods of the old controllers held their service account's token; ours only where the template says so."""
    if pod.get("serviceAccountName") or pod.get("serviceAccount"):
        pod.setdefault("automountServiceAccountToken", True)


def _trainer_index(containers: list[object], peer: Peer) -> int:
    wanted = (name for name in peer.containers if name in containers)
    return containers.index(next(wanted, containers[0]))


def _container(old: Part, peer: Peer, *, trains: bool) -> dict[str, Any]:
    name = old.text("name")
    if not name:
        raise ConversionError(f"{old.notes.job}: {old.at('name')}: every container needs a name")
    if not trains:
        return {"name": name, **old.rest()}
    _check(old)
    variables = [each for each in old.parts("env") if not _is_ours(each, peer)]
    ports = [each for each in old.parts("ports") if not _is_rendezvous(each, peer)]
    for field in ("restartPolicy", "restartPolicyRules"):
        old.drop(field, "not carried over: a worker that starts again alone leaves the others hanging")
    container = {"name": name, **old.rest()}
    if variables:
        container["env"] = [each.rest() for each in variables]
    if ports:
        container["ports"] = [each.rest() for each in ports]
    return container


def _check(container: Part) -> None:
    """Refuse what can't be a container: of what is carried over unread, the parts that are looked at later."""
    copy = container.copy()
    for field in ("command", "args"):
        copy.words(field)
    for field in ("image", "workingDir"):
        copy.text(field)
    resources = copy.part("resources")
    for field in ("limits", "requests"):
        resources.part(field)


def _is_ours(variable: Part, peer: Peer) -> bool:
    name = variable.text("name")
    if not name:
        raise ConversionError(f"{variable.notes.job}: {variable.at('name')}: every variable needs a name")
    if is_reserved_variable(peer.framework, name):
        variable.notes.note(variable.path, f"{name} is left out: the operator sets it")
        return True
    variable.put_first("name", name)
    return False


def _is_rendezvous(port: Part, peer: Peer) -> bool:
    number, name = port.number("containerPort"), port.text("name")
    if number != peer.port and (not name or name != peer.port_name):
        if name:
            port.put_first("name", name)
        port.put_first("containerPort", number)
        return False
    if number != peer.port:
        port.notes.note(
            port.path, f"port {number} is left out: the operator chooses the rendezvous port and tells it to the pods"
        )
    return True


def _name_trainer(template: dict[str, Any], trainer_at: int, spec: Part) -> None:
    """Rename the training container, and whatever else has that name already."""
    pod = template["spec"]
    trainer = pod["containers"][trainer_at]
    for kind in ("containers", "initContainers"):
        for at, other in enumerate(pod.get(kind) or []):
            if other is not trainer and other.get("name") == names.TRAINER_CONTAINER:
                other["name"] = f"{names.TRAINER_CONTAINER}-sidecar"
                message = f"{names.TRAINER_CONTAINER} became {other['name']}: the name is the training container's"
                spec.notes.dropped(f"{spec.at(kind)}[{at}].name", message)
    old_name, trainer["name"] = trainer["name"], names.TRAINER_CONTAINER
    _rename_references(pod, old_name)
    annotations = template.get("metadata", {}).get("annotations", {})
    if annotations.get(_DEFAULT_CONTAINER) == old_name:
        annotations[_DEFAULT_CONTAINER] = names.TRAINER_CONTAINER


def _rename_references(value: object, old_name: str) -> None:
    """Follow the new name where a variable or a volume shows a container's own resources."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "resourceFieldRef" and isinstance(inner, dict) and inner.get("containerName") == old_name:
                inner["containerName"] = names.TRAINER_CONTAINER
            _rename_references(inner, old_name)
    elif isinstance(value, list):
        for inner in value:
            _rename_references(inner, old_name)


def _rename_volume(pod: dict[str, Any], spec: Part) -> None:
    """The operator's own volume for shared memory needs its name."""
    containers = [each for kind in ("containers", "initContainers") for each in pod.get(kind) or []]
    mounts = [mount for container in containers for mount in container.get("volumeMounts") or []]
    for item in [*(pod.get("volumes") or []), *mounts]:
        if item.get("name") == SHARED_MEMORY_VOLUME:
            item["name"] = f"{SHARED_MEMORY_VOLUME}-own"
            spec.notes.note(spec.at("volumes"), f"{SHARED_MEMORY_VOLUME} became {item['name']}: the name is taken")


def _without_decimals(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Quantities such as ``cpu: 0.5`` as strings: the new schema takes whole numbers and strings."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {key: _without_decimals(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_decimals(inner) for inner in value]
    return value
