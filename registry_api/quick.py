"""Answer the questions that are asked most without FastAPI's solving of dependencies.

Solving takes several times as long as Postgres does. Only a plain request goes this way: its
token is known, its names are in order. Every other one takes the ordinary way, which
knows what to say of it.
"""

from collections.abc import Callable, Coroutine
from inspect import signature
from typing import Any

from fastapi import Request
from starlette.responses import Response

from ai_model_format.names import InvalidName, parse_model_id, parse_ref
from registry_api.access import Caller, hash_of
from registry_api.parts import Parts
from registry_api.requests import Reads, StrictRoute, bearer_secret


class QuickRoute(StrictRoute):
    """A route to a handler that reads one version and answers with a ``Response`` of its own.

    The handler takes no more than ``model_id``, ``ref``, ``request``, ``parts``, ``read`` and
    ``caller``, of the types that dependencies give them.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler."""
        solve = super().get_route_handler()
        answer: Callable[..., Coroutine[Any, Any, Response]] = self.endpoint
        wanted = signature(answer).parameters.keys()

        async def handle(request: Request) -> Response:
            found = _found(request)
            if found is None:
                return await solve(request)
            return await answer(**{name: found[name] for name in wanted})

        return handle


def _found(request: Request) -> dict[str, Any] | None:
    """Return what a handler may ask for, ``None`` where anything is out of the ordinary."""
    parts: Parts = request.app.state.parts
    caller = _known_caller(request, parts)
    if caller is None:
        return None
    try:
        model_id = parse_model_id(request.path_params["model_id"])
        ref = parse_ref(request.path_params["ref"])
    except InvalidName:
        return None
    if not caller.may_use(model_id):
        return None
    return {
        "model_id": model_id,
        "ref": ref,
        "request": request,
        "parts": parts,
        "read": Reads.of(request),
        "caller": caller,
    }


def _known_caller(request: Request, parts: Parts) -> Caller | None:
    secret = bearer_secret(request.headers)
    return parts.tokens.get(hash_of(secret)) if secret is not None else None
