package engine

// Sizes tells what the engine keeps in memory.
func (e *Engine) Sizes() (lanes, turns, behind int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.lanes), len(e.turns), len(e.behind)
}
