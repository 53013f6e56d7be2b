"""The routing snapshot in the form that a request needs: lookups instead of searches."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field, replace

from controlplane.domain.routing import RoutedDeployment, RoutedKey, RoutingSnapshot
from controlplane.gateway.errors import invalid_key, unknown_model
from controlplane.lib.upstream import Pool, Pools

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Routes:
    """One snapshot, ready to serve from."""

    snapshot: RoutingSnapshot
    models: dict[str, RoutedDeployment]  # public model name -> deployment
    pools: dict[str, Pool] = field(default_factory=dict)  # replica id -> connections
    seen: dict[bytes, RoutedKey] = field(default_factory=dict)  # Authorization header -> key, saves hashing

    def key_for(self, authorization: bytes | None, now: float) -> RoutedKey:
        """Returns the key of an `Authorization` header; raises GatewayError 401 when it opens nothing."""
        key = self.seen.get(authorization) if authorization else None
        if key is None:
            key = self._find_key(authorization)
        if key.expires_at is not None and key.expires_at <= now:
            raise invalid_key("This API key has expired.")
        return key

    def deployment_for(self, key: RoutedKey, model: str) -> RoutedDeployment:
        """Returns the deployment that serves `model`; raises GatewayError 404 when there is none for this key."""
        deployment = self.models.get(model)
        if deployment is None or not _may_use(key, deployment):
            raise unknown_model(model)
        return deployment

    def diverted_to(self, name: str) -> RoutedDeployment:
        """Returns a deployment that another process sends a request to, whose key may not know it; raises GatewayError
        404 when it has just gone."""
        deployment = self.snapshot.deployments.get(name)
        if deployment is None:
            raise unknown_model(name)
        return self.models[name]

    def _find_key(self, authorization: bytes | None) -> RoutedKey:
        if not authorization:
            raise invalid_key("No API key given. Send it as `Authorization: Bearer …`.")
        scheme, _, secret = authorization.partition(b" ")
        if scheme.lower() != b"bearer" or not secret:
            raise invalid_key("The API key must be sent as `Authorization: Bearer …`.")
        key = self.snapshot.keys.get(hashlib.sha256(secret.strip()).hexdigest())
        if key is None:
            raise invalid_key("Unknown API key. It may have been revoked.")
        if authorization == b"Bearer " + secret.strip():  # one spelling a key, so that the memory is bounded
            self.seen[authorization] = key
        return key

    def models_for(self, key: RoutedKey) -> list[str]:
        """Returns the public model names that a key may use, in order."""
        return sorted(name for name, deployment in self.models.items() if _may_use(key, deployment))


def compile_routes(snapshot: RoutingSnapshot, pools: Pools) -> Routes:
    """Returns the routes of a snapshot. A replica whose address can't be used is left out and logged."""
    reached: dict[str, Pool] = {}
    deployments: dict[str, RoutedDeployment] = {}
    for name, deployment in snapshot.deployments.items():
        for replica in deployment.replicas:
            try:
                _check_header(replica.id)
                reached[replica.id] = pools.get(replica.url, replica.key)
            except ValueError as error:
                logger.error("replica %s of %s is left out: %s", replica.id, name, error)
        usable = tuple(replica for replica in deployment.replicas if replica.id in reached)
        deployments[name] = replace(deployment, replicas=usable)
    pools.keep_only(reached.values())
    models = dict(deployments)
    models.update({public: deployments[name] for public, name in snapshot.models.items() if name in deployments})
    return Routes(snapshot, models, reached)


def _check_header(replica_id: str) -> None:
    """Raises ValueError for what can't stand in the head of an answer."""
    if not replica_id or not all("!" <= character <= "~" for character in replica_id):
        raise ValueError("its id holds more than plain characters")


def _may_use(key: RoutedKey, deployment: RoutedDeployment) -> bool:
    return key.deployments is None or deployment.name in key.deployments
