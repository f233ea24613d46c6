"""Traffic: which servers have which version loaded, and which share each version gets.

``endpoints`` keeps leases, ``routes`` moves splits, ``clock`` numbers the changes
and cuts off who is silent. What gateways are told of it is in ``registry_api.xds``.
"""
