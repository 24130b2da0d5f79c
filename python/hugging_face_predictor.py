"""Answers batches with a PyTorch model of Hugging Face, for Sluice's engine `command`::

    model:
      engine: command
      command: python3
      args: [-m, hugging_face_predictor, --model, path/to/folder]

Takes causal models (text generation) and encoder-decoders (translation, summarization), from a
folder with `config.json` and weights, or by their name on the hub. Needs `torch` and
`transformers` (4.46 or later) in its Python; see `docs/engine-command.md`.

Each answer is the model's answer to its prompt alone: answers are sampled from their own seeds,
whatever else is in their batch.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    LogitsProcessorList,
)
from transformers.generation.logits_process import (
    LogitsProcessor,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from transformers.generation.stopping_criteria import StoppingCriteriaList, StopStringCriteria

from sluice_predictor import Answer, Context, Item, Result, Unanswered, Unsupported, serve

TASKS = ("text-generation", "seq2seq")

NEUTRAL = {"presence_penalty": 0, "frequency_penalty": 0, "logprobs": 0, "prepend_bos": None}
"""Parameters that are not supported, each with the value that asks for nothing."""

SAMPLING = ("temperature", "top_p", "top_k", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")
"""How `generate` would sample by itself, in a model's own settings."""


def main() -> None:
    options = parse_options()
    serve(
        lambda items, model: model.predict(items),
        lambda context: HuggingFaceModel(options, context),
        name=os.path.basename(os.path.normpath(options.model)),
        max_batch_rows=options.max_batch_rows,
    )


def parse_options(arguments: Optional[Sequence[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hugging_face_predictor", description=__doc__)
    add = parser.add_argument
    add("--model", required=True, help="a folder, or a name on the hub")
    add("--task", choices=TASKS, help="default: as the model's config.json says")
    add("--dtype", default="auto", help="auto (as the weights are), float32, bfloat16, float16")
    add("--device", help="such as cuda:0, mps or cpu; default: what Sluice gives, or what is there")
    add("--device-map", help="auto spreads a model over all GPUs; needs the package accelerate")
    add("--max-batch-rows", type=int, help="the most requests computed at once")
    add("--source-lang", help="source language of a translation model, as its tokenizer calls it")
    add("--target-lang", help="language to translate into; the first token is forced to it")
    add("--revision", help="branch, tag or commit on the hub")
    add(
        "--trust-remote-code",
        action="store_true",
        help="run code that comes with the model; read it before",
    )
    add(
        "--generate",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any other argument of generate(), such as length_penalty=0.8; may be repeated",
    )
    return parser.parse_args(arguments)


@dataclass(frozen=True)
class Prompt:
    """A prompt in tokens, and its item."""

    place: int
    """Place of its item in the batch."""
    tokens: List[int]
    seed: int


class HuggingFaceModel:
    """A model with its tokenizer, on its device."""

    def __init__(self, options: argparse.Namespace, context: Context):
        source = {"revision": options.revision, "trust_remote_code": options.trust_remote_code}
        config = AutoConfig.from_pretrained(options.model, **source)
        task = options.task or ("seq2seq" if config.is_encoder_decoder else "text-generation")
        self.is_seq2seq = task == "seq2seq"
        self.max_tokens = position_limit(config)
        self.tokenizer = AutoTokenizer.from_pretrained(options.model, **source)
        # The last token of a causal model's prompt must be right before the answer.
        self.tokenizer.padding_side = "right" if self.is_seq2seq else "left"
        if self.tokenizer.pad_token_id is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        self.extra = dict(extra_argument(each) for each in options.generate)
        self.set_languages(options.source_lang, options.target_lang)
        self.model = self.load(options, source, options.device or default_device(context))

    def load(self, options: argparse.Namespace, source: Dict[str, Any], device: str) -> Any:
        kind = AutoModelForSeq2SeqLM if self.is_seq2seq else AutoModelForCausalLM
        is_old = int(transformers.__version__.split(".")[0]) < 5
        placed = {"torch_dtype" if is_old else "dtype": options.dtype}
        if options.device_map is not None:
            return kind.from_pretrained(
                options.model, device_map=options.device_map, **source, **placed
            ).eval()
        return kind.from_pretrained(options.model, **source, **placed).to(device).eval()

    def set_languages(self, source: Optional[str], target: Optional[str]) -> None:
        if source is not None:
            self.tokenizer.src_lang = source
        if target is None:
            return
        # M2M100's vocabulary has `__de__` for `de`; NLLB's names are tokens.
        if hasattr(self.tokenizer, "get_lang_id"):
            self.extra["forced_bos_token_id"] = self.tokenizer.get_lang_id(target)
        else:
            self.extra["forced_bos_token_id"] = self.tokenizer.convert_tokens_to_ids(target)

    def predict(self, items: List[Item]) -> List[Result]:
        """One result for each item; items with equal parameters are generated together."""
        results: List[Result] = [None] * len(items)
        groups: Dict[str, List[Prompt]] = {}
        for place, item in enumerate(items):
            try:
                tokens = self.tokens_of(item)
                limit = self.answer_limit(len(tokens), item.parameters)
            except Unanswered as reason:
                results[place] = reason
                continue
            shared = {**item.parameters, "max_new_tokens": limit}
            seed = shared.pop("seed", 0)
            key = json.dumps(shared, sort_keys=True)
            groups.setdefault(key, []).append(Prompt(place, tokens, seed))
        for shared, prompts in groups.items():
            for prompt, answers in zip(prompts, self.generate(prompts, json.loads(shared))):
                results[prompt.place] = answers
        return results

    def tokens_of(self, item: Item) -> List[int]:
        if item.prompt is None and item.messages is None:
            raise Unsupported("this predictor answers prompts: write some in the job")
        is_chat = item.prompt is None and not self.is_seq2seq
        text = self.rendered_chat(item) if is_chat else item.text
        # A chat template itself writes the tokens at the start of a text.
        return self.tokenizer(text, add_special_tokens=not is_chat)["input_ids"]

    def rendered_chat(self, item: Item) -> str:
        if getattr(self.tokenizer, "chat_template", None) is None:
            raise Unsupported("the tokenizer has no chat template: set api: completion in the job")
        return self.tokenizer.apply_chat_template(
            item.messages, tokenize=False, add_generation_prompt=True
        )

    def answer_limit(self, prompt: int, parameters: Dict[str, Any]) -> int:
        """The most tokens of the answer to a prompt with this many."""
        limit = parameters["max_new_tokens"]
        if "max_length" in parameters:
            limit = min(limit, parameters["max_length"] - prompt)
        if limit < 1:
            length = parameters["max_length"]
            raise Unanswered(f"{prompt} tokens leave none of {length}", code="PROMPT_TOO_LONG")
        # An encoder-decoder uses all positions for the answer.
        taken = max(prompt, limit) if self.is_seq2seq else prompt + limit
        if self.max_tokens is not None and taken > self.max_tokens:
            raise Unanswered(
                f"{prompt} tokens and {limit} new ones; the model has {self.max_tokens}",
                code="PROMPT_TOO_LONG",
            )
        return limit

    def generate(self, prompts: List[Prompt], parameters: Dict[str, Any]) -> List[Result]:
        """The answer of each prompt: one, or a list if several are requested."""
        count = parameters.get("num_return_sequences", 1)
        is_beam_search = parameters.get("num_beams", 1) > 1
        # Beams give several answers to one prompt; otherwise each has its own prompt and seed.
        copies = 1 if is_beam_search else count
        tokens = [prompt.tokens for prompt in prompts for _ in range(copies)]
        seeds = [prompt.seed + nth for prompt in prompts for nth in range(copies)]
        paddings = [max(len(each) for each in tokens) - len(each) for each in tokens]
        padded = self.tokenizer.pad({"input_ids": tokens}, return_tensors="pt")
        with torch.inference_mode():
            generated = self.model.generate(
                **padded.to(self.model.device),
                generation_config=self.configured(parameters),
                logits_processor=self.processors(parameters, paddings, seeds),
                stopping_criteria=self.stopping(parameters),
            )
        # The beginning is the prompt, or the decoder's start token.
        begin = 1 if self.is_seq2seq else padded["input_ids"].shape[1]
        rows = generated[:, begin:].tolist()
        results: List[Result] = []
        for at, prompt in enumerate(prompts):
            own = rows[at * count : (at + 1) * count]
            answers = [self.answer_of(row, len(prompt.tokens), parameters) for row in own]
            results.append(answers if count > 1 else answers[0])
        return results

    def configured(self, parameters: Dict[str, Any]) -> Any:
        """The model's own settings with those of the job, without the library's own sampling."""
        assert_supported(parameters)
        config = copy.deepcopy(self.model.generation_config)
        for name in SAMPLING:
            setattr(config, name, None)
        config.do_sample = False
        config.max_length = None
        config.max_new_tokens = parameters["max_new_tokens"]
        config.min_new_tokens = config.max_new_tokens if parameters.get("ignore_eos") else None
        config.num_beams = parameters.get("num_beams", 1)
        for name in ("length_penalty", "early_stopping"):
            if name in parameters:
                setattr(config, name, parameters[name])
        count = parameters.get("num_return_sequences", 1)
        config.num_return_sequences = count if config.num_beams > 1 else 1
        # Causal models use our own, which ignores the padding before a prompt.
        penalty = parameters.get("repetition_penalty", 1.0)
        config.repetition_penalty = penalty if self.is_seq2seq else 1.0
        config.pad_token_id = self.tokenizer.pad_token_id
        for name, value in self.extra.items():
            setattr(config, name, value)
        return config

    def processors(
        self, parameters: Dict[str, Any], paddings: List[int], seeds: List[int]
    ) -> LogitsProcessorList:
        penalty = parameters.get("repetition_penalty", 1.0)
        if self.is_seq2seq or penalty == 1.0:
            return LogitsProcessorList(sampling(parameters, seeds))
        beams = parameters.get("num_beams", 1)
        repeated = [padding for padding in paddings for _ in range(beams)]
        return LogitsProcessorList(
            [RepetitionPenalty(float(penalty), repeated), *sampling(parameters, seeds)]
        )

    def stopping(self, parameters: Dict[str, Any]) -> StoppingCriteriaList:
        stops = parameters.get("stop")
        return StoppingCriteriaList([StopStringCriteria(self.tokenizer, stops)] if stops else [])

    def answer_of(self, row: List[int], prompt: int, parameters: Dict[str, Any]) -> Answer:
        """The answer without its end tokens and the padding after them."""
        ends = self.end_tokens()
        end = next((at for at, token in enumerate(row) if token in ends), len(row))
        text = self.tokenizer.decode(row[:end], skip_special_tokens=True)
        cuts = [text.find(stop) for stop in parameters.get("stop") or [] if stop in text]
        if parameters.get("stop"):
            while end > 0 and row[end - 1] == self.tokenizer.pad_token_id:
                end -= 1
        return Answer(
            text[: min(cuts)] if cuts else text,
            tokens=end,
            prompt_tokens=prompt,
            finish_reason="stop" if end < len(row) or cuts else "length",
        )

    def end_tokens(self) -> "set[int]":
        named = self.model.generation_config.eos_token_id
        ends = named if isinstance(named, list) else [named]
        return {*ends, self.tokenizer.eos_token_id} - {None}


class RepetitionPenalty(LogitsProcessor):
    """Makes tokens less likely that a row already has: those of its prompt and its answer, but not
    those that pad the row to the length of the longest."""

    def __init__(self, penalty: float, paddings: List[int]):
        self.penalty = penalty
        self.paddings = paddings

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        penalized = scores.clone()
        for row, padding in enumerate(self.paddings):
            seen = input_ids[row, padding:].unique()
            score = scores[row, seen]
            lower = torch.where(score < 0, score * self.penalty, score / self.penalty)
            penalized[row, seen] = lower
        return penalized


class SeededSampling(LogitsProcessor):
    """Makes the likeliest token a sampled one: with noise of the right distribution added to the
    scores, their maximum is drawn by their probabilities. Each row draws from its own seed."""

    def __init__(self, seeds: List[int]):
        self.seeds = seeds
        self.generators: List[torch.Generator] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if not self.generators:
            self.generators = [
                torch.Generator(device=scores.device).manual_seed(seed) for seed in self.seeds
            ]
        noise = torch.empty_like(scores, dtype=torch.float32)
        for row, generator in zip(noise, self.generators):
            row.exponential_(generator=generator)
        return scores - noise.log()


def sampling(parameters: Dict[str, Any], seeds: List[int]) -> List[LogitsProcessor]:
    temperature = parameters.get("temperature", 0)
    if temperature == 0:
        return []
    steps: List[LogitsProcessor] = [TemperatureLogitsWarper(float(temperature))]
    if parameters.get("top_k", 0) > 0:
        steps.append(TopKLogitsWarper(parameters["top_k"]))
    if parameters.get("top_p", 1) < 1:
        steps.append(TopPLogitsWarper(float(parameters["top_p"])))
    if parameters.get("min_p", 0) > 0:
        steps.append(MinPLogitsWarper(float(parameters["min_p"])))
    return [*steps, SeededSampling(seeds)]


def assert_supported(parameters: Dict[str, Any]) -> None:
    for name, neutral in NEUTRAL.items():
        if parameters.get(name, neutral) != neutral:
            raise Unsupported(f"{name} is not supported by this predictor")
    beams = parameters.get("num_beams", 1)
    if beams > 1 and parameters.get("temperature", 0) > 0:
        raise Unsupported("a beam search does not sample: set temperature: 0, or numBeams: 1")
    if 1 < beams < parameters.get("num_return_sequences", 1):
        raise Unsupported("numReturnSequences asks for more answers than there are beams")


def extra_argument(text: str) -> Tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise SystemExit(f"--generate {text}: write KEY=VALUE")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def default_device(context: Context) -> str:
    """The job's GPU, else any device; several workers then share one GPU."""
    if context.device == "cpu" and torch.cuda.is_available():
        return "cuda:0"
    if context.device == "cpu" and torch.backends.mps.is_available():
        return "mps"
    return context.device


def position_limit(config: Any) -> Optional[int]:
    """Most positions of the model; None if it has no such limit, like T5."""
    text = config if config.is_encoder_decoder else config.get_text_config()
    return getattr(text, "max_position_embeddings", None)


if __name__ == "__main__":
    main()
