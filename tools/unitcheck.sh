#!/bin/sh
# What systemd itself says of the units: that they are well formed, and how exposed the service is. Called by
# `make unitcheck` with BUILD in the environment.
#
# The threshold is in tenths: 5 is an exposure of 0.5.
set -eu
cd "$(dirname "$0")/.."
: "${BUILD:?}"
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
trap 'exit 130' INT TERM HUP

# The program need not be installed for this: any that is there will do in its place.
mkdir "$room/user"
for unit in worsegpud.service user/worsegpud.service; do
    sed 's|^ExecStart=[^ ]*|ExecStart=/bin/true|' "$BUILD/systemd/$unit" >"$room/$unit"
done
cp systemd/worsegpud.socket "$room/"
cp systemd/user/worsegpud.socket "$room/user/"

systemd-analyze verify --man=no "$room/worsegpud.service" "$room/worsegpud.socket" 2>"$room/said"
XDG_RUNTIME_DIR="$room" systemd-analyze verify --man=no --user "$room/user/worsegpud.service" "$room/user/worsegpud.socket" 2>>"$room/said"
if [ -s "$room/said" ]; then
    cat "$room/said"
    echo "unitcheck: FAILED: systemd-analyze verify has something to say"
    exit 1
fi
systemd-analyze security --offline=yes --threshold=5 "$room/worsegpud.service" >"$room/said" || {
    cat "$room/said"
    echo "unitcheck: FAILED: the exposure of worsegpud.service is above 0.5"
    exit 1
}
grep -o 'Overall exposure level.*' "$room/said"
systemd-sysusers --dry-run "$PWD"/systemd/worsegpu.sysusers >"$room/said" 2>&1 || {
    cat "$room/said"
    echo "unitcheck: FAILED: systemd-sysusers does not take systemd/worsegpu.sysusers"
    exit 1
}
echo "unitcheck: all fine"
