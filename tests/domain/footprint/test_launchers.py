from __future__ import annotations

from controlplane.domain.footprint import launchers

GIB = 2**30


def test_unsloth_batches_by_what_is_left_for_the_cache() -> None:
    assert launchers.unsloth(5 * GIB, GIB // 2).max_num_seqs == 192
    assert launchers.unsloth(37 * GIB, GIB // 2).max_num_seqs == 320
    assert launchers.unsloth(500 * GIB, GIB).max_num_seqs == 400
