"""Ray Serve with a model without work, in batches of 16: serve-ray.py PORT."""

import json
import signal
import sys

import ray
from ray import serve

ANSWER = {"role": "assistant", "content": "amber anchor apple", "refusal": None}


@serve.deployment(max_ongoing_requests=1000)
class Model:
    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.01)
    async def answer(self, bodies):
        return [{"choices": [{"index": 0, "message": ANSWER}]} for _ in bodies]

    async def __call__(self, request):
        text = await request.body()
        # The request that asks whether it is ready has none.
        return await self.answer(json.loads(text or "{}"))


ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
serve.run(Model.bind(), route_prefix="/")
signal.pause()
