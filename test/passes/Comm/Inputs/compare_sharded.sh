#!/usr/bin/env bash
# compare_sharded.sh MODEL TYPE STAGE [SHARD OPTION...]: trains two steps of
# two micro-steps on one device and on 1, 2 and 4 ranks, over the same four
# sequences a micro-step, in f64, where both must agree to rounding. Ranks run
# the plain sharded module and one with all of elision, offload, recompute,
# gathers that serve twice and clean-up. One line a configuration; a difference ends the script. OPTIMIZER
# adds options of the optimizer, FREEZE matches parameters not to train.
set -euo pipefail
model=$1 type=$2 stage=$3
shift 3
shard_options="$*"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Imports, differentiates and lowers a step over BATCH sequences.
step() {
  ciuic-import "$model" --micro-batch "$1" --seq-len 8 -o "$work/model.mlir"
  [ -z "${FREEZE:-}" ] ||
    sed -i "/parameter @$FREEZE/s/trainable//" "$work/model.mlir"
  ciuic-opt "$work/model.mlir" --ciuic-train-differentiate=accumulation=2 \
    --ciuic-train-append-optimizer="accumulation=2 decay=0.1 \
      no-decay=norm,bias base=1e-2 ${OPTIMIZER:-}" \
    --ciuic-train-lower-precision="compute-type=$type" -o "$work/step.$1.mlir"
}
everything="--ciuic-comm-elide-trivial-collectives
  --ciuic-comm-recompute-blocks=count=1 --ciuic-comm-recompute-ops
  --ciuic-comm-keep-gathered --ciuic-comm-offload-parameters
  --ciuic-comm-offload-optimizer --ciuic-comm-offload-activations
  --canonicalize --cse"

step 4
for ranks in 1 2 4; do
  step $((4 / ranks))
  for passes in "" "$everything"; do
    # shellcheck disable=SC2086 # the list is split on purpose
    ciuic-opt "$work/step.$((4 / ranks)).mlir" \
      --ciuic-comm-shard-states="ranks=$ranks stage=$stage $shard_options" \
      --ciuic-verify-sharded $passes --ciuic-verify-placed \
      -o "$work/sharded.mlir"
    ciuic-run --compare "$work/step.4.mlir" "$work/sharded.mlir" --f64 \
      --random-inputs --steps 2 --tolerance 1e-10 >"$work/log" ||
      { cat "$work/log"; exit 1; }
    echo "$ranks ranks${passes:+ with all passes}: same"
  done
done
