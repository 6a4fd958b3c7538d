#!/bin/sh
# The page of `worsegpu-lab replay --html`: made from its sources, and tried in a browser.
#
#   tools/pagecheck.sh build      makes lab/page/page.html from its sources
#   tools/pagecheck.sh check      is the one in the tree what the sources give? then the tests in headless Chromium
#   tools/pagecheck.sh pictures   makes docs/replay-*.png anew
#
# BUILD (default build) gets the modules from npm, as lab/page/package-lock.json names them.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
modules=$BUILD/page

# What lies there from an earlier time is good as long as the list is the same.
install_modules() {
    mkdir -p "$modules"
    if ! cmp -s lab/page/package-lock.json "$modules/package-lock.json" || [ ! -d "$modules/node_modules/uplot" ]; then
        cp lab/page/package.json lab/page/package-lock.json "$modules"
        (cd "$modules" && npm ci --ignore-scripts --no-audit --no-fund --omit-lockfile-registry-resolved) || {
            rm -f "$modules/package-lock.json"
            exit 1
        }
    fi
}

build_page() { # FILE
    node lab/page/build.mjs "$modules/node_modules" >"$modules/page.html.new"
    mv "$modules/page.html.new" "$1"
}

case ${1:-} in
build)
    install_modules
    build_page lab/page/page.html
    ;;
check)
    install_modules
    build_page "$modules/page.html"
    cmp "$modules/page.html" lab/page/page.html || {
        echo "lab/page/page.html is not what its sources give: make page" >&2
        exit 1
    }
    PAGE_MODULES=$modules WORSEGPU_BUILD=$BUILD node --test tests/page/test_page.mjs
    ;;
pictures)
    install_modules
    PAGE_MODULES=$modules WORSEGPU_BUILD=$BUILD node tools/page_pictures.mjs docs
    ;;
*)
    echo "usage: tools/pagecheck.sh build|check|pictures" >&2
    exit 2
    ;;
esac
