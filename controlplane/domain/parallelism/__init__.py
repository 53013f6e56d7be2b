"""How a model is split over the cards there are: candidates, what drops out and why, and a ranking with reasons."""
