//go:build !race

package delivery_test

const detector = false
