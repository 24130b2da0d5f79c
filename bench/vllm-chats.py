"""
Answers batch files of chats with vLLM, offline: vllm-chats.py OPTIONS MODEL OUTPUT FILE …

OPTIONS are arguments of `LLM` as JSON. Writes one JSON object a line to stdout, first
`{"event": "ready"}`, then for each file its path, the seconds from reading it until its answers
are in OUTPUT, and the tokens of prompts and answers.
"""

import json
import sys
import time

from vllm import LLM, SamplingParams


def parameters(body):
    return SamplingParams(
        temperature=body["temperature"],
        max_tokens=body["max_tokens"],
        ignore_eos=body["ignore_eos"],
    )


def answer(llm, path, output):
    started = time.perf_counter()
    with open(path, encoding="utf-8") as file:
        bodies = [json.loads(line)["body"] for line in file]
    messages = [body["messages"] for body in bodies]
    answers = llm.chat(messages, [parameters(body) for body in bodies], use_tqdm=False)
    with open(output, "w", encoding="utf-8") as file:
        for answer in answers:
            file.write(json.dumps({"content": answer.outputs[0].text}) + "\n")
    return {
        "event": "answered",
        "path": path,
        "seconds": time.perf_counter() - started,
        "promptTokens": sum(len(answer.prompt_token_ids) for answer in answers),
        "generatedTokens": sum(len(answer.outputs[0].token_ids) for answer in answers),
    }


def main():
    options, model, output, *paths = sys.argv[1:]
    # All chats at once, and no longer than they are: more would only cost memory.
    fixed = {"dtype": "bfloat16", "max_model_len": 2048, "max_num_seqs": 64}
    llm = LLM(model=model, **fixed, **json.loads(options))
    print(json.dumps({"event": "ready"}), flush=True)
    for path in paths:
        print(json.dumps(answer(llm, path, output)), flush=True)


# vLLM starts processes that import this file.
if __name__ == "__main__":
    main()
