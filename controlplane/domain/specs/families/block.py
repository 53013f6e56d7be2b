"""One layer of a model as two halves: what mixes tokens and what transforms each of them. Numbers are parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

from controlplane.domain.specs.model import Layers


@dataclass(frozen=True, slots=True)
class Mixer:
    """Attention or a recurrent state. `projections` are matrices (a method may quantize them); `fine` is what none
    quantizes: norms, biases, convolutions, state parameters. `whole` is the share of `projections` that every
    tensor-parallel rank holds. `caches` are what one such layer keeps, each with count 1."""

    caches: tuple[Layers, ...]
    projections: int = 0
    fine: int = 0
    whole: int = 0


@dataclass(frozen=True, slots=True)
class FeedForward:
    """`dense` counts shared experts too; `active_routed` is the part of `routed` that one token goes through."""

    dense: int = 0
    routed: int = 0
    active_routed: int = 0
    fine: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """One layer: what mixes tokens, the feed-forward after it, and parameters of its norms."""

    mixer: Mixer
    feed_forward: FeedForward = field(default_factory=FeedForward)
    norms: int = 0

    @property
    def parameters(self) -> int:
        """All parameters of the layer, idle experts too."""
        mixer, feed = self.mixer, self.feed_forward
        return mixer.projections + mixer.fine + feed.dense + feed.routed + feed.fine + self.norms


NO_MIXER = Mixer(caches=(Layers("none", 1),))
