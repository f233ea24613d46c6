"""Traffic from Python, as docs/python.md shows it."""

import pytest

from ai_model.errors import Conflict, UsageError
from ai_model_format.traffic import WHOLE
from tests.registry_api.routing.conftest import Served


def test_a_registry_moves_traffic(served: Served) -> None:
    with served.stack.registry() as registry:
        traffic = registry.traffic
        change = traffic.move(served.model_id, {"v2.4": "5%"}, reason="first look")
        assert change.done
        assert traffic.wait_for_effect(change.after).applied == 1
        shares = {share.version: share.basis_points for share in change.after.shares}
        assert shares == {"v2.3": 9500, "v2.4": 500}
        with pytest.raises(Conflict, match="at most 50%"):
            traffic.promote(served.model_id, "v2.4")
        promoted = traffic.promote(served.model_id, "v2.4", force=True)
        assert [share.version for share in promoted.after.shares] == ["v2.4"]
        assert traffic.go_back(served.model_id).after.shares == change.after.shares
        shadow = traffic.shadow(served.model_id, "v2.4", "50%").after.shadow
        assert shadow is not None
        assert shadow.basis_points == WHOLE // 2
        with pytest.raises(UsageError):
            traffic.move(served.model_id, {"v2.4": "0.05"})
        assert [node.state for node in traffic.endpoints(served.model_id)] == ["live"] * 3
