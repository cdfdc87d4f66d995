#!/bin/sh
# Installs Debian packages that are missing, as root or through sudo; `make setup` calls it with their names.
# Elsewhere than on Debian it names them and goes on.
set -eu

if ! [ -f /etc/debian_version ] || ! command -v apt-get >/dev/null; then
    echo "Not Debian: ibkeys' extension needs a C compiler, pkg-config, Python's and libibumad's headers, and the tests"
    echo "need ibsim with libumad2sim, OpenSM, infiniband-diags, an SSH server, tshark, Prometheus, systemd-analyze,"
    echo "logrotate and openssl. On Debian those are: $*"
    exit 0
fi

missing=
for package; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null; then
    as_root=sudo
else
    echo "As root, please: apt-get install$missing" >&2
    exit 1
fi

echo "Installing$missing"
log=$(mktemp)
policy=/usr/sbin/policy-rc.d
own_policy=
tidy() {
    [ -z "$own_policy" ] || $as_root rm -f "$policy"
    rm -f "$log"
}
trap tidy EXIT

# The tests need OpenSM's program; its service must not become a subnet manager on this host's fabric. Nor shall an SSH
# server listen to the network because the tests need one on the loopback interface.
if ! [ -e "$policy" ]; then
    own_policy=yes
    printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
    $as_root chmod 755 "$policy"
fi
apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" >"$log" 2>&1
}
apt update || true
# shellcheck disable=SC2086
if ! apt install --no-install-recommends $missing; then
    cat "$log" >&2
    exit 1
fi
case "$missing " in
*" opensm "*) $as_root systemctl disable opensm.service >/dev/null 2>&1 || true ;;
esac
case "$missing " in
*" openssh-server "*) $as_root systemctl disable ssh.service ssh.socket >/dev/null 2>&1 || true ;;
esac
