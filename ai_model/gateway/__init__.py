"""Run an API gateway, Envoy, that the registry steers."""
