"""What one would write with Ray instead of Sluice, with the settings that were fastest here.

python ray-data.py ADDRESS WAY INPUT OUTPUT [BASE_URL]
"""

import asyncio
import sys
import time

import ray

ROW_SECONDS = 0.05
SLOTS = 4
IN_FLIGHT = 64
# As long as the mean answer of the fake engine.
ANSWER = "amber anchor apple arrow autumn basil"


class Slow:
    def __call__(self, batch):
        time.sleep(ROW_SECONDS * len(batch["text"]))
        batch["answer"] = [ANSWER] * len(batch["text"])
        return batch


class Asks:
    """An async actor by hand: all requests of a batch at once."""

    def __init__(self, url):
        self.url = url
        self.session = None

    async def __call__(self, batch):
        import aiohttp

        if self.session is None:
            connector = aiohttp.TCPConnector(limit=IN_FLIGHT)
            self.session = aiohttp.ClientSession(connector=connector)
        batch["answer"] = await asyncio.gather(*[self.ask(text) for text in batch["text"]])
        yield batch

    async def ask(self, text):
        async with self.session.post(self.url, json=body_of(text)) as reply:
            return (await reply.json())["choices"][0]["message"]["content"]


def body_of(text):
    messages = [{"role": "user", "content": str(text)}]
    return {"model": "bench", "messages": messages, "max_tokens": 256, "temperature": 0}


def answered(batch):
    batch["answer"] = [ANSWER] * len(batch["text"])
    return batch


def latency(source, output):
    ds = ray.data.read_json(source, override_num_blocks=40)
    pool = ray.data.ActorPoolStrategy(size=SLOTS)
    ds.map_batches(Slow, batch_size=10, compute=pool).write_json(output)


def noop(source, output):
    ray.data.read_json(source).map_batches(answered).write_json(output)


def processor(source, output, url):
    from ray.data.llm import HttpRequestProcessorConfig, build_processor

    config = HttpRequestProcessorConfig(url=url, concurrency=8, batch_size=64)
    asked = build_processor(
        config,
        preprocess=lambda row: {**row, "payload": body_of(row["text"])},
        postprocess=lambda row: {
            "id": row["id"],
            "answer": row["http_response"]["choices"][0]["message"]["content"],
        },
    )
    asked(ray.data.read_json(source, override_num_blocks=16)).write_json(output)


def actor(source, output, url):
    ds = ray.data.read_json(source, override_num_blocks=16)
    pool = ray.data.ActorPoolStrategy(size=1)
    ds = ds.map_batches(
        Asks, fn_constructor_args=(url,), batch_size=32, compute=pool, max_concurrency=IN_FLIGHT
    )
    ds.write_json(output)


def tasks(source, output):
    """A task of Ray for each row, without anything around it."""

    @ray.remote
    def answer(row):
        return {**row, "answer": ANSWER}

    import json

    with open(source) as lines:
        refs = [answer.remote(json.loads(line)) for line in lines]
    with open(output, "w") as file:
        for row in ray.get(refs):
            file.write(json.dumps(row) + "\n")


def main():
    address, way, source, output, *url = sys.argv[1:]
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    if way != "tasks":
        from ray.data import DataContext

        DataContext.get_current().enable_progress_bars = False
    globals()[way](source, output, *url)


main()
