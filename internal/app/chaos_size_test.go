//go:build !soak

package app_test

// chaosRuns is how many worlds an ordinary run has.
const chaosRuns = 6
