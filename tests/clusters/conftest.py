"""What is shipped, made once."""

from __future__ import annotations

import pytest

from tests.clusters import shipped


@pytest.fixture(scope="session")
def shipment(tmp_path_factory: pytest.TempPathFactory) -> shipped.Shipped:
    return shipped.make(tmp_path_factory.mktemp("shipped"))
