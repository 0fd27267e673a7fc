//go:build !race

package app_test

// detector is what the race detector costs: nothing, it is off.
const detector = 1
