from __future__ import annotations

import pytest

from controlplane.fleet.models import Pool
from tests.console import making
from tests.console.calling import HX, make_client

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]


def test_pools_show_their_nodes_and_deployments() -> None:
    making.make_fleet()
    text = make_client("viewer").get("/pools/").content.decode()
    assert 'href="/nodes/?pool=default"' in text and 'href="/deployments/?pool=default">4</a>' in text
    assert "/edit/" not in text


def test_a_pool_is_made_changed_and_removed() -> None:
    client = make_client("operator")
    made = {"name": "night", "purpose": "offline", "hot": "on"}
    assert client.post("/pools/new/", made, headers=HX)["HX-Redirect"] == "/pools/"
    pool = Pool.objects.get(name="night")
    changed = {"purpose": "mixed", "version": str(pool.version)}
    assert client.post("/pools/night/edit/", changed, headers=HX).status_code == 204
    pool.refresh_from_db()
    assert (pool.purpose, pool.hot) == ("mixed", False)
    assert client.post("/pools/night/edit/", changed, headers=HX).status_code == 409
    client.post("/pools/night/do/delete/", headers=HX)
    assert not Pool.objects.filter(name="night").exists()


def test_a_pool_that_is_used_stays() -> None:
    making.make_node("gpu-01", cards=1)
    client = make_client("operator")
    assert "It has 1 node and 0 deployments." in client.get("/pools/default/do/delete/", headers=HX).content.decode()
    response = client.post("/pools/default/do/delete/", headers=HX)
    assert response.status_code == 409 and "pool_in_use" in response.content.decode()
