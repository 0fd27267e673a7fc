package claude

import (
	"bufio"
	"errors"
	"io"
)

// usual is the size of a buffer that most lines fit into; a longer one (an echoed
// image of some megabytes) gets its own, which does not stay in memory.
const usual = 16 << 10

// eachLine calls do with every line of r, without its end, however long it is, also
// with a last one that has no end. The slice is valid during the call only. The end
// of r is no error.
func eachLine(r io.Reader, do func(line []byte)) error {
	br := bufio.NewReaderSize(r, usual)
	var long []byte
	for {
		piece, err := br.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, piece...)
			continue
		}
		line := piece
		if len(long) > 0 {
			long = append(long, piece...)
			line = long
		}
		if n := len(line); n > 0 && line[n-1] == '\n' {
			line = line[:n-1]
		}
		if len(line) > 0 {
			do(line)
		}
		long = nil
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
