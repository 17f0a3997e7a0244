#!/usr/bin/env bash
# emulate.sh SOURCE BUILD WORK DTYPE SHAPE...: emits the kernels of
# make_kernels.py as C++ and as CUDA, builds both, the latter for the emulated
# device, and runs emulated_kernels.cpp on them.
set -euo pipefail
source=$1 build=$2 work=$3 inputs=$1/test/passes/Codegen/Inputs
shift 3
bash "$inputs/emit_kernels.sh" "$source" "$work" "$@"
flags="-std=c++20 -O1 -Wall -Wextra -Werror -Wno-unknown-warning-option"
emulated=(-I "$source/test/cuda_on_host/include" -DCIUIC_CUDA_ON_HOST)
# Every load and store of a kernel is told to the emulator.
observed=(-O2 -fsanitize=thread -mllvm -tsan-instrument-func-entry-exit=0
  -mllvm -tsan-instrument-atomics=0 -mllvm -tsan-compound-read-before-write=1
  -fno-vectorize -fno-slp-vectorize)
# shellcheck disable=SC2086 # the flags are split on purpose
{
  clang++-22 $flags "${observed[@]}" "${emulated[@]}" -I"$source" -x c++ \
    -c "$work/cuda/src/kernels.cu" -o "$work/cuda.o"
  clang++-22 $flags -ffp-contract=off -Wno-pass-failed -I"$work/cpu/src" \
    -c "$work/cpu/src/kernels.cpp" -o "$work/kernels.o"
  clang++-22 $flags -I"$work/cpu/src" -c "$work/cpu/src/program.cpp" \
    -o "$work/program.o"
  clang++-22 $flags "${emulated[@]}" -I"$source" \
    -c "$inputs/emulated_kernels.cpp" -o "$work/main.o"
}
clang++-22 -rdynamic -o "$work/run" "$work"/{cuda,kernels,program,main}.o \
  -L"$build/lib" -lCiuicCudaOnHost -ldl -Wl,-rpath,"$build/lib"
"$work/run"
