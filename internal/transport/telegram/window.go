package telegram

// A window keeps which updates are being dealt with. Updates end in any order;
// what is confirmed is all before the first that has not. Guarded by
// Telegram.mu.
type window struct {
	open map[int64]struct{} // begun and not ended
	done map[int64]struct{} // ended, and above one that has not
	next int64              // after the last that has begun
	idle chan struct{}      // closed when open becomes empty
}

func (w *window) reset() {
	*w = window{open: map[int64]struct{}{}, done: map[int64]struct{}{}, idle: make(chan struct{})}
}

// begin reports whether the update is new.
func (w *window) begin(id int64) bool {
	_, open := w.open[id]
	_, done := w.done[id]
	if open || done || id < w.offset() && w.next != 0 {
		return false
	}
	if len(w.open) == 0 {
		w.idle = make(chan struct{})
	}
	w.open[id] = struct{}{}
	w.next = max(w.next, id+1)
	return true
}

// end says that an update is dealt with.
func (w *window) end(id int64) {
	if _, ok := w.open[id]; !ok {
		return
	}
	delete(w.open, id)
	w.done[id] = struct{}{}
	low := w.offset()
	for id := range w.done {
		if id < low {
			delete(w.done, id)
		}
	}
	if len(w.open) == 0 {
		close(w.idle)
	}
}

// offset is the first update that is not dealt with; 0: none is known.
func (w *window) offset() int64 {
	if len(w.open) == 0 {
		return w.next
	}
	low := w.next
	for id := range w.open {
		low = min(low, id)
	}
	return low
}

// forget takes back that an update has begun: it is told of again.
func (w *window) forget(id int64) {
	if _, ok := w.open[id]; !ok {
		return
	}
	delete(w.open, id)
	w.next = min(w.next, id)
	if len(w.open) == 0 {
		close(w.idle)
	}
}
