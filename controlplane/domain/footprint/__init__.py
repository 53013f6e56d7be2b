"""What one accelerator has to hold for a model: weights, KV pages, activations, graphs and the rest."""
