#!/usr/bin/env python3
"""What this GPU can do: a large bf16 product and a copy. One JSON line."""
import json
import statistics


def main():
    import torch

    def timed(function, count=10):
        times = []
        for i in range(count + 3):
            start = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            start.record()
            function()
            end.record()
            end.synchronize()
            if i >= 3:
                times.append(start.elapsed_time(end) / 1e3)
        return statistics.median(times)

    size = 8192
    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    product = timed(lambda: torch.matmul(a, b))
    source = torch.empty(1 << 31, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    copy = timed(lambda: target.copy_(source))
    properties = torch.cuda.get_device_properties(0)
    print(json.dumps({
        "device": properties.name, "memory": properties.total_memory,
        "processors": properties.multi_processor_count,
        "gemm_flops": 2 * size**3 / product,
        "copy_bytes": 2 * source.numel() / copy}))


if __name__ == "__main__":
    main()
