"""How lit finds and runs the .mlir and .test files of this folder.

A RUN line may use %corpus (real inputs; `REQUIRES: corpus`), %source (the
repository), %build (where it is built) and the tools of the build's bin folder,
FileCheck, not and split-file.
"""
import os
import shutil
import lit.formats

config.name = "ciuic"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "reference"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.ciuic_build, "test", "lit")
config.environment["PATH"] = os.pathsep.join([
    os.path.join(config.ciuic_build, "bin"),
    config.llvm_bin,
    os.environ["PATH"],
])
config.substitutions.append(("%corpus", config.ciuic_corpus))
config.substitutions.append(("%source", config.ciuic_source))
config.substitutions.append(("%build", config.ciuic_build))
if os.path.isdir(config.ciuic_corpus):
    config.available_features.add("corpus")


def cpu_flags():
    """The instruction sets of this machine, as Linux names them."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("flags"):
                    return set(line.split())
    except OSError:
        pass
    return set()


if {"avx2", "fma", "f16c", "bmi2"} <= cpu_flags():
    config.available_features.add("x86-64-v3")
if shutil.which("nvcc") and shutil.which("g++-12"):
    config.available_features.add("nvcc")
if any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
    config.available_features.add("chromium")
else:
    lit_config.note("no Chromium: the report is not checked in a browser")
