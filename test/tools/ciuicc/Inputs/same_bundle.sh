#!/usr/bin/env bash
# same_bundle.sh MODEL CONFIG DEVICES MEMORY FOLDER: compares what --fit makes
# with what the flags make that it says it chose.
common=(compile --model "$1" --config "$2" --devices "$3" --seq-len 64
  --device-memory "$4" --no-build)
rm -rf "$5" && mkdir -p "$5"
flags=$(ciuicc "${common[@]}" --fit -o "$5/chosen" 2>&1 |
  sed -n 's/.*the same as without it with \(--.*\) (.*/\1/p')
# shellcheck disable=SC2086 # flags are words
ciuicc "${common[@]}" $flags -o "$5/given" 2>/dev/null &&
  diff -r "$5/chosen" "$5/given" && echo "the bundles are one"
