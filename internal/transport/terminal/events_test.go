package terminal

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// frames reads a stream to its end.
func frames(r io.Reader) (all []frame, err error) {
	e := newEventReader(r)
	for {
		f, err := e.next()
		if err != nil {
			return all, err
		}
		f.data = bytes.Clone(f.data)
		all = append(all, f)
	}
}

var compareFrames = cmp.AllowUnexported(frame{})

func TestEventReader(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []frame
	}{
		"one frame":             {"id: 3\nevent: text\ndata: a\n\n", []frame{{3, "text", []byte("a")}}},
		"comments and beats":    {":ok\n\n:hb\n\ndata: a\n: in between\n\n", []frame{{0, "", []byte("a")}}},
		"CRLF":                  {"id: 3\r\nevent: text\r\ndata: a\r\n\r\n", []frame{{3, "text", []byte("a")}}},
		"CR alone":              {"id: 3\revent: text\rdata: a\r\rdata: b\r\r", []frame{{3, "text", []byte("a")}, {3, "", []byte("b")}}},
		"lines of data":         {"data: a\ndata\ndata: b\n\n", []frame{{0, "", []byte("a\n\nb")}}},
		"only one space goes":   {"data:  a\ndata:b\n\n", []frame{{0, "", []byte(" a\nb")}}},
		"empty data counts":     {"data:\n\n", []frame{{0, "", nil}}},
		"no data, no frame":     {"event: text\n\ndata: a\n\n", []frame{{0, "", []byte("a")}}},
		"an id stays":           {"id: 7\ndata: a\n\ndata: b\n\nid: 8\n\ndata: c\n\n", []frame{{7, "", []byte("a")}, {7, "", []byte("b")}, {8, "", []byte("c")}}},
		"a bad id is no id":     {"id: x\ndata: a\n\nid: 99999999999999999999\ndata: b\n\n", []frame{{0, "", []byte("a")}, {0, "", []byte("b")}}},
		"unknown fields":        {"retry: 10\nfoo: bar\ndata: a\n\n", []frame{{0, "", []byte("a")}}},
		"byte order mark":       {"\ufeffdata: a\n\n", []frame{{0, "", []byte("a")}}},
		"cut in a frame":        {"data: a\n\ndata: b\n", []frame{{0, "", []byte("a")}}},
		"cut in a line":         {"data: a\n\ndata: b", []frame{{0, "", []byte("a")}}},
		"colons in data":        {"data: {\"a\": \"b:c\"}\n\n", []frame{{0, "", []byte(`{"a": "b:c"}`)}}},
		"a name is a whole one": {"dataset: x\nid2: 4\ndata: a\n\n", []frame{{0, "", []byte("a")}}},
	} {
		t.Run(name, func(t *testing.T) {
			for how, r := range map[string]io.Reader{
				"whole": strings.NewReader(c.in), "by bytes": iotest.OneByteReader(strings.NewReader(c.in)),
			} {
				got, err := frames(r)
				if d := cmp.Diff(c.want, got, compareFrames); d != "" || !errors.Is(err, io.EOF) {
					t.Errorf("%s: err %v, (-want +got)\n%s", how, err, d)
				}
			}
		})
	}
}

// TestEventReaderSplitAnywhere cuts the bytes in two at every place.
func TestEventReaderSplitAnywhere(t *testing.T) {
	const in = ":ok\r\n\r\nid: 1\r\nevent: text\r\ndata: {\"kind\":\"text\"}\r\ndata: ä\n\n:hb\n\nid: 2\rdata: x\r\r"
	want, _ := frames(strings.NewReader(in))
	if len(want) != 2 {
		t.Fatalf("%d frames, want 2", len(want))
	}
	for i := range len(in) {
		got, _ := frames(io.MultiReader(strings.NewReader(in[:i]), strings.NewReader(in[i:])))
		if d := cmp.Diff(want, got, compareFrames); d != "" {
			t.Errorf("split at %d (-want +got)\n%s", i, d)
		}
	}
}

func TestEventReaderBoundsALine(t *testing.T) {
	for n, want := range map[int]error{100: nil, 101: errLongLine} {
		e := newEventReader(strings.NewReader(strings.Repeat("x", n) + "\ndata: a\n\n"))
		e.max = 100
		if _, err := e.next(); !errors.Is(err, want) {
			t.Errorf("a line of %d bytes: next() = %v, want %v", n, err, want)
		}
	}
}

// FuzzEventReader: how lines end and where reads are cut changes nothing.
func FuzzEventReader(f *testing.F) {
	f.Add("id: 3\nevent: text\ndata: a\ndata: b\n\n:hb\n\n")
	f.Add("\ufeffdata\n\r\n\rid: 1\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		got, err := frames(strings.NewReader(in))
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		lf := strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n")
		for how, r := range map[string]io.Reader{
			"LF": strings.NewReader(lf), "CRLF": strings.NewReader(strings.ReplaceAll(lf, "\n", "\r\n")),
			"CR": strings.NewReader(strings.ReplaceAll(lf, "\n", "\r")), "bytes": iotest.OneByteReader(strings.NewReader(in)),
		} {
			other, _ := frames(r)
			if d := cmp.Diff(got, other, compareFrames); d != "" {
				t.Errorf("%s (-want +got)\n%s", how, d)
			}
		}
		for _, f := range got {
			if bytes.ContainsRune(f.data, '\r') || strings.ContainsAny(f.event, "\r\n") {
				t.Errorf("the end of a line is part of %q %q", f.event, f.data)
			}
		}
	})
}
