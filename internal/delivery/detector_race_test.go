//go:build race

package delivery_test

// detector says that the race detector runs, which makes everything slower.
const detector = true
