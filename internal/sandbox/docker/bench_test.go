package docker

import (
	"slices"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/sandbox"
)

// BenchmarkRun is what a command costs that does nothing.
func BenchmarkRun(b *testing.B) {
	d := start(b, true, nil).open(b)
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		exit, err := d.Run(b.Context(), sandbox.Command{Script: "true", Env: []string{"PATH=/bin"}})
		if err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[0].Microseconds())/1000, "min-ms")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
}
