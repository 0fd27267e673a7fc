//go:build !race

package agentcli_test

const raceDetector = false
