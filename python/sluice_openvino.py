"""The engine host of engine `openvino`: one process that computes with OpenVINO GenAI.

It speaks the protocol of Sluice's engine hosts (version 5): JSON lines on descriptor 4. Prompts
come as token ids, because the chat template is Sluice's own; answers go back as text. Requests join
the batch of the continuous-batching pipeline as they come. The pipeline holds Python's lock while
it computes a step, so everything happens in one thread: read messages, compute a step, report.
"""

import hashlib
import json
import math
import os
import select
import signal
import socket
import time
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

PROTOCOL = 5

# Only with all three does an answer almost never depend on the rest of its batch.
EXACT = {
    "INFERENCE_PRECISION_HINT": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
    "KV_CACHE_PRECISION": "f16",
}
CHANNEL = 4
READ_BYTES = 1 << 20
# Like hosts in Node: deltas of 10 ms are sent together.
DELTA_SECONDS = 0.01
# Digests of computed blocks; one takes about 100 bytes.
MAX_KNOWN_BLOCKS = 200_000
# Tokens of a block in the cache of the CPU plugin.
BLOCK_TOKENS = 32
# Tokens whose text ends an answer, whatever the model's file says, as in llama.cpp
# (`llama_vocab::impl::load`, "auto-detect special EOG tokens").
END_TEXTS = ("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>")


class Channel:
    """JSON lines on a socket."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(True)
        self._pending = b""

    def receive(self, wait: bool) -> List[Dict[str, Any]]:
        """The messages since the last call; with `wait`, at least one."""
        messages: List[Dict[str, Any]] = []
        while not messages:
            ready, _, _ = select.select([self._socket], [], [], None if wait else 0)
            if not ready:
                break
            data = self._socket.recv(READ_BYTES)
            if not data:
                leave()
            *lines, self._pending = (self._pending + data).split(b"\n")
            messages.extend(json.loads(line) for line in lines)
            if not wait and not messages:
                continue
        return messages

    def send(self, message: Dict[str, Any]) -> None:
        try:
            self._socket.sendall(json.dumps(message, ensure_ascii=False).encode() + b"\n")
        except OSError:
            leave()


def leave() -> None:
    """Ends at once: nothing here is lost, and a plain exit can hang in native code."""
    os.kill(os.getpid(), signal.SIGKILL)


class Failure(Exception):
    """A failure with a code of Sluice's table of errors."""

    def __init__(self, code: str, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message)
        self.record = {"code": code, "message": message, **({"hint": hint} if hint else {})}


class Prefixes:
    """The blocks of prompts that are in the cache, or being computed.

    Prompts with a common beginning that start at once would each compute it. So the first one goes
    ahead, and the others wait until its prompt is done.
    """

    def __init__(self) -> None:
        self._known: Dict[bytes, None] = {}
        self._computing: Dict[bytes, int] = {}

    @staticmethod
    def blocks(tokens: Sequence[int]) -> List[bytes]:
        """A digest for each whole block, which also covers all earlier ones."""
        digest = hashlib.blake2b(digest_size=16)
        found: List[bytes] = []
        # The last token is always computed: its output gives the first token of the answer.
        for start in range(0, len(tokens) - BLOCK_TOKENS, BLOCK_TOKENS):
            digest.update(repr(tokens[start : start + BLOCK_TOKENS]).encode())
            found.append(digest.digest())
        return found

    def must_wait(self, blocks: Sequence[bytes]) -> bool:
        """Whether another prompt computes the next block that this one needs."""
        first_unknown = next((block for block in blocks if block not in self._known), None)
        return first_unknown is not None and first_unknown in self._computing

    def begin(self, blocks: Sequence[bytes]) -> None:
        for block in blocks:
            self._computing[block] = self._computing.get(block, 0) + 1

    def end(self, blocks: Sequence[bytes], is_computed: bool) -> None:
        for block in blocks:
            left = self._computing.pop(block) - 1
            if left > 0:
                self._computing[block] = left
            if is_computed:
                self._known.pop(block, None)
                self._known[block] = None
        while len(self._known) > MAX_KNOWN_BLOCKS:
            del self._known[next(iter(self._known))]


class Room:
    """The blocks of the cache that running generations take.

    A pipeline that has more than its cache holds drops generations and computes them again, over
    and over. So a generation begins only where the cache has room for it. How long its answer gets
    is not known; the average of the answers so far is counted, because the library can drop one.
    """

    def __init__(self, capacity: float, block_tokens: int = BLOCK_TOKENS) -> None:
        self.capacity = capacity
        self._block_tokens = block_tokens
        # Generations that hold each block of prompts: a common beginning is held once.
        self._shared: Dict[bytes, int] = {}
        self._own = 0
        self._answers = 0
        self._answer_tokens = 0

    def need(self, blocks: Sequence[bytes], tokens: int, most_tokens: int, beams: int) -> int:
        """The blocks of a generation of its own: the end of its prompt, and its answer."""
        average = self._answer_tokens / self._answers if self._answers else most_tokens
        answer = min(most_tokens, math.ceil(average))
        own_tokens = tokens - len(blocks) * self._block_tokens + answer
        return beams * math.ceil(own_tokens / self._block_tokens)

    def has_place(self, blocks: Sequence[bytes], own: int) -> bool:
        """True too where nothing runs: the library says what its cache never holds."""
        new = sum(block not in self._shared for block in blocks)
        held = len(self._shared) + self._own
        return held == 0 or held + new + own <= self.capacity

    def take(self, blocks: Sequence[bytes], own: int) -> None:
        self._own += own
        for block in blocks:
            self._shared[block] = self._shared.get(block, 0) + 1

    def give_back(self, blocks: Sequence[bytes], own: int) -> None:
        self._own -= own
        for block in blocks:
            left = self._shared.pop(block) - 1
            if left > 0:
                self._shared[block] = left

    def learn(self, answer_tokens: int) -> None:
        self._answers += 1
        self._answer_tokens += answer_tokens


class Sequences:
    """One generation of the pipeline: a sequence, or all results of a beam search."""

    def __init__(self, handle: Any, blocks: List[bytes], own_blocks: int) -> None:
        self.handle = handle
        # Those of its prompt whose computation others wait for.
        self.blocks: Optional[List[bytes]] = blocks
        self.own_blocks = own_blocks
        self.tokens: Dict[int, List[int]] = {}
        self.scores: Dict[int, float] = {}
        self.reasons: Dict[int, str] = {}
        self.is_done = False

    def read(self) -> None:
        while self.handle.can_read():
            for number, output in self.handle.read().items():
                self.tokens.setdefault(number, []).extend(output.generated_ids)
                self.scores[number] = output.score
                self.reasons[number] = output.finish_reason.name
        self.is_done = self.handle.get_status().name != "RUNNING"

    def best_first(self) -> List[int]:
        return sorted(self.tokens, key=lambda number: -self.scores[number])


class Request:
    """A request of the worker, with a generation for each answer."""

    def __init__(self, number: int, asked: Dict[str, Any], streams: bool) -> None:
        self.number = number
        self.tokens: List[int] = asked["tokens"]
        self.stop: List[str] = asked.get("stop", [])
        self.generation: Dict[str, Any] = asked["generation"]
        self.grammar: Optional[str] = asked.get("grammar")
        self.may_call: bool = asked.get("mayCall", False)
        self.count: int = asked.get("answers", 1)
        # A beam search finds all its answers in one generation.
        self.generations = 1 if "num_beams" in self.generation else self.count
        self.streams = streams
        self.is_failed = False
        self.blocks = Prefixes.blocks(self.tokens)
        self.running: List[Sequences] = []
        # Reported characters and tokens of each answer.
        self.told: List[Tuple[int, int]] = [(0, 0)] * self.count


class Host:
    """Computes the requests of one worker."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.prefixes = Prefixes()
        # A request waits once for each generation that has yet to begin.
        self.waiting: List[Request] = []
        self.live: Dict[int, Request] = {}
        self.next_sequence = 0
        self.last_told = 0.0

    def serve(self) -> None:
        while True:
            is_busy = bool(self.live) or bool(self.waiting)
            for message in self.channel.receive(wait=not is_busy):
                self.take(message)
            self.admit()
            if not self.live:
                continue
            if self.pipeline.has_non_finished_requests():
                self.pipeline.step()
            self.gather()

    def take(self, message: Dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "host-open":
            self.open(message)
        elif kind == "host-close":
            leave()
        elif kind == "infer":
            request = Request(message["id"], message["request"], message.get("streams", False))
            self.waiting.extend([request] * request.generations)
        elif kind == "infer-abort":
            self.abort(message["id"])
        elif kind == "tokenize":
            self.tokenize(message)

    def open(self, message: Dict[str, Any]) -> None:
        try:
            if message["protocol"] != PROTOCOL:
                detail = f"host speaks {PROTOCOL}, worker {message['protocol']}"
                raise Failure("PROTOCOL", detail)
            facts = self.load(message["options"])
            self.channel.send({"type": "host-ready", "protocol": PROTOCOL, **facts})
        except Failure as failure:
            self.channel.send({"type": "host-failed", "error": failure.record})

    def load(self, options: Dict[str, Any]) -> Dict[str, Any]:
        try:
            import numpy
            import openvino
            import openvino_genai
        except ImportError as error:
            raise Failure("ENGINE_START_FAILED", f"OpenVINO GenAI: {error}") from error
        self.numpy, self.openvino, self.genai = numpy, openvino, openvino_genai
        self.assert_device(options["device"])
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size = options["cacheGib"]
        scheduler.max_num_seqs = options["sequences"]
        scheduler.max_num_batched_tokens = options["batchTokens"]
        scheduler.enable_prefix_caching = True
        properties = {"INFERENCE_NUM_THREADS": options["threads"]} if "threads" in options else {}
        if options["precision"] == "exact":
            properties.update(EXACT)
        try:
            self.pipeline = openvino_genai.ContinuousBatchingPipeline(
                options["modelPath"], scheduler, options["device"], properties
            )
        except RuntimeError as error:
            detail = f"{options['modelPath']}: {plain(error)}"
            raise Failure("MODEL_CORRUPT", detail) from error
        self.tokenizer = self.pipeline.get_tokenizer()
        self.room = Room(self.cache_blocks())
        return {
            "name": os.path.basename(options["modelPath"]).removesuffix(".gguf"),
            "capacity": options["sequences"] * 2,
            "concurrency": options["sequences"],
            "tokenizes": True,
            "choices": {**options["choices"], "pid": os.getpid()},
            "model": self.model_facts(),
        }

    def assert_device(self, device: str) -> None:
        if device in ("CPU", "AUTO"):
            return
        present = self.openvino.Core().available_devices
        if any(each.split(".")[0] == device for each in present):
            return
        detail = f"OpenVINO finds no {device} on this machine, only {', '.join(present)}"
        hint = "install the driver of the device, or leave model.device out: that is the CPU"
        raise Failure("ENGINE_START_FAILED", detail, hint)

    def cache_blocks(self) -> float:
        """The blocks of the whole cache, from the share of it that a short prompt takes.

        The library tells neither the size of a block nor how many there are.
        """
        tokens = 2 * BLOCK_TOKENS
        ids = self.openvino.Tensor(self.numpy.zeros((1, tokens), dtype=self.numpy.int64))
        config = self.genai.GenerationConfig(apply_chat_template=False, max_new_tokens=1)
        self.pipeline.add_request(self.take_number(), ids, config)
        used = 0.0
        while self.pipeline.has_non_finished_requests():
            self.pipeline.step()
            used = max(used, self.pipeline.get_metrics().max_cache_usage)
        return 2 * 100 / used if used > 0 else math.inf

    def take_number(self) -> int:
        self.next_sequence += 1
        return self.next_sequence

    def model_facts(self) -> Dict[str, Any]:
        config = self.pipeline.get_config()
        plain_ids, whole_ids = self.encode("a", False), self.encode("a", True)
        starts = len(whole_ids) > len(plain_ids) and whole_ids[0] != plain_ids[0]
        self.special = self.special_texts()
        ends: Set[int] = {int(token) for token in config.stop_token_ids}
        ends.update(self.special[text] for text in END_TEXTS if text in self.special)
        if self.tokenizer.get_eos_token_id() >= 0:
            ends.add(self.tokenizer.get_eos_token_id())
        self.ends = ends
        original = self.tokenizer.get_original_chat_template() or self.tokenizer.chat_template
        return {
            "chatTemplate": original,
            "bos": self.tokenizer.get_bos_token(),
            "bosToken": self.tokenizer.get_bos_token_id(),
            "eos": self.tokenizer.get_eos_token(),
            "firstToken": whole_ids[0] if starts else None,
            "specialTexts": list(self.special),
        }

    def special_texts(self) -> Dict[str, int]:
        """The special tokens in a text: each is one token when it is read."""
        found: Dict[str, int] = {}
        for word, token in self.tokenizer.get_vocab().items():
            text = word.decode("utf-8", "replace") if isinstance(word, bytes) else word
            if len(text) > 2 and text[0] in "<[" and text[-1] in ">]":
                found[text] = token
        for text in (*END_TEXTS, "<|im_start|>", self.tokenizer.get_bos_token()):
            ids = self.encode(text, False) if text else []
            if len(ids) == 1:
                found[text] = ids[0]
        return found

    def encode(self, text: str, with_first: bool) -> List[int]:
        if text == "":
            return []
        ids = self.tokenizer.encode(text, add_special_tokens=with_first).input_ids.data
        return [int(token) for token in ids.reshape(-1)]

    def tokenize(self, message: Dict[str, Any]) -> None:
        prompts = [[self.part(piece) for piece in pieces] for pieces in message["prompts"]]
        self.channel.send({"type": "tokenize-end", "id": message["id"], "tokenized": prompts})

    def part(self, piece: Dict[str, str]) -> List[int]:
        """The tokens of a piece; special tokens are read only in pieces of the template."""
        text = piece["text"]
        if piece["kind"] == "template":
            return self.encode(text, False)
        tokens: List[int] = []
        for part in self.without_special(text):
            tokens.extend(self.encode(part, False))
        return tokens

    def without_special(self, text: str) -> List[str]:
        """The text in parts, cut after the first character of each special token."""
        if not any(mark in text for mark in "<["):
            return [text]
        cuts = {0, len(text)}
        for special in self.special:
            at = text.find(special)
            while at >= 0:
                cuts.add(at + 1)
                at = text.find(special, at + 1)
        places = sorted(cuts)
        return [text[start:end] for start, end in zip(places, places[1:])]

    def abort(self, number: int) -> None:
        self.waiting = [request for request in self.waiting if request.number != number]
        request = self.live.pop(number, None)
        if request is not None:
            self.drop(request)

    def drop(self, request: Request) -> None:
        for sequences in request.running:
            if not sequences.is_done:
                sequences.handle.cancel()
                self.room.give_back(request.blocks, sequences.own_blocks)
            self.settle_prefix(sequences, is_computed=False)

    def settle_prefix(self, sequences: Sequences, is_computed: bool) -> None:
        if sequences.blocks is not None:
            self.prefixes.end(sequences.blocks, is_computed)
            sequences.blocks = None

    def admit(self) -> None:
        left: List[Request] = []
        is_full = False
        for request in self.waiting:
            if is_full or self.prefixes.must_wait(request.blocks):
                left.append(request)
                continue
            own = self.own_blocks(request)
            # Those behind it wait too: a long prompt would never begin otherwise.
            is_full = not self.room.has_place(request.blocks, own)
            if is_full:
                left.append(request)
                continue
            try:
                self.begin(request, own)
            except (RuntimeError, ValueError, TypeError) as error:
                self.abort(request.number)
                self.fail(request, "REQUEST_REFUSED", plain(error))
                left = [other for other in left if other is not request]
        self.waiting = left

    def own_blocks(self, request: Request) -> int:
        most_tokens = request.generation["max_new_tokens"]
        beams = request.generation.get("num_beams", 1)
        return self.room.need(request.blocks, len(request.tokens), most_tokens, beams)

    def begin(self, request: Request, own_blocks: int) -> None:
        if request.is_failed:
            return
        ids = self.openvino.Tensor(self.numpy.array([request.tokens], dtype=self.numpy.int64))
        config = self.config_of(request, len(request.running))
        handle = self.pipeline.add_request(self.take_number(), ids, config)
        request.running.append(Sequences(handle, request.blocks, own_blocks))
        self.prefixes.begin(request.blocks)
        self.room.take(request.blocks, own_blocks)
        self.live[request.number] = request

    def config_of(self, request: Request, place: int) -> Any:
        given = dict(request.generation)
        if "rng_seed" in given:
            given["rng_seed"] = (given["rng_seed"] + place) % 2**32
        if "stop_criteria" in given:
            given["stop_criteria"] = getattr(self.genai.StopCriteria, given["stop_criteria"])
        if request.grammar is not None:
            grammar = self.genai.StructuredOutputConfig(grammar=request.grammar)
            given["structured_output_config"] = grammar
        if request.stop:
            # The text before a stop text is cut here, because it may begin within a token.
            given.update(stop_strings=set(request.stop), include_stop_str_in_output=True)
        if not given.get("ignore_eos", False):
            given["stop_token_ids"] = self.ends
        return self.genai.GenerationConfig(apply_chat_template=False, **given)

    def gather(self) -> None:
        now = time.monotonic()
        tells = now - self.last_told >= DELTA_SECONDS
        deltas: List[Dict[str, Any]] = []
        for request in list(self.live.values()):
            for sequences in request.running:
                if sequences.is_done:
                    continue
                sequences.read()
                if sequences.is_done:
                    self.room.give_back(request.blocks, sequences.own_blocks)
                    for tokens in sequences.tokens.values():
                        self.room.learn(len(tokens))
                if sequences.tokens or sequences.is_done:
                    self.settle_prefix(sequences, is_computed=bool(sequences.tokens))
            has_all = len(request.running) == request.generations
            is_done = has_all and all(sequences.is_done for sequences in request.running)
            if request.streams and (tells or is_done):
                deltas.extend(self.deltas_of(request, is_done))
            if is_done:
                if deltas:
                    self.channel.send({"type": "infer-deltas", "deltas": deltas})
                    deltas = []
                del self.live[request.number]
                self.finish(request)
        if deltas:
            self.channel.send({"type": "infer-deltas", "deltas": deltas})
        if tells:
            self.last_told = now

    def generated(self, request: Request) -> List[Tuple[Sequences, int]]:
        """The answers of a request, from their sequences."""
        found = [
            (sequences, number)
            for sequences in request.running
            for number in sequences.best_first()
        ]
        return found[: request.count]

    def text_of(self, request: Request, tokens: Sequence[int]) -> Tuple[str, bool]:
        """The text of an answer, and whether a stop text ended it."""
        # Special tokens may begin and end calls.
        text = self.tokenizer.decode(list(tokens), skip_special_tokens=not request.may_call)
        if request.grammar is not None and not request.may_call:
            # A form may begin with the space before its first word.
            text = text.lstrip()
        places = [text.find(stop) for stop in request.stop]
        found = [place for place in places if place >= 0]
        return (text[: min(found)], True) if found else (text, False)

    def deltas_of(self, request: Request, is_done: bool) -> List[Dict[str, Any]]:
        deltas: List[Dict[str, Any]] = []
        for choice, (sequences, number) in enumerate(self.generated(request)):
            tokens = self.without_end(sequences.tokens[number])
            text, is_stopped = self.text_of(request, tokens)
            if not is_done and not is_stopped:
                text = text[: settled_end(text, request.stop)]
            told_chars, told_tokens = request.told[choice]
            if len(text) <= told_chars:
                continue
            new, count = text[told_chars:], len(tokens) - told_tokens
            deltas.append({"id": request.number, "choice": choice, "text": new, "tokens": count})
            request.told[choice] = (len(text), len(tokens))
        return deltas

    def without_end(self, tokens: List[int]) -> List[int]:
        return tokens[:-1] if tokens and tokens[-1] in self.ends else tokens

    def finish(self, request: Request) -> None:
        if any(sequences.handle.get_status().name == "IGNORED" for sequences in request.running):
            detail = f"{len(request.tokens)} tokens of prompt; model.cacheGib bounds the cache"
            return self.fail(request, "PROMPT_TOO_LONG", detail)
        answers = [
            self.answer_of(request, sequences, number)
            for sequences, number in self.generated(request)
        ]
        usage = {
            "promptTokens": len(request.tokens),
            "cachedTokens": 0,
            "completionTokens": sum(answer["tokens"] for answer in answers),
        }
        response = {"answers": answers, "usage": usage, "seconds": 0}
        self.channel.send({"type": "infer-end", "id": request.number, "response": response})

    def answer_of(self, request: Request, sequences: Sequences, number: int) -> Dict[str, Any]:
        whole = sequences.tokens[number]
        tokens = whole if request.generation.get("ignore_eos") else self.without_end(whole)
        text, is_stopped = self.text_of(request, tokens)
        ended = is_stopped or sequences.reasons[number] == "STOP"
        reason = "stop" if ended else "length"
        return {"text": text, "finishReason": reason, "tokens": len(tokens)}

    def fail(self, request: Request, code: str, message: str) -> None:
        request.is_failed = True
        error = {"code": code, "message": message}
        self.channel.send({"type": "infer-fail", "id": request.number, "error": error})


def settled_end(text: str, stops: Sequence[str]) -> int:
    """Where an incomplete stop text or character may have begun; else the end."""
    end = len(text.rstrip("\ufffd"))
    longest = max((len(stop) for stop in stops), default=0)
    for at in range(max(0, end - longest + 1), end):
        if any(stop.startswith(text[at:end]) for stop in stops):
            return at
    return end


def plain(error: Exception) -> str:
    """The message of the library's error, without the place in its sources."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line and not line.startswith("Exception from ")]
    return " ".join(telling)[:500] or type(error).__name__


if __name__ == "__main__":
    # Ctrl-C and the signals of a scheduler reach the whole process group; the worker decides.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    Host(Channel(CHANNEL)).serve()
