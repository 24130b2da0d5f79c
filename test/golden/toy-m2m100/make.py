"""
Trains the toy translator of the tests and writes what the reference makes of it:
make.py [FOLDER]

FOLDER gets `weights/`, the model as PyTorch has it, `model/`, the same as ONNX with its tokenizer, and
`golden.json`, the outputs of Hugging Face transformers. `--golden` keeps the weights that are there
and makes `golden.json` anew. Two minutes on one core. Packages: requirements.txt beside this file,
without their dependencies, and a PyTorch for CPUs (made with 1.13). transformers 5.19 with
PyTorch 2.13 gives the same golden.json.
"""

import json
import random
import shutil
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import M2M100Config, M2M100ForConditionalGeneration

words = (
    "a house tree dog cat sees finds and big small red blue old new bird fish runs sleeps "
    "the near under water stone child gives"
).split()
languages = ["en", "fr", "de"]
directions = [(a, b) for a in languages for b in languages if a != b]
specials = ["<s>", "<pad>", "</s>", "<unk>"]
pad, end = 1, 2

#: A French word is its English one from behind, after an f; a German one has -en, and a German
#: sentence is the other way round.
spell = {"en": lambda word: word, "fr": lambda word: "f" + word[::-1], "de": lambda word: word + "en"}


def sentence(english: list[str], language: str) -> list[str]:
    said = [spell[language](word) for word in english]
    return said[::-1] if language == "de" else said


vocabulary = specials + [spell[language](word) for language in languages for word in words]
vocabulary += [f"__{language}__" for language in languages]
ids = {token: at for at, token in enumerate(vocabulary)}


def encode(said: list[str], language: str) -> list[int]:
    return [ids[f"__{language}__"], *(ids.get(word, 3) for word in said), end]


def decode(tokens: list[int]) -> str:
    return " ".join(vocabulary[token] for token in tokens if token > 3 and token < len(ids) - 3)


def padded(rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    length = max(map(len, rows))
    tokens = torch.tensor([row + [pad] * (length - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])
    return tokens, mask


def draw(chance: random.Random, most: int) -> list[str]:
    return [chance.choice(words) for _ in range(chance.randint(1, most))]


def train() -> M2M100ForConditionalGeneration:
    torch.manual_seed(7)
    chance = random.Random(7)
    config = M2M100Config(
        vocab_size=len(vocabulary),
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_position_embeddings=64,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        # With the usual 0.02 the words drown in the sinusoids of their positions.
        init_std=0.12,
        bos_token_id=0,
        pad_token_id=pad,
        eos_token_id=end,
        decoder_start_token_id=end,
    )
    model = M2M100ForConditionalGeneration(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    steps = 2000
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    model.train()
    for step in range(steps):
        pairs = []
        for _ in range(64):
            english = draw(chance, 9)
            source, target = chance.choice(directions)
            pairs.append((encode(sentence(english, source), source), encode(sentence(english, target), target)))
        inputs, mask = padded([source for source, _ in pairs])
        wanted, _ = padded([target for _, target in pairs])
        start = torch.full((len(pairs), 1), end)
        shown = torch.cat([start, wanted[:, :-1]], dim=1)
        logits = model(input_ids=inputs, attention_mask=mask, decoder_input_ids=shown).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), wanted.flatten(), ignore_index=pad, label_smoothing=0.02
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 250 == 0 or step == steps - 1:
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
    return model.eval()


def save_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({token: at for token, at in ids.items()}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(specials + [f"__{language}__" for language in languages])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="__en__ $A </s>",
        pair="__en__ $A $B </s>",
        special_tokens=[("__en__", ids["__en__"]), ("</s>", end)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "M2M100Tokenizer",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "sep_token": "</s>",
        "unk_token": "<unk>",
        "model_max_length": 64,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def save(model: M2M100ForConditionalGeneration, folder: Path) -> None:
    """The graphs as Optimum makes them: an encoder, and a decoder with and without a cache."""
    from optimum.exporters.onnx import main_export

    shutil.rmtree(folder, ignore_errors=True)
    weights = folder.parent / "weights"
    model.save_pretrained(weights)
    save_tokenizer(weights)
    exported = folder.parent / "exported"
    main_export(str(weights), str(exported), task="text2text-generation-with-past", do_validation=False)
    (folder / "onnx").mkdir(parents=True)
    for name in ["encoder_model.onnx", "decoder_model_merged.onnx"]:
        shutil.copy(exported / name, folder / "onnx" / name)
    for name in ["config.json", "generation_config.json"]:
        said = json.loads((exported / name).read_text())
        # Where it was made is nobody's concern.
        said.pop("_name_or_path", None)
        (folder / name).write_text(json.dumps(said, indent=2) + "\n")
    save_tokenizer(folder)
    shutil.rmtree(exported)


def answers(model, texts, source, target, **parameters) -> list[list[dict]]:
    """For each text the sequences that the reference returns, the best first."""
    rows = [encode(text.split(), source) for text in texts]
    inputs, mask = padded(rows)
    made = model.generate(
        input_ids=inputs,
        attention_mask=mask,
        forced_bos_token_id=ids[f"__{target}__"],
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        **parameters,
    )
    kept = parameters.get("num_return_sequences", 1)
    scores = made.sequences_scores.tolist() if parameters.get("num_beams", 1) > 1 else None
    found = []
    for at, sequence in enumerate(made.sequences.tolist()):
        # The first token is where the decoder starts, which is the end token as well.
        said = sequence[1:]
        tokens = said[: said.index(end) + 1] if end in said else [t for t in said if t != pad]
        score = {} if scores is None else {"score": round(scores[at], 6)}
        found.append({"text": decode(tokens), "tokens": tokens, **score})
    return [found[at : at + kept] for at in range(0, len(found), kept)]


def case(model, texts, source, target, alike=True, **parameters) -> dict:
    together = answers(model, texts, source, target, **parameters)
    alone = [answers(model, [text], source, target, **parameters)[0] for text in texts]
    for text, one, other in zip(texts, together, alone):
        same = [a["tokens"] for a in one] == [a["tokens"] for a in other]
        if not same:
            raise SystemExit(f"the reference itself differs alone and in a batch: {text!r}")
    return {"source": source, "target": target, "texts": texts, "parameters": parameters, "answers": together}


def golden(model) -> dict:
    chance = random.Random(11)
    cases, right, asked = [], 0, 0
    searches = [{}, {"num_beams": 2}, {"num_beams": 4}]
    for source, target in directions:
        drawn = [draw(chance, 9) for _ in range(12)]
        texts = [" ".join(sentence(english, source)) for english in drawn]
        for search in searches:
            cases.append(case(model, texts, source, target, max_new_tokens=14, **search))
        wanted = [" ".join(sentence(english, target)) for english in drawn]
        got = [answer[0]["text"] for answer in cases[-3]["answers"]]
        right += sum(a == b for a, b in zip(wanted, got))
        asked += len(wanted)
    print(f"right by the rule: {right} of {asked}")
    # What it never saw makes it unsure, so that searches differ: unknown words, three languages in
    # one sentence, sentences of twice the length, one word again and again.
    odd = [
        "xyzzy", "house xyzzy dog", "the the the the the the", "faesuoh dogen cat nearen",
        " ".join(chance.choice(words) for _ in range(17)),
        " ".join(spell[chance.choice(languages)](chance.choice(words)) for _ in range(8)),
        "aen aen fa fa a a", "plugh plugh plugh house",
    ]
    variants = [
        {}, {"num_beams": 2}, {"num_beams": 4},
        {"num_beams": 4, "length_penalty": 2.0},
        {"num_beams": 4, "length_penalty": 0.0},
        {"num_beams": 3, "length_penalty": -1.0},
        {"num_beams": 4, "early_stopping": True},
        {"num_beams": 4, "early_stopping": "never"},
        {"num_beams": 3, "early_stopping": "never", "length_penalty": 2.0},
        {"num_beams": 4, "num_return_sequences": 4},
        {"num_beams": 3, "num_return_sequences": 2, "early_stopping": True, "length_penalty": 0.5},
    ]
    for source, target in [("en", "de"), ("fr", "en")]:
        for variant in variants:
            cases.append(case(model, odd, source, target, max_new_tokens=20, **variant))
        cases.append(case(model, odd, source, target, max_new_tokens=5, num_beams=4))
    return {"cases": cases}


def dumped(value, depth: int = 2) -> str:
    """JSON with a line for each answer, so that a change of one can be seen."""
    if depth == 0 or not isinstance(value, (dict, list)) or not value:
        return json.dumps(value)
    if isinstance(value, dict):
        shallow = [key for key in value if key not in ("cases", "answers")]
        parts = [f"{json.dumps(key)}: {dumped(value[key], 0)}" for key in shallow]
        deep = [f"{json.dumps(key)}: {dumped(value[key], depth)}" for key in value if key not in shallow]
        return "{" + ",\n ".join(parts + deep) + "}"
    return "[\n" + ",\n".join(dumped(each, depth - 1) for each in value) + "]"


def main() -> None:
    import transformers

    torch.set_num_threads(1)
    arguments = [argument for argument in sys.argv[1:] if argument != "--golden"]
    folder = Path(arguments[0]) if arguments else Path(__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    weights = folder / "weights"
    if "--golden" not in sys.argv:
        save(train(), folder / "model")
    model = M2M100ForConditionalGeneration.from_pretrained(weights).eval()
    made = {"reference": f"transformers {transformers.__version__}", **golden(model)}
    (folder / "golden.json").write_text(dumped(made) + "\n")


main()
