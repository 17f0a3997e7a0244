#!/usr/bin/env bash
# phases.sh MODEL WORK: stops after and goes on from every phase of one job, and
# says which files there are and whether the bundles agree.
set -euo pipefail
model=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
cat >"$work/ds.json" <<'JSON'
{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
 "bf16": {"enabled": true},
 "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.1}},
 "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 1000,
                       "offload_optimizer": {"device": "cpu"}}}
JSON
job=(--config "$work/ds.json" --devices 2 --recompute block)
phases=(import differentiate precision shard place schedule allocate emit)
file() { printf '%s/%02d-%s.mlir' "$work/dump" "$1" "${phases[$1 - 1]}"; }
compile() { ciuicc compile "$@" >/dev/null 2>"$work/log" || { cat "$work/log"; exit 1; }; }

compile --model "$model" --seq-len 8 "${job[@]}" --dump "$work/dump" \
  -o "$work/bundle"
echo "dump:" "$(cd "$work/dump" && echo *)"
diff -r "$work/dump" "$work/bundle/ir" && echo "the bundle holds the same"

for i in 1 2 3 4 5 6 7; do
  rm -rf "$work/stopped"
  compile --model "$model" --seq-len 8 "${job[@]}" --dump "$work/stopped" \
    --stop-after "${phases[$i - 1]}"
  for name in $(cd "$work/stopped" && echo *); do
    cmp "$work/stopped/$name" "$work/dump/$name"
  done
  echo "stop after ${phases[$i - 1]}: $(ls "$work/stopped" | wc -l) files"
done

for i in 2 3 4 5 6 7 8; do
  rm -rf "$work/again"
  compile --model "$(file $((i - 1)))" --start-from "${phases[$i - 1]}" \
    "${job[@]}" -o "$work/again"
  for name in src/program.cpp src/kernels.cpp plan/memory.json \
    plan/schedule.json manifest.json; do
    cmp "$work/again/$name" "$work/bundle/$name"
  done
  echo "start from ${phases[$i - 1]}: same bundle"
done

# An edited file: another learning rate from the phase of optimizers on.
sed 's/base = 1.000000e-03/base = 2.500000e-01/' "$(file 5)" >"$work/edited.mlir"
compile --model "$work/edited.mlir" --start-from schedule "${job[@]}" \
  -o "$work/again"
echo "edited:"
diff "$work/bundle/src/program.cpp" "$work/again/src/program.cpp" |
  grep -o '[<>] .*apply_reals\|0\.25,' | sort -u || true

# Nothing of a compilation depends on where, when or in which order it runs.
compile --model "$model" --seq-len 8 "${job[@]}" -o "$work/again"
diff -r "$work/bundle" "$work/again" && echo "compiled twice: same files"
