package file

import "crypto/sha256"

// A hash stands for a key. 96 bits of SHA-256 make a collision, also a wanted
// one, out of reach, and a table slot 24 bytes.
type hash [12]byte

func hashKey(key []byte) (h hash) {
	full := sha256.Sum256(key)
	copy(h[:], full[:])
	return h
}

// A held says which record holds a key and when it was written. It is three
// words of 32 bits so that a slot has no padding.
type held struct{ sec, hi, lo uint32 }

func hold(seq, micro int64) held {
	return held{uint32(micro / 1e6), uint32(seq >> 32), uint32(seq)}
}

func (h held) seq() int64 { return int64(h.hi)<<32 | int64(h.lo) }

// keys is the table of keys that are taken.
type keys map[hash]held

// find returns the record that holds h, 0 if none younger than oldest (in
// seconds) does.
func (k keys) find(h hash, oldest int64) int64 {
	if v, ok := k[h]; ok && int64(v.sec) >= oldest {
		return v.seq()
	}
	return 0
}

// sweep forgets keys older than oldest (in seconds) and those of records
// before floor. A table that shrank much is made anew, since a map never gives
// memory back.
func (k keys) sweep(oldest, floor int64) keys {
	before := len(k)
	for h, v := range k {
		if int64(v.sec) < oldest || v.seq() < floor {
			delete(k, h)
		}
	}
	if before < 1024 || len(k) > before/4 {
		return k
	}
	fresh := make(keys, len(k))
	for h, v := range k {
		fresh[h] = v
	}
	return fresh
}
