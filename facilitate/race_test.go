//go:build race

package facilitate_test

// small says that the long tests run at a tenth of their size: the race
// detector makes them about ten times slower. Their full size is what plain
// go test runs.
const small = true
