//go:build !soak

package telegram

// documents is how many random ones a test run renders.
const documents = 2000
