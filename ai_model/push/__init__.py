"""Push: publish a file or directory as a version.

``scan`` finds the files -> ``index`` reads their structure and hashes them ->
``plan`` says which objects to send (pure) -> ``upload`` sends them -> ``run`` ties it together.
"""
