"""What a page shows follows what happens to its object, and nothing on it hides something else."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.deployments.models import Deployment, Replica
from controlplane.telemetry.services import notify
from tests.console import feeding, making
from tests.console.conftest import Site
from tests.console.test_browser_live import CHAT, until
from tests.console.test_browser_pages import in_a_thread

pytestmark = [pytest.mark.browser, pytest.mark.services]
HIDDEN_UNITS = """[...document.querySelectorAll('.chart')].filter((chart) => {
    const unit = chart.querySelector('.chart-unit').getBoundingClientRect();
    return [...chart.querySelectorAll('.chart-mark')].some((mark) => mark.getBoundingClientRect().left < unit.right);
}).length"""


def test_work_that_begins_while_the_page_is_open_is_followed_to_its_end(site: Site) -> None:
    page = site.page()
    page.goto(site.url + "/deployments/smollm2/")
    until(page, "document.documentElement.dataset.link === 'live'")
    assert page.inner_text("#replicas-tally") == "0" and page.query_selector("#head .steps") is None
    row = Deployment.objects.get(name="smollm2")
    Deployment.objects.filter(pk=row.pk).update(desired_state="running")
    begun = timezone.now()
    replica = making.make_replica(row, None, state="starting", state_since=begun, process_started_at=begun)
    notify.changed("deployment", "smollm2", "deployment.started")
    until(page, "document.querySelector('#head .steps')")
    until(page, "document.querySelector('#replicas-tally').textContent === '1'")
    # nobody tells any more: the page asks by itself
    Replica.objects.filter(pk=replica.pk).update(state="warming")
    until(page, "document.querySelector('#head .stages .now').textContent === 'Warming'")
    Replica.objects.filter(pk=replica.pk).update(state="ready")
    until(page, "!document.querySelector('#head .steps')")


def test_a_replica_that_begins_to_drain_while_the_page_is_open_is_followed(site: Site) -> None:
    page = site.page()
    page.goto(site.url + "/replicas/7f3ak2m9q0xd/")
    until(page, "document.documentElement.dataset.link === 'live'")
    Replica.objects.filter(pk="7f3ak2m9q0xd").update(state="draining", goal="stop")
    notify.changed("replica", "7f3ak2m9q0xd", "replica.draining")
    until(page, "document.querySelector('.object .state').textContent.includes('Draining')")
    Replica.objects.filter(pk="7f3ak2m9q0xd").update(state="stopped", ended_at=timezone.now())
    until(page, "document.querySelector('.object .state').textContent.includes('Stopped')")


@pytest.mark.parametrize("width", [1440, 390])
def test_no_mark_hides_the_unit_of_a_chart(site: Site, width: int) -> None:
    for ago_s in range(230, 310, 2):
        making.make_decision("replace", "deployment", "llama-70b", "x", ago_s=ago_s)
    in_a_thread(feeding.write_past([CHAT], 10, gap=(0, 0)))
    page = site.page(width)
    page.goto(site.url + "/deployments/llama-70b/")
    until(page, "document.querySelectorAll('.chart-mark[data-kind=decision]').length > 6")
    until(page, "document.querySelector('.chart-none').hidden")
    page.wait_for_timeout(500)
    assert page.evaluate(HIDDEN_UNITS) == 0


def test_charts_begin_where_the_deployment_was_made(site: Site) -> None:
    in_a_thread(feeding.write_past([CHAT], 60, gap=(0, 0)))
    Deployment.objects.filter(name="llama-70b").update(created_at=timezone.now() - timedelta(minutes=2))
    page = site.page()
    page.goto(site.url + "/deployments/llama-70b/")
    until(page, "document.querySelector('.chart-none').hidden")
    for _ in range(3):  # to before it was made, when another one had the name
        page.click("[aria-label=Earlier]")
    until(page, "!document.querySelector('.chart-none').hidden")
    page.wait_for_timeout(500)
    assert page.evaluate("!document.querySelector('.chart-none').hidden")
