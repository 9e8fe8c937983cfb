#!/usr/bin/env bash
# Puts what `make build` built into a tree, or takes it out again: PREFIX=DIR [DESTDIR=DIR] scripts/install.sh [uninstall]
# Nothing in the tree says where it lies, so it may be moved. DESTDIR, for those who package, is set before PREFIX.
# LIBDIR is lib unless it is set to lib64. STRIP takes debugging information out of what is installed; STRIP=true leaves it in.
set -euo pipefail
prefix=$(realpath -ms -- "${PREFIX:-/usr/local}")
destination=$(realpath -ms -- "${DESTDIR:-}/$prefix")
cd "$(dirname "$0")/.."
built=${CARGO_TARGET_DIR:-target}/release
manifest=share/stillframe/manifest
lib=${LIBDIR:-lib}

say() { printf 'install: %s\n' "$*" >&2; }

# The first line of this form in the workspace's manifest is the version of everything.
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
IFS=. read -r version_major version_minor _ <<<"$version"
# What programs need that link the static library, beyond what their compiler adds: `rustc --print native-static-libs`.
# Of that list libgcc and libc are left out, which every compiler adds by itself, and in the right form for -static.
libraries_private=(util rt pthread m dl)

# What to install: mode, file, and its place in the tree.
put() {
    install -D -m "$1" -- "$2" "$destination/$3"
    printf '%s\n' "$3" >>"$destination/$manifest"
}

# The same of something built, which is two to four times as large with what only a debugger reads.
put_built() {
    put "$1" "$built/$2" "$3"
    "${STRIP:-strip}" --strip-debug "$destination/$3"
}

link() {
    ln -sfn -- "$1" "$destination/$2"
    printf '%s\n' "$2" >>"$destination/$manifest"
}

fill() {
    local text
    text=$(<"$1")
    text=${text//@lib@/$lib}
    text=${text//@version@/$version}
    text=${text//@version_major@/$version_major}
    text=${text//@version_minor@/$version_minor}
    text=${text//@libraries_private@/$(printf -- '-l%s ' "${libraries_private[@]}")}
    text=${text//@libraries_private_cmake@/$(IFS=';'; printf '%s' "${libraries_private[*]}")}
    install -D -m 644 /dev/stdin "$destination/$2" <<<"$text"
    printf '%s\n' "$2" >>"$destination/$manifest"
}

# Removes what a manifest lists, and the directories that are empty then.
uninstall() {
    local place
    while IFS= read -r place; do
        rm -f -- "$destination/$place"
        (cd "$destination" && rmdir -p --ignore-fail-on-non-empty -- "$(dirname "$place")" 2>/dev/null) || true
    done < <(cat -- "$destination/$manifest"; printf '%s\n' "$manifest")
}

if [ "${1:-}" = uninstall ]; then
    [ -e "$destination/$manifest" ] || { say "no Stillframe in $destination: $manifest is not there"; exit 1; }
    uninstall
    say "removed Stillframe from $destination"
    exit
fi

[[ $lib =~ ^lib(64)?$ ]] || { say "LIBDIR is $lib: it can be lib or lib64, where still finds the libraries"; exit 2; }
for file in "$built"/{still,still-node,libstillframe.so,libstillframe.a,libstillframe_tcasm.so,libstillframe_memory.so,libstillframe_xpmem.so,libstillframe_xpmem.a}; do
    [ -e "$file" ] || { say "$file is missing: run make build first"; exit 1; }
done
if ! { [ -d "$destination" ] || install -d -- "$destination" 2>/dev/null; } || [ ! -w "$destination" ]; then
    say "$destination is not yours to write: choose another, as in: make install PREFIX=\$HOME/.local"
    exit 1
fi
# What an older version installed and this one does not would stay.
[ ! -e "$destination/$manifest" ] || uninstall
install -D -m 644 /dev/null "$destination/$manifest"

put_built 755 still bin/still
put_built 755 still-node bin/still-node
# Built where the libraries of HDF5 and netCDF are.
if [ -e "$built/still-export" ]; then put_built 755 still-export bin/still-export; fi
put_built 755 libstillframe.so "$lib/libstillframe.so.$version"
link "libstillframe.so.$version" "$lib/libstillframe.so.0"
link libstillframe.so.0 "$lib/libstillframe.so"
put_built 644 libstillframe.a "$lib/libstillframe.a"
put_built 755 libstillframe_tcasm.so "$lib/libstillframe_tcasm.so"
put_built 755 libstillframe_memory.so "$lib/libstillframe_memory.so"
put_built 755 libstillframe_xpmem.so "$lib/libstillframe-xpmem.so.$version"
link "libstillframe-xpmem.so.$version" "$lib/libstillframe-xpmem.so.0"
link libstillframe-xpmem.so.0 "$lib/libstillframe-xpmem.so"
put_built 644 libstillframe_xpmem.a "$lib/libstillframe-xpmem.a"
# Where they hide no real XPMEM.
for file in xpmem.h xemem.h xasm.h; do
    put 644 "crates/xpmem/include/$file" "include/stillframe-xpmem/$file"
done
for headers in bindings/c/include bindings/cxx/include; do
    while IFS= read -r file; do
        put 644 "$headers/$file" "include/$file"
    done < <(find "$headers" -type f -printf '%P\n' | sort)
done
put 644 bindings/fortran/stillframe.f90 share/stillframe/fortran/stillframe.f90
fill packaging/cmake/stillframe-config.cmake.in "$lib/cmake/stillframe/stillframe-config.cmake"
fill packaging/cmake/stillframe-config-version.cmake.in "$lib/cmake/stillframe/stillframe-config-version.cmake"
fill packaging/pkgconfig/stillframe.pc.in "$lib/pkgconfig/stillframe.pc"
fill packaging/pkgconfig/stillframe-xpmem.pc.in "$lib/pkgconfig/stillframe-xpmem.pc"
fill packaging/modulefile.in "share/modulefiles/stillframe/$version"
for file in LICENSE-APACHE LICENSE-MIT README.md CHANGELOG.md docs/*.md; do
    put 644 "$file" "share/doc/stillframe/$file"
done

say "Stillframe $version is in $destination"
[ -z "${DESTDIR:-}" ] || exit 0
cat >&2 <<TEXT
What a shell needs to find it, unless $prefix is searched anyway:

    export PATH="$prefix/bin:\$PATH"
    export CMAKE_PREFIX_PATH="$prefix\${CMAKE_PREFIX_PATH:+:\$CMAKE_PREFIX_PATH}"
    export PKG_CONFIG_PATH="$prefix/$lib/pkgconfig\${PKG_CONFIG_PATH:+:\$PKG_CONFIG_PATH}"
    export LD_LIBRARY_PATH="$prefix/$lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"    # for programs linked without -rpath

docs/install.md has more. make uninstall with the same PREFIX takes it out.
TEXT
