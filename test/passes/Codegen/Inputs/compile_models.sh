#!/usr/bin/env bash
# compile_models.sh SOURCE WORK COMPILER...: compiles the sources of a bundle of
# each precision with each compiler, warnings being errors. One line a bundle.
set -euo pipefail
source=$1 work=$2
shift 2
rm -rf "$work"
mkdir -p "$work"
echo '{"train_micro_batch_size_per_gpu": 2,
       "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}' \
  >"$work/ds.json"
for precision in fp32 bf16 fp16; do
  bundle=$work/$precision
  # The bundle's own build is not what is looked at here.
  CIUIC_CXX=true ciuicc compile --model "$source/test/reference/models/tiny-llama" \
    --config "$work/ds.json" --precision "$precision" --devices 2 --seq-len 8 \
    --recompute block -o "$bundle" >/dev/null 2>"$work/log" ||
    { cat "$work/log"; exit 1; }
  done=""
  for compiler in "$@"; do
    for file in kernels program; do
      "$compiler" -std=c++17 -O1 -ffp-contract=off -Wall -Wextra -Werror \
        -I"$bundle/src" -c "$bundle/src/$file.cpp" -o "$work/$file.o"
    done
    done+=" $compiler"
  done
  echo "$precision:$done"
done
