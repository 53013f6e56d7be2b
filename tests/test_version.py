from __future__ import annotations

import pytest

from controlplane import version


def test_the_newest_heading_is_the_version() -> None:
    assert version.read_version("# Changelog\n\n## 1.2.3 (unreleased)\n\n## 1.2.2\n") == "1.2.3"


def test_a_changelog_without_a_version_is_told() -> None:
    with pytest.raises(ValueError, match="CHANGELOG"):
        version.read_version("# Changelog\n")


def test_the_rest_description_carries_the_version() -> None:
    from django.conf import settings

    assert settings.SPECTACULAR_SETTINGS["VERSION"] == version.VERSION
