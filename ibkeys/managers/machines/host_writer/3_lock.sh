# Functions that take and release the lock beside a file.

lock4= lock5= lock6= # the lock files that this shell holds by the descriptors 4, 5 and 6

is_at() { # PATH DESCRIPTOR: whether the path still leads to the open file
    found=$(stat -c %d:%i -- "$1" 2>/dev/null) && [ "$found" = "$(stat -L -c %d:%i "/proc/self/fd/$2")" ]
}

look_at_lock() { # SUM: prints the existing lock; FREE if there is none, or a stale one with the checksum SUM
    command -v flock >/dev/null || no "$REFUSED" 'flock, of util-linux, is not there' || return
    if ! [ -e "$lock" ] && ! [ -L "$lock" ]; then
        if [ -d "$folder" ] && [ -w "$folder" ] && [ -x "$folder" ]; then return "$FREE"; fi
        echo ' closed'
        return
    fi
    [ -f "$lock" ] && ! [ -L "$lock" ] || no "$REFUSED" 'is not a regular file' || return
    (
        exec 7<"$lock" || exit "$FAILED"
        flock -n 7
        case $? in
        0) state=stale ;;
        1) state=held ;;
        *) exit "$FAILED" ;;
        esac
        is_at "$lock" 7 || exit "$CHANGED"
        if [ "$state" = stale ] && [ "$(head -c 4096 "/proc/self/fd/7" | sha256sum)" = "$1  -" ]; then
            rm -f -- "$lock" || exit "$FAILED"
            exit "$FREE"
        fi
        echo " $state"
        head -c 4096 <&7 | od -An -v -tx1
    )
}

fill_lock() { # DESCRIPTOR: locks and fills the new lock file, and then gives it its name
    flock -n "$1" && printf %s "$data" | base64 -d >&"$1" && chmod -- 600 "$draft" && sync -- "$draft" || return "$FAILED"
    ln -T -- "$draft" "$lock" 2>/dev/null || return "$CHANGED"
    set +f
    for each in "$folder/.${lock##*/}.ibkeys-"*.part; do
        if is_ours "${each#"$folder/.${lock##*/}.ibkeys-"}"; then rm -f -- "$each"; fi
    done
    rm -f -- "$draft"
    sync -- "$folder" && return
    rm -f -- "$lock"
    return "$FAILED"
}

open_draft() { # sets number: the descriptor of a new file; "" if none is free, or no file can be made
    number=
    set -C
    if [ -z "$lock4" ] && command exec 4>"$draft"; then
        number=4
    elif [ -z "$lock5" ] && command exec 5>"$draft"; then
        number=5
    elif [ -z "$lock6" ] && command exec 6>"$draft"; then
        number=6
    fi 2>/dev/null
    set +C
}

take_lock() { # TOKEN SUM: takes the lock for this shell; data has the contents of the lock file
    lock=$folder/.$base.ibkeys-lock draft=$folder/..$base.ibkeys-lock.ibkeys-$$-$1.part
    { said=$(look_at_lock "$2" 2>&1 >&3); } 3>&1
    how=$?
    if [ "$how" -eq "$FREE" ]; then
        open_draft
        how=$FAILED said='no file can be made, or three locks are held already'
        if [ "$number" ]; then
            { said=$(fill_lock "$number" 2>&1 >&3); } 3>&1
            how=$?
            if [ "$how" -eq "$DONE" ]; then eval "lock$number=\$lock" && echo ' taken'; else let_go "$number"; fi
        fi
        rm -f -- "$draft"
    fi
    end "$how"
}

let_go() { # DESCRIPTOR: frees its lock
    eval "exec $1>&-; lock$1="
}

drop_lock() { # frees the lock, and removes its file unless another file has the name now
    lock=$folder/.$base.ibkeys-lock how=$GONE said=
    for number in 4 5 6; do
        eval "held=\$lock$number"
        if [ "$held" = "$lock" ]; then
            how=$DONE
            if is_at "$lock" "$number"; then said=$(rm -f -- "$lock" 2>&1) || how=$FAILED; fi
            let_go "$number"
        fi
    done
    end "$how"
}
