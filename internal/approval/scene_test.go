package approval

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSwappedScript(t *testing.T) {
	d := open(t, nil)
	for name, c := range map[string]struct{ command, file string }{
		"program":         {"./clean.sh /srv", "clean.sh"},
		"argument":        {"bash clean.sh", "clean.sh"},
		"after cd":        {"cd sub && ./in.sh", "sub/in.sh"},
		"redirection":     {"bash < clean.sh", "clean.sh"},
		"quoted":          {`"./clean.sh"`, "clean.sh"},
		"home":            {"sudo ~/clean.sh", "clean.sh"},
		"variable":        {`"$HOME/clean.sh"`, "clean.sh"},
		"option":          {"dd if=./clean.sh of=/dev/sdz", "clean.sh"},
		"escaped":         {`./cle\an.sh`, "clean.sh"},
		"absolute":        {"bash " + filepath.Join(d.work, "clean.sh"), "clean.sh"},
		"in a subshell":   {"(true; $(./clean.sh))", "clean.sh"},
		"not parsable":    {"bash ./clean.sh; : $((echo x) | cat)", "clean.sh"},
		"did not exist":   {"bash ./new.sh", "new.sh"},
		"behind one link": {"./link", "clean.sh"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range []string{"clean.sh", "sub/in.sh"} {
				write(t, filepath.Join(d.work, f), "echo harmless")
			}
			_ = os.Remove(filepath.Join(d.work, "new.sh"))
			_ = os.Symlink("clean.sh", filepath.Join(d.work, "link"))
			d.run(c.command)
			d.say(anna, "yes")
			write(t, filepath.Join(d.work, c.file), "echo HARMLESS")
			h := d.run(c.command)
			d.held(h, "swapped")
			if !strings.Contains(h.Changed, filepath.Base(c.file)) && name != "behind one link" || !strings.Contains(h.Text, "has changed since") {
				t.Errorf("changed %q, text %q", h.Changed, h.Text)
			}
			// Asked again, for what is there now.
			d.say(anna, "yes")
			if !d.run(c.command).Granted {
				t.Error("not granted after the second yes")
			}
		})
	}
}

func TestSwappedDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		swap    func(d *desk) error
	}{
		"its own": {"rm -rf *", func(d *desk) error {
			return errors.Join(os.Rename(d.work, d.work+".old"), os.Mkdir(d.work, 0o755))
		}},
		"named": {"rm -rf build", func(d *desk) error {
			return errors.Join(os.Rename(d.work+"/build", d.work+"/old"), os.Mkdir(d.work+"/build", 0o755))
		}},
		"becomes a link": {"rm -rf ./build/", func(d *desk) error {
			return errors.Join(os.Rename(d.work+"/build", d.work+"/old"), os.Symlink("/srv", d.work+"/build"))
		}},
		"entered": {"cd build && rm -rf *", func(d *desk) error {
			return errors.Join(os.Rename(d.work+"/build", d.work+"/old"), os.Symlink("old/..", d.work+"/build"))
		}},
		"gone": {"rm -rf ./build", func(d *desk) error { return os.Remove(d.work + "/build") }},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, nil)
			if err := os.Mkdir(d.work+"/build", 0o755); err != nil {
				t.Fatal(err)
			}
			d.run(c.command)
			d.say(anna, "yes")
			if err := c.swap(d); err != nil {
				t.Fatal(err)
			}
			if h := d.run(c.command); h.Granted || h.Changed == "" {
				t.Errorf("ran in a swapped directory: %+v", h)
			}
		})
	}
}

// TestSwappedWhileAsked: what people have seen asked is not what would run, so
// the question is put anew and an answer to the old one is none.
func TestSwappedWhileAsked(t *testing.T) {
	d := open(t, nil)
	write(t, filepath.Join(d.work, "x.sh"), "one")
	q := d.run("bash x.sh").Question
	write(t, filepath.Join(d.work, "x.sh"), "two")
	h := d.run("bash x.sh")
	if !h.Fresh || h.Question.ID == q.ID || h.Changed == "" {
		t.Errorf("asked again: %+v", h)
	}
	var over *OverError
	if _, err := d.Pick(q.ID, page, anna, true); !errors.As(err, &over) || over.State != Withdrawn {
		t.Errorf("the old question: %v", err)
	}
	// Swapped after the last question and before the yes.
	write(t, filepath.Join(d.work, "x.sh"), "three")
	d.say(anna, "yes")
	d.held(d.run("bash x.sh"), "swapped before the yes")
}

func TestWhatIsWrittenMayChange(t *testing.T) {
	d := open(t, nil)
	write(t, filepath.Join(d.work, "keys"), "")
	d.run("echo k >> keys")
	d.say(anna, "yes")
	write(t, filepath.Join(d.work, "keys"), "another\n")
	if h := d.run("echo k >> keys"); !h.Granted {
		t.Errorf("held: %q", h.Changed)
	}
}

// TestSwappedInContainer: what a command in a container would meet is looked at
// where it lies on this machine, through links as the container follows them.
func TestSwappedInContainer(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		swap    func(d *desk) error
	}{
		"script":        {"bash clean.sh", func(d *desk) error { return os.WriteFile(d.work+"/clean.sh", []byte("echo other"), 0o755) }},
		"program":       {"/workspace/clean.sh", func(d *desk) error { return os.WriteFile(d.work+"/clean.sh", []byte("echo other"), 0o755) }},
		"from the path": {"clean.sh", func(d *desk) error { return os.WriteFile(d.work+"/clean.sh", []byte("echo other"), 0o755) }},
		"behind a link": {"./link", func(d *desk) error { return os.WriteFile(d.work+"/clean.sh", []byte("echo other"), 0o755) }},
		"link led outside": {"./link", func(d *desk) error {
			return errors.Join(os.Remove(d.work+"/link"), os.Symlink("/opt/tool", d.work+"/link"))
		}},
		"directory": {"rm -rf build", func(d *desk) error {
			return errors.Join(os.Rename(d.work+"/build", d.work+"/old"), os.Mkdir(d.work+"/build", 0o755))
		}},
		"its own": {"rm -rf *", func(d *desk) error { return errors.Join(os.Rename(d.work, d.work+".old"), os.Mkdir(d.work, 0o755)) }},
		"circle":  {"./link", func(d *desk) error { return errors.Join(os.Remove(d.work+"/link"), os.Symlink("link", d.work+"/link")) }},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, nil)
			write(t, d.work+"/clean.sh", "echo harmless")
			if err := errors.Join(os.Chmod(d.work+"/clean.sh", 0o755), os.Mkdir(d.work+"/build", 0o755), os.Symlink("/workspace/clean.sh", d.work+"/link")); err != nil {
				t.Fatal(err)
			}
			hold := func() Held {
				r := d.request(page, c.command)
				r.Dir, r.Env = "/workspace", []string{"PATH=/usr/bin:/workspace"}
				r.Host = func(p string) (string, bool) {
					rest, ok := strings.CutPrefix(p, "/workspace")
					return d.work + rest, ok
				}
				h, err := d.Hold(r)
				if err != nil {
					t.Fatal(err)
				}
				return h
			}
			hold()
			d.say(anna, "yes")
			if err := c.swap(d); err != nil {
				t.Fatal(err)
			}
			if h := hold(); h.Granted || h.Changed == "" {
				t.Errorf("ran after the swap: %+v", h)
			}
			d.say(anna, "yes")
			if h := hold(); !h.Granted {
				t.Errorf("not granted for what is there now: %q", h.Changed)
			}
		})
	}
}

func FuzzLook(f *testing.F) {
	f.Add("cd /tmp && bash <x \"$HOME\"/y a\\\nb $'q'")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, command string) {
		s := look(command, dir, []string{"PATH=/bin", "HOME=" + dir}, nil)
		if what := s.differs(look(command, dir, []string{"HOME=" + dir, "PATH=/bin"}, nil)); what != "" {
			t.Skip("something moved: " + what) // a path outside that another process changes
		}
	})
}
