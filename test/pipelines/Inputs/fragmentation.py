"""Plans jobs of full size and says how much of each arena is lost.

fragmentation.py FOLDER DIMENSIONS...: plans each model with jobs that between
them use every stage, precision, sequence length and way to make room; no
weights are needed. An arena may have at most 3 % more bytes than may be live
at once.
"""
import itertools
import json
import pathlib
import re
import shutil
import subprocess
import sys

MOST = 0.03
REMARK = re.compile(r"(device|host) arena: (\d+) bytes, (\d+) live at once")


def jobs():
    """(stage, precision, offload, sequence, recompute): any two values but
    those of precision occur together, not all combinations."""
    precisions = itertools.cycle(("fp32", "fp16", "bf16"))
    for stage, offload in itertools.product(range(4), (False, True)):
        long = (stage // 2 + offload) % 2 == 1
        recompute = "block" if stage % 2 != long else "none"
        yield (stage, next(precisions), offload, 4096 if long else 512,
               recompute)


def settings(stage, precision, offload):
    zero = {"stage": stage}
    if offload:
        zero["offload_optimizer"] = {"device": "cpu"}
    job = {"train_micro_batch_size_per_gpu": 1,
           "gradient_accumulation_steps": 2, "zero_optimization": zero}
    if precision != "fp32":
        job[precision] = {"enabled": True}
    return job


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    planned, lost = 0, 0
    for model in map(pathlib.Path, sys.argv[2:]):
        shutil.copy(model, folder / "config.json")
        for stage, precision, offload, sequence, recompute in jobs():
            (folder / "job.json").write_text(
                json.dumps(settings(stage, precision, offload)))
            result = subprocess.run(
                ["ciuicc", "compile", "--model", folder,
                 "--config", folder / "job.json", "--devices", "8",
                 "--seq-len", str(sequence), "--recompute", recompute,
                 "--stop-after", "allocate", "--remarks", "memory"],
                capture_output=True, text=True, check=False)
            name = (f"{model.stem} stage {stage} {precision} "
                    f"{'offload ' if offload else ''}{sequence} {recompute}")
            arenas = REMARK.findall(result.stderr)
            if result.returncode != 0 or not arenas:
                sys.exit(f"{name}: {result.stderr}")
            for arena, size, live in arenas:
                share = int(size) / int(live) - 1
                if not 0 <= share <= MOST:
                    print(f"{name}: the {arena} arena has {size} bytes, "
                          f"{live} live at once: {100 * share:.2f} % more")
                    lost += 1
            planned += 1
    print(f"{planned} jobs planned, {lost} arenas above {100 * MOST:g} %")


if __name__ == "__main__":
    main()
