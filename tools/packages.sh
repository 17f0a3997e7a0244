# Sourced by quickstart.sh and test.sh: installs what the project builds with.
# Needs a Debian 12 with its ordinary package sources; asks for root only when
# something is missing.

CIUIC_PACKAGES="clang-22 lld-22 llvm-22-dev llvm-22-tools libmlir-22-dev
  mlir-22-tools clang-format-22 cmake ninja-build ccache g++ git python3
  libtbb-dev libdnnl-dev libhwloc-dev nlohmann-json3-dev libcli11-dev
  libfmt-dev liburing-dev libgtest-dev libbenchmark-dev libxxhash-dev
  libopenmpi-dev openmpi-bin"

ciuic_install_packages() {
  local missing="" package
  for package in $CIUIC_PACKAGES; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null |
      grep -q "ok installed" || missing="$missing $package"
  done
  [ -z "$missing" ] && return 0
  local root=""
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      { echo "needs root or sudo to install:$missing" >&2; return 3; }
    root="sudo"
  fi
  echo "installing:$missing"
  # shellcheck disable=SC2086 # the lists are split on purpose
  $root apt-get update -q >/dev/null &&
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
      --no-install-recommends $missing >/dev/null
}

# ciuic_configure SOURCE BUILD: the one way in which the project is configured.
ciuic_configure() {
  cmake -G Ninja -S "$1" -B "$2" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 \
    -DMLIR_DIR=/usr/lib/llvm-22/lib/cmake/mlir >/dev/null
}

# ciuic_check_format SOURCE: names the C++ files that clang-format would
# change, and says how to change them.
ciuic_check_format() {
  local unformatted
  unformatted=$(cd "$1" && find dialect frontend passes runtime tools test \
      bench cmake -type f \( -name '*.cpp' -o -name '*.h' -o -name '*.cu' \
      -o -name '*.cuh' \) -print0 |
    xargs -0 --no-run-if-empty clang-format-22 --dry-run 2>&1 |
    sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: warning: .*/\1/p' | sort -u)
  [ -z "$unformatted" ] && return 0
  echo "not formatted; clang-format-22 -i puts it right:" >&2
  echo "$unformatted" >&2
  return 1
}
