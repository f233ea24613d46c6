"""The servers that a run needs, each started on free ports of 127.0.0.1 and stopped by its pid."""
