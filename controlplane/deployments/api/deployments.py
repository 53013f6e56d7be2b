"""Deployments in REST: lists, the declarative PUT, and what can be done to one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts import roles
from controlplane.api import permissions, schema
from controlplane.api.serializers import PageQuery
from controlplane.api.views import ApiView, without_page
from controlplane.deployments import selectors
from controlplane.deployments.api import shapes
from controlplane.deployments.api.progress import progress_of
from controlplane.deployments.models import Deployment
from controlplane.deployments.services import deployments
from controlplane.deployments.wish import DeploymentWish

Act = Callable[..., Deployment]


class DeploymentsView(ApiView):
    """All deployments."""

    roles = permissions.READ

    @schema.lists("list_deployments", shapes.DeploymentSerializer, shapes.DeploymentQuery)
    def get(self, request: Request) -> Response:
        """Lists deployments by name, with their status."""
        query = self.query(shapes.DeploymentQuery)
        rows = selectors.deployments(**without_page(query))
        return self.page(rows, shapes.DeploymentSerializer, order=("name",), query=query)


class DeploymentView(ApiView):
    """One deployment."""

    roles = permissions.READ_WRITE

    @schema.reads("get_deployment", shapes.DeploymentSerializer)
    def get(self, request: Request, name: str) -> Response:
        """Reads a deployment and its status."""
        return self._answer(selectors.deployment(name))

    @schema.puts("put_deployment", shapes.DeploymentBody, shapes.DeploymentSerializer)
    def put(self, request: Request, name: str) -> Response:
        """Makes a deployment be as given; the same again changes nothing. An edit of the engine's settings makes a
        new revision, to which the replicas move one by one."""
        wish = DeploymentWish(**self.body(shapes.DeploymentBody))
        done = deployments.apply(
            actor=roles.acting(request), name=name, wish=wish, expected_version=self.expected_version()
        )
        return self._answer(selectors.deployment(name), 201 if done.created else 200, done.changed)

    @schema.deletes("delete_deployment", 202, shapes.DeploymentProgressSerializer)
    def delete(self, request: Request, name: str) -> Response:
        """Drains a deployment; it is gone when its replicas are. Answers how far that is."""
        deployments.delete(actor=roles.acting(request), name=name, expected_version=self.expected_version())
        return with_progress(self, name, 202)

    def _answer(self, row: Deployment, status: int = 200, changed: bool | None = None) -> Response:
        shown = shapes.DeploymentSerializer(row).data
        return self.row(shown, version=row.version, status=status, changed=changed)


class ProgressView(ApiView):
    """How far one deployment is."""

    roles = permissions.READ

    @schema.reads("get_deployment_progress", shapes.DeploymentProgressSerializer)
    def get(self, request: Request, name: str) -> Response:
        """Reads what an action answered, as it is now: to be asked again until `progress.done`."""
        return with_progress(self, name)


class RevisionsView(ApiView):
    """The revisions of one deployment."""

    roles = permissions.READ

    @schema.lists("list_revisions", shapes.RevisionSerializer, PageQuery)
    def get(self, request: Request, name: str) -> Response:
        """Lists the revisions of a deployment, newest first."""
        query = self.query(PageQuery)
        rows = selectors.deployment(name).revisions.all()
        return self.page(rows, shapes.RevisionSerializer, order=("-number",), query=query)


class ActionView(ApiView):
    """Something that is done to a deployment; answers the deployment and its progress."""

    roles = permissions.ACT

    def act(self, service: Act, name: str, status: int = 200) -> Response:
        """Calls a service that needs nothing but the name."""
        self.nothing()
        service(actor=roles.acting(self.request), name=name, expected_version=self.expected_version())
        return with_progress(self, name, status)

    def _version_now(self) -> int:
        return selectors.deployment(self.kwargs["name"]).version


class StartView(ActionView):
    """Starting."""

    @schema.acts("start_deployment", shapes.DeploymentProgressSerializer)
    def post(self, request: Request, name: str) -> Response:
        """Asks for the wanted replicas to run."""
        return self.act(deployments.start, name)


class StopView(ActionView):
    """Stopping."""

    @schema.acts("stop_deployment", shapes.DeploymentProgressSerializer)
    def post(self, request: Request, name: str) -> Response:
        """Takes nothing new, gives running requests a short time, then ends every replica."""
        return self.act(deployments.stop, name)


class DrainView(ActionView):
    """Draining."""

    @schema.acts("drain_deployment", shapes.DeploymentProgressSerializer)
    def post(self, request: Request, name: str) -> Response:
        """Takes nothing new, gives running requests as long as they need, then ends every replica."""
        return self.act(deployments.drain, name)


class FreezeView(ActionView):
    """Freezing."""

    @schema.acts("freeze_deployment", shapes.DeploymentProgressSerializer)
    def post(self, request: Request, name: str) -> Response:
        """Stops every automatic change of the deployment."""
        return self.act(_freeze, name)


class UnfreezeView(ActionView):
    """Unfreezing."""

    @schema.acts("unfreeze_deployment", shapes.DeploymentProgressSerializer)
    def post(self, request: Request, name: str) -> Response:
        """Allows automatic changes again."""
        return self.act(_unfreeze, name)


class ScaleView(ActionView):
    """Scaling."""

    @schema.acts("scale_deployment", shapes.DeploymentProgressSerializer, shapes.ScaleBody)
    def post(self, request: Request, name: str) -> Response:
        """Sets how many replicas are wanted."""
        replicas = self.body(shapes.ScaleBody)["replicas"]
        deployments.scale(
            actor=roles.acting(request), name=name, replicas=replicas, expected_version=self.expected_version()
        )
        return with_progress(self, name)


class CloneView(ActionView):
    """Cloning."""

    @schema.acts("clone_deployment", shapes.DeploymentProgressSerializer, shapes.CloneBody, 201)
    def post(self, request: Request, name: str) -> Response:
        """Makes a stopped deployment with the same settings under another name; answers the copy."""
        new_name = self.body(shapes.CloneBody)["new_name"]
        deployments.clone(
            actor=roles.acting(request), name=name, new_name=new_name, expected_version=self.expected_version()
        )
        return with_progress(self, new_name, 201)


def with_progress(view: ApiView, name: str, status: int = 200) -> Response:
    """Answers a deployment as it is now and how far it is."""
    row = selectors.deployment(name)
    shown = shapes.DeploymentProgressSerializer({"deployment": row, "progress": progress_of(row)}).data
    return view.row(shown, version=row.version, status=status)


_freeze = partial(deployments.set_frozen, frozen=True)


_unfreeze = partial(deployments.set_frozen, frozen=False)
