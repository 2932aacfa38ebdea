#!/usr/bin/env bash
# What scripts/test.sh installs is all that it needs. On Debian 12, after a full build:
#   1. every program the build called, every library that a built program is linked with and every
#      header that was read belongs to a package in those sections of scripts/packages.txt, or to what
#      these depend on;
#   2. a header that our own files name belongs to a package that is listed itself (the compiler's own
#      packages count as listed with g++).
# Section development is for those who change Lockstep: it may be missing, and it excuses nothing.
set -euo pipefail
cd "$LOCKSTEP_SOURCE_DIR"
build=$LOCKSTEP_BINARY_DIR

if ! grep -qsx 'VERSION_ID="12"' /etc/os-release || ! command -v dpkg >/dev/null; then
  echo "SKIPPED: this is not Debian 12, so its packages prove nothing"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

closure() {
  apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks \
    --no-replaces --no-enhances "$@" | sed -n 's/^\([a-z0-9][a-z0-9.+-]*\).*/\1/p' | sort -u
}
# Reads paths, prints "package path" for each; "-" for a file of no package. dpkg knows files by
# their real place only: not behind the merged /usr, not behind alternatives.
owners() {
  xargs -r -d '\n' realpath -- | sort -u >"$work/real"
  # The merged /usr moved /lib to /usr/lib; packages may still name the old place.
  sed -nE 's#^/usr(/s?bin/|/lib)#\1#p' "$work/real" | cat "$work/real" - |
    xargs -r -d '\n' dpkg -S 2>/dev/null | grep -v '^diversion by' |
    sed -E 's/^([a-z0-9.+-]*)[^ ]* (.*)/\2 \1/; s#^/(s?bin/|lib)#/usr/\1#' | sort -u -k1,1 >"$work/known" || true
  join -a 1 -e - -o 2.2,0 "$work/real" "$work/known"
}

sections=$(sed -n 's#^scripts/setup.sh release ##p' scripts/test.sh)
awk -v wanted=" $sections " '
  { sub(/#.*/, "") }
  /^\[/ { gsub(/[][ \t]/, ""); on = index(wanted, " " $0 " ") > 0; next }
  on && NF { print $1 }' scripts/packages.txt | sort -u >"$work/listed"
mapfile -t listed <"$work/listed"
if ! dpkg-query --show "${listed[@]}" >/dev/null; then
  echo "these are what scripts/test.sh installs; install them first: scripts/setup.sh release $sections"
  exit 1
fi
closure "${listed[@]}" >"$work/closure"
{ cat "$work/listed"; closure g++; } | sort -u >"$work/direct"

# What the build read, ran and linked.
ninja -C "$build" -t deps | sed -n 's/^    //p' | grep '^/' | grep -v -e "^$PWD/" -e "^$build/" | sort -u >"$work/headers"
sed -nE 's/^(CMAKE_COMMAND|CMAKE_MAKE_PROGRAM|CMAKE_C_COMPILER|CMAKE_CXX_COMPILER|MPIEXEC_EXECUTABLE):[A-Z]*=//p' \
  "$build/CMakeCache.txt" >"$work/files"
sed -n 's#^LOCKSTEP_DYGRAPHS:PATH=\(/.*\)#\1/dygraph.min.js#p' "$build/CMakeCache.txt" >>"$work/files" # compiled in
# Most tests name the same libraries and folders: ldd, which takes a twentieth of a second, sees one of them.
find "$build" -type f -perm -u+x -not -path '*/CMakeFiles/*' -print0 |
  { xargs -0 readelf --dynamic 2>/dev/null || true; } |  # fails for scripts
  awk '
    /^File: / { file = substr($0, 7); wants[file] = "" }
    /\((NEEDED|RPATH|RUNPATH)\)/ { wants[file] = wants[file] $0 }
    END {
      for (file in wants) {
        if (wants[file] == "") continue
        ++programs
        one_of[wants[file]] = file
      }
      print programs + 0
      for (kind in one_of) print one_of[kind]
    }' >"$work/programs"
read -r programs <"$work/programs"
tail -n +2 "$work/programs" | xargs -r -d '\n' ldd | sed -nE 's/.*(=> |^\t)(\/[^ ]+) \(0x.*/\2/p' | sort -u >>"$work/files"
grep -v "^$build/" "$work/files" >"$work/outside" || true
cat "$work/headers" "$work/outside" | owners >"$work/owned"

failures=0
while read -r package file; do
  if ! grep -qxF "$package" "$work/closure"; then
    echo "$file belongs to package $package, which is neither in scripts/packages.txt nor needed by what is"
    failures=$((failures + 1))
  fi
done <"$work/owned"

declare -A place package_of
while read -r path real; do place[$path]=$real; done < <(paste -d ' ' "$work/headers" <(xargs -r -d '\n' realpath -- <"$work/headers"))
while read -r package file; do package_of[$file]=$package; done <"$work/owned"

# Headers that our files name with a folder or a suffix: the others are the standard library's.
named=0
while IFS= read -r include; do
  case $include in lockstep/* | lockstep_* | tests/* | support/*) continue ;; esac
  path=$(grep -m 1 -F "/$include" "$work/headers" | grep "/$include\$" || true)
  [ -n "$path" ] || continue  # for another system or an option that is off
  named=$((named + 1))
  file=${place[$path]} package=${package_of[${place[$path]}]}
  if ! grep -qxF "$package" "$work/direct"; then
    echo "<$include> ($file) is named by our sources; list its package in scripts/packages.txt: $package"
    failures=$((failures + 1))
  fi
done < <(git ls-files -z -- '*.cpp' '*.hpp' '*.c' '*.cu' |
  xargs -0 sed -nE 's/^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]*[./][^>"]*)[>"].*/\1/p' | sort -u)

echo "$programs programs, $(wc -l <"$work/owned") files from $(cut -d' ' -f1 "$work/owned" | sort -u | wc -l) packages," \
  "$named headers named by our sources, $failures failures"
[ "$programs" -gt 0 ] && [ "$named" -gt 0 ] && [ "$failures" -eq 0 ]
