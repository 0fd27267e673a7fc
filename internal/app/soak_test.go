//go:build soak

package app_test

import (
	"fmt"
	"testing"
)

// At least 200 kills over at least 50 turns, for several seeds.
func TestSoakKill(t *testing.T) {
	for seed := uint64(1); seed <= 4; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			killAgainAndAgain(t, killPlan{seed: seed, kills: 200, jobs: 50})
		})
	}
}
