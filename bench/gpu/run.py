"""Builds the packed bundles, checks them and measures them; see run.sh."""
import csv
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import jobs

HERE = pathlib.Path(__file__).resolve().parent
# Seconds for everything: what is left out for want of time says so.
BUDGET = float(os.environ.get("CIUIC_BENCH_BUDGET", "460"))
START = time.monotonic()
RUNNER = "tiny-fp32-1"  # Its bin/train runs the other bundles too.


def left():
    return BUDGET - (time.monotonic() - START)


def note(text):
    print(f"[{time.monotonic() - START:5.0f} s] {text}", flush=True)


class Bench:
    def __init__(self, pack):
        self.pack = pathlib.Path(pack).resolve()
        if not (self.pack / "PACK").is_file():
            sys.exit(f"{self.pack} is no pack: make it with "
                     "bench/gpu/prepare.py")
        self.out = pathlib.Path(os.environ.get("OUT", ".")).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        # A folder of its own within the one that is given.
        self.work = pathlib.Path(os.environ.get(
            "CIUIC_BENCH_WORK", tempfile.gettempdir())) / "ciuic-gpu-bench"
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.pack / "bundles", self.work / "bundles")
        self.lines = []
        self.failed = 0

    def say(self, line=""):
        self.lines.append(line)

    def call(self, name, command, limit, **more):
        """Runs with a log; returns (code, text). Code None: no time left."""
        limit = min(limit, left() - 5)
        if limit < 5:
            note(f"{name}: no time left")
            return None, ""
        begin = time.monotonic()
        try:
            done = subprocess.run(
                [str(part) for part in command], text=True, timeout=limit,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                check=False, **more)
            code, text = done.returncode, done.stdout
        except subprocess.TimeoutExpired as error:
            code, text = 124, (error.stdout or b"").decode(errors="replace")
        except OSError as error:
            code, text = 127, str(error)
        with open(self.out / "log.txt", "a", encoding="utf-8") as log:
            log.write(f"== {name}: {' '.join(map(str, command))}\n{text}"
                      f"== code {code}\n")
        note(f"{name}: code {code} in {time.monotonic() - begin:.1f} s")
        if code != 0:
            print(text[-2000:], flush=True)
        return code, text

    # --- Building -----------------------------------------------------------

    def build(self):
        prefix = self.pack / "prefix/usr"
        libraries = prefix / "lib/x86_64-linux-gnu"
        os.environ["LD_LIBRARY_PATH"] = ":".join(
            [str(libraries), *self.python_libraries(),
             os.environ.get("LD_LIBRARY_PATH", "")])
        hints = [f"-DCMAKE_PREFIX_PATH={prefix}",
                 f"-DCMAKE_LIBRARY_PATH={libraries}",
                 f"-DCMAKE_CUDA_ARCHITECTURES={self.architecture()}",
                 *self.nccl_hints()]
        cores = os.cpu_count() or 2
        running = []
        for name in [*jobs.CORRECTNESS, *jobs.SPEED]:
            source = self.work / "bundles" / name / "src"
            build = self.work / "build" / name
            targets = ["job", "train"] if name == RUNNER else ["job"]
            script = self.work / f"build-{name}.log"
            command = ["sh", "-c",
                       'cmake -S "$1" -B "$2" -DCMAKE_BUILD_TYPE=Release '
                       '"$4" "$5" "$6" "$7" "$8" && '
                       'cmake --build "$2" -j"$3" --target '
                       + " ".join(targets),
                       "sh", source, build, cores, *hints]
            log = open(script, "w", encoding="utf-8")
            running.append((name, log, time.monotonic(), subprocess.Popen(
                [str(part) for part in command], stdout=log, stderr=log)))
        for name, log, begin, process in running:
            code = process.wait(timeout=max(5, left()))
            log.close()
            note(f"build {name}: code {code} after "
                 f"{time.monotonic() - begin:.1f} s")
            if code != 0:
                print((self.work / f"build-{name}.log").read_text()[-3000:])
                self.failed += 1
        self.train = self.work / "bundles" / RUNNER / "bin/train"
        if not self.train.is_file():
            sys.exit("no runner was built")

    def architecture(self):
        text = subprocess.run(
            ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"],
            text=True, capture_output=True, check=False).stdout
        digits = text.strip().splitlines()[0].replace(".", "") if text else "80"
        return digits + ("a" if digits == "90" else "")

    @staticmethod
    def python_libraries():
        """Where pip put NVIDIA's libraries, for machines that have NCCL and
        cuDNN from there alone."""
        found = []
        for path in sys.path:
            found += [str(p) for p in pathlib.Path(path).glob("nvidia/*/lib")]
        return found

    @staticmethod
    def nccl_hints():
        for path in sys.path:
            root = pathlib.Path(path) / "nvidia/nccl"
            if (root / "include/nccl.h").is_file():
                library = next((root / "lib").glob("libnccl.so*"), None)
                if library:
                    return [f"-DNCCL_INCLUDE_DIR={root / 'include'}",
                            f"-DNCCL_LIBRARY={library}"]
        return ["-DNCCL_HINT=system", "-DNCCL_HINT2=system"]

    # --- Correctness --------------------------------------------------------

    def losses(self, path):
        values = []
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if "loss" in record and "step" in record:
                values.append((record["loss"], bool(record.get("skipped"))))
        return values

    def run_job(self, name, job, *more, prefix=(), steps=None, limit=60,
                data="tiny.tok"):
        log = self.out / f"{name}.jsonl"
        log.unlink(missing_ok=True)
        command = [*prefix, self.train, self.work / "bundles" / name, "--data",
                   self.pack / data, "--steps", steps or job[4], "--seed", 1,
                   "--log", log, *more]
        code, text = self.call(name, command, limit)
        return code, text, log

    def correctness(self):
        self.say("## Correctness: losses against the CPU target's\n")
        self.say("| job | steps | largest relative difference | allowed | "
                 "verdict |")
        self.say("|---|---|---|---|---|")
        for name, job in jobs.CORRECTNESS.items():
            # One precision rounds like another, but a different GEMM order
            # moves 16-bit losses, and skipped steps must be the same ones.
            allowed = 1e-4 if "fp32" in name else 2e-2
            more = ["--share-device"] if job[2] > 1 else []
            code, _, log = self.run_job(name, job, *more)
            if code != 0:
                self.say(f"| {name} | | | | **failed with {code}** |")
                self.failed += 1
                continue
            ours = self.losses(log)
            theirs = self.losses(self.pack / "expected" / f"{name}.jsonl")
            worst = max((abs(a[0] - b[0]) / abs(b[0])
                         for a, b in zip(ours, theirs)), default=math.inf)
            skips = [a[1] for a in ours] == [b[1] for b in theirs]
            good = len(ours) == len(theirs) and worst <= allowed and skips
            self.failed += not good
            self.say(f"| {name} | {len(ours)} | {worst:.2e} | {allowed:.0e} | "
                     f"{'ok' if good else '**differs**'}"
                     f"{'' if skips else ', other steps skipped'} |")
        self.say()

    def sanitizer(self):
        tool = shutil.which("compute-sanitizer")
        if not tool:
            self.say("compute-sanitizer: not on this machine\n")
            return
        for check in ("memcheck", "racecheck"):
            for name in ("tiny-bf16-1", "tiny-fp16-8"):
                job = jobs.CORRECTNESS[name]
                more = ["--share-device"] if job[2] > 1 else []
                code, text, _ = self.run_job(
                    name, job, *more, steps=2, limit=45,
                    prefix=[tool, "--tool", check, "--error-exitcode", "86"])
                clean = code == 0
                summary = re.findall(r"ERROR SUMMARY.*|RACECHECK SUMMARY.*",
                                     text)
                self.say(f"compute-sanitizer {check}, {name}: "
                         f"{summary[-1] if summary else f'code {code}'}"
                         f"{'' if clean else ' **not clean**'}")
                self.failed += code == 86
        self.say()

    # --- Speed --------------------------------------------------------------

    def torch(self, name, job, compiled):
        model = self.pack / "jobs" / name / "config.json"
        best = None
        for master in ("autocast", "copies"):
            if compiled and master == "copies":
                continue
            micro = job[1]["train_micro_batch_size_per_gpu"]
            command = [sys.executable, HERE / "torch_step.py", model,
                       "--micro-batch", micro, "--sequence", job[3],
                       "--steps", 8, "--master", master]
            if compiled:
                command.append("--compile")
            code, text = self.call(
                f"torch {name} {master}{' compiled' if compiled else ''}",
                command, 110)
            if code == 0:
                record = json.loads(text.strip().splitlines()[-1])
                if not best or record["median"] < best["median"]:
                    best = record
        return best

    def speed(self):
        code, text = self.call("rates", [sys.executable, HERE / "rates.py"],
                               60)
        rates = json.loads(text.strip().splitlines()[-1]) if code == 0 else {}
        if rates:
            self.say(f"{rates['device']}: {rates['gemm_flops'] / 1e12:.0f} "
                     "TFLOP/s in a bf16 product of 8192, copies "
                     f"{rates['copy_bytes'] / 1e12:.2f} TB/s\n")
        self.say("## Speed: bf16, sequence 2048, one GPU\n")
        self.say("| job | tokens/s (spread) | model TFLOP/s | of the GEMM rate"
                 " | planned GB | used GB | PyTorch tokens/s | ratio |"
                 " torch.compile tokens/s | ratio |")
        self.say("|---|---|---|---|---|---|---|---|---|---|")
        medians = {}
        for name, job in jobs.SPEED.items():
            profile = self.out / f"{name}-profile.csv"
            code, text, log = self.run_job(name, job, data="large.tok",
                                           limit=80)
            if code != 0:
                self.say(f"| {name} | **failed with {code}** | | | | | | | | |")
                self.failed += 1
                continue
            records = [json.loads(line)
                       for line in log.read_text().splitlines()]
            times = [r["step_ms"] / 1e3 for r in records if "step_ms" in r][4:]
            memory = next((r for r in records if "device_planned" in r), {})
            median = statistics.median(times)
            medians[name] = median
            tokens = job[1]["train_micro_batch_size_per_gpu"] * job[3]
            flops = jobs.flops_per_token(job[0], job[3]) * tokens / median
            share = flops / rates["gemm_flops"] if rates else math.nan
            peers = {}
            if "offload" not in name:
                for compiled in (False, True):
                    peers[compiled] = self.torch(name, job, compiled)
            cells = []
            for compiled in (False, True):
                peer = peers.get(compiled)
                cells += [f"{peer['tokens_per_s']:.0f}",
                          f"{peer['median'] / median:.2f}"] if peer else \
                    ["", ""]
            used = [memory.get(key, math.nan) / 1e9
                    for key in ("device_planned", "device_used")]
            self.say(f"| {name} | {tokens / median:.0f} "
                     f"({tokens / max(times):.0f}-{tokens / min(times):.0f}) |"
                     f" {flops / 1e12:.1f} | {share:.0%} | {used[0]:.2f} | "
                     f"{used[1]:.2f} | {' | '.join(cells)} |")
            self.run_job(name, job, "--profile", profile, data="large.tok",
                         steps=4, limit=60)
        self.say()
        if "1.3b" in medians and "1.3b-offload" in medians:
            self.say("Optimizer offload at 1.3B takes "
                     f"{medians['1.3b-offload'] / medians['1.3b']:.2f} times "
                     "the step without.\n")
        return rates

    def profiles(self, rates):
        for name in jobs.SPEED:
            path = self.out / f"{name}-profile.csv"
            if not path.is_file():
                continue
            with open(path, newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            kinds, kernels = {}, {}
            for row in rows:
                micros = float(row["microseconds"])
                kinds[row["kind"]] = kinds.get(row["kind"], 0) + micros
                entry = kernels.setdefault(
                    (row["kind"], row["kernel"] or row["kind"]),
                    [0.0, 0.0, 0.0, 0])
                entry[0] += micros
                entry[1] += float(row["bytes"] or 0)
                entry[2] += float(row["flops"] or 0)
                entry[3] += 1
            total = sum(kinds.values()) or 1.0
            self.say(f"## {name}: time by kind of task, and the ten longest "
                     "kernels\n")
            self.say("| kind | ms a step | share |\n|---|---|---|")
            for kind, micros in sorted(kinds.items(), key=lambda kv: -kv[1]):
                self.say(f"| {kind} | {micros / 1e3:.2f} | "
                         f"{micros / total:.0%} |")
            self.say("\n| kernel | runs | ms | GB/s | of copy rate | TFLOP/s |"
                     "\n|---|---|---|---|---|---|")
            for (_, kernel), entry in sorted(
                    kernels.items(), key=lambda kv: -kv[1][0])[:10]:
                seconds = entry[0] / 1e6 or math.nan
                rate = entry[1] / seconds
                of_copy = rate / rates["copy_bytes"] if rates else math.nan
                self.say(f"| {kernel} | {entry[3]} | {entry[0] / 1e3:.2f} | "
                         f"{rate / 1e9:.0f} | {of_copy:.0%} | "
                         f"{entry[2] / seconds / 1e12:.0f} |")
            self.say()

    def run(self):
        self.say(f"# ciuicc on a GPU, {time.strftime('%Y-%m-%d')}\n")
        self.build()
        self.correctness()
        rates = self.speed()
        self.profiles(rates)
        self.sanitizer()
        self.say(f"{self.failed} checks failed; "
                 f"{time.monotonic() - START:.0f} s in all")
        text = "\n".join(self.lines) + "\n"
        (self.out / "results.md").write_text(text)
        print("\n" + text)
        return 1 if self.failed else 0


if __name__ == "__main__":
    sys.exit(Bench(sys.argv[1]).run())
