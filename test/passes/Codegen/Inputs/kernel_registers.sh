#!/usr/bin/env bash
# kernel_registers.sh SOURCE WORK: compiles the kernels of make_kernels.py with
# nvcc; prints those that spill or have a stack frame, then a line a dtype.
set -euo pipefail
source=$1 work=$2 inputs=$1/test/passes/Codegen/Inputs
for dtype in bf16 f16 f32; do
  bash "$inputs/emit_kernels.sh" "$source" "$work" $dtype 6x1 4x33 2x768 2x1023 \
    2x1024 2x2048 4x4096 2x5120 2x8192 2x11008 2x20000 2x50257
  log=$work/nvcc.log
  nvcc -ccbin g++-12 -std=c++20 \
    -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a \
    -gencode arch=compute_100,code=sm_100 -Werror all-warnings \
    -Xcompiler -Wall,-Wextra,-Werror -Xptxas -v -I"$work/cuda/src" \
    -fatbin -o "$work/kernels.fatbin" "$work/cuda/src/kernels.cu" 2>"$log" ||
    { cat "$log"; exit 1; }
  if grep -E "[1-9][0-9]* bytes (stack frame|spill)" -B2 "$log"; then
    exit 1
  fi
  echo "$dtype: $(grep -c "Compiling entry" "$log") kernels"
done
