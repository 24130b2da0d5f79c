"""
Writes tiny models with weights drawn by a seed, and what the reference, Hugging Face transformers,
makes of them: make.py [FOLDER]

FOLDER gets `causal/`, a GPT-2 of two layers, `classes/`, a BERT that tells three classes apart,
`speech/`, a Whisper of one layer, and `golden.json`. Nothing they say has a meaning; that they say
the same here and there has.
Packages: as for toy-m2m100.
"""

import json
import math
import shutil
import sys
from pathlib import Path

import numpy
import torch
import transformers
from optimum.exporters.onnx import main_export
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
)

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
words = (
    "a house tree dog cat sees finds and big small red blue old new bird fish runs sleeps "
    "the near under water stone child gives this text is about animals houses none"
).split()
specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[END]"]
vocabulary = {token: at for at, token in enumerate([*specials, *words])}


def save_tokenizer(target: Path, tokenizer_class: str, template: bool) -> None:
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(specials)
    if template:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS]:0 $A:0 [SEP]:0",
            pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
    tokenizer.save(str(target / "tokenizer.json"))
    config = {
        "tokenizer_class": tokenizer_class,
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "eos_token": "[END]",
        "model_max_length": 48,
    }
    if not template:
        turns = "{% for message in messages %}{{ message.content }} {% endfor %}"
        config["chat_template"] = turns + "{% if add_generation_prompt %}the {% endif %}"
    (target / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def save(model, name: str, task: str, files: list[str], tokenizer_class: str) -> None:
    target, weights, exported = folder / name, folder / "weights", folder / "exported"
    shutil.rmtree(target, ignore_errors=True)
    model.save_pretrained(weights)
    template = name == "classes"
    save_tokenizer(weights, tokenizer_class, template)
    main_export(str(weights), str(exported), task=task, do_validation=False)
    (target / "onnx").mkdir(parents=True)
    for file in files:
        shutil.copy(exported / file, target / "onnx" / file)
    for file in ["config.json", "generation_config.json"]:
        if (exported / file).exists():
            said = json.loads((exported / file).read_text())
            said.pop("_name_or_path", None)
            (target / file).write_text(json.dumps(said, indent=2) + "\n")
    save_tokenizer(target, tokenizer_class, template)
    shutil.rmtree(weights)
    shutil.rmtree(exported)


def ids(text: str) -> list[int]:
    return [vocabulary.get(word, 1) for word in text.split()]


def spread(model, factor: float):
    """Larger weights than usual, so that answers depend on what was asked."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.mul_(factor)
    return model.eval()


def causal() -> dict:
    torch.manual_seed(5)
    config = GPT2Config(
        vocab_size=len(vocabulary), n_positions=48, n_embd=32, n_layer=2, n_head=4,
        bos_token_id=4, eos_token_id=4, pad_token_id=0,
    )
    model = spread(GPT2LMHeadModel(config), 8)
    save(model, "causal", "text-generation-with-past", ["model.onnx"], "PreTrainedTokenizerFast")
    texts = [
        "a dog", "the old house near the water", "fish", "a child gives a stone and sees a bird",
        "red red red", "sleeps under the tree",
    ]
    rows = [ids(text) for text in texts]
    length = max(map(len, rows))
    inputs = torch.tensor([[0] * (length - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (length - len(row)) + [1] * len(row) for row in rows])
    cases = []
    for parameters in [
        {}, {"num_beams": 3}, {"num_beams": 4, "length_penalty": 0.0}, {"repetition_penalty": 1.5},
    ]:
        settings = {"do_sample": False, "max_new_tokens": 12, **parameters}
        with torch.no_grad():
            together = model.generate(inputs, attention_mask=mask, **settings)[:, length:].tolist()
        answers = []
        for row, sequence in zip(rows, together):
            with torch.no_grad():
                alone = model.generate(
                    torch.tensor([row]), attention_mask=torch.ones(1, len(row)), **settings
                )[0, len(row) :].tolist()
            cut = lambda tokens: tokens[: tokens.index(4) + 1] if 4 in tokens else tokens
            # A penalty of repetition counts padding as said, so that rows alone are the reference.
            if "repetition_penalty" not in parameters and cut(alone) != cut(sequence):
                raise SystemExit("the reference itself differs alone and in a batch")
            answers.append(cut(alone))
        names = list(vocabulary)
        said = [" ".join(names[t] for t in tokens if t >= len(specials)) for tokens in answers]
        cases.append({"parameters": parameters, "answers": said, "tokens": [len(a) for a in answers]})
    return {"texts": texts, "cases": cases}


def classes() -> dict:
    torch.manual_seed(6)
    labels = {0: "contradiction", 1: "neutral", 2: "entailment"}
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=48, num_labels=3, pad_token_id=0,
        id2label=labels, label2id={name: at for at, name in labels.items()},
    )
    model = spread(BertForSequenceClassification(config), 6)
    save(model, "classes", "text-classification", ["model.onnx"], "BertTokenizer")

    def logits(text: str, pair: str | None = None) -> torch.Tensor:
        tokens, kinds = [2, *ids(text), 3], [0] * (len(ids(text)) + 2)
        if pair is not None:
            tokens, kinds = [*tokens, *ids(pair), 3], kinds + [1] * (len(ids(pair)) + 1)
        with torch.no_grad():
            return model(torch.tensor([tokens]), token_type_ids=torch.tensor([kinds])).logits[0]

    texts = [
        "a dog sees a cat", "the old house", "fish", "a child gives a stone and finds a red bird",
        "sleeps", "water under the big blue tree near the house",
    ]
    candidates = ["animals", "houses", "none"]
    rounded = lambda values: [round(value, 6) for value in values]
    zero_shot, multi = [], []
    for text in texts:
        found = torch.stack([logits(text, f"this text is about {each}") for each in candidates])
        zero_shot.append(rounded(found[:, 2].softmax(0).tolist()))
        multi.append(rounded(found[:, [0, 2]].softmax(1)[:, 1].tolist()))
    return {
        "texts": texts,
        "labels": list(labels.values()),
        "scores": [rounded(logits(text).softmax(0).tolist()) for text in texts],
        "candidates": candidates,
        "zeroShot": zero_shot,
        "multiLabel": multi,
    }


def speech() -> dict:
    torch.manual_seed(9)
    letters = {token: at for at, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    marks = (
        "endoftext startoftranscript en fr translate transcribe startoflm startofprev nocaptions "
        "notimestamps"
    ).split()
    ids = {f"<|{mark}|>": len(letters) + at for at, mark in enumerate(marks)}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(ids))
    end = ids["<|endoftext|>"]
    config = WhisperConfig(
        vocab_size=len(letters) + len(ids), d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32,
        decoder_ffn_dim=32, max_target_positions=32, bos_token_id=end, eos_token_id=end,
        pad_token_id=end, decoder_start_token_id=ids["<|startoftranscript|>"],
        suppress_tokens=[], begin_suppress_tokens=[],
    )
    model = WhisperForConditionalGeneration(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "embed_positions" not in name:
                parameter.mul_(12)
    model.eval()
    said = {letters[letter] for letter in "abcdefghijklmnopqrstuvwxyz"} | {end}
    model.generation_config = GenerationConfig(
        decoder_start_token_id=ids["<|startoftranscript|>"], bos_token_id=end, eos_token_id=end,
        pad_token_id=end, max_length=24, is_multilingual=True, return_timestamps=False,
        lang_to_id={mark: ids[mark] for mark in ["<|en|>", "<|fr|>"]},
        task_to_id={task: ids[f"<|{task}|>"] for task in ["transcribe", "translate"]},
        no_timestamps_token_id=ids["<|notimestamps|>"],
        suppress_tokens=[at for at in range(config.vocab_size) if at not in said],
        begin_suppress_tokens=[end],
    )
    target, weights, exported = folder / "speech", folder / "weights", folder / "exported"
    shutil.rmtree(target, ignore_errors=True)
    model.save_pretrained(weights)
    extractor = WhisperFeatureExtractor()
    extractor.save_pretrained(weights)
    tokenizer.save(str(weights / "tokenizer.json"))
    main_export(
        str(weights), str(exported),
        task="automatic-speech-recognition-with-past", do_validation=False,
    )
    (target / "onnx").mkdir(parents=True)
    for file in ["encoder_model.onnx", "decoder_model_merged.onnx"]:
        shutil.copy(exported / file, target / "onnx" / file)
    for file in ["config.json", "generation_config.json", "preprocessor_config.json"]:
        read = json.loads((exported / file).read_text())
        read.pop("_name_or_path", None)
        (target / file).write_text(json.dumps(read) + "\n")
    tokenizer.save(str(target / "tokenizer.json"), pretty=False)
    names = {f"{name}_token": "<|endoftext|>" for name in ["bos", "eos", "pad", "unk"]}
    config_of = {"tokenizer_class": "WhisperTokenizer", **names, "model_max_length": 32}
    (target / "tokenizer_config.json").write_text(json.dumps(config_of, indent=2) + "\n")
    shutil.rmtree(weights)
    shutil.rmtree(exported)
    heard = {}
    for hertz in [440, 1000, 3000]:
        sound = 0.5 * numpy.sin(2 * math.pi * hertz * numpy.arange(16_000) / 16_000)
        features = extractor(sound, sampling_rate=16_000, return_tensors="pt").input_features
        with torch.no_grad():
            made = model.generate(features, language="fr", task="transcribe")[0].tolist()
        heard[hertz] = tokenizer.decode([token for token in made if token < len(letters)])
    return {"heard": heard}


torch.set_num_threads(1)
made = {"reference": f"transformers {transformers.__version__}", "causal": causal(), "classes": classes()}
made["speech"] = speech()
(folder / "golden.json").write_text(json.dumps(made, indent=1) + "\n")
