//go:build !race

package facilitatetest_test

const small = false
