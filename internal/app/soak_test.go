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

// The chaos on the bridge at its whole count: 300 requests for each of two seeds.
func TestSoakBridge(t *testing.T) {
	for seed := uint64(1); seed <= 2; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { bridgeChaos(t, seed, 50, 6) })
	}
}
