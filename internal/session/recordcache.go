package session

import (
	"maps"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	// maxRecords bounds the records kept in memory, some hundred bytes each
	// beside their metadata. A message asks for its session's twice.
	maxRecords = 1024
	// clockTick is more than the steps in which file systems count time: a file
	// that changed this shortly before it was read may change again unseen.
	clockTick = 50 * time.Millisecond
)

// A recordCache remembers the records that were read last. Every use asks the
// kernel whether the file is still the same, so that what another program wrote
// is seen at once.
type recordCache struct {
	dir string           // absolute
	now func() time.Time // the clock that file systems go by

	// mu guards the field below.
	mu    sync.Mutex
	known map[string]cachedRecord
}

type cachedRecord struct {
	as  recordStat
	ses Session
}

// A recordStat tells one version of a file from every other.
type recordStat struct {
	dev, ino          uint64
	size              int64
	modified, changed syscall.Timespec
}

func newRecordCache(root string) *recordCache {
	return &recordCache{dir: filepath.Join(root, sessionsDir), now: time.Now, known: map[string]cachedRecord{}}
}

// look returns what the file of a record is now; a link is an error, for the
// file behind it can change without the link. The path is not held inside
// the workspace as those of os.Root are, and need not be: nothing is read, and
// what it says is compared with a file that was.
func (c *recordCache) look(id string) (recordStat, error) {
	var st syscall.Stat_t
	for {
		err := syscall.Lstat(filepath.Join(c.dir, id+".json"), &st)
		if err == syscall.EINTR {
			continue
		}
		if err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFREG {
			err = syscall.EINVAL
		}
		return recordStat{uint64(st.Dev), st.Ino, st.Size, st.Mtim, st.Ctim}, err
	}
}

// get returns a record that is in memory and still current. The caller owns it,
// but not what lies inside the values of its metadata.
func (c *recordCache) get(id string) (Session, bool) {
	c.mu.Lock()
	k, ok := c.known[id]
	c.mu.Unlock()
	if !ok {
		return Session{}, false
	}
	if now, err := c.look(id); err != nil || now != k.as {
		c.mu.Lock()
		delete(c.known, id)
		c.mu.Unlock()
		return Session{}, false
	}
	k.ses.Metadata = maps.Clone(k.ses.Metadata)
	return k.ses, true
}

// put remembers a record that was read when its file was as look had found it
// before. One that changed a moment ago is not: it could change again and look
// the same.
func (c *recordCache) put(as recordStat, ses Session) {
	if c.now().Sub(time.Unix(as.changed.Unix())) < clockTick {
		return
	}
	ses.Metadata = maps.Clone(ses.Metadata)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxRecords {
		for id := range c.known { // any one makes room
			delete(c.known, id)
			break
		}
	}
	c.known[ses.ID] = cachedRecord{as, ses}
}
