"""
Turns a GGUF file into a folder that vLLM loads, of bfloat16 weights and the tokenizer:
vllm-model.py FILE.gguf FOLDER
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

source, target = Path(sys.argv[1]), sys.argv[2]
model = AutoModelForCausalLM.from_pretrained(
    source.parent,
    gguf_file=source.name,
    quantization_config=GgufConfig(dequantize=True),
    dtype=torch.bfloat16,
)
model.save_pretrained(target)
AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(target)
