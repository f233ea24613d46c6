#!/usr/bin/env bash
# Unpack Debian's HAProxy with its libraries below a folder, to check the routes written for it:
# no root, no service started, nothing changed on the machine.
#
# Usage: tools/install_haproxy.sh [FOLDER]        prints the path of a program
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:-.cache/haproxy}
program=$folder/haproxy

if ! "$program" -v >/dev/null 2>&1; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    packages() { # what is not on every Debian machine
        echo haproxy
        apt-cache depends --no-recommends --no-suggests haproxy |
            sed -n 's/^ *Depends: \(lib\(lua\|opentracing\)[^ ]*\)$/\1/p'
        apt-cache depends libopentracing-c-wrapper0 2>/dev/null |
            sed -n 's/^ *Depends: \(libopentracing[^ ]*\)$/\1/p'
    }
    fetch() {
        (cd "$work" && packages | sort -u | xargs apt-get -qq -o APT::Sandbox::User=root download)
    }
    fetch 2>/dev/null || { apt-get -qq update >&2 && fetch; }
    for package in "$work"/*.deb; do dpkg -x "$package" "$work/unpacked"; done
    cat >"$work/unpacked/haproxy" <<'WRAPPER'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
export LD_LIBRARY_PATH="$(echo "$here"/usr/lib/*-linux-gnu)"
exec "$here/usr/sbin/haproxy" "$@"
WRAPPER
    chmod +x "$work/unpacked/haproxy"
    mkdir -p "$(dirname "$folder")"
    mv -T "$work/unpacked" "$folder" 2>/dev/null || "$program" -v # another process was quicker
fi
echo "$program"
