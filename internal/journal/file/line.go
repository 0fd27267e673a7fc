package file

import (
	"encoding/json"
	"hash/crc32"
	"strconv"
)

// A line is one record on disk:
//
//	{"n":12,"v":7,"y":9,"t":1764524758123456,"b":1,"s":"SESSION-1","k":"…","p":"…","u":"…","d":{…},"c":"1a2b3c4d"}
//
// n is the record's number, v the number of the stream's record before it, y
// the last number that was on disk when the line was written, t microseconds
// since 1970, b how many records of the same append follow, s the stream, k
// its key, p and u the pin it opens and closes, d the data, and c the
// CRC-32C of what stands before c. Absent numbers are 0. The fixed frame lets
// a scan skip over the data, which holds no newline.
type line struct {
	seq, prev, synced, micro, more int64
	stream, key, pin, unpin        []byte // may alias the parsed bytes
	data                           []byte
}

const (
	lineHead = `{"n":`
	sumTag   = `,"c":"`
	sumLen   = len(sumTag) + 8 + len(`"}`)
	maxName  = 1 << 10  // bytes of a stream, key or pin
	maxLine  = 64 << 20 // bytes of a line: what a reader may have to hold
)

const hexDigits = "0123456789abcdef"

// sum is CRC-32C, which the processor computes.
func sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// appendLine adds l and a newline to b and says where the data lies.
func appendLine(b []byte, l *line) (out []byte, from, to int) {
	start := len(b)
	b = append(b, lineHead...)
	b = strconv.AppendInt(b, l.seq, 10)
	b = appendNumber(b, 'v', l.prev)
	b = appendNumber(b, 'y', l.synced)
	b = appendNumber(b, 't', l.micro)
	b = appendNumber(b, 'b', l.more)
	b = appendText(b, 's', l.stream)
	b = appendText(b, 'k', l.key)
	b = appendText(b, 'p', l.pin)
	b = appendText(b, 'u', l.unpin)
	b = append(b, `,"d":`...)
	from = len(b)
	b = append(b, l.data...)
	to = len(b)
	c := sum(b[start:])
	b = append(b, sumTag...)
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[c>>shift&15])
	}
	return append(b, '"', '}', '\n'), from, to
}

func appendNumber(b []byte, tag byte, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, ',', '"', tag, '"', ':'), n, 10)
}

func appendText(b []byte, tag byte, s []byte) []byte {
	if len(s) == 0 {
		return b
	}
	b = append(b, ',', '"', tag, '"', ':', '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// parseLine reads a line without its newline. It checks the frame and not the
// sum, nor that the data is JSON.
func parseLine(b []byte) (l line, ok bool) {
	if len(b) < sumLen+len(lineHead) || b[0] != '{' || string(b[len(b)-sumLen:len(b)-sumLen+len(sumTag)]) != sumTag || b[len(b)-1] != '}' || b[len(b)-2] != '"' {
		return l, false
	}
	body := b[:len(b)-sumLen]
	for i := 0; i+5 <= len(body); {
		if i > 0 && body[i] != ',' || body[i+1] != '"' || body[i+3] != '"' || body[i+4] != ':' {
			return l, false
		}
		tag := body[i+2]
		i += 5
		switch tag {
		case 'n', 'v', 'y', 't', 'b':
			n, next := number(body, i)
			if next < 0 {
				return l, false
			}
			i = next
			*l.number(tag) = n
		case 's', 'k', 'p', 'u':
			s, next := text(body, i)
			if next < 0 {
				return l, false
			}
			i = next
			*l.text(tag) = s
		case 'd':
			l.data = body[i:]
			return l, l.seq > 0 && len(l.stream) > 0 && len(l.data) > 0
		default:
			return l, false
		}
	}
	return l, false
}

func (l *line) number(tag byte) *int64 {
	switch tag {
	case 'n':
		return &l.seq
	case 'v':
		return &l.prev
	case 'y':
		return &l.synced
	case 't':
		return &l.micro
	}
	return &l.more
}

func (l *line) text(tag byte) *[]byte {
	switch tag {
	case 's':
		return &l.stream
	case 'k':
		return &l.key
	case 'p':
		return &l.pin
	}
	return &l.unpin
}

// number reads decimal digits at i; next is negative when there are none or
// too many.
func number(b []byte, i int) (n int64, next int) {
	start := i
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
		n = n*10 + int64(b[i]-'0')
	}
	if i == start || i-start > 18 {
		return 0, -1
	}
	return n, i
}

// text reads a JSON string at i.
func text(b []byte, i int) (s []byte, next int) {
	if i >= len(b) || b[i] != '"' {
		return nil, -1
	}
	escaped := false
	for k := i + 1; k < len(b); k++ {
		switch b[k] {
		case '\\':
			escaped = true
			k++
		case '"':
			if !escaped {
				return b[i+1 : k], k + 1
			}
			var out string
			if json.Unmarshal(b[i:k+1], &out) != nil {
				return nil, -1
			}
			return []byte(out), k + 1
		}
	}
	return nil, -1
}

// sound reports whether the sum of a parsed line is right.
func sound(b []byte) bool {
	c := sum(b[:len(b)-sumLen])
	for i, h := range b[len(b)-10 : len(b)-2] {
		if hexDigits[c>>(28-4*i)&15] != h {
			return false
		}
	}
	return true
}
