"""What was used is counted by the gateways and shown: for deployments (external ones too), tenants and keys."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from controlplane.traffic.models import UsageMinute
from tests.console import making
from tests.console.calling import HX, make_client

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]


def make_usage(minutes_ago: int, *, deployment: str = "bridge", tenant: str = "search", key_id: str = "1") -> None:
    minute: datetime = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=minutes_ago)
    UsageMinute.objects.create(
        minute=minute, deployment=deployment, tenant=tenant, key_id=key_id,
        requests=1200, errors=3, prompt_tokens=40_000, completion_tokens=2500,
    )  # fmt: skip


def numbers(text: str) -> list[str]:
    return re.findall(r'<td class="num"[^>]*>([\d,–]+)</td>', text)


def test_an_external_endpoint_is_metered_and_shown() -> None:
    making.make_deployment("bridge", engine="external")
    for minutes_ago in (5, 90, 60 * 30):
        make_usage(minutes_ago)
    panel = make_client("viewer").get("/deployments/bridge/").content.decode().split('id="usage-title"')[1]
    assert numbers(panel)[:4] == ["1,200", "3", "40,000", "2,500"]
    assert numbers(panel)[4:8] == ["2,400", "6", "80,000", "5,000"]


def test_what_a_tenant_and_a_key_used_in_the_last_day_stands_in_their_rows() -> None:
    tenant = making.make_tenant("search")
    key, idle = making.make_key(tenant), making.make_key(tenant, "idle")
    for minutes_ago in (5, 60 * 30):
        make_usage(minutes_ago, key_id=str(key.pk))
    client = make_client("viewer")
    assert numbers(client.get("/access/tenants/", headers=HX).content.decode())[:3] == ["2", "1,200", "42,500"]
    rows = client.get("/access/keys/", headers=HX).content.decode().split("<tr>")
    used = {name: numbers(row) for name in (key.name, idle.name) for row in rows if f">{name}<" in row}
    assert used == {key.name: ["1,200", "42,500"], idle.name: ["0", "0"]}
    dialog = make_client("administrator").get(f"/access/keys/search/{key.pk}/do/revoke/", headers=HX)
    assert "1,200 requests came with it" in dialog.content.decode()
