package policy

type choice struct {
	key    string
	n, cur int
}

// choose picks one of n for a key; worlds goes through them all.
func (r *run) choose(key string, n int) int {
	for _, c := range r.choices {
		if c.key == key {
			return min(c.cur, n-1)
		}
	}
	r.choices = append(r.choices, choice{key: key, n: n})
	return 0
}

// worlds calls f once for every combination of the values it looks at.
func (r *run) worlds(f func()) {
	choices, again := r.choices, r.again
	r.choices, r.again = nil, false
	for range maxWorlds {
		f()
		if r.done || !r.advance() {
			break
		}
		r.again = true
	}
	r.choices, r.again = choices, again
}

// advance moves to the next combination.
func (r *run) advance() bool {
	for i := len(r.choices) - 1; i >= 0; i-- {
		if r.choices[i].cur+1 < r.choices[i].n {
			r.choices[i].cur++
			r.choices = r.choices[:i+1]
			return true
		}
	}
	return false
}
