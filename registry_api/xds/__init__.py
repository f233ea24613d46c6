"""The control plane of the gateways: Envoy's discovery services as JSON by long poll.

``state`` is what decides where a request goes, ``clusters`` and ``routes`` say it
in Envoy's words (pure), ``api`` hands it out as soon as it changes.
"""
