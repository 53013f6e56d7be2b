"""How many cards a demand takes, and which demand given cards carry, with every sum shown."""
