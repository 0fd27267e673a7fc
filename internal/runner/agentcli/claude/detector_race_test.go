//go:build race

package claude

// detector says that the race detector runs.
const detector = true
