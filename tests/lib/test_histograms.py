from controlplane.lib import histograms


def test_the_percentile_is_within_five_percent() -> None:
    counts: dict[int, int] = {}
    for i in range(1, 1001):
        histograms.add(counts, {histograms.bucket_of(i / 1000): 1})
    for share in (0.5, 0.95, 0.99):
        found = histograms.percentile_s(counts, share)
        assert found is not None and abs(found - share) / share < 0.05
