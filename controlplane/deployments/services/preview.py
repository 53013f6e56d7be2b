"""The command line that an engine would get, shown before anything is changed."""

from __future__ import annotations

from controlplane.deployments.models import Engine
from controlplane.deployments.services import checking
from controlplane.deployments.wish import DeploymentWish
from controlplane.domain.desired import AssignedAccelerator
from controlplane.fleet.models import Accelerator
from engine_adapters import registry
from engine_adapters.base import LaunchPlace


def preview_command(wish: DeploymentWish, name: str = "preview") -> list[str]:
    """Returns the argument list that a replica of this wish would start with; empty for an external endpoint.

    The port and the replica's folder stand as examples; accelerators are like those of the pool. Raises RefusedError
    with the wrong fields.
    """
    checked = checking.check(name, wish)
    if wish.engine == Engine.EXTERNAL:
        return []
    row = Accelerator.objects.filter(node__pool=checked.pool, present=True).first()
    kind = row.kind if row else "cpu"
    one = AssignedAccelerator(uuid="0", kind=kind, address=row.address if row else "0", name=row.name if row else "")
    place = LaunchPlace(
        replica_id="preview",
        host="127.0.0.1",
        port=8001,
        key="",
        accelerators=(one,) * wish.accelerators_per_replica,
        engine_python="python",
        code_root=".",
        work_dir="replica",
    )
    spec = checking.engine_spec(checked.spec, "cuda" if kind == Accelerator.Kind.GPU else "cpu")
    return list(registry.get(wish.engine).command(spec, place).argv)
