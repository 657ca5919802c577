# bare.sh NAME: runs NAME.sh as a user of a bare Debian, which is kept for the next time; without root or debootstrap, in an empty
# home of this machine.
set -eu
script="cd; $(cat "$HERE/$1.sh")"
set -- "$1" NPM="$NPM" PYPI="$PYPI/simple/" VERSION="$VERSION" BEFORE="$BEFORE" PYTHON_BEFORE="$PYTHON_BEFORE" sh -ec "$script"
name=$1
shift
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    echo "+ SKIPPED: a bare Debian: needs root and debootstrap; an empty home of this machine takes its place"
    home=$FOLDER/homes/$name
    rm -rf "$home"
    mkdir -p "$home"
    exec env -i HOME="$home" PATH="$FOLDER/venv/bin:$PATH" "$@"
fi

debian=$FOLDER/debian
user=10001
if [ ! -e "$debian/ready" ]; then
    rm -rf "$debian"
    debootstrap --variant=minbase bookworm "$debian"
    if [ -e /etc/resolv.conf ]; then cp /etc/resolv.conf "$debian/etc/resolv.conf"; fi
    chroot "$debian" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive /bin/sh -ec "
        apt-get -qq update
        apt-get -qq install --yes --no-install-recommends ca-certificates nodejs npm python3-venv
        useradd --uid $user --no-create-home user"
    touch "$debian/ready"
fi
echo "+ in a bare Debian"
cp "$FOLDER/venv/bin/uv" "$FOLDER/venv/bin/uvx" "$debian/usr/local/bin"
rm -rf "$debian/home/$name"
mkdir "$debian/home/$name"
chown $user "$debian/home/$name"
# shellcheck disable=SC2016
exec unshare --mount sh -ec 'mount -t proc proc "$0/proc"; exec chroot --userspec=10001 "$0" /usr/bin/env -i "$@"' \
    "$debian" HOME="/home/$name" PATH=/usr/local/bin:/usr/bin:/bin "$@"
