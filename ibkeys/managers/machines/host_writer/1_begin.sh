# Makes the changes on this host that are requested on standard input, one question on each line, until its end. It
# replaces a file, takes rights away from a file or folder, sends SIGHUP to an OpenSM, stops it, starts a unit of
# systemd, holds the lock beside a file, and starts a guard that restores a file.
#
# A question has a word, four more words ("-" for one that is not needed) and an absolute path. An answer has lines that
# begin with a blank, then "."; or after a failure "!", a word, and the error text of a command. Bytes of files come in
# base64, so that no byte is taken for a part of the conversation, and are used only if their SHA-256 is right.
#
# A new file is complete and on disk beside the old one before one rename puts it in place. Until then its name ends in
# .part, which alone shows that it is a left-over, and it has no more rights than in the end, because it may have keys.
# Its bytes go to base64 through a pipe, so that no key is in the arguments of a command.
LC_ALL=C TZ=UTC PATH=/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL TZ PATH
ROOMS=/tmp QUIET=900
DONE=0 FAILED=1 CHANGED=3 UNSYNCED=4 REFUSED=5 GONE=6 FREE=7
umask 077
set -f
cd /
trap '' PIPE HUP

run() { # COMMAND...: prints its output, and then the last line of the answer by its status and standard error
    { said=$("$@" 2>&1 >&3); } 3>&1
    end $?
}

end() { # STATUS: prints the last line of the answer; said is the reason of a failure
    case $1 in
    "$DONE") echo . ;;
    "$CHANGED") echo '! changed' ;;
    "$UNSYNCED") echo "! unsynced $(first "$said")" ;;
    "$REFUSED") echo "! refused $(first "$said")" ;;
    "$GONE") echo '! gone' ;;
    *) echo "! failed $(first "$said")" ;;
    esac
}

first() { # TEXT: prints its first line
    printf '%s\n' "$1" | head -n 1
}

no() { # STATUS WORDS: prints the reason on standard error, and returns the status
    printf '%s\n' "$2" >&2
    return "$1"
}
