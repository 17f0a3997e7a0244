"""All that a bundle for CUDA holds compiles with nvcc, without a warning, for
sm_80, sm_90a and sm_100, and links; no kernel of sm_80 and sm_90a spills
registers or has a stack frame. No GPU is needed; without nvcc (CIUIC_NVCC, the
path, /usr/local/cuda) the test is skipped."""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import harness

ARCHITECTURES = ("80", "90a", "100")
WITHOUT_SPILLS = ("sm_80", "sm_90a")
SKIPPED = 77

LLAMA = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 384,
    "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "vocab_size": 1000,
    "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False,
}
QWEN2 = {**LLAMA, "model_type": "qwen2", "tie_word_embeddings": True}

# Name, model, precision, ZeRO stage, further keys of the file, devices. Wide
# heads on tensor cores, narrow and odd ones, sizes that no vector divides;
# biases, a tied embedding, both optimizers, on the device and on the host.
JOBS = (
    ("llama_bf16", LLAMA, "bf16", 3, {}, 2),
    ("llama_fp16", {**LLAMA, "num_attention_heads": 4}, "fp16", 2,
     {"offload_optimizer": {"device": "cpu"}}, 2),
    ("qwen2_fp32", {**QWEN2, "hidden_size": 64, "num_attention_heads": 4},
     "fp32", 0, {}, 1),
    ("qwen2_bf16", {**QWEN2, "hidden_size": 90, "intermediate_size": 101,
                    "num_attention_heads": 3, "vocab_size": 997},
     "bf16", 1, {}, 3),
)


def find_nvcc():
    named = os.environ.get("CIUIC_NVCC")
    return shutil.which(named or "nvcc") or shutil.which(
        "/usr/local/cuda/bin/nvcc")


def compile_job(folder, name, model, precision, stage, zero, devices):
    job = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 2,
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": stage, **zero},
        "optimizer": {"type": "SGD" if precision == "fp32" else "AdamW",
                      "params": {"lr": 1e-3}},
    }
    if precision != "fp32":
        job[precision] = {"enabled": True}
    settings = folder / f"{name}.in"
    settings.mkdir()
    harness.write_json(settings / "config.json", model)
    harness.write_json(settings / "ds.json", job)
    outcome = harness.ciuicc(
        "compile", "--model", settings, "--config", settings / "ds.json",
        "--devices", devices, "--seq-len", 48, "--target", "cuda", "--arch",
        ",".join("sm_" + a for a in ARCHITECTURES), "--no-build", "-o",
        folder / name)
    if outcome.code != 0:
        raise RuntimeError(str(outcome))
    return folder / name / "src"


def compile_ops(folder):
    """Every op that a kernel may hold."""
    text = (harness.HERE.parent / "passes/Codegen/print_ops.mlir").read_text()
    text = text.replace(
        "module @ops attributes {",
        'module @ops attributes {sched.target = "cuda", '
        'sched.architectures = "sm_80", ')
    (folder / "ops.mlir").write_text(text)
    outcome = harness.ciuicc(
        "compile", "--model", folder / "ops.mlir", "--start-from", "emit",
        "--micro-batch", 1, "--target", "cuda", "--no-build", "-o",
        folder / "ops")
    if outcome.code != 0:
        raise RuntimeError(str(outcome))
    return folder / "ops" / "src"


def union(sources, name):
    """One file of what several jobs instantiate, each launcher once."""
    includes, launchers = {}, {}
    for source in sources:
        path = source / name
        if not path.exists():
            continue
        head, *parts = path.read_text().split("\n/// ")
        for line in head.splitlines():
            if line.startswith("#include"):
                includes[line] = None
        for part in parts:
            launchers[part[part.index("extern"):]] = None
    return ("\n".join(includes) + "\n\nusing namespace ciuic::cuda;\n\n" +
            "\n".join(launchers))


class Compiler:
    def __init__(self, nvcc, folder):
        self.nvcc = nvcc
        self.folder = folder
        self.failures = []
        self.kernels = 0

    def run(self, source, arguments):
        """Runs nvcc in the folder of `source`, its name being all that nvcc
        sees; returns what it printed."""
        command = [self.nvcc, "-ccbin", os.environ.get("NVCC_CCBIN", "g++"),
                   *arguments]
        done = subprocess.run(command, cwd=source, capture_output=True,
                              text=True, errors="replace", check=False)
        text = done.stdout + done.stderr
        if done.returncode != 0:
            self.failures.append(
                f"{' '.join(command)} in {source} ended with "
                f"{done.returncode}:\n{text[:4000]}")
        return text

    def device(self, path, target, architectures=ARCHITECTURES):
        flags = [f"-gencode=arch=compute_{a},code=sm_{a}"
                 for a in architectures]
        text = self.run(path.parent, [
            "-std=c++20", "-O3", "-I" + str(self.root), *flags,
            "-Werror", "all-warnings", "-Xptxas", "-v",
            "-Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wextra,-Werror",
            "-c", path.name, "-o", str(target)])
        self.read_usage(path, text)

    def host(self, path, target):
        self.run(path.parent, [
            "-I.", "-Xcompiler=-std=c++17,-O1,-fPIC,-fvisibility=hidden,"
            "-ffp-contract=off,-Wall,-Wextra,-Werror",
            "-c", path.name, "-o", str(target)])

    def read_usage(self, path, text):
        """What ptxas says of each kernel: its frame and spills."""
        kernel = architecture = None
        for line in text.splitlines():
            if found := re.search(
                    r"Compiling entry function '(\w+)' for '(\w+)'", line):
                kernel, architecture = found.groups()
                self.kernels += 1
            elif found := re.search(r"Function properties for (\w+)", line):
                kernel = found.group(1)
            elif "bytes stack frame" in line:
                numbers = [int(n) for n in re.findall(r"(\d+) bytes", line)]
                if any(numbers) and architecture in WITHOUT_SPILLS:
                    self.failures.append(
                        f"{path.name} of {path.parent.parent.name}, "
                        f"{architecture}: {kernel}: {line.strip()}")


def check_bundle(nvcc, folder):
    """ciuicc builds the library by itself, whatever its folder is called; it
    exports one symbol, and a CPU run's checkpoint is exported by it as by the
    bundle that trained."""
    model = harness.MODELS / "tiny-llama"
    job = ("--model", model, "--micro-batch", 2, "--seq-len", 16)
    odd = folder / """it's a "job" & $HOME; more"""
    environment = {"CIUIC_NVCC": nvcc}
    data = harness.write_text(folder / "text.txt", lines=40)
    steps = [
        ("compile", *job, "--target", "cuda", "-o", odd),
        ("compile", *job, "-o", folder / "cpu"),
        ("train", folder / "cpu", "--data", data, "--steps", 1, "--save",
         folder / "saved"),
        ("export", folder / "saved", "--bundle", odd, "-o", folder / "one"),
        ("export", folder / "saved", "--bundle", folder / "cpu", "-o",
         folder / "other"),
    ]
    for step in steps:
        outcome = harness.ciuicc(*step, environment=environment)
        if outcome.code != 0:
            return [str(outcome)]
    failures = []
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", str(odd / "lib" / "libjob.so")],
        capture_output=True, text=True, check=True).stdout.split("\n")
    exported = [line.split()[-1] for line in symbols if " T " in line]
    if exported != ["ciuic_bundle"]:
        failures.append(f"libjob.so exports {exported}")
    if [p.name for p in (odd / "lib").iterdir()] != ["libjob.so"]:
        failures.append("lib/ holds more than libjob.so")
    if ((folder / "one" / "model.safetensors").read_bytes() !=
            (folder / "other" / "model.safetensors").read_bytes()):
        failures.append("the bundles export different weights")
    # It cannot run here; how to build what does is said.
    outcome = harness.ciuicc("train", odd, "--data", data, "--steps", 1)
    if outcome.code != 1 or "cmake -S" not in outcome.err:
        failures.append(str(outcome))
    return failures


def main():
    nvcc = find_nvcc()
    if not nvcc:
        print("skipped: no nvcc (CIUIC_NVCC, the path, /usr/local/cuda)")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="cuda compile ") as folder:
        # nvcc gives what it runs to a shell: it is shown plain names.
        folder = pathlib.Path(folder)
        sources = [compile_job(folder, *job) for job in JOBS]
        sources.append(compile_ops(folder))
        compiler = Compiler(nvcc, folder)
        compiler.failures += check_bundle(nvcc, folder)
        return check(compiler, sources, folder)


def check(compiler, sources, folder):
    merged = folder / "all"
    merged.mkdir()
    plain = pathlib.Path(tempfile.mkdtemp(prefix="ciuic-cuda-"))
    try:
        (plain / "src").symlink_to(sources[0])
        compiler.root = plain / "src"
        tasks, objects = [], {}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            # What takes longest first.
            for name in ("attention.cu", "library.cu"):
                (merged / name).write_text(union(sources, name))
                objects[name] = plain / f"{name}.o"
                tasks.append(pool.submit(compiler.device, merged / name,
                                         objects[name]))
            for source in sources:
                job = source.parent.name
                for path in sorted(source.glob("*.cu")):
                    if path.name in objects:
                        continue
                    target = plain / f"{job}.{path.name}.o"
                    tasks.append(pool.submit(compiler.device, path, target))
                for path in sorted(source.glob("*.cpp")):
                    target = plain / f"{job}.{path.name}.o"
                    tasks.append(pool.submit(compiler.host, path, target))
            for task in tasks:
                task.result()
        if not compiler.failures:
            for source in sources[:-1]:
                job = source.parent.name
                own = [str(p) for p in sorted(plain.glob(f"{job}.*.o"))]
                compiler.run(source, [
                    "-shared", "-cudart", "shared", "-Xlinker=-z,defs", "-o",
                    str(plain / f"{job}.so"), *own,
                    *map(str, objects.values())])
    finally:
        shutil.rmtree(plain, ignore_errors=True)
    for failure in compiler.failures:
        print(failure, file=sys.stderr)
    print(f"{compiler.kernels} kernels of {len(sources)} bundles compiled, "
          f"{len(compiler.failures)} failures")
    return 1 if compiler.failures or compiler.kernels == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
