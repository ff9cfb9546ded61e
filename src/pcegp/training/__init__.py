"""From data to trained parameters: objective, priors, optimisers, starts and stages."""
