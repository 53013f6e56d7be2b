"""The memory ledger: does it fit, how much does it carry, and why. Pure sums over a set-up."""
