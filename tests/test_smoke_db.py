import pytest


@pytest.mark.django_db
def test_a_tenant_can_be_stored():
    from controlplane.accounts.models import Tenant

    Tenant.objects.create(name="demo")
    assert Tenant.objects.count() == 1
