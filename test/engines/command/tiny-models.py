"""Makes a folder of tiny models with weights drawn from a seed: `python tiny-models.py FOLDER`.

`causal` is a GPT-2, `seq2seq` an M2M100; both have a tokenizer of letters and 64 positions. What
they say is nonsense, and always the same nonsense.
"""

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, processors
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    M2M100Config,
    M2M100ForConditionalGeneration,
    PreTrainedTokenizerFast,
)

SPECIAL = ["<pad>", "</s>", "<unk>", "xx_AA", "yy_BB"]
LETTERS = " abcdefghijklmnopqrstuvwxyz.:\n"


def letter_tokenizer(ends: bool) -> PreTrainedTokenizerFast:
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *LETTERS])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    tokenizer.decoder = decoders.Fuse()
    if ends:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="$A </s>", special_tokens=[("</s>", 1)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        additional_special_tokens=["xx_AA", "yy_BB"],
    )


def main(folder: Path) -> None:
    size = len(SPECIAL) + len(LETTERS)
    torch.manual_seed(7)
    causal = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=size,
            n_positions=64,
            n_embd=32,
            n_layer=2,
            n_head=2,
            initializer_range=0.5,
            bos_token_id=1,
            eos_token_id=1,
            pad_token_id=0,
        )
    )
    causal.save_pretrained(folder / "causal")
    tokenizer = letter_tokenizer(ends=False)
    tokenizer.chat_template = (
        "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    tokenizer.save_pretrained(folder / "causal")
    torch.manual_seed(7)
    seq2seq = M2M100ForConditionalGeneration(
        M2M100Config(
            vocab_size=size,
            max_position_embeddings=64,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            init_std=0.5,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=1,
            decoder_start_token_id=1,
        )
    )
    seq2seq.save_pretrained(folder / "seq2seq")
    letter_tokenizer(ends=True).save_pretrained(folder / "seq2seq")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
