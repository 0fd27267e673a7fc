//go:build soak

package app_test

// chaosRuns is the whole count.
const chaosRuns = 300
