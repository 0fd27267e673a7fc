package docker

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"
)

// A mark is how what a command started is found again: a limit of file sizes so
// large that it limits nothing, with a number that no other command has. It
// survives env -i, setsid and forks. A process that lowers it on purpose escapes;
// it ends with the container.
type mark struct {
	blocks uint64 // what ulimit -f is given: 512 or 1024 bytes each
	nonce  string // what the supervisor signs its last words with
}

func newMark() mark {
	id := random()
	b, _ := hex.DecodeString(id) // its own encoding
	return mark{blocks: 1<<45 | binary.BigEndian.Uint64(b)>>20, nonce: id}
}

// arguments are those of the scripts below, from $2 on.
func (m mark) arguments() []string {
	return []string{strconv.FormatUint(m.blocks*512, 10), strconv.FormatUint(m.blocks*1024, 10)}
}

// members sets n and pids to the living processes that carry the mark, but for
// this shell itself. The third line of limits is that of file sizes, whose fifth
// word is the hard limit.
const members = `members() {
	n=0 pids=
	for d in /proc/[0-9]*; do
		p=${d##*/} h=
		[ "$p" = "$$" ] && continue
		{ read -r x; read -r x; read -r a b c s h x; } < "$d/limits"
		case $a$b$c$h in
		"Maxfilesize$2"|"Maxfilesize$3") ;;
		*) continue ;;
		esac
		read -r x < "$d/stat"
		case ${x##*) } in
		Z*|X*|"") continue ;;
		esac
		n=$((n+1)) pids="$pids $p"
	done
}
each() { for p in $pids; do kill -$1 $p; done; }
pause() { sleep 0.02 || sleep 1; }
# rest until nothing is left, for $1 rounds
rest() { i=$1; shift; members "$@"; while [ $n -gt 0 ] && [ $i -gt 0 ]; do pause; members "$@"; i=$((i-1)); done; }
finish() {
	i=0
	members "$@"
	while [ $n -gt 0 ] && [ $i -lt 20 ]; do k=$n; each STOP; members "$@"; [ $n = $k ] && break; i=$((i+1)); done
	i=0
	while [ $n -gt 0 ] && [ $i -lt 100 ]; do each KILL; members "$@"; [ $n = 0 ] || pause; i=$((i+1)); done
}
`

// supervisor runs the command, gives what it left running its moment, ends the
// rest, and signs off on standard error with the exit code and how many it had to
// end. Its arguments: the script, two spellings of the mark, the blocks, the
// nonce, the directory, rounds to linger and rounds before KILL, and then the
// shell's words.
const supervisor = members + `
script=$1 blocks=$4 nonce=$5 dir=$6 linger=$7 grace=$8
m2=$2 m3=$3
shift 8
exec 6>&2 2>/dev/null
ulimit -f $blocks
trap : TERM
cd -- "$dir" || { printf '\n%s dir\n' $nonce >&6; exit 1; }
"$@" -c "$script" 2>&6 6>&-
code=$?
rest $linger "" $m2 $m3
count=$n
if [ $n -gt 0 ]; then
	each TERM; each CONT
	rest $grace "" $m2 $m3
	finish "" $m2 $m3
fi
printf '\n%s %s %s\n' $nonce $code $count >&6
exit $code
`

// ender ends a command from outside, supervisor included, and prints the
// processes that it could not end. Its arguments: nothing, the mark twice, rounds
// before KILL.
const ender = members + `
exec 2>/dev/null
members "$@"
each TERM; each CONT
rest $4 "" $2 $3
finish "" $2 $3
members "" $2 $3
echo $pids
`

// rounds turns a time into rounds of pause.
func rounds(d time.Duration) string {
	return strconv.FormatInt(d.Milliseconds()/20+1, 10)
}
