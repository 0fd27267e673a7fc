package file

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"unicode/utf8"
)

func lineSeeds() [][]byte {
	var out [][]byte
	for _, l := range []line{
		{seq: 1, micro: 5, stream: []byte("A"), data: []byte("1")},
		{seq: 12, prev: 7, synced: 9, micro: 1764524758123456, more: 3, stream: []byte(`S "q" \`), key: []byte("k\n"), pin: []byte("p"), unpin: []byte("ü"), data: []byte(`{"d":{"c":"00000000"}}`)},
	} {
		b, _, _ := appendLine(nil, &l)
		out = append(out, b[:len(b)-1])
	}
	return out
}

func TestLine(t *testing.T) {
	for _, b := range lineSeeds() {
		if !json.Valid(b) {
			t.Errorf("%s is not JSON", b)
		}
		l, ok := parseLine(b)
		if !ok || !sound(b) {
			t.Fatalf("%s does not parse", b)
		}
		again, from, to := appendLine(nil, &l)
		if !bytes.Equal(again[:len(again)-1], b) || !bytes.Equal(again[from:to], l.data) {
			t.Errorf("%s comes back as %s", b, again)
		}
		for i := range b {
			other := bytes.Clone(b)
			other[i] ^= 1
			if _, ok := parseLine(other); ok && sound(other) {
				t.Errorf("byte %d of %s may change", i, b)
			}
			if _, ok := parseLine(b[:i]); ok && sound(b[:i]) {
				t.Errorf("%s is a record", b[:i])
			}
		}
	}
}

// FuzzParseLine also checks that what parses and is sound can be written again
// and means the same.
func FuzzParseLine(f *testing.F) {
	for _, b := range lineSeeds() {
		f.Add(b)
	}
	f.Add([]byte(`{"n":1,"s":"\ud800","d":1,"c":"00000000"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, ok := parseLine(b)
		if !ok || !utf8.Valid(slices.Concat(l.stream, l.key, l.pin, l.unpin)) {
			return // Append writes only names that are text
		}
		out, _, _ := appendLine(nil, &l)
		again, ok := parseLine(out[:len(out)-1])
		if !ok || !sound(out[:len(out)-1]) || !reflect.DeepEqual(noNil(again), noNil(l)) {
			t.Errorf("%q is read as %+v, written again %+v", b, l, again)
		}
	})
}

func noNil(l line) line {
	for _, b := range []*[]byte{&l.stream, &l.key, &l.pin, &l.unpin, &l.data} {
		*b = append([]byte{}, *b...)
	}
	return l
}

func indexSeed() *index {
	return &index{
		first: 100, last: 220, size: 99999, newest: 1764524758123456,
		spans:  []span{{"A", 7, 100, 220, 0}, {"B", 0, 101, 150, 77}},
		marks:  []mark{{100, 0}, {170, 70000}},
		keys:   []key{{hashKey([]byte("k")), 120, 1764524758}},
		opened: []pin{{"p", "A", 130}},
		closed: []string{"q", ""},
	}
}

func TestIndexBytes(t *testing.T) {
	x := indexSeed()
	b := x.encode()
	got, err := decodeIndex(b)
	if err != nil || !reflect.DeepEqual(got, x) {
		t.Errorf("decode(encode) = %+v, %v, want %+v", got, err, x)
	}
	for i := range b {
		if _, err := decodeIndex(b[:i]); err == nil {
			t.Errorf("an index of %d of %d bytes is taken", i, len(b))
		}
	}
	for seq, off := range map[int64]int64{1: 0, 100: 0, 169: 0, 170: 70000, 999: 70000} {
		if got := x.seek(seq); got != off {
			t.Errorf("seek(%d) = %d, want %d", seq, got, off)
		}
	}
}

// FuzzIndex puts a right sum under any bytes.
func FuzzIndex(f *testing.F) {
	b := indexSeed().encode()
	f.Add(b[len(indexMagic) : len(b)-indexFooter])
	f.Fuzz(func(t *testing.T, body []byte) {
		b := append([]byte(indexMagic), body...)
		c := sum(b)
		b = append(b, byte(c>>24), byte(c>>16), byte(c>>8), byte(c))
		x, err := decodeIndex(b)
		if err != nil {
			return
		}
		if again, err := decodeIndex(x.encode()); err != nil || !reflect.DeepEqual(again, x) {
			t.Errorf("%+v comes back as %+v, %v", x, again, err)
		}
	})
}
