package spawn

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// A Seed is what a new agent starts with.
type Seed struct {
	Name, Purpose string
	// Skills are directories that are copied into its skills, under their own
	// names.
	Skills []string
	// Constitution is the parent's file; empty: the agent gets a short one.
	Constitution string
	// Models is the text of its models.json; nil: none.
	Models []byte
}

// shortConstitution is what an agent is told that does not get the parent's.
const shortConstitution = `# Rules

- Do what your purpose says, and nothing beside it.
- Secrets come from ` + "`get-secret NAME`" + ` alone; never print them.
- When you are stuck, try twice, then tell your parent with ` + "`iris self-heal`" + `.
- Never run a daemon in the foreground.
`

// Scaffold makes the home of an agent: README.md, the workspace data/ with
// MEMORY.md, CONSTITUTION.md, skills/ and events/, the place for escalations
// events/ (see Spec.Events), and links to the memory and the skills beside the
// README, where people look for them. What is there
// already stays, so that spawning again loses no memory; skills are brought up
// to date. The links lead into the workspace and not out of it, because a
// memory file that is a link is refused.
//
// The agent owns data/ and may have put anything into it: nothing is followed
// out of its home.
func Scaffold(home string, seed Seed) error {
	constitution := []byte(shortConstitution)
	if seed.Constitution != "" {
		var err error
		if constitution, err = os.ReadFile(seed.Constitution); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, dir := range []string{"events", "data/events", "data/skills"} {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	for path, text := range map[string][]byte{
		"README.md":            Readme(seed.Name, seed.Purpose),
		"data/MEMORY.md":       Memory(seed.Name, seed.Purpose),
		"data/CONSTITUTION.md": constitution,
	} {
		if err := writeNew(root, path, text); err != nil {
			return err
		}
	}
	if seed.Models != nil {
		if err := root.WriteFile("data/models.json", seed.Models, 0o600); err != nil {
			return err
		}
	}
	for link, to := range map[string]string{"MEMORY.md": "data/MEMORY.md", "skills": "data/skills"} {
		if err := root.Symlink(to, link); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for _, dir := range seed.Skills {
		if err := copySkill(root, dir, path.Join("data/skills", filepath.Base(dir))); err != nil {
			return fmt.Errorf("skill %s: %w", filepath.Base(dir), err)
		}
	}
	return nil
}

// Memory is the first memory of an agent.
func Memory(name, purpose string) []byte {
	return []byte("# " + name + "\n\n" + strings.TrimSpace(purpose) + "\n")
}

// Readme is what people find in an agent's directory.
func Readme(name, purpose string) []byte {
	return []byte("# @" + name + "\n\n" + strings.TrimSpace(purpose) + "\n\nA sub-agent of Iris. Ask it with `@" + name + " …`; look after it with `iris agent list`, `iris agent logs " + name + "`.\n")
}

// writeNew writes a file that is not there yet.
func writeNew(root *os.Root, path string, text []byte) error {
	f, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// maxSkill bounds a skill that is copied; a skill is text and small programs.
const maxSkill = 32 << 20

// copySkill copies a directory. Links are left out, and what lies outside of the
// directory with them.
func copySkill(home *os.Root, from, to string) error {
	if _, err := os.Stat(filepath.Join(from, "SKILL.md")); err != nil {
		return err
	}
	source, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer source.Close()
	left := int64(maxSkill)
	return fs.WalkDir(source.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && p != "." && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir():
			return home.MkdirAll(path.Join(to, p), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		return copyFile(source, p, home, path.Join(to, p), &left)
	})
}

func copyFile(source *os.Root, from string, home *os.Root, to string, left *int64) error {
	in, err := source.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if *left -= info.Size(); *left < 0 {
		return fmt.Errorf("more than %d bytes", int64(maxSkill))
	}
	out, err := home.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600|info.Mode().Perm()&0o100)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Give hands the workspace in an agent's home to the agent's own user, who may
// enter the home, leave files in events/ and change nothing else in it: the log
// lies there, which others open with their own rights. parent is the user who
// reads events/.
func Give(home string, uid, gid, parent int) error {
	root, err := os.OpenRoot(home)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range []struct {
		path  string
		owner int
		mode  fs.FileMode
	}{{".", os.Geteuid(), 0o711}, {"events", parent, 0o730 | fs.ModeSticky}} {
		if err := root.Lchown(f.path, f.owner, gid); err != nil {
			return err
		}
		if err := root.Chmod(f.path, f.mode); err != nil {
			return err
		}
	}
	return fs.WalkDir(root.FS(), "data", func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(p, uid, gid)
	})
}
