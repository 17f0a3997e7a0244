#!/usr/bin/env bash
# emit_kernels.sh SOURCE WORK DTYPE SHAPE...: emits the kernels of
# make_kernels.py as C++ (WORK/cpu/src) and as CUDA (WORK/cuda/src).
set -euo pipefail
source=$1 work=$2
shift 2
rm -rf "$work"
mkdir -p "$work"
python3 "$source/test/passes/Codegen/Inputs/make_kernels.py" "$@" \
  >"$work/train.mlir"
ciuic-opt "$work/train.mlir" --ciuic-lower-to-sched --ciuic-sched-order-tasks \
  --ciuic-sched-allocate-buffers -o "$work/cpu.mlir"
sed 's/sched.target = "cpu"/sched.target = "cuda", sched.architectures = "sm_80"/' \
  "$work/cpu.mlir" >"$work/cuda.mlir"
for target in cpu cuda; do
  ciuicc compile --start-from emit --micro-batch 1 --no-build --target $target \
    --model "$work/$target.mlir" -o "$work/$target" >/dev/null 2>"$work/log" ||
    { cat "$work/log"; exit 1; }
done
