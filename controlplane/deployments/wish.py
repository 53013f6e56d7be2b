"""What a person or a program asks a deployment to be. The same shape for the console's forms and for REST."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.domain.desired import SettingValue, attention_copies


@dataclass(frozen=True, slots=True)
class DeploymentWish:
    """The whole desired state of one deployment. Applying the same wish twice changes nothing.

    `variant` is `<model>/<variant>` and is empty for an external endpoint; `external_key` None keeps the stored one.
    """

    engine: str
    variant: str = ""
    pool: str = "default"
    desired_state: str = "running"  # running | drained | stopped
    replicas: int = 1
    accelerators_per_replica: int = 1
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    external_url: str = ""
    external_model: str = ""
    external_key: str | None = None
    note: str = ""
    node_labels: Mapping[str, str] | None = None  # only nodes that carry all of these are taken; None keeps the stored

    @property
    def ranks(self) -> int:
        """Accelerators that the engine of one replica spreads over."""
        return self.tensor_parallel * self.pipeline_parallel * attention_copies(self.settings)
