"""The REST interface of traffic as typed calls, one method a request."""

from urllib.parse import quote

import httpx

from ai_model.api import Api, checked
from ai_model.session import read_answer
from ai_model_format import names, wire

BEAT_TIMEOUT_S = 10.0


class TrafficApi:
    """Calls of one registry about traffic. Safe to use from threads."""

    def __init__(self, api: Api) -> None:
        self._api = api

    # Endpoints

    def endpoints(self, model_id: str) -> list[wire.EndpointInfo]:
        """Return the servers of a model, by address."""
        response = self._send("GET", f"{_model(model_id)}/endpoints")
        return read_answer(wire.EndpointList, response).endpoints

    def beat(self, model_id: str, address: str, request: wire.EndpointRequest) -> wire.EndpointInfo:
        """Register a server, or say that it lives and what it has loaded.

        Tried once: the next beat says the same, and an old one must not be late.
        """
        response = self._send(
            "PUT",
            _endpoint(model_id, address),
            body=request,
            repeatable=False,
            read_timeout_s=BEAT_TIMEOUT_S,
        )
        return read_answer(wire.EndpointInfo, response)

    def remove_endpoint(self, model_id: str, address: str) -> None:
        """Take a server out."""
        self._send("DELETE", _endpoint(model_id, address))

    # Routes

    def version_name(self, model_id: str, ref: str) -> str:
        """Return the name of the version that an alias or a digest means now."""
        return self._api.version(model_id, ref).version

    def route(self, model_id: str) -> wire.RouteInfo:
        """Return the share of each version; revision 0 where there is no route yet."""
        return read_answer(wire.RouteInfo, self._send("GET", f"{_model(model_id)}/route"))

    def set_route(
        self, model_id: str, request: wire.RouteRequest, *, expected: int, dry_run: bool = False
    ) -> wire.RouteInfo:
        """Split traffic anew, unless the route is no longer at revision ``expected``."""
        response = self._send(
            "PUT",
            f"{_model(model_id)}/route",
            body=request,
            headers={"if-match": f'"{expected}"'},
            params={"dry_run": "true"} if dry_run else {},
        )
        return read_answer(wire.RouteInfo, response)

    def roll_back(
        self, model_id: str, request: wire.RollbackRequest, *, expected: int
    ) -> wire.RouteInfo:
        """Go back to the split before, unless the route is no longer at revision ``expected``.

        Without that, a request that is sent again because its answer was lost would go back
        and forth.
        """
        path = f"{_model(model_id)}/route/rollback"
        headers = {"if-match": f'"{expected}"'}
        return read_answer(wire.RouteInfo, self._send("POST", path, body=request, headers=headers))

    def route_history(self, model_id: str, *, limit: int = 100) -> list[wire.RouteInfo]:
        """Return the newest revisions of a route, newest first."""
        path = f"{_model(model_id)}/route/history"
        response = self._send("GET", path, params={"page_size": limit})
        return read_answer(wire.RouteHistory, response).revisions

    # Gateways

    def gateways(self) -> wire.GatewayList:
        """Return gateways and how far each has followed."""
        return read_answer(wire.GatewayList, self._send("GET", "/v1/gateways"))

    def send_figures(self, gateway_id: str, request: wire.FiguresRequest) -> None:
        """Tell what a gateway counted, once: the next telling makes up for a lost one."""
        path = f"/v1/gateways/{quote(gateway_id, safe='')}/figures"
        self._send("PUT", path, body=request, repeatable=False)

    # Rollouts

    def start_rollout(self, model_id: str, request: wire.RolloutRequest) -> wire.RolloutInfo:
        """Begin to give a version more traffic step by step."""
        path = f"{_model(model_id)}/rollouts"
        response = self._send("POST", path, body=request, repeatable=False)
        return read_answer(wire.RolloutInfo, response)

    def rollout(self, model_id: str) -> wire.RolloutInfo:
        """Return a model's newest rollout."""
        return read_answer(
            wire.RolloutInfo, self._send("GET", f"{_model(model_id)}/rollouts/newest")
        )

    def act_on_rollout(self, model_id: str, request: wire.RolloutAction) -> wire.RolloutInfo:
        """Pause, resume, abort or promote a model's rollout."""
        path = f"{_model(model_id)}/rollouts/newest"
        return read_answer(wire.RolloutInfo, self._send("POST", path, body=request))

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: wire.Request | None = None,
        headers: dict[str, str] | None = None,
        params: dict[str, str | int] | None = None,
        repeatable: bool = True,
        read_timeout_s: float = 30.0,
    ) -> httpx.Response:
        return self._api.session.send(
            method,
            path,
            counter=self._api.counter,
            body=body,
            headers=headers,
            params=params,
            repeatable=repeatable,
            read_timeout_s=read_timeout_s,
        )


def _model(model_id: str) -> str:
    return f"/v1/models/{checked(names.parse_model_id, model_id)}"


def _endpoint(model_id: str, address: str) -> str:
    return f"{_model(model_id)}/endpoints/{quote(address, safe=':[].')}"
