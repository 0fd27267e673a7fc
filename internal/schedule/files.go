package schedule

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/iris-operator/iris/internal/durable"
)

// Dirs are the directories of event files below a workspace.
func Dirs() []string { return []string{"events", "slack/events", "telegram/events"} }

// failedDir is where files go that cannot run.
const failedDir = "events/failed"

// A stamp tells one version of a file from the next.
type stamp struct {
	inode uint64
	size  int64
	mod   time.Time
}

func look(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), mod: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = st.Ino
	}
	return s
}

func cutJSON(name string) (string, bool) {
	base, ok := strings.CutSuffix(name, ".json")
	return base, ok && base != "" && !strings.HasPrefix(base, ".")
}

// list returns the event files of a workspace by their path below it.
func list(root string) (map[string]stamp, error) { return listIn(root, Dirs()) }

func listIn(root string, dirs []string) (map[string]stamp, error) {
	found := map[string]stamp{}
	for _, dir := range dirs {
		all, err := os.ReadDir(filepath.Join(root, dir))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, f := range all {
			if _, ok := cutJSON(f.Name()); !ok || !f.Type().IsRegular() {
				continue
			}
			info, err := f.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			found[dir+"/"+f.Name()] = look(info)
		}
	}
	return found, nil
}

// read returns the content of an event file, which is a regular one that no link
// leads to, and its stamp.
func read(root, file string) ([]byte, stamp, error) {
	f, err := os.OpenFile(filepath.Join(root, file), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, stamp{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, stamp{}, err
	}
	if !info.Mode().IsRegular() {
		return nil, stamp{}, fmt.Errorf("%s is not a regular file", file)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	return data, look(info), err
}

// setAside moves a file to events/failed/ and writes the reason beside it.
func setAside(root, file, reason string) (string, error) {
	dir := filepath.Join(root, failedDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	base, _ := cutJSON(filepath.Base(file))
	for n := range 10_000 {
		name := base + ".json"
		if n > 0 {
			name = fmt.Sprintf("%s.%d.json", base, n)
		}
		// A link fails where a file of that name is, a rename would replace it.
		err := os.Link(filepath.Join(root, file), filepath.Join(dir, name))
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		why := filepath.Join(root, reasonOf(failedDir+"/"+name))
		err = durable.Replace(why, []byte(reason+"\n"), durable.Exactly(0o600))
		if err != nil {
			return "", err
		}
		return failedDir + "/" + name, os.Remove(filepath.Join(root, file))
	}
	return "", fmt.Errorf("%s holds too many files called %s", failedDir, base)
}

// reasonOf is the file that says why a file was set aside.
func reasonOf(failed string) string { return strings.TrimSuffix(failed, ".json") + ".reason.txt" }

// setAsideFor returns why a file was set aside, "" if it was not.
func setAsideFor(root, file string) string {
	if filepath.Dir(file) != failedDir {
		return ""
	}
	reason, _, err := read(root, reasonOf(file))
	if text := strings.TrimSpace(string(reason)); err == nil && text != "" {
		return text
	}
	return "it was set aside, and the reason is lost"
}
