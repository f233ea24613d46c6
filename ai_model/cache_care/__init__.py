"""Looking after the cache directory: what is in it, what may go, whether it is sound.

Directories that a get wrote for somebody are only looked at; what goes is the cache's own.
"""
