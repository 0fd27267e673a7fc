//go:build soak

package app

import "time"

const (
	quickMessages = 100
	quickBound    = 50 * time.Millisecond
)
