#!/bin/sh
# The virtual disk `board` takes the place of the board in disk.toml; the file `device` has the path of its block device.
fsage=${FSAGE:-fsage}
read -r device < device || exit 126
case $1 in
power_off)
    "$fsage" disk fault set board '{"write_error": [{"rate": 1.0}]}' || exit 1
    touch off
    # Programs on a board end when its power is cut.
    if [ -e load.pid ]; then
        kill -9 "$(cat load.pid)" 2> /dev/null
        rm -f load.pid
    fi
    tries=0
    while mountpoint -q mnt && ! umount mnt 2> /dev/null; do
        tries=$((tries + 1))
        if [ "$tries" -ge 400 ]; then
            echo "mnt cannot be unmounted" >&2
            exit 1
        fi
        sleep 0.05
    done
    # No data that the kernel has cached for the device survives a cut: the cache is dropped while writes still fail.
    blockdev --flushbufs "$device" 2> /dev/null
    exit 0
    ;;
power_on)
    "$fsage" disk fault clear board || exit 1
    cat /proc/sys/kernel/random/uuid > boot-id
    rm -f off
    ;;
boot_id) [ ! -e off ] && cat boot-id ;;
prepare) mkfs.ext4 -Fq "$device" ;;
check) e2fsck -fp "$device" ;;
mount) mkdir -p mnt && mount "$device" mnt ;;
unmount) umount mnt ;;
load)
    echo $$ > load.pid
    exec ./load.sh mnt "$2"
    ;;
esac
