"""Streams: where a DataFrame meets a function with state.

>>> keystate.keyed(df, "key").connect(keystate.keyed(other, "id")).process(Enrich(), OUTPUT)
"""

from keystate.streams.broadcast import BroadcastConnectedStream, BroadcastStream, broadcast
from keystate.streams.connected import ConnectedStreams
from keystate.streams.keyed import KeyedStream, keyed
from keystate.streams.plain import DataStream, stream

__all__ = [
    "BroadcastConnectedStream",
    "BroadcastStream",
    "ConnectedStreams",
    "DataStream",
    "KeyedStream",
    "broadcast",
    "keyed",
    "stream",
]
