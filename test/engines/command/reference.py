"""What a model of Hugging Face answers to each prompt alone, by its own `generate`, as JSON: a list
for each set of arguments. `python reference.py FOLDER LIST_OF_ARGUMENTS PROMPTS`, both as JSON.
"""

import json
import sys

import transformers
from transformers import AutoConfig, AutoTokenizer

folder, settings, prompts = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
is_seq2seq = AutoConfig.from_pretrained(folder).is_encoder_decoder
kind = "AutoModelForSeq2SeqLM" if is_seq2seq else "AutoModelForCausalLM"
model = getattr(transformers, kind).from_pretrained(folder).eval()
tokenizer = AutoTokenizer.from_pretrained(folder)


def answer(prompt, arguments):
    inputs = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
    output = model.generate(**inputs, do_sample=False, **arguments)[0].tolist()
    begin = 1 if is_seq2seq else inputs["input_ids"].shape[1]
    return tokenizer.decode(output[begin:], skip_special_tokens=True)


print(json.dumps([[answer(prompt, each) for prompt in prompts] for each in settings]))
