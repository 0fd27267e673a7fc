package llm

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestAppendString(t *testing.T) {
	for _, s := range []string{"", "plain", `a"b\c`, "\x00\x01\x1f\n\r\t", "ü 報告 😀", "bad \xff\xfe bytes", "<html>&\u2028", strings.Repeat("x", 5000) + "\n"} {
		got := AppendString(nil, s)
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != strings.ToValidUTF8(s, "\uFFFD") {
			t.Errorf("AppendString(%q) = %s, reads back as %q, %v", s, got, back, err)
		}
	}
}

func TestStringSize(t *testing.T) {
	for _, s := range []string{"", "plain", "1\n2\n\n3\n", strings.Repeat("She said \"no\" to that old proposal, as we all remember well.\n", 99), "ü 報告 😀"} {
		got, need := StringSize(s), len(AppendString(nil, s))
		if got < need || got > need+2+need/16 {
			t.Errorf("StringSize(%.20q) = %d, and it takes %d", s, got, need)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("a\"\\\x00\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := AppendString(nil, s)
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != strings.ToValidUTF8(s, "\uFFFD") || !utf8.Valid(got) {
			t.Errorf("AppendString(%q) = %s, reads back as %q, %v", s, got, back, err)
		}
	})
}

func TestAppendRaw(t *testing.T) {
	for in, want := range map[string]string{"": "{}", `{"a":1}`: `{"a":1}`, "{\"a\":\"\xff\"}": "{\"a\":\"\uFFFD\"}"} {
		if got := string(AppendRaw(nil, json.RawMessage(in))); got != want {
			t.Errorf("AppendRaw(%q) = %q, want %q", in, got, want)
		}
	}
	if got := string(AppendBase64([]byte("x"), "data:", []byte("hi!"))); got != `x"data:aGkh"` {
		t.Errorf("AppendBase64 = %s", got)
	}
}

func TestStatusClass(t *testing.T) {
	for status, want := range map[int]Class{400: ClassInvalid, 401: ClassAuth, 402: ClassQuota, 403: ClassAuth, 404: ClassInvalid,
		408: ClassServer, 413: ClassInvalid, 422: ClassInvalid, 429: ClassRateLimit, 500: ClassServer, 502: ClassServer, 503: ClassOverloaded, 529: ClassOverloaded} {
		if got := StatusClass(status); got != want {
			t.Errorf("StatusClass(%d) = %s, want %s", status, got, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After", "0.5", 500 * time.Millisecond},
		{"Retry-After", "Fri, 02 Jan 2026 03:05:05 GMT", time.Minute},
		{"Retry-After", "Fri, 02 Jan 2026 03:00:00 GMT", 0},
		{"Retry-After", "-3", 0},
		{"Retry-After", "soon", 0},
		{"Retry-After", "1e300", 0},
		{"Retry-After-Ms", "1500", 1500 * time.Millisecond},
		{"X", "", 0},
	} {
		if got := RetryAfter(http.Header{c.name: {c.value}}, now); got != c.want {
			t.Errorf("RetryAfter(%s: %s) = %v, want %v", c.name, c.value, got, c.want)
		}
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		" a\n\tb \x00 c ":      "a b c",
		"key sk-123 is bad":    "key [secret] is bad",
		"bad \xff":             "bad \uFFFD",
		strings.Repeat("é", 9): strings.Repeat("é", 9),
	} {
		if got := OneLine(in, "", "sk-123"); got != want {
			t.Errorf("OneLine(%q) = %q, want %q", in, got, want)
		}
	}
	if got := OneLine(strings.Repeat("é", 100000)); len(got) > 300 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
		t.Errorf("OneLine(long) has %d bytes: %q", len(got), got)
	}
}

const sample = ": hello\n\nevent: a\ndata: 1\ndata:2\nid: 9\n\nevent: ping\n\ndata: {\"x\":1}\r\n\r\nevent: b\rdata:  two\r\rretry: 5\n\ndata\n\n"

var sampleFrames = []Frame{{"a", []byte("1\n2")}, {"", []byte(`{"x":1}`)}, {"b", []byte(" two")}, {"", []byte("")}}

func frames(r io.Reader) (out []Frame, err error) {
	for f := NewFrames(r); ; {
		fr, err := f.Next()
		if err != nil {
			return out, err
		}
		out = append(out, Frame{fr.Type, append([]byte{}, fr.Data...)})
	}
}

func TestFramesSplitAtEveryByte(t *testing.T) {
	for cut := range len(sample) {
		got, err := frames(io.MultiReader(strings.NewReader(sample[:cut]), strings.NewReader(sample[cut:])))
		if diff := cmp.Diff(sampleFrames, got); diff != "" || err != io.EOF {
			t.Errorf("split at %d: %v\n%s", cut, err, diff)
		}
	}
	got, err := frames(iotest.OneByteReader(strings.NewReader(sample)))
	if diff := cmp.Diff(sampleFrames, got); diff != "" || err != io.EOF {
		t.Errorf("single bytes: %v\n%s", err, diff)
	}
}

func TestFramesEnds(t *testing.T) {
	for in, want := range map[string]error{
		"data: x\n\n": io.EOF,
		"data: x\n":   io.ErrUnexpectedEOF,
		"data: x":     io.ErrUnexpectedEOF,
		"":            io.EOF,
	} {
		if _, err := frames(strings.NewReader(in)); !errors.Is(err, want) {
			t.Errorf("frames(%.20q…) ends with %v, want %v", in, err, want)
		}
	}
	for _, in := range []string{"data: " + strings.Repeat("x", 20000) + "\n\n", strings.Repeat("data: xxxxxxx\n", 2000) + "\n"} {
		f := NewFrames(strings.NewReader(in))
		f.limit = 10000
		if _, err := f.Next(); err != ErrFrame {
			t.Errorf("a long event ends with %v", err)
		}
	}
	boom := errors.New("boom")
	if _, err := frames(iotest.ErrReader(boom)); err != boom {
		t.Errorf("a read error becomes %v", err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte(sample))
	f.Fuzz(func(t *testing.T, data []byte) {
		whole, errA := frames(strings.NewReader(string(data)))
		bytewise, errB := frames(iotest.OneByteReader(strings.NewReader(string(data))))
		if !cmp.Equal(whole, bytewise) || errA != errB {
			t.Errorf("the split matters: %q %v, %q %v", whole, errA, bytewise, errB)
		}
	})
}
