//go:build race

package app_test

// detector is what the race detector costs at most, by its documentation: 5 to 10
// times the memory and 2 to 20 times the time. Bars are those of the product, so
// here they are multiplied.
const detector = 10
