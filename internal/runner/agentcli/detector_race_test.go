//go:build race

package agentcli_test

// raceDetector says that memory and time are not what they are.
const raceDetector = true
