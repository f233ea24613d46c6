"""The ``ai-model`` command: arguments in, one call of ``ai_model``, an answer out.

Commands hold no logic. What is printed on stdout is the answer and nothing
else; progress, notes and errors go to stderr. Must not import the service,
but for the one lazy import in ``commands/serve.py``.
"""
