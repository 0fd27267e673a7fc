package approval

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/chat"
)

func TestCorruptFilesAreLeftAlone(t *testing.T) {
	d := open(t, nil)
	good := d.run("rm -rf /srv/good").Question
	q := d.run("rm -rf /srv/x").Question
	data, err := os.ReadFile(d.path(q.ID))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if err := os.Remove(d.path(q.ID)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]string{
		q.ID:                    strings.Replace(text, "rm -rf /srv/x", "rm -rf /srv/other", 1), // the command swapped
		"00000000-" + q.Hash:    text,                                                           // another id
		"22222222-" + q.Hash:    text[:len(text)/2],
		"33333333-" + q.Hash:    "",
		"44444444-" + q.Hash:    text + text,
		"55555555-" + q.Hash:    strings.Replace(strings.ReplaceAll(text, q.ID, "55555555-"+q.Hash), page.Channel(), "../x", 1),
		"66666666-" + q.Hash:    strings.ReplaceAll(strings.ReplaceAll(text, q.ID, "66666666-"+q.Hash), `"at": "2026-`, `"at": "2027-`),
		"77777777-" + Hash("x"): strings.ReplaceAll(text, q.ID, "77777777-"+Hash("x")),
	} {
		write(t, filepath.Join(d.dir, name+".json"), c)
	}
	if err := os.Symlink(d.path(good.ID), filepath.Join(d.dir, "88888888-"+good.Hash+".json")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(d.dir, "123.tmp"), "half")
	before := len(d.files())
	d.restart()
	if got := d.List(chat.Address{}); len(got) != 1 || got[0].ID != good.ID {
		t.Errorf("List = %v", got)
	}
	if n := strings.Count(d.logs.String(), "left alone"); n != 9 {
		t.Errorf("%d files are complained about:\n%s", n, &d.logs)
	}
	if after := len(d.files()); after != before-1 {
		t.Errorf("%d files of %d are left; the .tmp alone should be gone", after, before)
	}
	d.held(d.run("rm -rf /srv/x"), "a forged question")
}

func TestNoQuestionNoRun(t *testing.T) {
	d := open(t, nil)
	write(t, filepath.Dir(d.dir), "a file where the directory should be")
	if h, err := d.Hold(d.request(page, "rm -rf /srv/x")); err == nil || h.Granted {
		t.Errorf("Hold without a disk: %+v, %v", h, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"id":"x"}`), "x")
	f.Fuzz(func(t *testing.T, data []byte, id string) {
		if q, err := decode(data, id); err == nil && (q.ID != id || Hash(q.Command) != q.Hash) {
			t.Fatalf("decode took %+v", q)
		}
	})
}
