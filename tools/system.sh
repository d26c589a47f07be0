#!/bin/sh
# system.sh demo|test|check|arm|browser PYTHON: install missing system packages through apt-get.
# It looks for the programs, not for the packages, so that it leaves a machine alone that has
# them from elsewhere.
set -eu
purpose=$1
python=$2
packages=

command -v "$python" > /dev/null || packages="$packages python3"
command -v cc > /dev/null || packages="$packages gcc libc6-dev"
"$python" -c 'import ensurepip' 2> /dev/null || packages="$packages python3-venv"
"$python" -c 'import os, sysconfig
os.stat(os.path.join(sysconfig.get_path("include"), "Python.h"))' 2> /dev/null ||
    packages="$packages python3-dev"
if [ "$purpose" = check ]; then
    command -v clang > /dev/null || packages="$packages clang"
    command -v git > /dev/null || packages="$packages git"
    [ -e /usr/share/i18n/locales/de_DE ] || packages="$packages locales"
fi
if [ "$purpose" = arm ]; then
    PATH=$PATH:/usr/sbin command -v debootstrap > /dev/null || packages="$packages debootstrap"
    command -v qemu-arm-static > /dev/null || packages="$packages qemu-user-static"
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] ||
        packages="$packages debian-archive-keyring"
fi
if [ "$purpose" = browser ]; then
    command -v chromium > /dev/null || packages="$packages chromium"
    command -v chromedriver > /dev/null || packages="$packages chromium-driver"
    command -v firefox-esr > /dev/null || packages="$packages firefox-esr"
    command -v ffmpeg > /dev/null || packages="$packages ffmpeg"
fi
[ -z "$packages" ] && exit 0

if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo > /dev/null; then
    sudo=sudo
else
    echo "missing on this machine; as root run: apt-get install$packages" >&2
    exit 1
fi
command -v apt-get > /dev/null || {
    echo "no apt-get here; install with your system's own tools:$packages" >&2
    exit 1
}
echo "installing$packages"
$sudo apt-get update -qq -o Acquire::Retries=3
# shellcheck disable=SC2086 # one word a package
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y -o Acquire::Retries=3 \
    --no-install-recommends $packages
