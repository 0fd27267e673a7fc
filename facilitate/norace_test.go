//go:build !race

package facilitate_test

const small = false
