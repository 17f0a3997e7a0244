#!/usr/bin/env bash
# From a fresh Debian 12 to a trained model: installs packages, builds ciuicc,
# compiles a small model for 8 virtual devices, trains it on the C++ headers
# that LLVM's package has installed, and exports it.
#   bash tools/quickstart.sh [BUILD_FOLDER]
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/.." && pwd)
build_dir=${1:-$source_dir/build}
example=$source_dir/tools/quickstart
work=$build_dir/quickstart
ciuicc=$build_dir/bin/ciuicc

# The headers themselves: links inside folders of data are not followed.
headers=/usr/include/llvm-22/llvm

say() { printf '\n== %s (after %d s)\n' "$1" "$SECONDS"; }

# show COMMAND...: prints a command as it could be typed, and runs it.
show() {
  printf '$ %s\n' "$*"
  "$@"
}

say "1/5 packages"
. "$source_dir/tools/packages.sh"
ciuic_install_packages

say "2/5 build"
ciuic_configure "$source_dir" "$build_dir"
cmake --build "$build_dir" --target ciuicc -j"$(nproc)"

say "3/5 compile: 8 virtual devices, ZeRO-3, fp16, optimizer offload"
mkdir -p "$work"
show "$ciuicc" compile --model "$example/config.json" \
  --config "$example/ds_config.json" --devices 8 -o "$work/job"

say "4/5 train and export"
show "$ciuicc" train "$work/job" --data "$headers" --steps 150 \
  --log "$work/log.jsonl" --export "$work/trained"

say "5/5 done"
# The loss of the first and of the last step, from the log.
losses=$(sed -n 's/.*"loss":\([^,]*\),.*/\1/p' "$work/log.jsonl")
printf 'the loss fell from %.2f to %.2f\n' \
  "$(head -n1 <<<"$losses")" "$(tail -n1 <<<"$losses")"
cat <<END

The trained model, as transformers opens it:
  $work/trained
Who holds the memory of a device at its peak:
  $ciuicc inspect $work/job memory
The tasks of a step, and what crosses devices:
  $ciuicc inspect $work/job schedule
  $ciuicc inspect $work/job comm
The job as mathematics, with ZeRO-3's gathers, and as tasks:
  $ciuicc inspect $work/job phase import
  $ciuicc inspect $work/job phase shard
  $ciuicc inspect $work/job phase allocate
The generated kernels:
  $ciuicc inspect $work/job kernels
One parameter's way through the job:
  $ciuicc inspect $work/job param model.layers.3.mlp.up_proj.weight
What the DeepSpeed file means, key by key:
  $ciuicc config $example/ds_config.json --devices 8
END
