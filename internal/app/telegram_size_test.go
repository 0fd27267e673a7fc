//go:build !soak

package app

import "time"

// How much a test of Telegram does in an ordinary run.
const (
	quickMessages = 1
	quickBound    = 2 * time.Second
)
