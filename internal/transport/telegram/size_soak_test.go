//go:build soak

package telegram

const documents = 100_000
