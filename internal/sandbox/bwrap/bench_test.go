package bwrap

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/sandbox"
)

// BenchmarkRun is what a command costs that does nothing; p50-ms is the bar's
// figure.
func BenchmarkRun(b *testing.B) {
	box := open(b, Options{})
	env := []string{"PATH=/usr/bin:/bin", "HOME=/home/somebody"}
	var took []time.Duration
	for b.Loop() {
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
}
