package bridge

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
)

// Spec 8.2: the lines, byte for byte.
func TestLinesOfTheSpecification(t *testing.T) {
	for want, l := range map[string]Line{
		`{"type":"accepted","requestId":"slack-C123","protocol":1}`:      Accepted("slack-C123", ""),
		`{"type":"accepted","requestId":"k","protocol":1,"turn":"0193"}`: Accepted("k", "0193"),
		`{"type":"status","text":"→ running bash","seq":1}`:              Status("→ running bash", 1),
		`{"type":"status","text":"one\ntwo <b>","seq":2}`:                Status("one\ntwo <b>", 2),
		`{"type":"heartbeat"}`: Heartbeat(),
		`{"type":"final","text":"…","requestId":"slack-C123","seq":3}`:                                     Final("…", "slack-C123", 3),
		`{"type":"final","text":"(no response)","requestId":"k","seq":1}`:                                  Final("", "k", 1),
		`{"type":"error","error":"no progress for 180s","code":"idle_timeout","requestId":"k","seq":2}`:    Failure(IdleTimeout, IdleText(3*time.Minute), "k", 2),
		`{"type":"error","error":"exceeded the 600s limit","code":"max_duration","requestId":"k","seq":2}`: Failure(MaxDuration, MaxText(10*time.Minute), "k", 2),
		`{"type":"error","error":"run failed","code":"failed","requestId":"k","seq":2}`:                    Failure("", "", "k", 2),
	} {
		got := l.Encode()
		if string(got) != want+"\n" {
			t.Errorf("line = %swant   %s", got, want)
		}
		if back, err := CheckLine(got); err != nil || back != l {
			t.Errorf("CheckLine(%s) = %+v, %v", got, back, err)
		}
		if back, err := ParseLine(got); err != nil || back != l {
			t.Errorf("ParseLine(%s) = %+v, %v", got, back, err)
		}
	}
}

func TestTolerantReader(t *testing.T) {
	for data, want := range map[string]Line{
		`{"type":"status","text":"x","seq":4,"extra":[1]}`:   {Type: TypeStatus, Text: "x", Seq: 4},
		` {"type":"later","text":"x"} `:                      {Type: "later", Text: "x"},
		`{"type":"final","text":"x","requestId":"k"}`:        {Type: TypeFinal, Text: "x", RequestID: "k"},
		`{"type":"error","error":"x","code":"new","seq":-4}`: {Type: TypeError, Error: "x", Code: "new"},
	} {
		if got, err := ParseLine([]byte(data)); err != nil || got != want {
			t.Errorf("ParseLine(%s) = %+v, %v, want %+v", data, got, err, want)
		}
	}
	for _, junk := range []string{"", "  ", "null", "[]", `"x"`, "<html>", `{"text":"x"}`, `{"type":7}`, `{"type":"status","text":7}`, `{"type":"fin`, `{"type":"status","seq":"1"}`} {
		if l, err := ParseLine([]byte(junk)); !errors.Is(err, ErrNoLine) {
			t.Errorf("ParseLine(%s) = %+v, %v, want ErrNoLine", junk, l, err)
		}
	}
}

func TestStrictReaderRefuses(t *testing.T) {
	for _, data := range []string{
		`{"type":"later"}`, `{"type":"status","text":"","seq":1}`, `{"type":"status","text":"x"}`, `{"type":"status","text":"x","seq":1,"requestId":"k"}`,
		`{"type":"error","error":"x","code":"new","requestId":"k","seq":1}`, `{"type":"final","text":"x","requestId":"../k","seq":1}`,
		`{"type":"heartbeat","seq":1}`, `{"seq":1,"type":"status","text":"x"}`, `{"type":"status","text":"x","seq":1,"more":1}`, `{"type":"accepted","requestId":"k"}`,
		`{"type":"status","text":"` + strings.Repeat("x", 201) + `","seq":1}`,
	} {
		if l, err := CheckLine([]byte(data + "\n")); err == nil {
			t.Errorf("CheckLine(%s) = %+v", data, l)
		}
	}
}

func TestStatusIsCutAt200Characters(t *testing.T) {
	for text, want := range map[string]int{strings.Repeat("x", 200): 200, strings.Repeat("x", 201): 200, strings.Repeat("→", 500): 200, "short": 5, strings.Repeat("é", 150): 150} {
		got := Status(text, 1).Text
		if n := utf8.RuneCountInString(got); n != want || !strings.HasPrefix(text, got) {
			t.Errorf("a status of %d characters has %d, want %d", utf8.RuneCountInString(text), n, want)
		}
	}
}

func TestParseRequest(t *testing.T) {
	const id = "01936f00-0000-7000-8000-000000000000"
	for body, want := range map[string]Request{
		`{"text":"hello","requestId":"k"}`:                          {Text: "hello", User: "iris", RequestID: "k"},
		`{"text":" x ","user":"ada","requestId":"a/../b","more":1}`: {Text: " x ", User: "ada", RequestID: "a----b"},
		`{"text":"x","requestId":"k","turn":"` + id + `"}`:          {Text: "x", User: "iris", RequestID: "k", Turn: id},
		`{"stop":true,"requestId":"k","turn":"` + id + `"}`:         {User: "iris", RequestID: "k", Turn: id, Stop: true},
		`{"text":"x","requestId":"k","user":null,"stop":false}`:     {Text: "x", User: "iris", RequestID: "k"},
	} {
		got, err := ParseRequest([]byte(body))
		if err != nil || got != want {
			t.Errorf("ParseRequest(%s) = %+v, %v, want %+v", body, got, err, want)
		}
		if back, err := ParseRequest(got.Encode()); err != nil || back != got {
			t.Errorf("the request again = %+v, %v, want %+v", back, err, got)
		}
	}
	for body, want := range map[string]string{
		``: "invalid JSON", `{`: "invalid JSON", `{"text":"x"} {}`: "invalid JSON",
		`{}`: "text is required", `null`: "text is required", `[]`: "text is required", `"x"`: "text is required",
		`{"text":7}`: "text is required", `{"text":null}`: "text is required", `{"text":""}`: "text is required", `{"text":" \n"}`: "text is required", `{"text":["x"]}`: "text is required",
		`{"text":"x","requestId":7}`: "requestId must be a string", `{"text":"x","user":{}}`: "user must be a string", `{"text":"x","turn":1}`: "turn must be a string",
		`{"text":"x","stop":"yes"}`: "stop must be true or false", `{"stop":true}`: "turn is required to stop one",
		`{"text":"x","user":"` + strings.Repeat("u", 300) + `"}`: "user of 300 bytes: at most 256",
	} {
		if got, err := ParseRequest([]byte(body)); err == nil || err.Error() != want {
			t.Errorf("ParseRequest(%.60s) = %+v, %v, want %q", body, got, err, want)
		}
	}
	a, err := ParseRequest([]byte(`{"text":"x"}`))
	b, berr := ParseRequest([]byte(`{"text":"x","requestId":""}`))
	if err != nil || berr != nil || a.RequestID == b.RequestID || !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(a.RequestID) {
		t.Errorf("ids of requests without one: %q, %q, want two of 16 hexadecimal digits", a.RequestID, b.RequestID)
	}
}

// Spec 8.7: the same key makes the same id, different keys different ones.
func TestKeys(t *testing.T) {
	seen := map[string]string{}
	for channel, want := range map[string]string{
		"C024BE91L": "slack-C024BE91L", "tg-n100-7": "tg-n100-7", "WEBUI-x": "web-WEBUI-x", "SESSION-1": "SESSION-1", "BRIDGE-k": "BRIDGE-k",
	} {
		a, err := chat.Parse(channel)
		if err != nil {
			t.Fatal(err)
		}
		got := Key(a, "")
		if got != want || got != Key(a, "") {
			t.Errorf("Key(%s) = %q, want %q", channel, got, want)
		}
		if seen[got] != "" {
			t.Errorf("%s and %s share %q", channel, seen[got], got)
		}
		seen[got] = channel
	}
	if got := Key(chat.Address{Space: chat.Slack, ID: "C1"}, "1755.0001"); got != "slack-C1-1755-0001" {
		t.Errorf("key of a thread = %q", got)
	}
}

func TestCleanID(t *testing.T) {
	for id, want := range map[string]string{
		"slack-C1": "slack-C1", "../../evil": "------evil", "a b\x00é": "a-b--", strings.Repeat("k", 300): strings.Repeat("k", 128),
		strings.Repeat("é", 300): strings.Repeat("-", 128),
	} {
		if got := CleanID(id); got != want {
			t.Errorf("CleanID(%.20q) = %q, want %q", id, got, want)
		}
	}
}

func FuzzCleanID(f *testing.F) {
	f.Add("../x")
	f.Fuzz(func(t *testing.T, id string) {
		got := CleanID(id)
		if err := chat.CheckID(got); err != nil {
			t.Fatalf("CleanID(%q): %v", id, err)
		}
		if CleanID(got) != got {
			t.Fatalf("CleanID(%q) changes when cleaned again", id)
		}
	})
}

// Spec 8.3: 0 is infinite.
func TestLimitsWithin(t *testing.T) {
	const m = time.Minute
	for _, c := range []struct {
		in      Limits
		ceiling time.Duration
		want    Limits
	}{
		{Limits{3 * m, 10 * m}, 4 * m, Limits{3 * m, 4 * m}},
		{Limits{5 * m, 0}, 4 * m, Limits{4 * m, 4 * m}},
		{Limits{0, 0}, 4 * m, Limits{4 * m, 4 * m}},
		{Limits{3 * m, 10 * m}, 0, Limits{3 * m, 10 * m}},
		{Limits{}, 0, Limits{}},
		{Limits{-1, -1}, -1, Limits{}},
	} {
		if got := c.in.Within(c.ceiling); got != c.want {
			t.Errorf("%v within %v = %v, want %v", c.in, c.ceiling, got, c.want)
		}
	}
}

func TestShapes(t *testing.T) {
	for accept, want := range map[string]bool{"application/x-ndjson": true, "text/html, Application/X-NDJSON;q=1": true, "*/*": false, "": false, "application/json": false} {
		if WantsStream(accept) != want {
			t.Errorf("WantsStream(%q) = %v", accept, !want)
		}
	}
	if !IsStream("application/x-ndjson; charset=utf-8") || IsStream("application/json") {
		t.Error("IsStream confuses the shapes")
	}
}

// Spec 8.6, appendix B.6.
func TestJobAnswer(t *testing.T) {
	j := Job{RequestID: "slack-C123", Done: true, Events: []Line{Final("…", "slack-C123", 3)}}
	want := `{"requestId":"slack-C123","done":true,"events":[{"type":"final","text":"…","requestId":"slack-C123","seq":3}]}` + "\n"
	if got := string(j.Encode()); got != want {
		t.Errorf("answer = %swant %s", got, want)
	}
	if got := string(Job{RequestID: "k", Turn: "0193"}.Encode()); got != `{"requestId":"k","done":false,"events":[],"turn":"0193"}`+"\n" {
		t.Errorf("empty answer = %s", got)
	}
	back, err := ParseJob([]byte(want))
	if diff := cmp.Diff(j, back); diff != "" || err != nil {
		t.Errorf("ParseJob: %v\n%s", err, diff)
	}
	junk, err := ParseJob([]byte(`{"requestId":"k","done":false,"events":[1,null,{"type":"status","text":"x"},{"type":7}],"x":1}`))
	if err != nil || len(junk.Events) != 1 {
		t.Errorf("an answer with junk = %+v, %v", junk, err)
	}
	for _, bad := range []string{"", "null", "[]", "<html>", `{"done":"yes"}`} {
		if _, err := ParseJob([]byte(bad)); err == nil {
			t.Errorf("ParseJob(%s) has no error", bad)
		}
	}
	for text, want := range map[string]int64{"": 0, "7": 7, "-1": 0, "x": 0, "1e3": 0, "99": 99, "99999999999999999999": 0} {
		if got := Since(text); got != want {
			t.Errorf("Since(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestParseLog(t *testing.T) {
	file := string(Head("k", "0193", 17)) + string(Status("a", 1).Encode()) + "junk\n" + `{"type":"later"}` + "\n" +
		`{"type":"status","text":"old"}` + "\n" + string(Final("b", "k", 2).Encode())
	l := ParseLog([]byte(file))
	if l.Turn != "0193" || l.From != 17 || !l.Done() || l.Last() != 2 || l.Torn || len(l.Lines) != 3 {
		t.Errorf("ParseLog = %+v", l)
	}
	if got := l.After(1); len(got) != 2 || got[0].Text != "old" || got[1].Text != "b" {
		t.Errorf("After(1) = %+v: lines without a number always belong to it", got)
	}
	if got := l.After(99); len(got) != 1 {
		t.Errorf("After(99) = %+v", got)
	}
	torn := ParseLog([]byte(file[:len(file)-9]))
	if torn.Done() || !torn.Torn || torn.Last() != 1 {
		t.Errorf("a torn log = %+v", torn)
	}
	if empty := ParseLog(nil); empty.Turn != "" || empty.Done() || empty.Torn {
		t.Errorf("an empty log = %+v", empty)
	}
}

// Spec 8.7: first at once, then at most one per gap with the newest text,
// repeats dropped, cancelled before the end.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		th := Throttle{Gap: 3 * time.Second}
		var shown []string
		show := func(text string) {
			shown = append(shown, time.Since(begun).String()+" "+text)
		}
		add := func(text string) {
			if th.Add(time.Now(), text) {
				show(text)
			}
		}
		wait := func(d time.Duration) {
			for end := time.Now().Add(d); ; {
				at, ok := th.Due()
				if !ok || at.After(end) {
					time.Sleep(time.Until(end))
					return
				}
				time.Sleep(time.Until(at))
				if text, ok := th.Take(time.Now()); ok {
					show(text)
				}
			}
		}
		add("a")
		add("b")
		wait(time.Second)
		add("c")
		add("c")
		wait(4 * time.Second) // c at 3 s
		add("c")              // what people see
		wait(2 * time.Second)
		add("d") // at 7 s: the gap is over
		add("e")
		add("d") // back to what people see
		wait(5 * time.Second)
		add("f")
		add("g")
		th.Cancel()
		wait(5 * time.Second)
		want := []string{"0s a", "3s c", "7s d", "12s f"}
		if diff := cmp.Diff(want, shown); diff != "" {
			t.Errorf("shown (-want +got):\n%s", diff)
		}
		if _, ok := th.Take(time.Now()); ok {
			t.Error("Take gives what was cancelled")
		}
	})
	var all Throttle
	now := time.Now()
	if !all.Add(now, "a") || !all.Add(now, "b") {
		t.Error("without a gap something was held back")
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte(`{"type":"status","text":"x","seq":1}`))
	f.Add([]byte(`{"type":"final","text":"x","requestId":"k","seq":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		strict, serr := CheckLine(data)
		l, err := ParseLine(data)
		if serr == nil && (err != nil || l != strict) {
			t.Fatalf("ParseLine(%q) = %+v, %v, strictly %+v", data, l, err, strict)
		}
		if err == nil && (l.Type == "" || l.Seq < 0) {
			t.Fatalf("ParseLine(%q) = %+v", data, l)
		}
		ParseLog(data)
	})
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"text":"x","requestId":"../k"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseRequest(data)
		if err != nil {
			return
		}
		if chat.CheckID(r.RequestID) != nil || r.User == "" || !r.Stop && strings.TrimSpace(r.Text) == "" {
			t.Fatalf("ParseRequest(%q) = %+v", data, r)
		}
		if back, err := ParseRequest(r.Encode()); err != nil || back != r {
			t.Fatalf("the request again = %+v, %v, want %+v", back, err, r)
		}
	})
}

func FuzzParseJob(f *testing.F) {
	f.Add([]byte(`{"requestId":"k","done":false,"events":[{"type":"status","text":"x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := ParseJob(data)
		if err == nil && !json.Valid(j.Encode()) {
			t.Fatalf("ParseJob(%q) = %+v", data, j)
		}
	})
}
