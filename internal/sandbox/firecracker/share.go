package firecracker

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/sandbox/firecracker/guest"
)

// Bounds of what is brought into a machine: attachments and skills, not a
// workspace.
const (
	maxShared      = 2000
	maxSharedBytes = 256 << 20
)

// A shared is what a machine has been given.
type shared struct {
	mu    sync.Mutex // held while files are brought in
	files map[string]stamp
	bytes int64 // brought in so far
}

// A stamp tells whether a file has changed.
type stamp struct {
	size int64
	at   time.Time
}

// bring copies what the conversation shares and the machine does not have yet. A
// file that is changed or removed inside stays so until it changes on the host.
func (p *Pool) bring(ctx context.Context, conv chat.Address, pl *place) error {
	if p.opts.Share == nil {
		return nil
	}
	s := &pl.share
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil {
		s.files = map[string]stamp{}
	}
	for _, root := range p.opts.Share(conv) {
		if err := s.tree(ctx, p, pl.client, root); err != nil {
			return fmt.Errorf("bring %s into the microVM: %w", root, err)
		}
	}
	return nil
}

// tree brings one file or directory. What cannot be read, and what is beyond the
// bounds, is left out with a word in the log.
func (s *shared) tree(ctx context.Context, p *Pool, to *guest.Client, root string) error {
	if _, ok := p.Host(p.Path(root)); !ok {
		return fmt.Errorf("%s is not in the workspace", root)
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // gone meanwhile, or nothing that can be copied
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		now := stamp{info.Size(), info.ModTime()}
		if s.files[path] == now {
			return nil
		}
		if info.Size() > guest.MaxFile || len(s.files) >= maxShared || s.bytes+info.Size() > maxSharedBytes {
			p.opts.Logger.Warn("a file is too much for a microVM", "file", path, "bytes", info.Size())
			s.files[path] = now
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			p.opts.Logger.Warn("a file cannot be brought into a microVM", "file", path, "err", err)
			return nil
		}
		if err := to.WriteFile(ctx, p.Path(path), data); err != nil {
			return err
		}
		s.files[path], s.bytes = now, s.bytes+int64(len(data))
		return nil
	})
}
