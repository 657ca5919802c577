# Makes a bare Debian in $1, with what a user of the packages needs: Node.js with npm, and Python. $2 is the user.
debootstrap --variant=minbase bookworm "$1"
if [ -e /etc/resolv.conf ]; then cp /etc/resolv.conf "$1/etc/resolv.conf"; fi
chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive /bin/sh -ec "
    apt-get -qq update
    apt-get -qq install --yes --no-install-recommends ca-certificates nodejs npm python3-venv
    useradd --uid $2 --no-create-home --home-dir /work user"
