package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/secret/secrettest"
)

func knowing(values ...string) *Redactor {
	r := New(Options{})
	for _, v := range values {
		r.Add(secret.New(v))
	}
	return r
}

func TestShortAndReservedValuesAreLeftAlone(t *testing.T) {
	r := New(Options{Except: []string{"assistant"}})
	for _, v := range []string{"", "1234567", "   1234567  \n", "assistant"} {
		r.Add(secret.New(v))
	}
	const text = "1234567 assistant 12345678"
	if got := r.String(text); got != text {
		t.Errorf("got %q", got)
	}
	r.Add(secret.New("12345678")) // 8 bytes are enough
	if got := r.String(text); got != "1234567 assistant "+Mark {
		t.Errorf("got %q", got)
	}
	if !r.Found("x12345678x") || r.Found("x1234567x") {
		t.Error("Found is wrong")
	}
}

// encodings are the ways in which a value gets into an output.
var encodings = map[string]func(string) string{
	"plain":       func(s string) string { return s },
	"trimmed":     strings.TrimSpace,
	"base64":      func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 raw":  func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte(s)) },
	"base64 url":  func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) },
	"base64 rurl": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"base64 +1":   func(s string) string { return base64.StdEncoding.EncodeToString([]byte("u" + s + "\n")) },
	"base64 +2":   func(s string) string { return base64.URLEncoding.EncodeToString([]byte("u:" + s + ".")) },
	"basic auth":  func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+s)) },
	"hex":         func(s string) string { return hex.EncodeToString([]byte(s)) },
	"HEX":         func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"query":       url.QueryEscape,
	"path":        url.PathEscape,
	"component":   func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") },
	"percents":    func(s string) string { return strings.ToLower(percent(s)[4]) },
	"json":        func(s string) string { b, _ := json.Marshal(map[string]string{"v": s}); return string(b) },
	"json twice": func(s string) string {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(s)
		c, _ := json.Marshal(b.String())
		return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(c))
	},
	"go":            func(s string) string { return fmt.Sprintf("%q", s) },
	"go ascii":      strconv.QuoteToASCII,
	"html":          html.EscapeString,
	"single quotes": func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
	"double quotes": func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(s) + `"`
	},
}

// visible is what must not be found: the longest run of letters and digits of a
// value, in whatever way it was encoded.
func leaks(out, value string) bool {
	core := strings.TrimSpace(value)
	return strings.Contains(out, core) || strings.Contains(out, base64.RawStdEncoding.EncodeToString([]byte(core))[:10])
}

func TestEveryEncodingOfEveryShape(t *testing.T) {
	for _, v := range secrettest.Values() {
		r := knowing(v)
		for name, enc := range encodings {
			text := "before " + enc(v) + " after"
			got := r.String(text)
			if leaks(got, v) || !strings.Contains(got, Mark) {
				t.Errorf("%s of %.30q: %.200q", name, v, got)
			}
			if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
				t.Errorf("%s of %.30q: the rest is gone: %.200q", name, v, got)
			}
			// What is left between the marks is too short to be worth anything.
			left := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(got, "before "), " after"), Mark, "")
			if len(left) > 16+len(v)/50 {
				t.Errorf("%s of %.30q: %d bytes are left: %.100q", name, v, len(left), left)
			}
		}
	}
}

// Real programs, not our idea of them.
func TestWhatProgramsPrint(t *testing.T) {
	for _, v := range []string{"hunter2-hunter2", `it's a "$ecret"\n`, "tab\tand ünïcödé", strings.Repeat("long key ", 20)} {
		r := knowing(v)
		for _, script := range []string{
			`echo "$V"`, `printf %s "$V" | base64`, `printf %s "$V" | base64 -w0`, `cat /proc/$$/environ | tr '\0' '\n' | grep ^V=`, `printf '%060d%s' 1 "$V" | base64`, `printf 'user:%s' "$V" | base64`, `printf '%q' "$V"`,
			`export -p | grep ' V='`, `declare -p V`, `set | grep ^V=`, `env | grep ^V=`,
			`printf %s "$V" | od -An -v -tx1 | tr -d ' \n'`, `printf '%s\n' "${V@Q}"`, `set -x; : "$V"`,
		} {
			cmd := exec.Command("bash", "-c", script)
			cmd.Env = []string{"PATH=/usr/bin:/bin", "V=" + v, "LC_ALL=C.UTF-8"}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v", script, err)
			}
			if got := r.String(string(out)); !strings.Contains(got, Mark) || len(strings.ReplaceAll(got, Mark, "")) > 100 {
				t.Errorf("%s of %q: %q", script, v, got)
			}
		}
	}
}

func TestSplitOverChunks(t *testing.T) {
	for _, v := range secrettest.Values() {
		if len(v) > 200 {
			continue
		}
		r := knowing(v, "another-value")
		text := "x" + v + "y" + v[:len(v)-1] + base64.StdEncoding.EncodeToString([]byte("ab"+v)) + v + v + "another-another-value tail another-val"
		want := r.String(text)
		for _, size := range []int{1, 2, 3, 7, 8, 9, 50, 4096} {
			var out strings.Builder
			w := r.Writer(&out)
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				if k, err := io.WriteString(w, rest[:n]); k != n || err != nil {
					t.Fatal(k, err)
				}
				rest = rest[n:]
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			// Values that touch are one mark or two.
			if got := once(out.String()); got != once(want) {
				t.Errorf("%.20q in pieces of %d: %q, want %q", v, size, got, want)
			}
		}
	}
}

// once makes one mark of several.
func once(s string) string {
	for strings.Contains(s, Mark+Mark) {
		s = strings.ReplaceAll(s, Mark+Mark, Mark)
	}
	return s
}

func TestAStreamHoldsBackNoMoreThanItMust(t *testing.T) {
	s := knowing("hunter2-hunter2").Stream()
	for _, step := range []struct{ push, want string }{
		{"hello h", "hello "}, {"ow are", "how are"}, {" hunter2-", " "}, {"hunter2", ""}, {" done", Mark + " done"}, {"hun", ""},
	} {
		if got := s.Push(step.push); got != step.want {
			t.Errorf("Push(%q) = %q, want %q", step.push, got, step.want)
		}
	}
	if got := s.Flush(); got != "hun" {
		t.Errorf("Flush = %q", got)
	}
	s.Push("hunter")
	s.Drop()
	if got := s.Flush(); got != "" {
		t.Errorf("after Drop: %q", got)
	}
}

func TestOverlappingValuesLeaveNothing(t *testing.T) {
	r := knowing("abcdefgh", "efghijkl12345678", "abcdefghij")
	for text, want := range map[string]string{
		"abcdefghijkl12345678":     Mark,
		"-abcdefgh-":               "-" + Mark + "-",
		"-abcdefghij-":             "-" + Mark + "-",
		"abcdefgh efghijkl1234567": Mark + " efghijkl1234567",
	} {
		if got := r.String(text); got != want {
			t.Errorf("%q → %q, want %q", text, got, want)
		}
	}
}

func TestADroppedValueIsForgotten(t *testing.T) {
	r := knowing("token-of-a-turn", "another-secret")
	r.Keep(secret.New("key-of-the-process"))
	for _, v := range []string{"token-of-a-turn\n", "key-of-the-process", "never-added"} {
		r.Drop(secret.New(v))
	}
	const text = "token-of-a-turn another-secret key-of-the-process"
	if got, want := r.String(text), "token-of-a-turn "+Mark+" "+Mark; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheOldestValuesAreForgotten(t *testing.T) {
	r := New(Options{Max: 3})
	r.Keep(secret.New("kept-for-ever"))
	for i := range 5 {
		r.Add(secret.New(fmt.Sprintf("value-number-%d", i)))
		r.Add(secret.New("value-number-0")) // used all the time
	}
	for v, want := range map[string]bool{"kept-for-ever": true, "value-number-0": true, "value-number-4": true, "value-number-3": true, "value-number-1": false, "value-number-2": false} {
		if r.Found(v) != want {
			t.Errorf("Found(%s) = %v", v, !want)
		}
	}
}

func TestPartsOfLongValues(t *testing.T) {
	var long strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&long, "%05d,", i)
	}
	r := knowing(long.String())
	if got := r.String(long.String()); got != Mark {
		t.Errorf("the whole: %.200q", got)
	}
	if got := r.String(long.String()[3000:9000]); len(strings.ReplaceAll(got, Mark, "")) > 2*segment {
		t.Errorf("a part: %d bytes", len(got))
	}
	pem := "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----\n"
	got := knowing(pem).String("  MIIEvQIBADANBgkqhkiG9w0B\n  AQEFAASCBKcwggSjAgEAAoIB\n -----BEGIN KEY-----")
	if got != "  "+Mark+"\n  "+Mark+"\n -----BEGIN KEY-----" {
		t.Errorf("indented lines: %q", got)
	}
}

func TestJSONStaysJSON(t *testing.T) {
	r := knowing("nsecret-value", `quo"te\d-value`, "key-key-key")
	for _, c := range []struct{ in, want string }{
		{`{"a":"x"}`, `{"a":"x"}`},
		{`{"a":"line\nnsecret-value"}`, `{"a":"line\n` + Mark + `"}`},
		// The n belongs to the escape: no value is here.
		{`{"a":"line\nsecret-value"}`, `{"a":"line\nsecret-value"}`},
		{`{"a":"quo\"te\\d-value","b":[1,"nsecret\u002dvalue"]}`, `{"a":"` + Mark + `","b":[1,"` + Mark + `"]}`},
		{`{"key-key-key":1}`, `{"` + Mark + `":1}`},
		{`"<nsecret-value>"`, `"<` + Mark + `>"`},
		{`not json nsecret-value \`, `not json ` + Mark + ` \`},
		{`{"a":"\ud83d\ude00","b":"\\"}`, `{"a":"\ud83d\ude00","b":"\\"}`},
	} {
		if got := string(r.JSON([]byte(c.in))); got != c.want {
			t.Errorf("JSON(%s) = %s, want %s", c.in, got, c.want)
		}
	}
}

type stringer struct{ text string }

type texter struct{ text string }

func (t texter) MarshalText() ([]byte, error) { return []byte(t.text), nil }

func TestLogsHoldNoValue(t *testing.T) {
	const canary = "canary \"of\"\nlogs"
	for _, format := range []string{"text", "json"} {
		var buf bytes.Buffer
		var h slog.Handler = slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug})
		if format == "json" {
			h = slog.NewJSONHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug})
		}
		log := slog.New(knowing(canary).Handler(h))
		log.Info("message "+canary, "s", canary, "err", fmt.Errorf("wrapped: %w", errors.New(canary)), "n", 7,
			"struct", struct{ A, B string }{"a", canary}, "ptr", &stringer{canary}, "map", map[string]any{"k": canary},
			"bytes", []byte(canary), "raw", json.RawMessage(`{"k":"canary \"of\"\nlogs"}`), "texter", texter{canary},
			slog.Group("g", "deep", canary), "key "+canary, 1, "value", secret.New(canary))
		log.With("with", canary).WithGroup("group").Debug("x", "y", canary)
		if out := buf.String(); strings.Contains(out, "canary") || strings.Count(out, "REDACTED") < 12 || !strings.Contains(out, "7") {
			t.Errorf("%s: %s", format, out)
		}
	}
}

// A value is never left, and what has none is not changed, however it is cut.
func FuzzStream(f *testing.F) {
	f.Add("some-secret", "text with some-secret and some-sec", uint64(3))
	f.Add("aaaaaaaaaa", strings.Repeat("a", 35), uint64(9))
	f.Fuzz(func(t *testing.T, value, text string, seed uint64) {
		r := knowing(value, "second-value")
		rng := rand.New(rand.NewPCG(seed, 1))
		text = text + value + text
		var out strings.Builder
		w := r.Writer(&out)
		for rest := text; rest != ""; {
			n := 1 + rng.IntN(len(rest))
			_, _ = io.WriteString(w, rest[:n])
			rest = rest[n:]
		}
		_ = w.Close()
		core := strings.TrimSpace(value)
		if len(core) >= minLength && !strings.Contains(Mark+Mark, core) && strings.Contains(out.String(), core) &&
			strings.Contains(strings.ReplaceAll(out.String(), Mark, "\x00\x00"), core) {
			t.Errorf("%q is left in %q", core, out.String())
		}
		if len(core) < minLength && !strings.Contains(text, "second-value") && out.String() != text {
			t.Errorf("%q became %q", text, out.String())
		}
		data, _ := json.Marshal(map[string]string{"t": text})
		if clean := r.JSON(data); !json.Valid(clean) {
			t.Errorf("JSON became %s", clean)
		}
	})
}

func BenchmarkOneMegabyte(b *testing.B) {
	r := New(Options{})
	for i := range 256 {
		r.Add(secret.New(fmt.Sprintf("sk-value-%d-%x", i, i*7919)))
	}
	text := strings.Repeat("the quick brown fox jumps over the lazy dog; sk-proj value 0123456789\n", 1<<20/70)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if r.Found(text) {
			b.Fatal("found what is not there")
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	r := New(Options{})
	for i := range 255 {
		r.Add(secret.New(fmt.Sprintf("sk-value-%d-%x", i, i*7919)))
	}
	for i := 0; b.Loop(); i++ {
		r.Add(secret.New(fmt.Sprintf("new-value-%d", i)))
	}
}
