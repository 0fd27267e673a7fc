//go:build soak

package app

import "time"

const (
	chaosRuns     = 300
	quickMessages = 100
	quickBound    = 50 * time.Millisecond
)
