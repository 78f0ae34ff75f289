"""What states do, over Spark Connect: one contract test; with SLOW=1 most that run queries."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tests.contract import test_behaviour


def test_cases_of_behaviour(stream: Callable[..., Any], settings: Callable[..., None]) -> None:
    test_behaviour.test_query("rocksdb", "1000", stream, settings)


if os.environ.get("SLOW"):
    from tests.contract.test_behaviour import test_query as test_query
    from tests.contract.test_co_process import test_batch as test_batch
    from tests.contract.test_read_now import test_in_a_query as test_in_a_query
    from tests.contract.test_sorted_map import (
        test_another_order_is_refused as test_another_order_is_refused,
    )
    from tests.contract.test_sorted_map import (
        test_unorderable_keys_are_refused as test_unorderable_keys_are_refused,
    )
    from tests.contract.test_state_model import (
        test_batch_agrees_with_model as test_batch_agrees_with_model,
    )
    from tests.contract.test_state_model import (
        test_rocksdb_agrees_with_model as test_rocksdb_agrees_with_model,
    )
    from tests.contract.test_timers import (
        test_batch_fires_all_at_the_end as test_batch_fires_all_at_the_end,
    )
    from tests.contract.test_timers import test_processing_time as test_processing_time
    from tests.contract.test_timers import test_refusals as test_refusals
    from tests.contract.test_ttl import (
        test_event_time_needs_a_watermark as test_event_time_needs_a_watermark,
    )
    from tests.contract.test_ttl import (
        test_in_a_batch_query_nothing_expires as test_in_a_batch_query_nothing_expires,
    )
    from tests.contract.test_types import test_dataclasses as test_dataclasses
    from tests.contract.test_types import test_forms_of_a_struct as test_forms_of_a_struct
