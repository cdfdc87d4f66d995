# Runs a command in a mount namespace of its own in which this host seems to have an adapter: its devices are plain files.
# No device of this host, and nothing that another process sees, is touched. unshare(1) starts this.
set -e
dev=$(mktemp -d)
mount -t tmpfs none "$dev"
for name in null zero full random urandom tty ptmx; do
    touch "$dev/$name"
    mount --bind "/dev/$name" "$dev/$name"
done
mkdir "$dev/pts" "$dev/shm" "$dev/infiniband"
mount --rbind /dev/pts "$dev/pts"
mount --bind /dev/shm "$dev/shm"
ln -s /proc/self/fd "$dev/fd"
for name in umad0 issm0; do
    echo "stand-in for $name" >"$dev/infiniband/$name"
    chmod "${STAND_IN_MODE:-666}" "$dev/infiniband/$name"
done
mount --move "$dev" /dev
mount -t tmpfs none /sys/class
mkdir -p /sys/class/infiniband/mlx5_0 /sys/class/infiniband_mad/umad0
rmdir "$dev"
if [ -n "$STAND_IN_ETC" ]; then
    mount --bind "$STAND_IN_ETC" /etc
fi
exec "$@"
