package bwrap

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/sandbox"
)

// BenchmarkRun is what a command costs that does nothing; p50-ms is the bar's
// figure. Apart finds a cell ready, as after a model's thinking; together comes
// right after the one before; alone never finds one.
func BenchmarkRun(b *testing.B) {
	for name, c := range map[string]struct {
		ready int
		apart bool
	}{"apart": {2, true}, "together": {2, false}, "alone": {-1, false}} {
		b.Run(name, func(b *testing.B) {
			box := open(b, Options{Ready: c.ready})
			env := []string{"PATH=/usr/bin:/bin", "HOME=/home/somebody"}
			var took []time.Duration
			for b.Loop() {
				if c.apart {
					b.StopTimer()
					rest(box)
					b.StartTimer()
				}
				var out strings.Builder
				began := time.Now()
				exit, err := box.Run(b.Context(), sandbox.Command{Script: "true", Env: env, Stdout: &out, Stderr: &out})
				if err != nil || exit.Code != 0 {
					b.Fatal(exit, err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[0].Microseconds())/1000, "min-ms")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// rest waits until the cells are made, and as long again for what bubblewrap
// does in them.
func rest(box *Bwrap) {
	began := time.Now()
	box.stock.wait()
	<-time.After(time.Since(began) + 50*time.Millisecond)
}
