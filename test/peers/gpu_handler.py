"""A handler of TorchServe for `gpu.test.ts`: products of matrices on the GPU that it is given."""

import os

import torch


class Handler:
    def initialize(self, context):
        self.gpu = context.system_properties["gpu_id"]
        isThere = torch.cuda.is_available() and self.gpu is not None
        self.device = torch.device(f"cuda:{self.gpu}" if isThere else "cpu")
        torch.manual_seed(1)
        self.weights = [torch.randn(1024, 1024, device=self.device) / 32 for _ in range(24)]

    def handle(self, data, context):
        numbers = [float(row["body"]["n"]) for row in data]
        with torch.inference_mode():
            values = torch.tensor(numbers, device=self.device).reshape(-1, 1).repeat(1, 1024)
            for weight in self.weights:
                values = torch.relu(values @ weight)
            sums = values.sum(dim=1).tolist()
        about = {"rows": len(data), "gpu": self.gpu, "device": str(self.device), "pid": os.getpid()}
        return [{"sum": each, **about} for each in sums]
