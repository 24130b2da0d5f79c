"""Asks the order in which prompts join the batch; prints what `Prefixes` says."""

import json

from sluice_openvino import Prefixes

prefixes = Prefixes()
beginning = list(range(100))
first, second, other = (
    Prefixes.blocks(tokens) for tokens in (beginning + [1] * 40, beginning + [2] * 40, [7] * 140)
)
said = {"shared": len(set(first) & set(second)), "short": Prefixes.blocks(list(range(32)))}
said["first"] = prefixes.must_wait(first)
prefixes.begin(first)
said["second, while the first is computed"] = prefixes.must_wait(second)
said["another one"] = prefixes.must_wait(other)
prefixes.end(first, is_computed=False)
said["second, once the first was given up"] = prefixes.must_wait(second)
prefixes.begin(second)
prefixes.end(second, is_computed=True)
prefixes.begin(first)
said["third, beyond what is known"] = prefixes.must_wait(first)
said["fourth, of the known beginning"] = prefixes.must_wait(Prefixes.blocks(beginning))
print(json.dumps(said))
