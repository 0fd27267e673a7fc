package session

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is remembered of the last lines and the lines themselves give the same
// answers, whatever happens in whatever order.
func TestMarksAgreeWithTheLog(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			with, without := newBed(t), newBed(t)
			both := func(f func(*bed)) { f(with); f(without) }
			waiting := map[string]bool{}
			last := ""
			for i := range 80 {
				id := fmt.Sprint(i)
				switch n := r.IntN(10); {
				case n < 3:
					both(func(b *bed) { b.accept(id, "turn") })
					waiting["turn-"+id] = true
					last = id
				case n < 5:
					both(func(b *bed) { b.hear(id, "chatter") })
					last = id
				case n < 7 && last != "":
					both(func(b *bed) { b.save(entry("e"+id, last)) })
				case n < 8 && last != "":
					both(func(b *bed) { b.answer(last, "answer") })
					delete(waiting, "turn-"+last)
				case n == 8 && r.IntN(4) == 0:
					both(func(b *bed) { b.reset() })
				default:
					c, err := without.store.acquire(without.addr)
					if err != nil {
						t.Fatal(err)
					}
					c.marks = lineMarks{}
					without.store.release(c)
					skip := func(turn string) bool { return waiting[turn] }
					if diff := cmp.Diff(without.unseen(nil, skip), with.unseen(nil, skip)); diff != "" {
						t.Fatalf("step %d (-log +marks):\n%s", i, diff)
					}
				}
			}
		})
	}
}

// A turn whose lines are settled reads nothing of the log.
func TestUnseenReadsNothingOfSettledLines(t *testing.T) {
	b := newBed(t)
	running := func(id string) bool { return id == "turn-2" }
	b.accept("1", "hello")
	b.unseen(nil, func(string) bool { return true }) // finds the cursor
	b.save(entry("e1", "1"))
	b.answer("1", "hi")
	b.accept("2", "and again")
	if got := b.unseen(nil, running); got != nil {
		t.Fatalf("unseen %q", got)
	}
	// Whoever reads the file now sees nonsense of the same length.
	p := b.path(logFile)
	data, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, bytes.Repeat([]byte("{\n"), len(data)/2+1)[:len(data)], 0o600); err != nil {
		t.Fatal(err)
	}
	if got := b.unseen(nil, running); got != nil {
		t.Errorf("unseen %q", got)
	}
	// Only when a line is wanted the file is looked at: here it is gone.
	if got := b.unseen(nil, nil); got != nil {
		t.Errorf("made up from memory: %q", got)
	}
}
