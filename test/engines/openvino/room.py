"""Fills the cache with generations; prints what `Room` says."""

import json

from sluice_openvino import Prefixes, Room

room = Room(capacity=10)
beginning = [1] * 64
alone, alike, also = (Prefixes.blocks(beginning + [n] * 33) for n in (2, 3, 4))
said = {"own": room.need(alone, 97, 60, 1), "of four beams": room.need(alone, 97, 60, 4)}
room.take(alone, 2)
said["with a common beginning"] = room.has_place(alike, 2)
room.take(alike, 2)
said["where nine of ten are taken"] = room.has_place(also, 2)
said["smaller"] = room.has_place(alike, 1)
for _ in range(3):
    room.learn(5)
said["own, since answers are short"] = room.need(also, 97, 60, 1)
room.give_back(alone, 2)
said["after one has ended"] = room.has_place(also, 2)
room.give_back(alike, 2)
said["alone, too large"] = room.has_place(also, 11)
room.take(also, 11)
said["beside it"] = room.has_place([], 1)
print(json.dumps(said))
