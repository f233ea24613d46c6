"""An edge's nginx configuration, from a template: ``python -m registry_api.edge_config``."""
