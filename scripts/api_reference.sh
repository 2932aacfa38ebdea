#!/usr/bin/env bash
# scripts/api_reference.sh [BUILD]
#
# Generates the API reference BUILD/api/html/index.html (BUILD defaults to build/release) from the public headers listed
# when BUILD was configured. A Doxygen warning or a class without a description is an error. Functions and members
# without one are counted. Needs doxygen; uses the theme doxygen-awesome-css if it is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build/release}
theme=/usr/share/doxygen-awesome-css

if ! command -v doxygen >/dev/null; then
  echo "api_reference: doxygen was not found; install it: scripts/setup.sh release development" >&2
  exit 1
fi
if [ ! -s "$build/public_headers.txt" ]; then
  echo "api_reference: $build is not configured; configure it: scripts/setup.sh release build" >&2
  exit 1
fi
mkdir -p "$build/api"
{
  cat docs/api/Doxyfile
  echo "PROJECT_NUMBER = $(sed -nE 's/^project\(Lockstep VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)"
  echo "OUTPUT_DIRECTORY = \"$build/api\""
  echo "INPUT_FILTER = docs/api/in_layer.sh"
  echo "INPUT = docs/api"
  sed 's/.*/INPUT += "&"/' "$build/public_headers.txt"
  if [ -e "$theme/doxygen-awesome.css" ]; then
    echo "HTML_EXTRA_STYLESHEET = $theme/doxygen-awesome.css"
  fi
} >"$build/api/Doxyfile"
rm -rf "$build/api/html"
doxygen "$build/api/Doxyfile" 2>"$build/api/warnings.txt"

undescribed='warning: Member .* is not documented'
if grep . "$build/api/warnings.txt" | grep -v "$undescribed" >&2; then
  echo "api_reference: Doxygen failed with the warnings above" >&2
  exit 1
fi
pages=$(find "$build/api/html" -name '*.html' | wc -l)
echo "$pages pages, $(grep -c "$undescribed" "$build/api/warnings.txt") functions and members without a description:" \
  "$build/api/html/index.html"
((pages > 500))
