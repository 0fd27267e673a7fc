//go:build soak

package schedule

import "testing"

// 2,000 random rules in each of 60 zones around both changes of 2027.
func TestSoakRulesAgreeWithAnOracle(t *testing.T) { compare(t, 2027, 2000) }
