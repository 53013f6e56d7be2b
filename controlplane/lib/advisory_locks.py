"""Every advisory lock of PostgreSQL that Headworks takes. One table, so that no two uses share a number."""

from __future__ import annotations

# Held by the leading controller for as long as its database session lives.
CONTROLLER_LEADER = 0x4857_0001
# Held while `manage.py bootstrap` runs, so that two first starts make one administrator.
BOOTSTRAP = 0x4857_0002
# Held while partitions of the roll-ups are made: two makers would meet in CREATE TABLE IF NOT EXISTS.
ROLLUP_PARTITIONS = 0x4857_0003
