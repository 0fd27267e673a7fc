package session

import (
	"container/list"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal"
)

// File names inside a conversation's directory.
const (
	logFile       = "log.jsonl"
	contextFile   = "context.jsonl"
	settingsFile  = "settings.json"
	watermarkFile = ".reset-watermark"
	attachments   = "attachments"
)

const (
	// maxConvs bounds what is remembered of conversations between calls: some
	// hundred bytes each. A conversation that was forgotten costs one look at
	// the ends of its files.
	maxConvs = 512
	// maxOpen bounds the file handles kept between calls. Every conversation
	// that is talked in needs two, and what is opened anew for every line costs
	// an eighth of the processor time of its turn: enough for a hundred at once.
	maxOpen = 256
	// maxDone bounds the memory of who was caught up. Whoever is forgotten is
	// compared with the journal once more.
	maxDone = 2048
)

// Modes of what the store makes. Conversations are private to the user that
// runs Iris.
const (
	dirMode  = 0o700
	fileMode = 0o600
)

// Options configure a Store.
type Options struct {
	// Root is the workspace; it must exist (see Prepare).
	Root string
	// Journal is what conversations are caught up from. Nil: Project is the
	// only source.
	Journal journal.Journal
	// BridgeRetention is how long a conversation of the bridge is kept after its
	// last word; see Sweep. 0: for ever.
	BridgeRetention time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger takes warnings about lines and files that were skipped; nil
	// discards them.
	Logger *slog.Logger
}

// A Store keeps the conversations of one workspace. It is safe for concurrent
// use; calls for one address are serialised. It never leaves the workspace:
// symbolic links that lead out are errors.
type Store struct {
	opts  Options
	root  *os.Root
	files *fileCache
	index *sessionIndex
	cache *recordCache

	// mu guards the fields below and conv.refs. Lock order: conv.mu, then mu.
	mu    sync.Mutex
	convs map[chat.Address]*list.Element // of *conv
	order *list.List                     // most recently used first
	done  map[chat.Address]struct{}      // caught up in this process
}

// A conv is what is remembered of a conversation between calls. Everything in
// it can be had again from the files.
type conv struct {
	addr chat.Address
	dir  string // relative to the workspace
	refs int

	// mu serialises the calls for the address and guards the fields below.
	mu    sync.Mutex
	log   logTail
	ctx   contextTail
	sync  syncCursor
	last  entryMark
	marks lineMarks
	// held are the files that the call under way has looked at. Nobody but
	// strangers changes them meanwhile.
	held [2]heldFile
}

// A heldFile is one of a conversation's two growing files.
type heldFile struct {
	h       *handle
	size    int64
	missing bool // there was no such file
}

// holds returns the place of a file among those held.
func (c *conv) holds(name string) *heldFile {
	if name == logFile {
		return &c.held[0]
	}
	return &c.held[1]
}

// Open opens the store of a workspace. Call Close when done.
func Open(opts Options) (*Store, error) {
	if opts.Root == "" {
		return nil, fmt.Errorf("session store: no workspace given")
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	abs, err := filepath.Abs(opts.Root)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	return &Store{
		opts:  opts,
		root:  root,
		files: newFileCache(root, maxOpen),
		index: &sessionIndex{},
		cache: newRecordCache(abs),
		convs: map[chat.Address]*list.Element{},
		order: list.New(),
		done:  map[chat.Address]struct{}{},
	}, nil
}

// Close closes the files. It does not sync them; see SyncAll. The store must
// not be used afterwards.
func (s *Store) Close() error {
	s.files.closeAll()
	return s.root.Close()
}

// dirOf is the gate from an address to a path: only addresses that their
// channel id gives back have a directory.
func dirOf(addr chat.Address) (string, error) {
	back, err := chat.Parse(addr.Channel())
	if err != nil {
		return "", err
	}
	if back != addr {
		return "", fmt.Errorf("%q is not the address of channel %q: %w", addr.ID, addr.Channel(), chat.ErrBadID)
	}
	return addr.Dir(), nil
}

// acquire returns the locked state of a conversation. The caller must call
// release.
func (s *Store) acquire(addr chat.Address) (*conv, error) {
	s.mu.Lock()
	var c *conv
	if e, ok := s.convs[addr]; ok {
		s.order.MoveToFront(e)
		c = e.Value.(*conv)
	} else {
		dir, err := dirOf(addr)
		if err != nil {
			s.mu.Unlock()
			return nil, err
		}
		c = &conv{addr: addr, dir: dir}
		s.convs[addr] = s.order.PushFront(c)
		s.forget()
	}
	c.refs++
	s.mu.Unlock()
	c.mu.Lock()
	return c, nil
}

func (s *Store) release(c *conv) {
	for i := range c.held {
		s.letGo(&c.held[i])
	}
	c.mu.Unlock()
	s.mu.Lock()
	c.refs--
	s.mu.Unlock()
}

// letGo gives a held file back.
func (s *Store) letGo(k *heldFile) {
	if k.h != nil {
		s.files.put(k.h)
	}
	*k = heldFile{}
}

// forget drops the conversations used longest ago that nobody holds. s.mu is
// held.
func (s *Store) forget() {
	for e := s.order.Back(); e != nil && s.order.Len() > maxConvs; {
		prev := e.Prev()
		if c := e.Value.(*conv); c.refs == 0 && prev != nil {
			s.order.Remove(e)
			delete(s.convs, c.addr)
		}
		e = prev
	}
}

func (s *Store) caughtUp(addr chat.Address) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.done[addr]
	return ok
}

func (s *Store) setCaughtUp(addr chat.Address, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !done {
		delete(s.done, addr)
		return
	}
	if len(s.done) >= maxDone {
		clear(s.done)
	}
	s.done[addr] = struct{}{}
}

func (c *conv) file(name string) string { return path.Join(c.dir, name) }
