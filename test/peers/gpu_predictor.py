"""A predictor for `gpu.test.ts`: each row holds its share of the GPU's memory while its batch is
computed, and a row with `assert` stops the GPU for its process."""

import os

import sluice_predictor
import torch


def predict(items, device):
    total = torch.cuda.get_device_properties(device).total_memory
    held = []
    for item in items:
        if item.row.get("assert"):
            table = torch.zeros(4, device=device)
            table[torch.tensor([9], device=device)].tolist()
        size = int(total * item.row.get("share", 0))
        held.append(torch.zeros(size, dtype=torch.uint8, device=device))
    heard = [float(each[:1].sum().item()) if each.numel() else 0.0 for each in held]
    about = {"device": str(device), "rows": len(items), "pid": os.getpid()}
    return [{"heard": one, **about} for one in heard]


sluice_predictor.serve(predict, lambda context: torch.device(context.device))
