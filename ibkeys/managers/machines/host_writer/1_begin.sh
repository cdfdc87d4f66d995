# Changes on this host what it is asked to, one question on each line of standard input, until that ends: it puts one
# file in the place of another, takes rights away from a file or folder, sends an OpenSM a SIGHUP, stops it, starts a
# unit of systemd, holds the lock beside a file, and leaves a guard behind that gives a file back.
#
# A question is a word, four words more ("-" where one is not needed) and an absolute path. An answer is lines that begin
# with a blank, then "." or, where it failed, "!", a word, and what a command said. Bytes of files arrive in base64, so
# that none of them is taken for anything else, and count only if their SHA-256 is right.
#
# A file is complete and on disk beside the old one before it takes its place by one rename. Until then it has a name
# that ends in .part, so that a left-over is known by its name alone, and no more rights than it shall have: a file may
# be full of keys. They go to base64 through a pipe, so that none is in the arguments of a command.
LC_ALL=C TZ=UTC PATH=/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL TZ PATH
ROOMS=/tmp QUIET=900
DONE=0 FAILED=1 CHANGED=3 UNSYNCED=4 REFUSED=5 GONE=6 FREE=7
umask 077
set -f
cd /
trap '' PIPE HUP

run() { # COMMAND...: its output is the answer; its status, and what it says on standard error, how it ended
    { said=$("$@" 2>&1 >&3); } 3>&1
    end $?
}

end() { # STATUS: how it ended, and why: said
    case $1 in
    "$DONE") echo . ;;
    "$CHANGED") echo '! changed' ;;
    "$UNSYNCED") echo "! unsynced $(first "$said")" ;;
    "$REFUSED") echo "! refused $(first "$said")" ;;
    "$GONE") echo '! gone' ;;
    *) echo "! failed $(first "$said")" ;;
    esac
}

first() { # TEXT: its first line
    printf '%s\n' "$1" | head -n 1
}

no() { # STATUS WORDS: the reason on standard error
    printf '%s\n' "$2" >&2
    return "$1"
}
