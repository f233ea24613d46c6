"""Traffic from the client's side: routes, endpoints, rollouts."""
